"""The two topics of a sink: that they are there, and what they are like."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from operators.sinks.interface import SinkError

LOG = logging.getLogger("operators.sinks.kafka")
_ENDING = "-windows-batches"
_OR_CREATED = ", or pass partitions=6, say, and the first batch creates a compacted topic"
_ASK_SECONDS = 10.0
_NUMBERS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": str(600_000),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Small segments, since the newest is never compacted: whoever looks reads it whole."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as the brokers know it.

    Attributes:
        partitions: how many it has.
        id: the id of this topic; one that is made anew under the same name has another.
    """

    partitions: int
    id: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a sink's topics are.

    Attributes:
        servers, topic, partitions, config, timeout: as the sink has them.
    """

    servers: str
    topic: str
    partitions: int | None
    config: Mapping[str, Any] = field(repr=False)
    timeout: float

    @property
    def _ask_seconds(self) -> float:
        return min(_ASK_SECONDS, self.timeout)

    @property
    def numbers(self) -> str:
        """Name of the topic of the batches' numbers."""
        return self.topic + _ENDING

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return what a client of librdkafka takes; an underscore in a name stands for a dot."""
        own = {name.replace("_", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self.servers, **self.config, **own}

    def admin(self) -> AdminClient:
        """Return a client that asks and creates."""
        return AdminClient(self.settings(), logger=LOG)

    def check(self) -> None:
        """Refuse a topic that does not exist, unless it is to be created."""
        with in_words(self):
            if self._found(self.admin(), self.topic) is None and self.partitions is None:
                raise self._missing(_OR_CREATED)

    def ensure(self, admin: AdminClient) -> TopicState:
        """Return the topic, after creating what is missing.

        Args:
            admin: a client of this cluster.

        Raises:
            SinkError: it does not exist and is not to be created, or has another number of partitions.
        """
        topic = self._found(admin, self.topic)
        if topic is None:
            if self.partitions is None:
                raise self._missing(_OR_CREATED)
            topic = self._created(admin, self.topic, self.partitions, {"cleanup.policy": "compact"})
        if self.partitions not in (None, topic.partitions):
            raise SinkError(
                f"topic {self.topic!r} has {topic.partitions} partitions, and partitions={self.partitions} was asked for: "
                "leave partitions out, or give the topic's own number"
            )
        if self._found(admin, self.numbers) is None:
            self._created(admin, self.numbers, 1, _NUMBERS)
        return topic

    def existing(self, admin: AdminClient) -> TopicState:
        """Return the topic, which has to exist."""
        found = self._found(admin, self.topic)
        if found is None:
            raise self._missing(", or correct its name")
        return found

    def has_numbers(self, admin: AdminClient) -> bool:
        """Whether a batch was written, so that there is a topic of numbers."""
        return self._found(admin, self.numbers) is not None

    def ends(self, admin: AdminClient, topic: str, partitions: list[int], *, stable: bool) -> dict[int, int]:
        """Return the offset at which each partition of a topic ends.

        Args:
            admin: a client that has had an answer. A new one replaces its first connection by another one, and librdkafka
                repeats this question after three seconds if it was lost with the first; others it repeats at once.
            topic, partitions: which.
            stable: before the first transaction that is open.
        """
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        places = {TopicPartition(topic, number): latest for number in partitions}
        asked = {**admin.list_offsets(places, isolation_level=level, request_timeout=self._ask_seconds)}
        return {place.partition: int(asked.pop(place).result().offset) for place in [*asked]}  # see _found

    def _missing(self, way_out: str) -> SinkError:
        return SinkError(f"there is no topic {self.topic!r} at {self.servers}: create it{way_out}")

    def _found(self, admin: AdminClient, name: str) -> TopicState | None:
        names = TopicCollection([name])
        try:
            # A future has its error: a variable for one would keep this frame, and the client, until garbage is collected.
            found = admin.describe_topics(names, request_timeout=self._ask_seconds)[name].result()
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN:
                return None
            raise
        return TopicState(len(found.partitions), str(found.topic_id))

    def _created(self, admin: AdminClient, name: str, partitions: int, config: dict[str, str]) -> TopicState:
        """Create a topic, unless another query was faster, and wait until the brokers know it."""
        new = NewTopic(name, partitions, -1, config=config)
        try:
            admin.create_topics([new], request_timeout=self._ask_seconds)[name].result()
        except KafkaException as error:
            code = error.args[0].code()
            if code in _DENIED:
                raise SinkError(
                    f"the user lacks the right to create the topic {name!r} at {self.servers}: create it, with {partitions} "
                    f"partitions and cleanup.policy=compact, or give the user the rights that docs/kafka.md lists"
                ) from error
            if code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        end = time.monotonic() + self.timeout
        while (found := self._found(admin, name)) is None:
            if time.monotonic() > end:
                raise SinkError(f"topic {name!r} was created, but the brokers do not know it yet: try again")
            time.sleep(0.05)
        return found


_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


@contextmanager
def in_words(cluster: Cluster) -> Iterator[None]:
    """Raise what librdkafka raises as a SinkError that names the topic and the way out."""
    try:
        yield
    except KafkaException as error:
        raise SinkError(
            f"Kafka at {cluster.servers} failed when it was asked for the topic {cluster.topic!r}: {error.args[0]}. "
            f"{_way_out(error.args[0].code())}"
        ) from error


def _way_out(code: int) -> str:
    return next((words for codes, words in _WAYS_OUT if code in codes), "The broker's log may say more")


_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
_WAYS_OUT = (
    (
        {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE},
        "Raise message.max.bytes in the sink's config and max.message.bytes of the topic, or drop large columns from the rows",
    ),
    (_DENIED, "The user needs the rights that docs/kafka.md lists"),
    (
        {
            KafkaError._TIMED_OUT,
            KafkaError._MSG_TIMED_OUT,
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
        },
        (
            "Are the brokers running, and are the addresses that they advertise reachable from the driver? A broker whose disk "
            "is full ends"
        ),
    ),
)
