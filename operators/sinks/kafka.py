"""Topics of Kafka that hold the last value of each window."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from operators.errors import DefinitionError
from operators.sinks.interface import Changes, Sink, WrittenBatch

if TYPE_CHECKING:
    from operators.sinks.kafka_topics import Cluster
    from operators.sinks.kafka_writer import Writer

_OWN = (
    "bootstrap.servers",
    "transactional.id",
    "enable.idempotence",
    "isolation.level",
    "group.id",
    "enable.auto.commit",
    "auto.offset.reset",
    "enable.partition.eof",
    "delivery.report.only.error",
    "acks",
)
"""Settings of librdkafka that the sink makes itself."""


@dataclass(frozen=True)
class KafkaSink(Sink):
    """A topic of Kafka, as a changelog of the windows. It needs the extra `kafka` (confluent-kafka).

    A batch's messages and its number are one transaction of the driver, so that a consumer with `isolation.level` =
    `read_committed` sees each batch once, whole. The numbers are in a compacted topic beside yours, `<topic>-windows-batches`.

    Of each message, the key is a JSON object of the key columns and the window's bounds, in UTC with microseconds; the value a
    JSON object of the row, or null for a row that is deleted; the headers are `change`, `sequence` (if the rows have one),
    `batch`, `query` and `incarnation`, as text. The partition follows from the key columns without the window, by the hash of
    the Java client, so that all messages of a key are in order.

    Args:
        servers: where to connect first, such as "kafka1:9092,kafka2:9092".
        topic: name of the topic.
        partitions: how many partitions the topic gets if the first batch creates it, compacted. By default it has to exist.
        value: a column of bytes or text that is each message's value, such as what `to_avro` makes; by default the value is the
            row as JSON.
        partition_by: "keys", or "message": then the partition follows from the whole message key, as a Java client that knows
            only the message would choose it.
        config: settings of librdkafka, such as security settings. A password belongs here.
        timeout: seconds that a batch tries again when brokers cannot be reached, and waits for transactions of others.

    Raises:
        DefinitionError: an argument has a wrong type or value, or `config` has a setting that is the sink's own.
    """

    servers: str
    topic: str
    partitions: int | None = None
    value: str | None = None
    partition_by: Literal["keys", "message"] = "keys"
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout: float = 90.0
    _writers: "dict[str, Writer]" = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("servers", "topic"):
            given: object = getattr(self, name)
            if not (isinstance(given, str) and given):
                raise DefinitionError(f"{name} takes a text, not {given!r}")
        partitions: object = self.partitions
        if not (partitions is None or (isinstance(partitions, int) and partitions > 0)):
            raise DefinitionError(f"partitions takes a number of at least 1, not {partitions!r}")
        if self.partition_by not in ("keys", "message"):
            raise DefinitionError(f"partition_by is 'keys' or 'message', not {self.partition_by!r}")
        if own := sorted(set(_OWN) & set(self.config)):
            raise DefinitionError(f"config has {', '.join(own)}, which the sink sets itself: leave it out")

    def __reduce__(self) -> "tuple[Any, ...]":
        return _made, ({one.name: getattr(self, one.name) for one in fields(self) if one.init},)

    def check(self) -> None:
        self._cluster().check()

    def write(self, changes: Changes) -> bool:
        from operators.sinks.kafka_messages import messages_of

        cluster = self._cluster()
        messages = messages_of(changes, self.value, by_message=self.partition_by == "message")
        writer = self._writers.get(changes.query)
        if writer is None:
            from operators.sinks.kafka_writer import Writer

            writer = self._writers[changes.query] = Writer(cluster, changes.query)
        return writer.write(messages)

    def last_batch(self, query: str) -> WrittenBatch | None:
        from operators.sinks.kafka_numbers import Numbers

        numbers = Numbers.of(self._cluster())
        note = numbers.notes.get(query) if numbers else None
        return None if note is None or note.batch is None else WrittenBatch(note.batch, note.fingerprint)

    def _cluster(self) -> "Cluster":
        return cluster_for("KafkaSink", self.servers, self.topic, self.partitions, self.config, self.timeout)


def cluster_for(
    user: str, servers: str, topic: str, partitions: int | None, config: Mapping[str, Any], timeout: float
) -> "Cluster":
    """Return what asks brokers; arguments as of `KafkaSink`.

    Raises:
        ImportError: confluent-kafka is missing; names who needs it.
    """
    try:
        import confluent_kafka  # noqa: F401 - the modules below need it
    except ImportError as missing:
        raise ImportError(
            f"{user} needs confluent-kafka: pip install 'spark-stateful-windows[kafka]'"
        ) from missing
    from operators.sinks.kafka_topics import Cluster

    return Cluster(servers, topic, partitions, config, timeout)


def _made(arguments: dict[str, Any]) -> KafkaSink:
    return KafkaSink(**arguments)
