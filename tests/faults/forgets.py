"""A driver whose query forgets keys, and which is killed meanwhile: python -m tests.faults.forgets FOLDER BACKEND.

It reads FOLDER/in until there is FOLDER/end, and touches FOLDER/began when the query has started.
"""

import sys
import time
from pathlib import Path
from typing import Any

from operators import TumblingWindows, spark_session
from operators import aggregates as agg
from operators.sinks import SQLiteSink, upsert_to
from tests.operators.spark.frames import session_conf, use_up

OPERATOR = TumblingWindows("1 day", grace="1 day").group_by("k").aggregate(n=agg.count()).emit("on_update")


def main(folder: Path, backend: str) -> None:
    """Run the query, in a session of its own."""
    conf = {**session_conf(folder / "local"), "spark.sql.session.timeZone": "UTC"}
    spark = spark_session("forgets", master="local[2,4]", buckets=3, conf=conf)
    spark.sparkContext.setLogLevel("WARN")
    options = {"state.forget.folder": folder / "forget", "state.snapshots.folder": folder / "snapshots"}
    write = upsert_to(SQLiteSink(str(folder / "rows.db"), "people"), keys=["k"])

    def start() -> Any:
        files = spark.readStream.schema("k string, at timestamp").option("maxFilesPerTrigger", 1)
        rows = OPERATOR.apply(files.parquet(str(folder / "in")), "at", backend=backend, options=options)
        writer = rows.writeStream.foreachBatch(write)
        return writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    query = start()
    (folder / "began").touch()
    while query.isActive and not (folder / "end").exists():
        time.sleep(0.05)
    use_up(start, query)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
