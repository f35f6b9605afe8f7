"""Batches for local runners whose keys come and go, and the runners that keep snapshots."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from operators.runtime.local import LocalRunner
from tests.operators.spark.frames import BASE_US, operator

ROWS = 200
"""Records of a batch."""
CACHE_MB = "8"
"""Of RocksDB. It is full after some hundred batches; the default would be after thousands, also with a small state."""


def batch(number: int) -> pa.Table:
    """Ten seconds of event time, out of order, of keys that are new every fifth batch."""
    row = np.arange(number * ROWS, (number + 1) * ROWS)
    ms = number * 10_000 + row % ROWS * 50 - row * 7_919 % 3_000
    return pa.table(
        {
            "k": [f"key-{one // (5 * ROWS)}-{one % 8}" for one in row.tolist()],
            "at": pa.array(BASE_US + ms * 1_000, pa.timestamp("us", "UTC")),
            "v": row * 31 % 200 - 100,
            "x": row * 17 % 1_000 / 8,
        }
    )


def runner(backend: str, directory: Path, snapshots: str | Path, size: str = "64k") -> LocalRunner:
    """A runner with a directory, and with snapshots after that many bytes of changes."""
    options = {
        "state.snapshots.folder": str(snapshots),
        "state.snapshots.bytes": size,
        "state.rocksdb.blockCacheMb": CACHE_MB,
    }
    return operator().local_runner("at", backend, directory, options)


def rows(table: pa.Table) -> list[str]:
    """The rows of a table in order, as text."""
    return sorted(map(repr, table.to_pylist()))


def undisturbed(batches: int) -> list[list[str]]:
    """The rows of each batch, where nothing goes wrong."""
    with operator().local_runner("at") as twin:
        return [rows(twin.process(batch(number))) for number in range(batches)]
