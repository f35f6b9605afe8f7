"""All pages of a backend in parts of a few MiB, and a backend filled from such parts."""

from collections.abc import Iterable, Iterator

from state_backends.interface import StateBackend, WriteBatch

PART_BYTES = 4 << 20
"""A part ends with the page that makes it this large, in bytes of keys and pages."""
_INCOMPLETE = b"restoring"
"""The version of an incomplete store. No pointer has it, so that after a crash the store is restored again."""
Pages = dict[int, dict[bytes, bytes]]
"""Pages by segment and key."""


def page_parts(backend: StateBackend, segments: Iterable[int] | None = None) -> Iterator[Pages]:
    """Yield all pages of the segments, by default of all, in parts."""
    part: Pages = {}
    size = 0
    for segment in backend.segments() if segments is None else segments:
        for key, page in backend.iterate(segment):
            part.setdefault(segment, {})[key] = page
            size += len(key) + len(page)
            if size >= PART_BYTES:
                yield part
                part, size = {}, 0
    if part:
        yield part


def fill(backend: StateBackend, parts: Iterable[Pages], version: bytes) -> None:
    """Replace all that a backend holds by the pages of the parts, at a version."""
    backend.clear()
    put(backend, parts, version)


def put(backend: StateBackend, parts: Iterable[Pages], version: bytes) -> None:
    """Write the pages of the parts, then the version. After a crash or an error the backend has no valid version."""
    for part in parts:
        backend.write(WriteBatch(puts=part), _INCOMPLETE)
    backend.write(WriteBatch(), version)
