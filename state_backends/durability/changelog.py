"""The changelog: one entry per version in the journal, with the changes from the version before.

An entry is the version before and after, their CRC-32, and the changes as `serializers.changes` writes them: of a page only the
rows that are gone and those that are new or changed, where the batch knows them.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

from serializers import CorruptDataError
from serializers.changes import Puts, decode_changes, decode_edits, encode_changes, encode_edits, has_edits
from serializers.edits import apply_edits
from state_backends.durability.pointer import NO_VERSION, Pointer, Snapshot, version_number
from state_backends.errors import CHECKPOINT_CHANGED, StateError
from state_backends.interface import LoggedPages, StateBackend, WriteBatch
from state_backends.journal import Journal

_SIZE = len(NO_VERSION)


@dataclass(frozen=True, slots=True)
class Entry:
    """The changes from one version to the next."""

    before: bytes
    after: bytes
    blob: bytes

    def changes(self, backend: StateBackend) -> WriteBatch:
        """Return the changes, decoded, with whole pages.

        Args:
            backend: a copy at the version before, which has the pages that were edited.

        Raises:
            CorruptDataError: the entry is damaged, or the copy does not have these pages.
        """
        if not has_edits(self.blob):
            return WriteBatch(*decode_changes(self.blob))
        puts, edits, deletes, drop_segments_below = decode_edits(self.blob)
        logged = LoggedPages(puts, edits)
        return WriteBatch(_whole(backend, logged), deletes, drop_segments_below, logged)


def _whole(backend: StateBackend, logged: LoggedPages) -> dict[int, dict[bytes, bytes]]:
    """The pages that follow from the copy's own ones."""
    puts = {segment: dict(pages) for segment, pages in logged.whole.items()}
    for segment, parts in logged.edits.items():
        for some in parts:
            pages = apply_edits(some, backend.get_many(segment, some.keys))
            puts.setdefault(segment, {}).update(zip(some.keys, pages, strict=True))
    return puts


def put_entry(journal: Journal, before: bytes, after: bytes, batch: WriteBatch) -> None:
    """Write the entry that leads to a version."""
    journal.put(entry_name(version_number(after) or 0), partial(_encode, before + after, batch))


def entry_name(number: int) -> str:
    """Return the name of the entry that leads to the version of that number."""
    return f"log-{number}"


def _encode(versions: bytes, batch: WriteBatch) -> bytes:
    check = zlib.crc32(versions).to_bytes(4, "big")
    logged = batch.logged
    if logged is None:
        return versions + check + encode_changes(batch.puts, batch.deletes, batch.drop_segments_below)
    return (
        versions + check + encode_edits(logged.whole, logged.edits, batch.deletes, batch.drop_segments_below)
    )


def entries(journal: Journal, number: int, before: bytes | None, pointer: Pointer) -> Iterator[Entry]:
    """Yield the entries that lead from a version to the pointer's, one at a time: together they may not fit in memory.

    Args:
        journal: that has them.
        number: the number of the version.
        before: the version; None for whichever has that number.
        pointer: whose version they lead to.

    Raises:
        StateError: one is missing.
        CorruptDataError: one is damaged, or does not follow the one before it, when it is reached. What was written to a
            copy until then is one of the versions before.
    """
    for following in range(number + 1, pointer.number + 1):
        entry = _entry(journal, following)
        if before not in (None, entry.before) or version_number(entry.after) != following:
            raise _no_successor(following)
        if following == pointer.number and entry.after != pointer.version:
            raise _no_successor(following)
        before = entry.after
        yield entry
    if number == pointer.number and before not in (None, pointer.version):
        raise _no_successor(number)


def _no_successor(number: int) -> CorruptDataError:
    return CorruptDataError(
        f"the changelog entry {entry_name(number)!r} is of another state than those around it: "
        "go back to an earlier checkpoint"
    )


def _entry(journal: Journal, number: int) -> Entry:
    name = entry_name(number)
    blob = require_blob(journal, name)
    if zlib.crc32(blob[: 2 * _SIZE]) != int.from_bytes(blob[2 * _SIZE : 2 * _SIZE + 4], "big"):
        raise CorruptDataError(
            f"the changelog entry {name!r} of {len(blob)} bytes is truncated or altered: go back to an earlier checkpoint"
        )
    return Entry(blob[:_SIZE], blob[_SIZE : 2 * _SIZE], blob[2 * _SIZE + 4 :])


def require_blob(journal: Journal, name: str) -> bytes:
    """Return a blob of the journal.

    Raises:
        StateError: it is missing.
    """
    blob = journal.get(name)
    if blob is None:
        raise StateError(f"the entry {name!r} is missing in the changelog: {CHECKPOINT_CHANGED}")
    return blob


def base_parts(journal: Journal, snapshot: Snapshot) -> Iterator[dict[int, dict[bytes, bytes]]]:
    """Yield the pages of a snapshot in the journal, in parts.

    Raises:
        StateError: a part is missing.
        CorruptDataError: one is damaged, or they have another size than the snapshot.
    """
    size = 0
    for part in range(snapshot.parts):
        puts, _, _ = decode_changes(require_blob(journal, f"base-{snapshot.number}-{part}"))
        size += page_bytes(puts)
        yield puts
    if size != snapshot.size:
        raise CorruptDataError(
            f"the snapshot of version {snapshot.number} in the journal has {size} bytes in place of {snapshot.size}: "
            "go back to an earlier checkpoint"
        )


def missing_entries(journal: Journal, version: bytes | None, pointer: Pointer) -> Iterator[Entry] | None:
    """Return the entries that lead from a version to the pointer's, or None if they are not kept."""
    number = version_number(version)
    if number is None or not pointer.oldest - 1 <= number < pointer.number:
        return None
    found = entries(journal, number, None, pointer)
    first = next(found)
    return chain([first], found) if first.before == version else None


def replay(backend: StateBackend, found: Iterable[Entry]) -> int:
    """Write the entries' changes to a local copy, and return their size as `change_bytes` does."""
    size = 0
    for entry in found:
        batch = entry.changes(backend)
        backend.write(batch, entry.after)
        size += change_bytes(batch)
    return size


def change_bytes(batch: WriteBatch) -> int:
    """Return the size of what the changelog has of a batch, before compression."""
    size = sum(sum(map(len, keys)) for keys in batch.deletes.values())
    if batch.logged is None:
        return size + page_bytes(batch.puts)
    return (
        size + page_bytes(batch.logged.whole) + sum(each.size for each in chain(*batch.logged.edits.values()))
    )


def page_bytes(puts: Puts) -> int:
    """Return the size of keys and pages before compression."""
    return sum(sum(map(len, pages)) + sum(map(len, pages.values())) for pages in puts.values())
