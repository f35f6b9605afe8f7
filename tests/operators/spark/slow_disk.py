"""RocksDB on a disk that is slow for a while: a write takes as many seconds as the file `slow` beside the buckets says."""

import time
from collections.abc import Mapping
from pathlib import Path

from state_backends import WriteBatch
from state_backends.backends.rocksdb import RocksDBBackend

NAME = f"{__name__}:SlowDisk"
"""The backend, as `apply` takes it."""


class SlowDisk(RocksDBBackend):
    """The backend whose writes wait."""

    def __init__(self, directory: Path, options: Mapping[str, str]) -> None:
        super().__init__(directory, options)
        self._said = [folder / "slow" for folder in directory.parents]

    def write(self, batch: WriteBatch, version: bytes) -> None:
        """Write, and wait."""
        super().write(batch, version)
        for file in self._said:
            if file.exists():
                time.sleep(float(file.read_text()))
