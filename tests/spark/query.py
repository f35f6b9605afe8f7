"""A streaming query in a process of its own, to be killed: python -m tests.spark.query FOLDER BACKEND KIND."""

import sys
from pathlib import Path

from operators import spark_session
from tests.spark.frames import operator, run_query, session_conf, stream


def main(folder: Path, backend: str, kind: str) -> None:
    """Run the query over folder/in into folder/out until its input is used up."""
    spark = spark_session("killed", master="local[2]", buckets=3, conf=session_conf(folder))
    spark.sparkContext.setLogLevel("ERROR")
    frame = operator(kind=kind).apply(stream(spark, folder / "in"), event_time="at", backend=backend)
    run_query(frame, folder / "out", folder / "checkpoint")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
