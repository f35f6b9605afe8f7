"""A topic of windows, folded into the table that it stands for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from operators.sinks.kafka import cluster_for

if TYPE_CHECKING:
    from confluent_kafka import Message

_Rank = tuple[int, ...]
_RANKED_BY = ("incarnation", "sequence", "batch")


def read_table(
    servers: str, topic: str, *, config: Mapping[str, Any] | None = None, timeout: float = 90.0
) -> dict[bytes, bytes]:
    """Return the last value of each key of a topic, as far as it is committed; it waits for transactions that are open now.

    Of the messages of a key, the one with the highest `incarnation`, then `sequence`, then `batch` in its headers counts, in
    whatever order they are and however often they come; of those that are equal in this, the last. Keys whose last message has
    no value are left out. It needs the extra `kafka`.

    A topic that was compacted has, of each key, the message with the highest offset only: that is the last one if one writer
    wrote them in order, as `KafkaSink` does. A reader that takes longer than `delete.retention.ms` of the topic may miss that
    a key was deleted: this one reads the topic from its beginning each time.

    Args:
        servers: where to connect first, such as "kafka1:9092,kafka2:9092".
        topic: name of the topic.
        config: settings of librdkafka, such as security settings.
        timeout: seconds without a message after which an error is raised.

    Raises:
        SinkError: there is no such topic, or no broker answers.
    """
    cluster = cluster_for("read_table", servers, topic, None, config or {}, timeout)
    from operators.sinks.kafka_reading import Reader
    from operators.sinks.kafka_topics import in_words

    last: dict[bytes, tuple[_Rank, bytes | None]] = {}
    with in_words(cluster):
        reader = Reader.of_topic(cluster)
        try:
            for message in reader.read(stable=False):
                key, rank = message.key() or b"", _rank(message)
                if key not in last or rank >= last[key][0]:
                    last[key] = rank, message.value()
        finally:
            reader.close()
    return {key: value for key, (_, value) in last.items() if value is not None}


def _rank(message: "Message") -> _Rank:
    headers = dict(message.headers() or [])
    return tuple(int(headers.get(name) or 0) for name in _RANKED_BY)
