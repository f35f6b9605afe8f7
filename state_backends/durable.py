"""A backend made durable: every batch's changes go to a journal, and any local copy can be brought up to date from it.

The journal holds
    pointer   which version counts, with the operator's own progress (see `Pointer`)
    log-N     the changes that lead from version N - 1 to version N
    base-N-I  part I of the whole state at version N; written when the log since the last base outgrows it

A version is a number and a random token. A local copy counts only if both agree with the journal, so a copy that a
failed, retried or speculative attempt left behind is found out and restored.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from serializers import CorruptDataError, NewerFormatError, pack_value, unpack_value
from serializers.changes import decode_changes, encode_changes
from state_backends.interface import StateBackend, StateError, WriteBatch
from state_backends.journal import Journal

POINTER_VERSION = 1
KEPT_ENTRIES = 8
MIN_BASE_BYTES = 16 << 20
LOG_TO_BASE = 4
"""A new base is written when the log is this many times as large, so that bases add a quarter to what is written."""
_BASE_PART_BYTES = 4 << 20
_VERSION = struct.Struct(">Q8s")
_NO_VERSION = _VERSION.pack(0, bytes(8))


@dataclass(frozen=True, slots=True)
class Pointer:
    """Which version of the state counts.

    Attributes:
        store_id: random name of this state; local copies are kept under it.
        number: number of the newest version; 0 is the empty state.
        version: that number and its token, as the backend stores it.
        base: version number of the base, 0 for none (the empty state is the base).
        base_parts: parts of the base.
        base_bytes: size of the base in bytes, before compression.
        oldest: number of the oldest log entry that is kept.
        log_bytes: bytes of log entries since the base, before compression.
        progress: the operator's own small record, such as its close time.
    """

    store_id: str
    number: int = 0
    version: bytes = _NO_VERSION
    base: int = 0
    base_parts: int = 0
    base_bytes: int = 0
    oldest: int = 1
    log_bytes: int = 0
    progress: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def fresh(cls) -> "Pointer":
        """Return the pointer of an empty state with a name of its own."""
        return cls(store_id=os.urandom(8).hex())

    def encode(self) -> bytes:
        values = [getattr(self, name) for name in _POINTER_FIELDS]
        return bytes([POINTER_VERSION]) + pack_value(values)

    @classmethod
    def decode(cls, blob: bytes) -> "Pointer":
        """Return the pointer that `encode` wrote.

        Raises:
            NewerFormatError: a newer version wrote it.
            CorruptDataError: it is no pointer.
        """
        if blob[:1] != bytes([POINTER_VERSION]):
            if blob and blob[0] > POINTER_VERSION:
                raise NewerFormatError("the state of this query", blob[0], POINTER_VERSION)
            raise CorruptDataError(f"not a state pointer: {blob[:16]!r}")
        values = unpack_value(blob[1:])
        if not isinstance(values, list) or len(values) != len(_POINTER_FIELDS):
            raise CorruptDataError(f"a state pointer with wrong fields: {values!r}")
        return cls(**dict(zip(_POINTER_FIELDS, values, strict=True)))


_POINTER_FIELDS = (
    "store_id",
    "number",
    "version",
    "base",
    "base_parts",
    "base_bytes",
    "oldest",
    "log_bytes",
    "progress",
)


def read_pointer(journal: Journal) -> Pointer | None:
    """Return the journal's pointer, or None for a journal that was never written."""
    blob = journal.get("pointer")
    return None if blob is None else Pointer.decode(blob)


@dataclass(frozen=True, slots=True)
class Alignment:
    """What `align` did to the local copy: replayed these batches, after starting over if `restored`."""

    restored: bool
    replayed: tuple[WriteBatch, ...] = ()


def align(backend: StateBackend, journal: Journal, pointer: Pointer) -> Alignment:
    """Bring the local copy to the pointer's version.

    Cost: nothing if it is there already; the missing log entries if it is behind; the base and the log else.

    Raises:
        StateError: the journal lacks an entry that the pointer promises.
        CorruptDataError: an entry is damaged.
    """
    if backend.version == pointer.version or (backend.version is None and not pointer.number):
        return Alignment(restored=False)
    missing = _missing_entries(backend, journal, pointer)
    if missing is not None:
        return Alignment(restored=False, replayed=tuple(_replay(backend, missing)))
    backend.clear()
    for part in range(pointer.base_parts):
        puts, _, _ = decode_changes(_required(journal, f"base-{pointer.base}-{part}"))
        # Whole only with the last entry: until then the version says that this copy is of no use.
        backend.write(WriteBatch(puts=puts), b"restoring")
    entries = [_entry(journal, number) for number in range(pointer.base + 1, pointer.number + 1)]
    for _ in _replay(backend, entries):
        pass
    if backend.version != pointer.version:
        backend.write(WriteBatch(), pointer.version)
    return Alignment(restored=True)


