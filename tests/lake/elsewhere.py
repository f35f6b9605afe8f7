"""A driver that merges batches into a table of each format, beside others.

python -m tests.lake.elsewhere FOLDER TABLE QUERY BATCHES
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from operators.sinks import merge_to
from tests.lake.conftest import FORMATS, Place, place_of, session
from tests.lake.test_merge import SIMPLE, window


def merge_batch(spark: SparkSession, table: Place, query: str, batch: int) -> None:
    """Merge a row that all queries write, and one of the query's own."""
    rows = spark.createDataFrame([("all", window(0), batch), (query, window(0), batch)], SIMPLE)
    merge_to(table.name, keys=["user"], query=query)(rows, batch)


def main(folder: Path, table: str, query: str, batches: int) -> None:
    """Merge the batches."""
    spark = session(folder)
    for batch in range(batches):
        for format_ in FORMATS:
            merge_batch(spark, place_of(folder, format_, table), query, batch)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
