"""Topics of Kafka as history up to their ends, and as the stream of what is written after them."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from operators.errors import DefinitionError
from operators.sinks.history import HistoryAndStream
from operators.sinks.kafka import cluster_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = ("kafka.bootstrap.servers", "subscribe", "assign", "starting", "ending")
"""What options may not begin with, in small letters."""
_ISOLATION = "kafka.isolation.level"


def topic_history_and_stream(
    spark: "SparkSession",
    servers: str,
    topics: str | Sequence[str],
    *,
    options: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    timeout: float = 90.0,
) -> HistoryAndStream:
    """Cut topics of Kafka at their present ends: no message is in both parts, and none in neither.

    `savepoint` of the history, then a query over the stream with `state.savepoint`, is as one query over all messages; but no
    message of the history is late because its partition was read after others. When the query starts again, Spark goes on
    from its checkpoint, whatever offsets the stream has. It needs Spark's connector and the extra `kafka`.

    Args:
        spark: a session with Spark's connector.
        servers: where to connect first, such as "kafka1:9092,kafka2:9092".
        topics: name of a topic, or several.
        options: options of Spark's connector for both parts, such as `kafka.isolation.level` or `includeHeaders`.
        config: settings of librdkafka, with which the ends are asked for, such as security settings.
        timeout: seconds after which brokers that do not answer are an error.

    Returns:
        The two frames, with the connector's columns (`key`, `value`, `topic`, `partition`, `offset`, `timestamp` ...).

    Raises:
        DefinitionError: an option is one of those that this function sets.
        SinkError: there is no such topic, or no broker answers.
    """
    options = dict(options or {})
    if own := [name for name in options if name.lower().startswith(_OWN)]:
        raise DefinitionError(
            f"options has {', '.join(own)}, which topic_history_and_stream sets itself: leave it out"
        )
    names = [topics] if isinstance(topics, str) else [*topics]
    if not names:
        raise DefinitionError("topics is empty: name at least one topic")
    committed = options.get(_ISOLATION) == "read_committed"
    ends = {name: _ends(servers, name, config or {}, timeout, stable=committed) for name in names}
    place = {"kafka.bootstrap.servers": servers, "subscribe": ",".join(names), **options}
    version = json.dumps(ends)
    history = spark.read.format("kafka").options(**place, endingOffsets=version)
    stream = spark.readStream.format("kafka").options(**place, startingOffsets=version)
    return HistoryAndStream(history.load(), stream.load(), version)


def _ends(
    servers: str, topic: str, config: Mapping[str, Any], timeout: float, *, stable: bool
) -> dict[str, int]:
    """The offset at which each partition ends, or before which it has no open transaction."""
    cluster = cluster_for("topic_history_and_stream", servers, topic, None, config, timeout)
    from operators.sinks.kafka_topics import in_words

    with in_words(cluster):
        admin = cluster.admin()
        partitions = [*range(cluster.existing(admin).partitions)]
        ends = cluster.ends(admin, topic, partitions, stable=stable)
    return {str(number): end for number, end in ends.items()}