def _missing_entries(backend: StateBackend, journal: Journal, pointer: Pointer) -> list["_Entry"] | None:
    """The entries that lead from the local copy to the pointer, or None if no such way is kept."""
    if backend.version is None or len(backend.version) != _VERSION.size:
        return None
    number, _ = _VERSION.unpack(backend.version)
    if not pointer.oldest - 1 <= number < pointer.number:
        return None
    entries = [_entry(journal, n) for n in range(number + 1, pointer.number + 1)]
    return entries if entries[0].before == backend.version else None


@dataclass(frozen=True, slots=True)
class _Entry:
    before: bytes
    after: bytes
    blob: bytes


def _entry(journal: Journal, number: int) -> _Entry:
    blob = _required(journal, f"log-{number}")
    size = _VERSION.size
    if zlib.crc32(blob[: 2 * size]) != int.from_bytes(blob[2 * size : 2 * size + 4], "big"):
        raise CorruptDataError(
            f"changelog entry log-{number} of {len(blob)} bytes is truncated or altered: go back to an earlier checkpoint"
        )
    return _Entry(blob[:size], blob[size : 2 * size], blob[2 * size + 4 :])


def _required(journal: Journal, name: str) -> bytes:
    blob = journal.get(name)
    if blob is None:
        raise StateError(
            f"the changelog lacks its entry {name!r}, which the state needs: "
            "the checkpoint was altered from outside; go back to a copy of it or start with a new one"
        )
    return blob


def _replay(backend: StateBackend, entries: list[_Entry]) -> Iterator[WriteBatch]:
    for entry in entries:
        batch = WriteBatch(*decode_changes(entry.blob))
        backend.write(batch, entry.after)
        yield batch


def commit(
    backend: StateBackend, journal: Journal, pointer: Pointer, batch: WriteBatch, progress: dict[str, Any]
) -> Pointer:
    """Write one batch to the local copy and to the journal, and return the pointer that now counts.

    The copy must be aligned. A batch without changes costs one small blob.
    """
    before = pointer
    if batch:
        number = pointer.number + 1
        version = _VERSION.pack(number, os.urandom(8))
        backend.write(batch, version)
        journal.put(f"log-{number}", partial(_log_entry, pointer.version + version, batch))
        deleted = sum(sum(map(len, keys)) for keys in batch.deletes.values())
        log_bytes = pointer.log_bytes + _size(batch.puts) + deleted
        pointer = replace(pointer, number=number, version=version, log_bytes=log_bytes)
        if pointer.log_bytes > max(MIN_BASE_BYTES, LOG_TO_BASE * pointer.base_bytes):
            pointer = _rebase(backend, journal, pointer)
    pointer = replace(pointer, progress=progress)
    journal.put("pointer", pointer.encode())
    for name in _superseded(before, pointer):
        journal.remove(name)
    return pointer


def _superseded(before: Pointer, after: Pointer) -> list[str]:
    """Names of what a pointer no longer needs; they may go only when the new pointer counts."""
    if before.base == after.base:
        return []
    parts = [f"base-{before.base}-{part}" for part in range(before.base_parts)]
    return parts + [f"log-{number}" for number in range(before.oldest, after.oldest)]


def _log_entry(versions: bytes, batch: WriteBatch) -> bytes:
    check = zlib.crc32(versions).to_bytes(4, "big")
    return versions + check + encode_changes(batch.puts, batch.deletes, batch.drop_before)


def _size(puts: Mapping[int, Mapping[bytes, bytes]]) -> int:
    """Bytes of keys and pages before compression."""
    return sum(sum(map(len, pages)) + sum(map(len, pages.values())) for pages in puts.values())


def _rebase(backend: StateBackend, journal: Journal, pointer: Pointer) -> Pointer:
    """Write the whole state as the new base; keep the last entries for copies that are a little behind."""
    size = parts = 0
    for puts in _parts(backend):
        journal.put(f"base-{pointer.number}-{parts}", partial(encode_changes, puts, {}, None))
        size, parts = size + _size(puts), parts + 1
    oldest = max(pointer.oldest, pointer.number - KEPT_ENTRIES + 1)
    return replace(
        pointer, base=pointer.number, base_parts=parts, base_bytes=size, oldest=oldest, log_bytes=0
    )


def _parts(backend: StateBackend) -> Iterator[dict[int, dict[bytes, bytes]]]:
    part: dict[int, dict[bytes, bytes]] = {}
    size = 0
    for segment in backend.segments():
        for key, page in backend.iterate(segment):
            part.setdefault(segment, {})[key] = page
            size += len(key) + len(page)
            if size >= _BASE_PART_BYTES:
                yield part
                part, size = {}, 0
    if part:
        yield part
