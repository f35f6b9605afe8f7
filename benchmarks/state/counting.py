"""The backend rocksdb, which also counts the keys that it is asked for."""

from collections.abc import Sequence

from state_backends.backends.rocksdb import RocksDBBackend

COUNTED = "benchmarks.state.counting:CountedRocksDB"
"""Its name in the configuration."""
_asked = {"keys": 0}


class CountedRocksDB(RocksDBBackend):
    """A store that counts."""

    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        _asked["keys"] += len(keys)
        return super().get_many(segment, keys)


def lookups() -> int:
    """Return how many keys all stores of this process were asked for."""
    return _asked["keys"]
