"""The operators of disturbed queries: those of other tests on Spark, a user's, frames in one window, and windows in a table."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import TumblingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.sinks import SQLitePages, SQLiteSink, merge_to, upsert_to
from operators.sinks.changes import changes_of
from tests.faults.pages import features
from tests.faults.plans import Plan
from tests.faults.runs import Runs
from tests.operators.sinks.reading import read_sqlite
from tests.operators.spark.frames import SCHEMA, closed_rows, operator, rows, stream, windows

TABLE = "table"
"""Sessions on update, which an upsert writes into a table of SQLite."""
PUBLISHED, MERGED = "features in pages", "sessions in Delta"
"""Features in a table of pages of SQLite, and sessions on update that the executors merge into a table of Delta."""
KAFKA = "kafka://"
"""How the source of a plan begins that is a broker, with records in a topic."""
TOPIC = "records"
OWN = "Spark's own chain"
"""Windows of Spark over windows of Spark, to see what it bears itself."""
_GRACE = "8 seconds"


def applied(frame: DataFrame, kind: str, backend: str | None = None) -> DataFrame:
    """Return what the operator of a kind makes of a frame."""
    if kind == PUBLISHED:
        return frame  # `publish` is both operator and writer.
    if kind in (TABLE, MERGED):
        made = operator("on_update", "session")
        if (
            kind == MERGED
        ):  # A batch may have one partition of Kafka's ahead of the others: no record is to be late.
            made = replace(made, windows=replace(made.windows, grace="1 minute"))
        return made.apply(frame, event_time="at", backend=backend)
    if kind == OWN:
        first = frame.withWatermark("at", _GRACE).groupBy(F.window("at", "700 milliseconds"), "k")
        counted = first.agg(F.count("*").alias("n"), F.sum("v").alias("total"))
        second = counted.groupBy(F.window(F.window_time("window"), "3 seconds"), "k")
        return second.agg(F.sum("n").alias("n"), F.sum("total").alias("total"))
    if kind == "custom":
        return Runs(grace=_GRACE).group_by("k").apply(frame, event_time="at", backend=backend)
    if kind != "cogroup":
        return windows(frame, kind, backend)
    low, high = {"n": agg.count(), "low": agg.min("v")}, {"m": agg.count(), "mean": agg.avg("x")}
    both = TumblingWindows("700 ms", grace=_GRACE).group_by("k").cogroup(low=low, high=high)
    return both.apply(_sides(frame), event_time="at", backend=backend)


def source(spark: SparkSession, plan: Plan) -> DataFrame:
    """Return the records of a plan as a stream."""
    if not plan.source.startswith(KAFKA):
        return stream(spark, Path(plan.source), plan.files)
    messages = (
        spark.readStream.format("kafka").option("subscribe", TOPIC).option("startingOffsets", "earliest")
    )
    messages = messages.option("kafka.bootstrap.servers", plan.source.removeprefix(KAFKA)).load()
    fields = f"from_json(string(value), '{SCHEMA}', map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSS')) record"
    return messages.selectExpr(fields).select("record.*")


def writer(frame: DataFrame, kind: str, folder: Path, backend: str) -> Any:
    """Return what writes the rows of a kind into a folder."""
    if kind == PUBLISHED:
        pages = SQLitePages(folder / "pages.db", "pages")
        return features().publish(frame, "at", pages, backend=backend)
    if kind == MERGED:
        return frame.writeStream.foreachBatch(merge_to(f"delta.`{folder / 'sessions'}`", keys=["k"]))
    if kind == TABLE:
        return frame.writeStream.foreachBatch(upsert_to(_sink(folder), keys=["k"]))
    return frame.writeStream.format("parquet").option("path", str(folder / "out"))


def undisturbed(spark: SparkSession, source: Path, kind: str) -> list[Any]:
    """Return what a stream over the files has written at its end: what it closed, or all sessions if they are in a table."""
    if kind == TABLE:
        return sorted(map(repr, sessions(source).to_pylist()))
    if kind not in ("custom", "cogroup", OWN):
        return closed_rows(spark, source, kind)
    frame = spark.read.schema(SCHEMA).parquet(str(source))
    latest = f"max(at) - interval {_GRACE}"
    sides = list(_sides(frame).values()) if kind == "cogroup" else [frame]
    # The slowest frame's watermark counts.
    close = min(side.selectExpr(latest).first()[0] for side in sides)
    found = applied(frame, kind)
    end = F.timestamp_millis("ended") if kind == "custom" else found["window"]["end"]
    # Spark's own windows end before the watermark, or at it.
    return rows(found.where(end <= close if kind == OWN else end < close))


def written(spark: SparkSession, source: Path, kind: str, folder: Path) -> list[Any]:
    """Return what is in the table, or in files by the sink's own log: those of attempts that failed lie beside the others."""
    if kind == TABLE:
        schema = sessions(source).schema
        path = Path(_sink(folder).path)
        return sorted(map(repr, read_sqlite(path, "sessions", schema).to_pylist())) if path.exists() else []
    out = folder / "out"
    if not list((out / "_spark_metadata").glob("[0-9]*")):
        return []
    schema = applied(spark.read.schema(SCHEMA).parquet(str(source)), kind).schema
    return rows(spark.read.schema(schema).parquet(str(out)))


def _sides(frame: DataFrame) -> dict[str, DataFrame]:
    return {"low": frame.where("v < 0"), "high": frame.where("v >= 0")}


def _sink(folder: Path) -> SQLiteSink:
    folder.mkdir(parents=True, exist_ok=True)
    return SQLiteSink(folder / "table.db", "sessions")


def sessions(source: Path) -> pa.Table:
    """All sessions of the files, as columns of a table."""
    records = pa.concat_tables([pq.read_table(path) for path in sorted(source.glob("*.parquet"))])
    with operator(kind="session").local_runner("at") as runner:
        return changes_of(runner.process(records, FAR_FUTURE), ["k"], "undisturbed", 0).upserts
