"""A query whose metrics are exported, for tests that follow the runbook."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from operators import report_batches
from operators.monitoring import PrometheusOutput
from tests.operators.monitoring.rules import Samples, scrape
from tests.operators.spark.frames import BASE_US, stream, write_numbered
from tests.patience import wait_until

ROWS = 40
"""Of each file."""


def write(folder: Path, number: int, at: int = BASE_US, key: str = "a") -> None:
    """Write a file of records of one key, so that one bucket works: 4 s of them, 100 ms apart.

    Args:
        folder: of the files.
        number: of the file.
        at: when the first file begins, in microseconds since 1970.
        key: of the records.
    """
    folder.mkdir(exist_ok=True)
    ms = [4_000 * number + 100 * n for n in range(ROWS)]
    times = pa.array([at + 1_000 * each for each in ms], pa.timestamp("us", "UTC"))
    table = {"k": [key] * ROWS, "at": times, "v": [1] * ROWS, "x": [1.0] * ROWS}
    write_numbered(pa.table(table), folder, number)


class Query:
    """A query over the files in a folder, which may be started again on its checkpoint.

    Args:
        spark: the session.
        home: the folder of its folders: `in`, `out` and `cp`.
    """

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.home = home
        self.output = PrometheusOutput()
        self._spark = spark

    @contextmanager
    def running(self, rows: DataFrame, trigger: str = "0 seconds") -> Iterator[Any]:
        """The query, which ends with the block."""
        listener = report_batches(self._spark, self.output)
        writer = rows.writeStream.format("parquet").option("path", str(self.home / "out"))
        writer = writer.option("checkpointLocation", str(self.home / "cp")).trigger(processingTime=trigger)
        query = writer.queryName(self.home.name).start()
        try:
            yield query
        finally:
            query.stop()
            self._spark.streams.removeListener(listener)

    def run(self, op: Any, **how: Any) -> tuple[Samples, list[dict[str, int]]]:
        """Run over the files that it has not read; return what is exported at the end, and the counts of its batches."""
        rows = op.apply(stream(self._spark, self.home / "in"), "at", **how)
        with self.running(rows) as query:
            query.processAllAvailable()
            exported = self.exported(query)
            observed = [each["observedMetrics"] for each in query.recentProgress]
        return exported, [each["windows_out"]["counts"] for each in observed if each]

    def exported(self, query: Any) -> Samples:
        """What is exported after the last batch, of which Spark tells its listeners some time after it."""
        began = datetime.fromisoformat(query.lastProgress["timestamp"].replace("Z", "+00:00")).timestamp()

        def told() -> float:
            return scrape(self.output, query.name).get("windows_last_batch_timestamp_seconds", 0.0)

        wait_until(lambda: told() >= began, "the last batch", told)
        return scrape(self.output, query.name)
