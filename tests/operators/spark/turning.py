"""Queries in turn, each stopped before the next one starts; one of them fails at its start.

    python -m tests.operators.spark.turning FOLDER TURNS

prints a line of JSON after each: the processes for state that the workers' daemons have, and the rows of the query's batch.
Then it waits until its input ends.
"""

import json
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from operators import spark_session
from tests.operators.spark.outliving import children, java, put, seen, started
from tests.state_processes import state_processes


def fails(spark: SparkSession, home: Path) -> None:
    """Start another operator on the checkpoint of a query, which its tasks refuse."""
    put(home / "source", 1)
    try:
        started(spark, home, "memory", "2 days").processAllAvailable()
    except StreamingQueryException:
        return
    raise AssertionError("it has worked")


def main(folder: str, turns: str) -> None:
    """Run the queries."""
    spark = spark_session("turning", master="local[2]", buckets=2, conf={"spark.ui.enabled": "false"})
    for turn in range(int(turns)):
        home = Path(folder) / str(turn)
        (home / "source").mkdir(parents=True)
        put(home / "source", 0)
        query = started(spark, home, "memory")
        query.processAllAvailable()
        rows = seen(query)["rows"]
        query.stop()
        if not turn:
            fails(spark, home)
        processes = state_processes(children(java(), b"daemon"))
        sys.stdout.write(json.dumps({"processes": processes, "rows": rows}) + "\n")
        sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
