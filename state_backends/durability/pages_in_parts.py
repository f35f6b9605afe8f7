"""All pages of a backend in parts of a few MiB, and a backend filled from such parts.

Where a part ends depends on the pages near that place, not on those before it. So pages that come, grow or go change the parts
around them, and snapshots have the other ones in common.
"""

from collections.abc import Iterable, Iterator
from zlib import crc32

from state_backends.interface import StateBackend, WriteBatch

PART_BYTES = 8 << 20
"""A part has about so many bytes of keys and pages: at least half but for the last one, at most twice as many and a page more.
Compressed, half of it is mostly a MiB, from which on files of snapshots are shared."""
_INCOMPLETE = b"restoring"
"""The version of an incomplete store. No pointer has it, so that after a crash the store is restored again."""
Pages = dict[int, dict[bytes, bytes]]
"""Pages by segment and key."""


def page_parts(backend: StateBackend, segments: Iterable[int] | None = None) -> Iterator[Pages]:
    """Yield all pages of the segments, by default of all, in parts.

    From half the size on, a part ends with a page that its key's checksum chooses, one in so many that another half comes on
    average: most pages are chosen in the one snapshot and in the other, or in none.
    """
    part: Pages = {}
    size, least, most = 0, PART_BYTES // 2, 2 * PART_BYTES
    for segment in backend.segments() if segments is None else segments:
        seed = segment & 0xFFFFFFFF  # A key is in many segments.
        for key, page in backend.iterate(segment):
            part.setdefault(segment, {})[key] = page
            taken = len(key) + len(page)
            size += taken
            if size >= least and (size >= most or crc32(key, seed) * least < taken << 32):
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
