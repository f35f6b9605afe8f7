"""The backend that keeps pages in Python dictionaries."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from state_backends.chunks import key_chunks, pieces
from state_backends.interface import StateBackend, WriteBatch


class MemoryBackend(StateBackend):
    """Pages in one dictionary per segment. Reads and writes cost O(1) each; a restart replays the changelog."""

    def __init__(self) -> None:
        self._segments: dict[int, dict[bytes, bytes]] = {}
        self._version: bytes | None = None

    @classmethod
    def open(cls, directory: Path, options: Mapping[str, str]) -> "MemoryBackend":
        del directory, options
        return cls()

    @property
    def version(self) -> bytes | None:
        return self._version

    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._segments.get(segment, {}).get, keys))

    def write(self, batch: WriteBatch, version: bytes) -> None:
        # All of the batch is read before anything changes: what raises here leaves the pages as they are.
        deletes = [(segment, list(keys)) for segment, keys in batch.deletes.items()]
        puts = [(segment, dict(pages)) for segment, pages in batch.puts.items()]
        if batch.drop_segments_below is not None:
            for segment in [number for number in self._segments if number < batch.drop_segments_below]:
                del self._segments[segment]
        for segment, keys in deletes:
            pages = self._segments.get(segment, {})
            for key in keys:
                pages.pop(key, None)
            if not pages:
                self._segments.pop(segment, None)
        for segment, pages in puts:
            if pages:
                self._segments.setdefault(segment, {}).update(pages)
        self._version = version

    def iterate(self, segment: int) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._segments.get(segment, {}).items())

    def scan_keys(self, segment: int) -> Iterator[list[bytes]]:
        return key_chunks(pieces(iter(self._segments.get(segment, {}))))

    def segments(self) -> list[int]:
        return sorted(self._segments)

    def clear(self) -> None:
        self._segments.clear()
        self._version = None

    def close(self) -> None:
        self.clear()
