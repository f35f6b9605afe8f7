"""A driver that writes sessions to tables of both formats, and waits to be killed between their commits and Spark's.

python -m tests.lake.kills FOLDER

The files of FOLDER/plan name the batches, and how each is stopped, once: tests.faults.stops.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from operators import spark_session
from operators.sinks import merge_to
from tests.faults.stops import run_to_the_end, stop_as_planned
from tests.lake.conftest import FORMATS, conf_of, place_of
from tests.operators.spark.frames import operator, stream


def main(folder: Path) -> None:
    """Run the query to the end of its input; start it again whenever it was stopped."""
    spark = spark_session("kills", master="local[2]", buckets=2, conf=conf_of(folder))
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    places = [place_of(folder, format_, "sessions") for format_ in FORMATS]
    merges = [merge_to(place.name, keys=["k"]) for place in places]

    def write(rows: DataFrame, batch: int) -> None:
        rows = rows.persist()
        for place, merge in zip(places, merges, strict=True):
            before = place.newest() if place.path.exists() else None
            merge(rows, batch)
            if (folder / "stopped" / str(batch)).exists() and place.newest() == before:
                (folder / "repeated" / f"{batch}-{place.format}").touch()
        rows.unpersist()
        stop_as_planned(folder, batch)

    def start() -> StreamingQuery:
        windows = operator("on_update", "session").apply(stream(spark, folder / "in"), event_time="at")
        return (
            windows.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    run_to_the_end(start)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
