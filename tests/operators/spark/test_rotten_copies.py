"""A local copy in use whose bytes change on the disk between two batches of a stream."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from operators import TumblingWindows
from operators import aggregates as agg
from operators.spark.base.session import PARTITIONS_KEY

pytestmark = [pytest.mark.spark, pytest.mark.slow]
KEYS = 120_000
SMALL = {"state.rocksdb.writeBufferMb": 1, "state.rocksdb.blockCacheMb": 1}
"""Most pages are in tables of RocksDB, and few of them in its cache."""


@pytest.fixture
def one_bucket(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(PARTITIONS_KEY)
    spark.conf.set(PARTITIONS_KEY, "1")
    yield
    spark.conf.set(PARTITIONS_KEY, before)


def rot(table: Path) -> bytes:
    """Change 16 bytes in the middle of a file, and return all of it."""
    with table.open("r+b") as file:
        data = bytearray(file.read())
        middle = slice(len(data) // 2, len(data) // 2 + 16)
        data[middle] = bytes(byte ^ 255 for byte in data[middle])
        file.seek(middle.start)
        file.write(data[middle])
    return bytes(data)


@pytest.mark.usefixtures("one_bucket")
def test_tables_that_change_while_a_copy_is_in_use_lose_no_row(spark: SparkSession, tmp_path: Path) -> None:
    """The batch that reads them rebuilds the copy from the changelog."""
    source, state, out = (tmp_path / name for name in ("source", "state", "out"))
    source.mkdir()

    def give(number: int, keys: range, second: int) -> None:
        at = pa.array(np.full(len(keys), 1_000_000 * second), pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"k": np.array(keys), "at": at}), source / "_written")
        (source / "_written").rename(source / f"{number}.parquet")

    windows = TumblingWindows("1 minute").group_by("k").aggregate(n=agg.count())
    stream = spark.readStream.schema("k long, at timestamp").parquet(str(source))
    options = {"state.directory": str(state), **SMALL}
    rows = windows.apply(stream, event_time="at", backend="rocksdb", options=options)
    writing = rows.writeStream.format("parquet").option("path", str(out))
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for number, keys in enumerate((range(KEYS), range(0, KEYS, 3))):
            give(number, keys, number)
            query.processAllAvailable()
        rotten = {table: rot(table) for table in state.glob("*/*-rocksdb/*.sst")}
        give(2, range(1), 3_600)
        query.processAllAvailable()
    finally:
        query.stop()
    assert rotten
    assert not [table for table, data in rotten.items() if table.exists() and table.read_bytes() == data]
    found = spark.read.parquet(str(out)).toArrow()
    assert KEYS == len(set(found["k"].to_pylist())) == found.num_rows
    assert Counter({1: KEYS - KEYS // 3, 2: KEYS // 3}) == Counter(found["n"].to_pylist())
