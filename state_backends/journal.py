"""Where the changelog lives: named blobs that become durable together.

On Spark a journal is a MapState of the bucket, committed with the micro-batch. The local runner has one in memory, or in a
file (`sqlite_journal`).
"""

from collections.abc import Callable
from typing import Protocol

Blob = bytes | Callable[[], bytes]
"""A blob, or a function that returns it: a journal in memory calls it only when the blob is read."""


def blob_bytes(blob: Blob) -> bytes:
    """Return the blob's bytes."""
    return blob if isinstance(blob, bytes) else blob()


class Journal(Protocol):
    """Named blobs that change all at once."""

    def get(self, name: str) -> bytes | None:
        """Return the blob, or None. Sees what was put and removed since the last commit."""

    def put(self, name: str, blob: Blob) -> None:
        """Write the blob, over an earlier one of that name."""

    def remove(self, name: str) -> None:
        """Remove the blob if it is there."""

    def commit(self) -> None:
        """Make what was put and removed since the last commit durable, all or nothing."""

    def rollback(self) -> None:
        """Undo what was put and removed since the last commit."""


class MemoryJournal:
    """Blobs in a dictionary, for a runner whose state ends with its process."""

    def __init__(self) -> None:
        self._blobs: dict[str, Blob] = {}
        self._staged: dict[str, Blob | None] = {}

    def get(self, name: str) -> bytes | None:
        blob = self._staged[name] if name in self._staged else self._blobs.get(name)
        return None if blob is None else blob_bytes(blob)

    def put(self, name: str, blob: Blob) -> None:
        self._staged[name] = blob

    def remove(self, name: str) -> None:
        self._staged[name] = None

    def commit(self) -> None:
        for name, blob in self._staged.items():
            if blob is None:
                self._blobs.pop(name, None)
            else:
                self._blobs[name] = blob
        self._staged.clear()

    def rollback(self) -> None:
        self._staged.clear()
