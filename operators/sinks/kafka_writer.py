"""The batches of a query, and what is decided when a transaction does not end as it should.

What a call of the producer returns is never believed: what the topic of numbers has is what happened.

    claim      init_transactions (fences older producers) -> look -> note "this process writes"
    a batch    begin -> messages -> note of the batch -> commit -> look: it is noted, or it is tried again
    an error   discard the producer -> look: does another process write? end : claim, look, try again
"""

import time
import uuid
from dataclasses import replace
from itertools import chain

from confluent_kafka import KafkaError, KafkaException, murmur2

from operators.sinks.interface import SinkError
from operators.sinks.kafka_messages import Headers, Messages
from operators.sinks.kafka_numbers import Note, Numbers, TopicNote, note_of, note_of_topic
from operators.sinks.kafka_producer import Transactions, raised_by
from operators.sinks.kafka_topics import LOG, Cluster, TopicState, in_words

_AGAIN_SECONDS = 0.2


class Writer:
    """Writes the batches of one query from this process; its producer lives from batch to batch."""

    def __init__(self, cluster: Cluster, query: str) -> None:
        self._cluster = cluster
        self._query = query
        self._id = uuid.uuid4().hex
        self._claim: _Claim | None = None
        self._claimed_before = False

    def write(self, messages: Messages) -> bool:
        """Write a batch with its number in one transaction; return False if it was written before.

        Raises:
            SinkError: another process writes for this query now, the topic does not fit, or Kafka refuses the messages or was
                not to be reached for too long.
        """
        end = time.monotonic() + self._cluster.timeout
        tried = False
        with in_words(self._cluster):
            while True:
                try:
                    claim = self._claimed()
                    claim.check(messages)
                    last = claim.note().batch
                    if last is not None and messages.batch <= last:
                        return tried and messages.batch == last
                    tried = True
                    if claim.write(messages):
                        return True
                    LOG.warning(
                        "batch %d was committed, and is not there: it is written again", messages.batch
                    )
                except (KafkaException, SystemError) as error:
                    self._discard()
                    self._raise_final(raised_by(error), error, end)
                    LOG.warning("batch %d is tried again after: %s", messages.batch, raised_by(error).args[0])
                    time.sleep(_AGAIN_SECONDS)
                except BaseException:
                    self._discard()
                    raise

    def _raise_final(self, cause: KafkaException, error: BaseException, end: float) -> None:
        """Raise an error that another try does not mend, or after that time.

        Here rather than in `write`, whose frame must not refer to an error: both would live on, with the batch's messages.
        """
        if cause.args[0].code() in _FINAL or time.monotonic() > end:
            raise cause from error

    def _claimed(self) -> "_Claim":
        """Return the right to write, which this process may have had before: then no other may have it now."""
        if self._claim is None:
            claim = _Claim(self._cluster, self._query, self._id)
            self._claim = claim  # so that it is discarded if the rest fails
            claim.begin(again=self._claimed_before)
            self._claimed_before = True
        return self._claim

    def _discard(self) -> None:
        if self._claim is not None:
            self._claim.end()
            self._claim = None


