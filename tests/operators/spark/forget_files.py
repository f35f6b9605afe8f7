"""A query that forgets a key, and which files have the key before and after.

    python -m tests.operators.spark.forget_files FOLDER BACKEND [false]

prints a line of JSON. `false` leaves out the compaction of Spark's files, to see what that is for.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from operators import TumblingWindows, spark_session
from operators import aggregates as agg
from operators.runtime.forget_requests import key_columns
from operators.runtime.keys_to_forget import encoded_keys
from state_backends.durability.request_folder import RequestFolder
from tests.key_bytes import holding

GONE, OTHER = "SECRET-PERSON-ONE", "ANOTHER-PERSON-TWO"
STORE = "spark.sql.streaming.stateStore"
WAIT_S = 60.0


def conf(compacts: str) -> dict[str, str]:
    """A session that keeps few versions, and stores bytes so that they can be found."""
    return {
        f"{STORE}.rocksdb.compactOnCommit": compacts,
        f"{STORE}.rocksdb.compression": "none",
        f"{STORE}.compression.codec": "zstd",
        f"{STORE}.minDeltasForSnapshot": "2",
        f"{STORE}.maintenanceInterval": "500ms",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }


def main(folder: Path, backend: str, compacts: str = "true") -> None:
    """Run the query and print what was found."""
    spark = spark_session("forget", master="local[2]", buckets=1, conf=conf(compacts))
    spark.sparkContext.setLogLevel("ERROR")
    source, requests, number = folder / "in", folder / "forget", 0
    source.mkdir()
    options = {
        "state.directory": folder / "local",
        "state.forget.folder": requests,
        "state.rocksdb.compression": "none",
    }
    if backend != "spark":
        options |= {
            "state.snapshots.folder": folder / "snapshots",
            "state.snapshots.batches": 3,
            "state.snapshots.retain": 2,
        }
    op = TumblingWindows("1 day").group_by("k").aggregate(n=agg.count())
    stream = spark.readStream.schema("k string, at timestamp").parquet(str(source))
    rows = op.apply(stream, "at", backend=backend, options=options)
    checkpoint = folder / "checkpoint"
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()

    def put(*keys: str) -> None:
        nonlocal number
        number += 1
        at = pa.array([number * 1_000] * len(keys), pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"k": list(keys), "at": at}), source / ".writing")
        (source / ".writing").rename(source / f"{number}.parquet")
        query.processAllAvailable()

    def everywhere(key: str) -> list[str]:
        return [
            f"{place.name}/{file}"
            for place in (checkpoint, folder / "snapshots", folder / "local", requests)
            for file in holding(place, key)
        ]

    for _ in range(5):
        put(GONE, OTHER)
    told = {"before": everywhere(GONE)}
    RequestFolder(str(requests), later_ms=0).write(
        "windows", encoded_keys([{"k": GONE}], key_columns(requests).keys)
    )
    deadline, batches = time.monotonic() + WAIT_S, 0
    for batches in range(1, 40):
        put(OTHER)
        if batches > 4 and not everywhere(GONE):
            break
        if time.monotonic() > deadline:
            break
    told |= {"after": everywhere(GONE), "batches": batches, "other": everywhere(OTHER)}
    query.stop()
    print(json.dumps(told))  # noqa: T201 - read by a test
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
