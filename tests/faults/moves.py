"""A driver that brings state from place to place: out of a history, through a stream and a savepoint, into other aggregates.

python -m tests.faults.moves FOLDER BACKEND: does what is left to do, says which part it begins, and judges all rows.
"""

import json
import sys
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import SlidingWindows, WindowedAggregation, spark_session
from operators import aggregates as agg
from state_backends import write_savepoint
from state_backends.checkpoints.savepoint import HEADER
from tests.faults.plans import BACKENDS
from tests.operators.spark.frames import BASE_US, SCHEMA, rows, session_conf, stream, use_up

PARTS = ("history", "stream", "savepoint", "evolution")
FILES, HISTORY, FIRST = 9, 3, 6
"""How many files of ten seconds there are, and before which of them the history and the first stream end."""

_WINDOWS = SlidingWindows("2 seconds", grace="8 seconds").group_by("k")
_BEFORE = _WINDOWS.aggregate(n=agg.count(), low=agg.min("v"))
_AFTER = _WINDOWS.aggregate(n=agg.count(), mean=agg.avg("x"))
_CUT = datetime.fromtimestamp(BASE_US // 1_000_000, timezone.utc) + timedelta(seconds=10 * HISTORY)


class Moves:
    """The parts, in their order; each does nothing if it is done."""

    def __init__(self, spark: SparkSession, folder: Path, backend: str) -> None:
        self._spark = spark
        self._folder = folder
        self._backends = backend, BACKENDS[BACKENDS.index(backend) - 1]

    def all(self) -> None:
        """Do all parts."""
        for part in PARTS:
            (self._folder / "began" / part).touch()
            getattr(self, f"_{part}")()

    def verdict(self) -> dict[str, int]:
        """Return how many rows there are, are missing, and should not be there."""
        close = self._records().selectExpr("max(at) - interval 8 seconds").first()[0]
        whole = _BEFORE.apply(self._records(), "at")
        wanted = Counter(_counted(whole.where(whole["window"]["end"] < F.lit(close))))
        found = Counter(_counted(_BEFORE.apply(self._past(), "at", close_time=_CUT)))
        for number, operator in enumerate((_BEFORE, _AFTER)):
            schema = operator.apply(self._records(), "at").schema
            out = self._folder / f"out-{number}"
            found += Counter(_counted(self._spark.read.schema(schema).parquet(str(out))))
        missing, extra = wanted - found, found - wanted
        return {"rows": found.total(), "missing": missing.total(), "extra": extra.total()}

    def _history(self) -> None:
        if not (self._folder / "history" / HEADER).exists():
            _BEFORE.savepoint(self._past(), "at", self._folder / "history", _CUT)

    def _stream(self) -> None:
        self._run(0, _BEFORE, {"state.savepoint": self._folder / "history"})

    def _savepoint(self) -> None:
        if not (self._folder / "saved" / HEADER).exists():
            write_savepoint(self._folder / "checkpoint-0", self._folder / "saved")

    def _evolution(self) -> None:
        options = {"state.savepoint": self._folder / "saved", "state.evolution": "adapt"}
        self._run(1, _AFTER, options)

    def _run(self, number: int, operator: WindowedAggregation, options: dict[str, Any]) -> None:
        """Run a query over its files until they are used up."""
        if (self._folder / f"used-{number}").exists():
            return
        source = stream(self._spark, self._folder / f"in-{number}").where(F.col("at") >= F.lit(_CUT))
        frame = operator.apply(source, "at", backend=self._backends[number], options=options)
        writer = frame.writeStream.format("parquet").option("path", str(self._folder / f"out-{number}"))
        use_up(writer.option("checkpointLocation", str(self._folder / f"checkpoint-{number}")).start)
        (self._folder / f"used-{number}").touch()

    def _records(self) -> DataFrame:
        return self._spark.read.schema(SCHEMA).parquet(str(self._folder / "all"))

    def _past(self) -> DataFrame:
        return self._records().where(F.col("at") < F.lit(_CUT))


def _counted(frame: DataFrame) -> list[tuple[Any, ...]]:
    return rows(frame.select("window", "k", "n"))


def main(folder: Path, backend: str) -> None:
    """Do what is left, and write the verdict."""
    conf = {
        **session_conf(folder / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.windows.state.snapshots.folder": str(folder / "snapshots"),
        "spark.windows.state.snapshots.bytes": "8k",
        # A query that was killed before its first batch began is started again on its checkpoint.
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    }
    spark = spark_session("moves", master="local[2,4]", buckets=2, conf=conf)
    spark.sparkContext.setLogLevel("WARN")
    moves = Moves(spark, folder, backend)
    moves.all()
    (folder / "verdict").write_text(json.dumps(moves.verdict()))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
