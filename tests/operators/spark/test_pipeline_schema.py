"""`schema` and `streaming`, by which nothing of a frame is analysed, in sessions that would analyse it, too."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from operators import DefinitionError, SlidingWindows, TumblingWindows, what_failed
from operators import aggregates as agg

pytestmark = pytest.mark.spark
SCHEMA = StructType([StructField("k", StringType()), StructField("at", TimestampType())])
COUNT = SlidingWindows("2 seconds").group_by("k").aggregate(n=agg.count())


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    """A few rows, with a column that no operator reads, and a key that is a number."""
    return spark.range(40).selectExpr("int(id % 3) k", "timestamp_seconds(id) at", "id other")


@pytest.mark.slow
@pytest.mark.parametrize("windows", [SlidingWindows("2 seconds"), TumblingWindows("4 seconds")], ids=str)
def test_a_bounded_frame_gives_the_same_rows(frame: DataFrame, windows: SlidingWindows) -> None:
    """Of the columns and types that are given: the key is a text then."""
    op = windows.group_by("k").aggregate(n=agg.count())
    given = op.apply(frame, "at", schema=SCHEMA, streaming=False)
    found_out = op.apply(frame.selectExpr("string(k) k", "at"), "at")
    assert found_out.schema == given.schema
    assert sorted(found_out.collect()) == sorted(given.collect()) != []


def test_late_records_have_the_columns_that_are_given(frame: DataFrame) -> None:
    """And no others."""
    late = COUNT.apply_with_late(frame, "at", schema=SCHEMA, streaming=False).late
    assert ["k", "at"] == late.schema["record"].dataType.names


def test_one_without_the_other_and_text_are_refused(frame: DataFrame) -> None:
    """What Spark would have to find out, or to parse."""
    with pytest.raises(DefinitionError, match="schema and streaming belong together"):
        COUNT.apply(frame, "at", schema=SCHEMA)
    with pytest.raises(DefinitionError, match="schema and streaming belong together"):
        COUNT.apply(frame, "at", streaming=False)
    with pytest.raises(DefinitionError, match=r"schema is 'k string.*': give a StructType.*fromDDL"):
        COUNT.apply(frame, "at", schema="k string, at timestamp", streaming=False)
    with pytest.raises(DefinitionError, match="event time column 'time' does not exist"):
        COUNT.apply(frame, "time", schema=SCHEMA, streaming=False)


@pytest.mark.slow
def test_a_bounded_frame_that_is_said_to_be_a_stream_fails(frame: DataFrame) -> None:
    """Spark runs it, but never closes a window."""
    with pytest.raises(Exception, match="streaming=False") as caught:
        COUNT.apply(frame, "at", schema=SCHEMA, streaming=True).collect()
    assert "the frame is bounded, but apply was told that it is a stream: give streaming=False" in str(
        what_failed(caught.value)
    )


def test_a_stream_that_is_said_to_be_bounded_is_refused_by_spark(spark: SparkSession) -> None:
    """It cannot sort one."""
    stream = spark.readStream.format("rate").load().selectExpr("string(value) k", "timestamp at")
    rows = COUNT.apply(stream, "at", schema=SCHEMA, streaming=False)
    with pytest.raises(Exception, match="Sort"):
        rows.writeStream.format("noop").start()


@pytest.mark.slow
def test_records_of_the_future_need_no_analysis(frame: DataFrame) -> None:
    """The frame has columns that nobody asked Spark for."""
    later = frame.selectExpr("k", "if(k = 1, timestamp'2100-01-01', at) at")
    both = COUNT.apply_with_late(later, "at", schema=SCHEMA, streaming=False, max_future="1 hour")
    assert {(row.reason, row.record.at.year) for row in both.late.collect()} == {
        ("event time is in the future", 2100)
    }
    assert both.windows.count() > 0
