"""How far a query is behind in topics, from what Spark says of its sources."""

from typing import NamedTuple

from operators.spark.base.kafka_lag import lag_of


class Source(NamedTuple):
    """A source as Spark's progress has it."""

    description: str
    endOffset: object  # noqa: N815 - Spark's name
    latestOffset: object  # noqa: N815 - Spark's name


def test_lag_is_what_a_batch_left() -> None:
    """By topic and partition, of sources of Kafka only; a partition that the batch did not know yet is left out."""
    sources = [
        Source("KafkaV2[Subscribe[clicks]]", '{"clicks":{"0":5,"1":7}}', '{"clicks":{"0":9,"1":7,"2":4}}'),
        Source(
            "KafkaV2[Subscribe[clicks,views]]", '{"views":{"0":1},"clicks":{"0":2}}', '{"clicks":{"0":3}}'
        ),
        Source("KafkaV2[Subscribe[old]]", "{'old': {'0': 1}}", "{'old': {'0': 4}}"),
        Source("FileStreamSource[file:/in]", '{"logOffset":0}', None),
    ]
    assert {("clicks", 0): 4, ("clicks", 1): 0, ("old", 0): 3} == lag_of(sources)


def test_what_is_no_offset_has_no_lag() -> None:
    """A source that has not read yet, or another form of offsets, is no error."""
    strange = [
        None,
        "",
        "null",
        "7",
        "[]",
        '{"clicks": 7}',
        '{"clicks": {"x": 1}}',
        '{"clicks": {"0": null}}',
    ]
    assert {} == lag_of([Source("KafkaV2[x]", one, one) for one in strange])
