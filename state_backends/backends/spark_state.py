"""The backend that keeps its pages in the journal itself, so that nothing has to be restored.

A journal is slow per blob, so many keys share one, a slot. The journal holds
    index                       version of the state, and of each segment: depth, keys, bytes, and its slots
    slot-SEGMENT-DEPTH-N        pages of the keys whose hash ends with the DEPTH bits of N
    slot-SEGMENT.LOW-DEPTH-N    the same of keys that begin with 0xc1 and go on with LOW (in hexadecimal digits) or more

Keys that begin with 0xc1 go on with 8 bytes that say when a page begins: pages of one time change together, and later ones do
not change any more. So a segment is divided by these bytes into parts with slots of their own, a new one each time that the
youngest has grown by an eighth of them all: a batch does not rewrite the slots of older pages. Other keys are in the first
part.

The hash has a random seed, so that nobody who writes records can choose keys that all fall into one slot.

Each is a blob (see `serializers.blobs`) of the format b"SWJB", valid under its name only. The value is
[version, [[segment, depth, keys, bytes, bits, [[low, high, depth, keys, bytes, bits], ...]], ...], seed] for the index and
[[keys], [pages]] for a slot.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from serializers.blobs import BlobFormat
from serializers.shapes import list_of, refusing
from state_backends.backends.journal_index import Index, Pages, Part, Segment, slot_name
from state_backends.errors import CHECKPOINT_CHANGED, StateError
from state_backends.interface import StateBackend, WriteBatch
from state_backends.journal import Journal
from state_backends.sqlite_journal import SqliteJournal
from state_backends.store.page_ids import count_further

FORMAT_VERSION = 1
_MOST_HASHES = 1 << 18
_FORMAT = BlobFormat(b"SWJB", FORMAT_VERSION)


class SparkStateBackend(StateBackend):
    """Pages in the journal that each batch attaches, or in a file until one is attached.

    Memory holds the index, and the slots that were read or changed since the journal was attached. A read costs one blob for
    each slot that its keys fall in, the first time; a write one for each slot that it changes, and the index. Slots are
    doubled as their segment grows, O(1) per page in the long run; a segment that shrinks keeps its slots until it is empty.

    After an error in a write to an attached journal, roll it back and attach it again.
    """

    resident: ClassVar[bool] = True

    def __init__(self, directory: Path) -> None:
        self._file = directory / "pages"
        self._file_journal: SqliteJournal | None = None
        self._attached: Journal | None = None
        self._index: Index | None = None
        self._hashes: dict[bytes, int] = {}
        """Hashes of keys: what a batch reads, it mostly writes."""

    @classmethod
    def open(cls, directory: Path, options: Mapping[str, str]) -> "SparkStateBackend":
        del options
        return cls(directory)

    def attach(self, journal: Journal) -> None:
        self._close_file()
        self._attached, self._index = journal, None
        self._hashes = {}
        self._index = _read_index(journal)

    @property
    def _journal(self) -> Journal:
        if self._attached is not None:
            return self._attached
        if self._file_journal is None:
            self._file_journal = SqliteJournal(self._file, waits=False)
        return self._file_journal

    def _known(self) -> Index:
        if self._index is None:
            # Reading the version before the first attach creates no file.
            nothing = self._attached is None and not self._file.exists()
            self._index = Index() if nothing else _read_index(self._journal)
        return self._index

    @property
    def version(self) -> bytes | None:
        return self._known().version

    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        info = self._known().segments.get(segment)
        found: list[bytes | None] = [None] * len(keys)
        if info is None:
            return found
        parts = info.parts()
        for number, positions in info.by_part(keys).items():
            part, some = parts[number], [keys[position] for position in positions]
            slots = self._slots_of(part, some)
            pages = {slot: self._slot(segment, part, slot) for slot in set(slots)}
            for position, slot, key in zip(positions, slots, some, strict=True):
                found[position] = pages[slot].get(key)
        return found

    def _slots_of(self, info: Part, keys: Sequence[bytes]) -> list[int]:
        """The slot of each key. O(keys), 0.4 us for each that is new to the batch."""
        mask = (1 << info.depth) - 1
        if len(self._hashes) > _MOST_HASHES:
            self._hashes = {}
        known, seed = self._hashes, self._known().seed
        new = [key for key in keys if key not in known]
        if new:
            found = b"".join([blake2b(key, digest_size=8, key=seed).digest() for key in new])
            known.update(zip(new, np.frombuffer(found, "<u8").tolist(), strict=True))
        return [known[key] & mask for key in keys]

    def _slot(self, segment: int, info: Part, slot: int) -> Pages:
        """The pages of a slot, kept until the next attach."""
        pages = info.loaded.get(slot)
        if pages is None:
            pages = info.loaded[slot] = self._read_slot(segment, info, slot) if info.has(slot) else {}
        return pages

    def _read_slot(self, segment: int, info: Part, slot: int) -> Pages:
        name = slot_name(segment, info, slot)
        blob = self._journal.get(name)
        if blob is None:
            raise StateError(f"the blob {name!r} is missing in the journal: {CHECKPOINT_CHANGED}")
        content = _decode(name, blob)
        with refusing(f"the journal's blob {name!r}"):
            keys, pages = content
            return dict(zip(list_of(bytes, keys), list_of(bytes, pages), strict=True))

    def write(self, batch: WriteBatch, version: bytes) -> None:
        if self._attached is not None:
            self._apply(batch, version)
            return
        try:
            self._apply(batch, version)
            self._commit_file()
        except BaseException:
            if self._file_journal is not None:
                self._file_journal.rollback()
            raise
        finally:
            # Without attach nothing clears the slots that were read, and after an error they differ from the file.
            self._index = None
            self._hashes = {}

    def _apply(self, batch: WriteBatch, version: bytes) -> None:
        index = self._known()
        if batch.drop_segments_below is not None:
            for segment in [number for number in index.segments if number < batch.drop_segments_below]:
                for part in index.segments.pop(segment).parts():
                    self._remove_slots(segment, part)
        for segment in sorted({*batch.deletes, *batch.puts}):
            info = index.segments.pop(segment, None) or Segment()
            self._change_parts(segment, info, batch.deletes.get(segment, set()), batch.puts.get(segment, {}))
            if not info.is_empty:
                index.segments[segment] = info
        index.version = version
        self._journal.put("index", _FORMAT.encode(index.plain(), "index"))

    def _change_parts(
        self, segment: int, info: Segment, deletes: Set[bytes], puts: Mapping[bytes, bytes]
    ) -> None:
        gone, names = list(deletes), list(puts)
        if count_further(names):
            info.renew()
        info.note(names)
        deleted, put = info.by_part(gone), info.by_part(names)
        parts = info.parts()
        for number in sorted({*deleted, *put}):
            self._change(
                segment,
                parts[number],
                {gone[position] for position in deleted.get(number, ())},
                {names[position]: puts[names[position]] for position in put.get(number, ())},
            )
        while info.further and not info.further[-1].keys:
            info.further.pop()

    def _change(self, segment: int, info: Part, deletes: Set[bytes], puts: Mapping[bytes, bytes]) -> None:
        changed = self._changed_slots(segment, info, deletes, puts)
        for slot in [slot for slot in changed if not info.loaded[slot]]:
            self._journal.remove(slot_name(segment, info, slot))
            info.mark(slot, there=False)
            changed.remove(slot)
        depth = info.needed_depth()
        if depth > info.depth:
            self._deepen(segment, info, depth, changed)
            return
        for slot in sorted(changed):
            self._put_slot(segment, info, slot, info.loaded[slot])

    def _changed_slots(
        self, segment: int, info: Part, deletes: Set[bytes], puts: Mapping[bytes, bytes]
    ) -> set[int]:
        """Apply deletes and puts in memory only; return the slots whose pages changed."""
        changed = set()
        gone = list(deletes)
        for key, slot in zip(gone, self._slots_of(info, gone), strict=True):
            old = self._slot(segment, info, slot).pop(key, None)
            if old is not None:
                info.keys -= 1
                info.size -= len(key) + len(old)
                changed.add(slot)
        for (key, page), slot in zip(puts.items(), self._slots_of(info, list(puts)), strict=True):
            pages = self._slot(segment, info, slot)
            old = pages.get(key)
            if old == page:
                continue
            if old is None:
                info.keys += 1
                info.size += len(key)
            info.size += len(page) - len(old or b"")
            pages[key] = page
            changed.add(slot)
        return changed

    def _deepen(self, segment: int, info: Part, depth: int, changed: Iterable[int]) -> None:
        """Split the segment into 2**depth slots, one old slot after another."""
        bits = bytearray(((1 << depth) + 7) // 8)
        deeper = Part(depth, info.keys, info.size, bits, info.low, info.high)
        for slot in sorted({*info.slots(), *changed}):
            parts: dict[int, Pages] = {}
            pages = self._slot(segment, info, slot)
            for (key, page), part in zip(pages.items(), self._slots_of(deeper, list(pages)), strict=True):
                parts.setdefault(part, {})[key] = page
            del info.loaded[slot]
            if info.has(slot):
                self._journal.remove(slot_name(segment, info, slot))
            for part, some in parts.items():
                self._put_slot(segment, deeper, part, some)
        info.depth, info.bits = deeper.depth, deeper.bits
        info.loaded.clear()

    def _put_slot(self, segment: int, info: Part, slot: int, pages: Pages) -> None:
        name = slot_name(segment, info, slot)
        self._journal.put(name, _FORMAT.encode([list(pages), list(pages.values())], name))
        info.mark(slot, there=True)

    def _remove_slots(self, segment: int, info: Part) -> None:
        for slot in info.slots():
            self._journal.remove(slot_name(segment, info, slot))

    def iterate(self, segment: int) -> Iterator[tuple[bytes, bytes]]:
        info = self._known().segments.get(segment)
        for part in [] if info is None else info.parts():
            for slot in part.slots():
                # A slot that is read only here is not kept, so that a walk through all of them takes the memory of one.
                pages = part.loaded.get(slot) or self._read_slot(segment, part, slot)
                yield from pages.items()

    def segments(self) -> list[int]:
        return sorted(self._known().segments)

    def clear(self) -> None:
        for segment, info in self._known().segments.items():
            for part in info.parts():
                self._remove_slots(segment, part)
        self._journal.remove("index")
        self._index, self._hashes = None, {}
        self._commit_file()

    def _commit_file(self) -> None:
        if self._file_journal is not None:
            self._file_journal.commit()

    def purge(self) -> None:
        if self._file_journal is not None:
            self._file_journal.shrink()

    def close(self) -> None:
        self._close_file()
        self._attached = self._index = None

    def _close_file(self) -> None:
        if self._file_journal is not None:
            self._file_journal.close()
            self._file_journal = None


def _decode(name: str, blob: bytes) -> Any:
    return _FORMAT.decode(blob, f"the journal's blob {name!r}", name)


def _read_index(journal: Journal) -> Index:
    blob = journal.get("index")
    if blob is None:
        return Index()
    content = _decode("index", blob)
    with refusing("the journal's blob 'index'"):
        return Index.from_plain(content)
