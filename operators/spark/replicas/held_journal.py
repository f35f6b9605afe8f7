"""The journal of a bucket as work on the bucket sees it: nothing is written to it before all is done."""

from collections.abc import Callable, Iterator
from pathlib import Path

from operators.spark.inputs.spool import Spool
from state_backends.journal import Blob, blob_bytes

_LARGE_BYTES = 1 << 20
"""Bytes of a blob from which on it may be in a file: parts of snapshots."""


class HeldJournal:
    """A journal whose changes are kept, so that the work can begin again, and that another process can write them.

    Args:
        read: returns a blob of the bucket's journal, or None.
        folder: the directory of local state, for what is too large for memory.
    """

    def __init__(self, read: Callable[[str], bytes | None], folder: Path) -> None:
        self._read = read
        self._held: dict[str, bytes | int | None] = {}
        """Blobs, positions of large ones, and None for those that are removed."""
        self._large = Spool(folder)

    def get(self, name: str) -> bytes | None:
        """Return the blob, or None. Sees what was put and removed."""
        return self._blob(self._held[name]) if name in self._held else self._read(name)

    def put(self, name: str, blob: Blob) -> None:
        """Keep the blob: as bytes, since a function that makes them may hold a whole snapshot."""
        data = blob_bytes(blob)
        self._held[name] = data
        if len(data) >= _LARGE_BYTES:
            self._held[name] = len(self._large)
            self._large.extend([data])

    def remove(self, name: str) -> None:
        """Have the blob removed when the work is done."""
        self._held[name] = None

    def commit(self) -> None:
        """Keep the changes."""

    def rollback(self) -> None:
        """Forget the changes."""
        self._held.clear()
        self._large.close()

    def changes(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield the names that were changed, with their blobs; None for one that was removed."""
        return ((name, self._blob(held)) for name, held in self._held.items())

    def _blob(self, held: bytes | int | None) -> bytes | None:
        return self._large[held] if isinstance(held, int) else held
