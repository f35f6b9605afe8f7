"""Where the changelog lives: named blobs that become durable together.

On Spark a journal is a MapState of the bucket, committed with the micro-batch. The two here serve the local runner.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

Blob = bytes | Callable[[], bytes]
"""A blob, or what makes it: a journal that only keeps it in memory need not make it before it is read."""


def made(blob: Blob) -> bytes:
    """Return the blob's bytes."""
    return blob if isinstance(blob, bytes) else blob()


class Journal(Protocol):
    """Named blobs. What was put before the put of "pointer" is durable once that one is."""

    def get(self, name: str) -> bytes | None:
        """Return the blob, or None."""

    def put(self, name: str, blob: Blob) -> None:
        """Write the blob, over an earlier one of that name."""

    def remove(self, name: str) -> None:
        """Remove the blob if it is there."""


class MemoryJournal:
    """Blobs in a dictionary: for a runner that need not outlive its process."""

    def __init__(self) -> None:
        self._blobs: dict[str, Blob] = {}

    def get(self, name: str) -> bytes | None:
        blob = self._blobs.get(name)
        return None if blob is None else made(blob)

    def put(self, name: str, blob: Blob) -> None:
        self._blobs[name] = blob

    def remove(self, name: str) -> None:
        self._blobs.pop(name, None)


class FileJournal:
    """One file a blob, each written aside and renamed, so that a crash leaves the old one or the new one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> bytes | None:
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, name: str, blob: Blob) -> None:
        aside = self._directory / f"{name}.part"
        aside.write_bytes(made(blob))
        aside.replace(self._directory / name)

    def remove(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)
