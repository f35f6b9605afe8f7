"""Merges of both formats on two executors, one of which is killed in the middle of a MERGE.

python -m tests.lake.lost_executor FOLDER

FOLDER/found.json then has what came of each.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from operators.sinks import merge_to
from tests.faults.processes import kill_all, running
from tests.lake.conftest import FORMATS, Place, place_of, session

ROWS, TRIES, PARTS = 20_000, 6, 4
_COMMITS = {
    "delta": "spark.databricks.delta.write.txnAppId",
    "iceberg": "spark.sql.iceberg.snapshot-property.windows.batch",
}
"""The session has it while the statement runs."""


def main(folder: Path) -> None:
    """Merge batches until one begins anew."""
    (folder / "scans").mkdir()
    master = {"spark.master": f"local-cluster[2,{PARTS // 2},1024]", "spark.driver.host": "127.0.0.1"}
    spark = session(folder, **master)
    spark.sql("CREATE NAMESPACE lake.db")
    found = [merged(spark, folder, place_of(folder, name, "lost")) for name in FORMATS]
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


def rows_of(spark: SparkSession, scans: Path, batch: int) -> DataFrame:
    """Rows that have another value each time that they are computed, which leaves a file."""
    folder = str(scans)

    def computed(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        scan = uuid4().hex
        Path(folder, scan).touch()
        for frame in frames:
            yield frame.assign(scan=scan)

    rows = spark.range(0, ROWS, 1, PARTS).selectExpr("id", f"id % {PARTS} AS part", f"{batch} AS batch")
    return rows.mapInPandas(computed, "id bigint, part bigint, batch int, scan string")


def merged(spark: SparkSession, folder: Path, place: Place) -> dict[str, Any]:
    """What became of a table: how often rows were computed after each kill, and which batches it had then."""
    scans, merge = folder / "scans", merge_to(place.name, keys=["id"], query="q")
    merge(rows_of(spark, scans, 0), 0)
    anew = list[int]()
    batch = 0
    while not any(anew) and batch < TRIES:
        batch += 1
        counts = list[int]()
        killer = threading.Thread(target=kill_in_merge, args=(spark, place.format, scans, counts))
        killer.start()
        merge(rows_of(spark, scans, batch), batch)
        killer.join()
        anew.append(count(scans) - counts[0])
    there = sorted({row[0] for row in spark.sql(f"SELECT DISTINCT batch FROM {place.name}").collect()})
    return {"anew": anew, "there": there, "batch": batch}


def count(folder: Path) -> int:
    """How many files there are."""
    return sum(1 for _ in folder.iterdir())


def kill_in_merge(spark: SparkSession, format_: str, scans: Path, counts: list[int]) -> None:
    """Wait for a job of the statement that commits, note how often rows were computed, and kill an executor."""
    tracker = spark.sparkContext.statusTracker()
    while spark.conf.get(_COMMITS[format_], None) is None or not tracker.getActiveJobsIds():
        time.sleep(0.005)
    counts.append(count(scans))
    kill_all(running(os.getpid(), "CoarseGrainedExecutorBackend")[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