class _Claim:
    """The right of a process to write the batches of a query, with what it needs for that."""

    def __init__(self, cluster: Cluster, query: str, process: str) -> None:
        self._cluster = cluster
        self._query = query
        self._process = process
        admin = cluster.admin()
        self._topic = cluster.ensure(admin)
        self._numbers = Numbers(cluster, admin)
        self._transactions: Transactions | None = None

    def begin(self, *, again: bool) -> None:
        """Note that this process writes; whoever wrote before finds the note when its producer is fenced.

        Args:
            again: this process has had the claim before, so that a note of another one is newer.
        """
        if again:
            self._numbers.look(stable=True)  # before the producer fences that other process
            self._refuse_other()
        self._transactions = Transactions(self._cluster, f"windows {self._cluster.topic} {self._query}")
        self._numbers.look()
        if again:
            self._refuse_other()
        new = Note(None, None, self._numbers.next_incarnation(), "")
        last = self._numbers.notes.get(self._query, new)
        with self._transactions.one() as produce:
            produce(self._cluster.numbers, 0, *note_of(self._query, replace(last, writer=self._process)))
        self._numbers.look(until=self._is_ours)
        if not self._is_ours():
            raise KafkaException(KafkaError(KafkaError._FAIL, "a claim was committed, and is not there"))

    def note(self) -> Note:
        """Return what is noted of the query."""
        return self._numbers.notes[self._query]

    def check(self, messages: Messages) -> None:
        """Refuse a topic that is another one than it was, and rows that do not fit."""
        if self._numbers.topic is not None:
            _check_topic(self._cluster, self._topic, self._numbers.topic)
            _check_rows(self._cluster, self._numbers.topic, messages)

    def write(self, messages: Messages) -> bool:
        """Write a batch, and return whether it is there. One without rows is not noted."""
        if self._numbers.topic is not None and not messages.pieces:
            return True
        assert self._transactions is not None, "begin was called"  # noqa: S101
        with self._transactions.one() as produce:
            note = self.note()
            of_batch: Headers = [
                ("batch", str(messages.batch).encode()),
                ("query", self._query.encode()),
                ("incarnation", str(note.incarnation).encode()),
            ]
            topic, count = self._cluster.topic, self._topic.partitions
            for key, value, headers, placed_by in chain.from_iterable(messages.pieces):
                produce(topic, murmur2(placed_by, count), key, value, headers + of_batch)
            if self._numbers.topic is None:
                of_topic = TopicNote(self._topic.id, count, messages.keys, messages.columns)
                produce(self._cluster.numbers, 0, *note_of_topic(of_topic))
            written = replace(note, batch=messages.batch, fingerprint=messages.fingerprint)
            produce(self._cluster.numbers, 0, *note_of(self._query, written))
        self._numbers.look(until=lambda: self.note().batch == messages.batch)
        return self.note().batch == messages.batch

    def end(self) -> None:
        """Give up the producer, whatever it may still do: the next one fences it."""
        self._numbers.close()
        if self._transactions is not None:
            self._transactions.discard()

    def _is_ours(self) -> bool:
        note = self._numbers.notes.get(self._query)
        return note is not None and note.writer == self._process

    def _refuse_other(self) -> None:
        if not self._is_ours():
            raise SinkError(
                f"another process writes the query {self._query!r} to the topic {self._cluster.topic!r} now: this one ends, so "
                "that no row is written twice. Stop one of the two drivers; this one writes again after a new start"
            )


_FINAL = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError._INVALID_ARG,
}
"""Errors that another try does not mend."""


def _check_topic(cluster: Cluster, now: TopicState, noted: TopicNote) -> None:
    if noted.id != now.id:
        raise SinkError(
            f"the topic {cluster.topic!r} is not the one that was written to: it was deleted and made anew. Delete the topic "
            f"{cluster.numbers!r}, too, and start the query with a new checkpoint"
        )
    if noted.partitions != now.partitions:
        raise SinkError(
            f"the topic {cluster.topic!r} had {noted.partitions} partitions and has {now.partitions}: the messages of a key "
            "would go to another partition than before, out of order. Write to a new topic, with a new checkpoint"
        )


def _check_rows(cluster: Cluster, noted: TopicNote, messages: Messages) -> None:
    if set(noted.keys) != set(messages.keys):
        raise SinkError(
            f"the topic {cluster.topic!r} has the key ({', '.join(noted.keys)}), not ({', '.join(messages.keys)}): "
            "upsert_to(..., keys=...) must name the topic's key columns without the window's columns"
        )
    if missing := [column for column in messages.columns if column not in noted.columns]:
        raise SinkError(
            f"the rows of the topic {cluster.topic!r} have no columns {', '.join(missing)}; they have "
            f"{', '.join(noted.columns)}: drop them from the rows, or write to a new topic"
        )
