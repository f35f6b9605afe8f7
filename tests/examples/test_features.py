"""The features of flights: a bounded frame gives Spark's own ranges, and a stream the same rows once they are closed."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from examples.features import by_recent_delay, features
from examples.flights_data import departed, load_flights, write_source
from examples.operators.flights import DDL
from tests.operators.spark.frames import rows, run_query

pytestmark = [pytest.mark.spark, pytest.mark.slow]
HOURS = {"hour": 1, "day": 24, "week": 168}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten days of June as files, in two parts."""
    left = departed(load_flights("tailnum", "carrier"))
    day = pc.day(left.column("scheduled"))
    june = left.filter(pc.and_(pc.equal(pc.month(left.column("scheduled")), 6), pc.less_equal(day, 10)))
    day = pc.day(june.column("scheduled"))
    parts = [june.filter(pc.is_in(day, pa.array(days))) for days in (range(1, 6), range(6, 11))]
    folder = tmp_path_factory.mktemp("june") / "source"
    write_source(june, parts, folder)
    return folder


def judged(frame: DataFrame) -> DataFrame:
    """The same by Spark's `rangeBetween`."""

    def over(key: str, hours: int) -> Window:
        return (
            Window.partitionBy(key).orderBy(F.unix_millis("departure")).rangeBetween(-3_600_000 * hours, -1)
        )

    def results(who: str, key: str) -> list[Column]:
        found = []
        for name, hours in HOURS.items():
            found += [
                F.count("*").over(over(key, hours)).alias(f"{who}_flights_{name}"),
                F.avg("dep_delay").over(over(key, hours)).alias(f"{who}_delay_{name}"),
            ]
            if who == "airport" and name != "week":
                found.append(F.max("dep_delay").over(over(key, hours)).alias(f"airport_worst_{name}"))
        return found

    return frame.select("*", *results("airport", "origin"), *results("carrier", "carrier"))


def test_features_are_sparks_own_ranges(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """All of them from a bounded frame; from a stream those whose time is closed."""
    frame = spark.read.schema(DDL).parquet(str(source))
    expected = judged(frame)
    assert rows(expected) == rows(features(frame))
    files = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(source))
    run_query(features(files), tmp_path / "rows", tmp_path / "checkpoint")
    found = rows(spark.read.parquet(str(tmp_path / "rows")))
    close = frame.selectExpr("max(departure) - interval 24 hours").first()[0]
    assert rows(expected.where(F.col("departure") < F.lit(close))) == found
    groups = by_recent_delay(features(frame)).collect()
    assert sum(row.flights for row in groups) == frame.count()
