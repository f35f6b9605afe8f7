"""A stream of eight buckets on four cores, whose aggregates store decimals, dates and large numbers.

    python -m tests.operators.spark.many_buckets FOLDER BACKEND

prints a line of JSON: the rows of all windows, as the stream emits them, and as a bounded frame of the same files has them; and
how many buckets each process for state has in the end.
"""

import json
import sys
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from operators import TumblingWindows, spark_session
from operators import aggregates as agg
from tests.operators.spark.frames import session_conf, use_up, write_numbered
from tests.state_processes import holders, is_state_process

BATCHES, ROWS, KEYS = 15, 400, 40
SCHEMA = "k string, at timestamp, amount decimal(30, 3), day date, number bigint"


def large(state: list[Any], number: int, amount: Decimal) -> list[Any]:
    """Keep some of what needs calls of Python to be packed."""
    return [*state, 2**64 + number, amount][-6:]


OPERATOR = (
    TumblingWindows("5 minutes")
    .group_by("k")
    .aggregate(
        amounts=agg.collect_list("amount"),
        days=agg.collect_list("day"),
        folded=agg.fold(list, large, "number", "amount", type="string", finish=str),
    )
)


def put(source: Path, batch: int) -> None:
    """Write the file of a batch. Each moves the watermark by a minute."""
    rows = range(batch * ROWS, (batch + 1) * ROWS)
    at = [batch * 60_000_000 + row for row in rows]
    table = pa.table(
        {
            "k": [f"key-{row * 7 % KEYS}" for row in rows],
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "amount": pa.array([Decimal(row**5) / 1_000 for row in rows], pa.decimal128(30, 3)),
            "day": [date(2000, 1, 1) + timedelta(row) for row in rows],
            "number": list(rows),
        }
    )
    write_numbered(table, source, batch)


def rows(frame: DataFrame, before: str) -> list[str]:
    """The rows of windows that end before a time, as text, in order."""
    return sorted(str(row) for row in frame.where(f"window.end < timestamp'{before}'").collect())


def buckets_of_processes(folder: Path) -> list[int]:
    """How many buckets each process has whose copies are in a folder."""
    held = Counter(
        number for lock in folder.glob("**/*.lock") for number in holders(lock) if is_state_process(number)
    )
    return sorted(held.values())


def main(folder: Path, backend: str) -> None:
    """Run the query, in a session of its own."""
    conf = {**session_conf(folder), "spark.sql.session.timeZone": "UTC"}
    spark = spark_session("many", master="local[4]", buckets=8, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    source = folder / "in"
    source.mkdir()
    for batch in range(BATCHES):
        put(source, batch)
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    local = {"state.directory": str(folder / "state")}
    out = OPERATOR.apply(files, "at", backend=backend, options=local)
    writer = out.writeStream.format("parquet").option("path", str(folder / "out"))
    use_up(writer.option("checkpointLocation", str(folder / "checkpoint")).start)
    bounded = OPERATOR.apply(spark.read.schema(SCHEMA).parquet(str(source)), "at")
    streamed = spark.read.schema(out.schema).parquet(str(folder / "out"))
    end = "1970-01-01 00:14:00"
    told = {
        "streamed": rows(streamed, end),
        "bounded": rows(bounded, end),
        "buckets": buckets_of_processes(folder),
    }
    print(json.dumps(told))  # noqa: T201 - read by a test
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
