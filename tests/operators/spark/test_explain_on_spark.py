"""What `explain` tells of Spark's frames is what `apply` then plans. No query runs."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.explain import Explanation

pytestmark = pytest.mark.spark
SCHEMA = "k string, at timestamp, v bigint, x double"


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    """A bounded frame without rows."""
    return spark.createDataFrame([], SCHEMA)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "way", "aggregations", "passes"),
    [
        (TumblingWindows("1 s").group_by("k").aggregate(total=agg.sum("x")), "engine", True, 1),
        (TumblingWindows("1 s").group_by("k").aggregate(all=agg.collect_list("v")), "python", False, 2),
        (SlidingWindows("1 s").group_by("k").aggregate(total=agg.sum("v")), "rows", False, 1),
    ],
    ids=["engine", "python", "rows"],
)
def test_the_stage_that_is_told_is_in_the_plan(
    frame: DataFrame, operator: Any, way: str, aggregations: bool, passes: int
) -> None:
    """Spark's own aggregation, or a pass through Python before the shuffle, or neither."""
    told = Explanation.of(operator, frame, "at")
    plan = operator.apply(frame, event_time="at")._jdf.queryExecution().optimizedPlan().toString()
    assert way == told.bounded.way
    assert aggregations == ("Aggregate [" in plan)
    assert passes == plan.count("MapInArrow")
    assert told.streamed is None
    assert "none: the records of a bounded frame are processed in order" in str(told)
    assert "in memory while the key is processed" in str(told)


def test_a_collated_key_is_refused(frame: DataFrame) -> None:
    """As `apply` refuses it: Arrow does not know of collations, Spark does."""
    operator = TumblingWindows("1 s").group_by("k").aggregate(n=agg.count())
    assert "engine" == Explanation.of(operator, frame, "at").bounded.way
    with pytest.raises(DefinitionError, match="column 'k' is string collate UTF8_LCASE"):
        Explanation.of(operator, frame.withColumn("k", F.collate("k", "UTF8_LCASE")), "at")


@pytest.mark.slow
def test_a_chain_is_told(spark: SparkSession) -> None:
    """Whose watermark it has; and what `apply` refuses is refused here too."""
    stream = spark.readStream.format("rate").load()
    first = SlidingWindows("1 minute", grace="10 seconds").group_by("value").aggregate(n=agg.count())
    rows = first.apply(stream, "timestamp").select("n", "window.*")
    second = TumblingWindows("1 hour").aggregate(n=agg.sum("n"))
    assert "out of a shuffle" not in Explanation.of(first, stream, "timestamp").streamed.text
    assert "out of a shuffle" in Explanation.of(second, rows, "end").streamed.text
    assert "the watermark of the first operator of the query; records" in str(
        Explanation.of(second, rows, "end")
    ).replace("\n               ", " ")
    assert "query less 1 min; records are" in str(Explanation.of(second, rows, "start")).replace(
        "\n               ", " "
    )
    with pytest.raises(DefinitionError, match="'end' has no watermark"):
        second.explain(rows.withColumn("end", F.expr("end + interval 1 second")), "end")


def test_a_stream_is_told_with_sparks_conf(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Its buckets are the session's, its gaps an expression; backend and options go before the conf."""
    stream = spark.readStream.format("rate").load()
    gap = F.when(F.col("value") > 0, F.expr("interval 5 minutes")).otherwise(F.expr("interval 1 minute"))
    operator = SessionWindows(gap).aggregate(n=agg.count())
    told = Explanation.of(operator, stream, "timestamp", backend="spark")
    assert (3, "spark", None, "adaptive") == (
        told.buckets,
        told.config.backend,
        told.bounded,
        told.streamed.way,
    )
    operator.explain(stream, "timestamp", options={"state.buckets": 5})
    printed = capsys.readouterr().out
    assert "sessions with gaps of each record" in printed
    assert "5, each with a task and a state" in printed
    assert "state.directory" in printed
