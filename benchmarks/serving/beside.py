"""What answers are compared with: the raw rows in PostgreSQL; and how new they are on Spark."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from benchmarks.serving.asking import BUSY, NOW, percentiles, timed, usual
from benchmarks.serving.filled import DAY_MS, FEATURES, records
from operators import RollingWindows
from operators import aggregates as agg
from operators.sinks import PageTable, SQLitePages
from tests.operators.sinks.postgres_server import postgres_server

_EVENT_MS = 1_700_000_000_000
_ASKED = datetime.fromtimestamp(_EVENT_MS / 1_000 + 60, timezone.utc)
_LOOKBACKS = {"1h": 3_600_000, "1d": DAY_MS, "30d": 30 * DAY_MS}
_RESULTS = "count(*) {w}, sum(v) {w}, avg(v) {w}, max(v) {w}, min(v) {w}"


def raw_rows(keys: int, busy: int, batches: int, count: int) -> dict[str, dict[str, float]]:
    """The time of a SELECT over the same records with an index on key and time, of a usual key and of the busy one."""
    parts = [_RESULTS.format(w=f"FILTER (WHERE at >= %(now)s - {length})") for length in _LOOKBACKS.values()]
    asked = f"SELECT {', '.join(parts)} FROM raw WHERE k = %(k)s AND at BETWEEN %(now)s - {30 * DAY_MS} AND %(now)s"  # noqa: S608 - its own text
    with postgres_server() as conninfo, psycopg.connect(conninfo, autocommit=True) as db:
        db.execute("CREATE TABLE raw (k bigint, at bigint, v float8)")
        for batch in range(batches):
            rows = records(batch, batches, keys, busy)
            rows = rows.set_column(1, "at", rows.column("at").cast(pa.int64()))
            out = pa.BufferOutputStream()
            csv.write_csv(rows, out, csv.WriteOptions(include_header=False))
            with db.cursor() as cursor, cursor.copy("COPY raw FROM STDIN (FORMAT csv)") as copy:
                copy.write(out.getvalue().to_pybytes())
        db.execute("CREATE INDEX ON raw (k, at) INCLUDE (v)")
        db.execute("VACUUM ANALYZE raw")

        def ask(key: int) -> list[Any]:
            return db.execute(asked, {"k": key, "now": NOW - 12_345}).fetchall()

        return {
            "usual": percentiles(timed(lambda number: ask(usual(number, keys)), count)),
            "busy": percentiles(timed(lambda _: ask(BUSY), min(count, 30))),
        }


def freshness(folder: Path, triggers: Sequence[int], events: int) -> dict[str, dict[str, float]]:
    """Seconds from when a file with an event is there until an answer has it, by the seconds between triggers."""
    from operators import spark_session

    features = RollingWindows({"1h": "1 hour"}).group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))
    spark = spark_session("freshness", master="local[2]", buckets=2, conf={"spark.ui.enabled": "false"})
    found = {}
    for trigger in triggers:
        place, pages = folder / f"in-{trigger}", SQLitePages(folder / f"{trigger}.db", "pages")
        place.mkdir()
        frame = spark.readStream.schema("k bigint, at timestamp, v double").parquet(str(place))
        query = (
            features.publish(frame, "at", pages)
            .option("checkpointLocation", str(folder / f"checkpoint-{trigger}"))
            .trigger(processingTime=f"{trigger} seconds")
            .start()
        )
        taken = [_seconds_of_event(place, number, features, pages) for number in range(events + 2)]
        query.stop()
        found[str(trigger)] = {
            "p50_s": round(float(np.median(taken[2:])), 2),
            "longest_s": round(max(taken[2:]), 2),
        }
    spark.stop()
    return found


def batches_on_spark(
    folder: Path, tables: Mapping[str, PageTable], keys: int, busy: int, batches: int
) -> dict[str, float]:
    """Seconds of the last of some batches of a query: of one whose rows nobody takes, and of those that publish to tables."""
    from operators import spark_session

    spark = spark_session(
        "publishing",
        master="local[2]",
        buckets=2,
        conf={"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"},
    )
    source = folder / "records"
    source.mkdir()
    for batch in range(batches):
        pq.write_table(records(batch, batches, keys, busy), source / f"{batch:03}.parquet")
        time.sleep(0.01)  # Files are read in order of their age.

    def seconds(name: str, writer: Callable[[DataFrame], DataStreamWriter]) -> float:
        files = spark.readStream.schema("k bigint, at timestamp_ntz, v double")
        frame = (
            files.option("maxFilesPerTrigger", 1)
            .parquet(str(source))
            .withColumn("at", F.expr("timestamp(at)"))
        )
        started = writer(frame).option("checkpointLocation", str(folder / name))
        query = started.trigger(availableNow=True).start()
        query.awaitTermination()
        with_rows = [one for one in query.recentProgress if one.numInputRows]
        assert len(with_rows) == batches
        return with_rows[-1].durationMs["triggerExecution"] / 1_000

    found = {}
    rows = FEATURES.emit("on_arrival")
    found["rows, to nobody"] = seconds("noop", lambda df: rows.apply(df, "at").writeStream.format("noop"))
    for kind, pages in tables.items():
        found[kind] = seconds(kind, lambda df, pages=pages: FEATURES.publish(df, "at", pages))
    spark.stop()
    return found


def _seconds_of_event(place: Path, number: int, features: Any, pages: SQLitePages) -> float:
    # Not in step with the triggers.
    time.sleep(0.37 * (1 + number % 5))
    table = pa.table({"k": [1], "at": pa.array([_EVENT_MS + number], pa.timestamp("ms", "UTC")), "v": [1.0]})
    pq.write_table(table, place / f".{number}")
    begin = time.perf_counter()
    (place / f".{number}").rename(place / f"{number}.parquet")
    with features.reader(pages) as reader:
        while True:
            try:
                if reader.get({"k": 1}, _ASKED)["n_1h"] > number:
                    return time.perf_counter() - begin
            except Exception:  # noqa: BLE001, S110 - nothing is published yet
                pass
            time.sleep(0.002)
