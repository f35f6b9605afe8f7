"""A small stream, as a user of a platform writes one; it is run with an interpreter that has no source tree."""

import os
import sys
from pathlib import Path

import google.protobuf
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from operators import TumblingWindows, spark_session
from operators import aggregates as agg

folder = Path(sys.argv[1])
(folder / "in").mkdir()
for number, minutes in enumerate([(0, 1, 2), (61,), (200,)]):
    at = pa.array([minute * 60_000_000 for minute in minutes], pa.timestamp("us", "UTC"))
    table = pa.table({"k": ["a"] * len(minutes), "at": at})
    path = folder / "in" / f"{number}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + number,) * 2)  # The order in which Spark reads them.
spark = spark_session("platform", master="local[2]", buckets=2)
spark.sparkContext.setLogLevel("ERROR")
stream = spark.readStream.schema("k string, at timestamp").option("maxFilesPerTrigger", 1)
hourly = TumblingWindows("1 hour").group_by("k").aggregate(n=agg.count())
for backend in ("memory", "rocksdb"):
    rows = hourly.apply(stream.parquet(str(folder / "in")), "at", backend=backend)
    writer = rows.writeStream.format("parquet").option("path", str(folder / backend))
    query = writer.option("checkpointLocation", str(folder / f"{backend}-checkpoint")).start()
    query.processAllAvailable()
    query.stop()
    found = pq.read_table(folder / backend).to_pylist()
    print(backend, [row["n"] for row in sorted(found, key=lambda row: row["window"]["start"])])  # noqa: T201 - what the test reads
versions = (module.__version__ for module in (pyspark, google.protobuf, pa, pd, np))
print(*versions, pyspark.__file__)  # noqa: T201 - what the test reads
