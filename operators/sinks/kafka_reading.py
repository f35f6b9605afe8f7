"""Reading a topic up to its end: what is committed, past the markers of transactions, which have offsets, too."""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from operators.sinks.interface import SinkError
from operators.sinks.kafka_topics import LOG, Cluster

_POLL_SECONDS = 0.2
_OF_PRODUCERS = {
    *(
        "transaction.timeout.ms",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "linger.ms",
        "queue.buffering.max.ms",
    ),
    *("compression.type", "compression.codec", "compression.level", "batch.size", "batch.num.messages"),
    *("queue.buffering.max.messages", "queue.buffering.max.kbytes"),
}
"""Settings of which librdkafka would warn in a consumer."""


class Reader:
    """Reads a topic from its beginning, once; it goes on where it ended.

    Args:
        cluster, topic, partitions: what to read.
        admin: a client that has had an answer (see `Cluster.ends`); it ends with the reader.
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int, admin: AdminClient) -> None:
        self._cluster = cluster
        self._topic = topic
        self._admin = admin
        self._at = dict.fromkeys(range(partitions), 0)
        settings = cluster.settings(
            group_id=topic,  # a consumer has to have one; nothing is committed to it
            enable_auto_commit=False,
            isolation_level="read_committed",
            enable_partition_eof=True,
            auto_offset_reset="earliest",
            fetch_wait_max_ms=100,
        )
        known = {name: value for name, value in settings.items() if name not in _OF_PRODUCERS}
        known["error_cb"] = lambda error: LOG.warning("the reader of the topic %r says: %s", topic, error)
        self._consumer = Consumer(known, logger=LOG)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in self._at])

    @classmethod
    def of_topic(cls, cluster: Cluster) -> "Reader":
        """Return a reader of the cluster's topic, which has to exist."""
        admin = cluster.admin()
        return cls(cluster, cluster.topic, cluster.existing(admin).partitions, admin)

    def read(self, *, stable: bool) -> Iterator[Message]:
        """Yield the committed messages up to where the topic ends now.

        Args:
            stable: up to the first open transaction of each partition only. Otherwise the reader waits for the end of
                those that are open now, since they hold back what was committed behind them.

        Raises:
            SinkError: a transaction did not end in time, or no broker answered.
        """
        ends = self._cluster.ends(self._admin, self._topic, list(self._at), stable=stable)
        heard = time.monotonic()
        while any(at < ends[number] for number, at in self._at.items()):
            message = self._consumer.poll(_POLL_SECONDS)
            if message is None:
                if time.monotonic() - heard > self._cluster.timeout:
                    raise self._stuck(ends)
                continue
            number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
            if error is None:
                heard = time.monotonic()
                self._at[number] = offset + 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at[number] = max(self._at[number], offset)
            elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue  # a consumer asks for its group, whose offsets this one neither reads nor writes
            elif not error.retriable():
                raise KafkaException(error)

    def close(self) -> None:
        """End the connections."""
        self._consumer.close()
        del self._consumer, self._admin  # frames of errors may keep this object for long

    def _stuck(self, ends: dict[int, int]) -> SinkError:
        number, at = next((number, at) for number, at in self._at.items() if at < ends[number])
        return SinkError(
            f"partition {number} of the topic {self._topic!r} could be read to offset {at} of {ends[number]} only, for "
            f"{self._cluster.timeout:g} s: a transaction of another producer on it is open, or no broker answers. It ends "
            "after that producer's transaction.timeout.ms; raise timeout= to wait for it"
        )
