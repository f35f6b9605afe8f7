"""A driver that publishes features and is stopped between the two commits of a batch.

python -m tests.faults.pages FOLDER BACKEND TABLE PLACE: the files of FOLDER/plan name the batches, and how each is stopped.
"""

import datetime as dt
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from operators import RollingAggregation, spark_session
from operators.sinks import (
    Changes,
    PageFinder,
    PageTable,
    PostgresPages,
    RedisPages,
    SQLitePages,
    WrittenBatch,
)
from tests.faults.stops import run_to_the_end, stop_as_planned
from tests.operators.spark.frames import operator, session_conf, stream

KEYS = [None, *(f"key-{n}" for n in range(7)), "unknown"]
"""The keys that are asked for."""
TABLES = {"sqlite": SQLitePages, "postgres": PostgresPages, "redis": RedisPages}


def features() -> RollingAggregation:
    """What is published."""
    made = operator("on_arrival", "rolling")
    assert isinstance(made, RollingAggregation)
    return made


def table_of(kind: str, place: str) -> PageTable:
    """Return the table of a kind at a place."""
    table: PageTable = TABLES[kind](place, "pages")
    return table


def expected(folder: Path, at: dt.datetime) -> list[dict[str, Any]]:
    """What labels of all keys get from all records at once."""
    records = pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])
    type_ = records.schema.field("at").type
    labels = pa.table({"k": pa.array(KEYS, pa.string()), "asked": pa.array([at] * len(KEYS), type_)})
    with features().local_runner_as_of("asked", "at") as runner:
        rows = runner.process(labels, records, stream_time=at + dt.timedelta(hours=1))
    found = {row["k"]: row for row in rows.drop_columns("asked").to_pylist()}
    return [found[key] for key in KEYS]


@dataclass(frozen=True)
class StoppingPages(PageTable):
    """A table that stops after the batches of the plan: "raise" ends the query, "wait" waits to be killed."""

    pages: PageTable
    folder: Path = field(default_factory=Path)

    def check(self) -> None:
        self.pages.check()

    def write(self, changes: Changes) -> bool:
        """Write a batch; note whether it was in the table before, and whether it is stopped here."""
        written = self.pages.write(changes)
        if not written:
            (self.folder / "repeated" / str(changes.batch)).touch()
        stop_as_planned(self.folder, changes.batch)
        return written

    def last_batch(self, query: str) -> WrittenBatch | None:
        return self.pages.last_batch(query)

    def finder(self) -> AbstractContextManager[PageFinder]:
        return self.pages.finder()

    def remove(self, edition: int) -> None:
        self.pages.remove(edition)


def run(spark: SparkSession, folder: Path, backend: str, pages: PageTable) -> None:
    """Run the query to the end of its input; start it again whenever it was stopped."""

    def start() -> StreamingQuery:
        writer = features().publish(stream(spark, folder / "in"), "at", pages, backend=backend)
        return writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    run_to_the_end(start)


def main(folder: Path, backend: str, kind: str, place: str) -> None:
    """Run the query in a session of its own."""
    conf = {**session_conf(folder / "local"), "spark.sql.session.timeZone": "UTC"}
    spark = spark_session("pages", master="local[2]", buckets=2, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    run(spark, folder, backend, StoppingPages(table_of(kind, place), folder))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
