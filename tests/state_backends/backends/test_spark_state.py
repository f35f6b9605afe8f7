"""Pages in slots of the journal: whoever attaches sees what was committed, and nothing is left behind."""

import random
import re
import zlib
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from serializers import CorruptDataError, NewerFormatError
from serializers.keys import bucket_of
from state_backends import StateError, WriteBatch
from state_backends.backends import journal_index
from state_backends.backends.journal_index import slot_name
from state_backends.backends.memory import MemoryBackend
from state_backends.backends.spark_state import FORMAT_VERSION, SparkStateBackend
from state_backends.contract import AWKWARD_KEYS, AWKWARD_SEGMENTS, Pages, applied, assert_holds, random_batch
from state_backends.journal import Blob, MemoryJournal
from state_backends.sqlite_journal import SqliteJournal
from state_backends.store.page_ids import further_names

NAME = re.compile(r"index|slot-(-?\d+)(?:\.[0-9a-f]*)?-(\d+)-(\d+)")


class RecordingJournal(MemoryJournal):
    """A journal that notes which blobs are read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: list[str] = []
        self.puts: list[str] = []

    def get(self, name: str) -> bytes | None:
        self.gets.append(name)
        return super().get(name)

    def put(self, name: str, blob: Blob) -> None:
        self.puts.append(name)
        super().put(name, blob)

    def forget(self) -> None:
        """Begin the notes anew."""
        self.gets, self.puts = [], []

    def names(self) -> list[str]:
        """The names of all committed blobs."""
        return sorted(self._blobs)

    def slots(self, segment: int) -> list[str]:
        """The names of the committed slots of a segment."""
        return [name for name in self.names() if name.startswith(f"slot-{segment}-")]


@pytest.fixture
def journal() -> RecordingJournal:
    """An empty journal."""
    return RecordingJournal()


@pytest.fixture
def small_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots of 200 bytes, so that few pages fill many."""
    monkeypatch.setattr(journal_index, "SLOT_BYTES", 200)
    monkeypatch.setattr(journal_index, "PART_BYTES", 400)


def times(step: int, rng: random.Random) -> list[bytes]:
    """Names of pages, most of which begin at about one time; some at another one."""
    starts = [rng.choice([step, step, step, rng.randrange(150)]) for _ in range(30)]
    first, *keys = [b"%d" % rng.randrange(9) for _ in range(31)]
    return [first, *further_names(keys, np.array(starts))]


def attached(journal: MemoryJournal) -> SparkStateBackend:
    """Another worker's backend on the journal."""
    backend = SparkStateBackend.open(Path("/nowhere/at/all"), {})
    backend.attach(journal)
    return backend


def committed(
    backend: SparkStateBackend, journal: MemoryJournal, batch: WriteBatch, version: bytes = b"v"
) -> None:
    """Write a batch and commit it."""
    backend.write(batch, version)
    journal.commit()


def some_pages(count: int, size: int = 20) -> dict[bytes, bytes]:
    """Keys with pages of that size in bytes, each page another one."""
    return {b"key %d" % n: b"%d" % n * size for n in range(count)}


def pages_of(backend: SparkStateBackend) -> Pages:
    """All pages of a backend."""
    return {segment: dict(backend.iterate(segment)) for segment in backend.segments()}


def belongs(key: bytes, low: bytes) -> bool:
    """Whether a key is in a further part that begins so, or in a later one."""
    return key[:1] == b"\xc1" and key[1:9] >= low


def assert_index_is_true(backend: SparkStateBackend, journal: RecordingJournal, pages: Pages) -> None:
    """The index counts what is there, and the journal holds the blobs it promises and no others."""
    names = {"index"}
    for segment, info in backend._known().segments.items():
        left = dict(pages[segment])
        for number, part in reversed([*enumerate(info.parts())]):
            kept = {key: page for key, page in left.items() if not number or belongs(key, part.low or b"")}
            left = {key: page for key, page in left.items() if key not in kept}
            assert len(kept) == part.keys
            assert sum(map(len, kept)) + sum(map(len, kept.values())) == part.size
            slots = {*backend._slots_of(part, list(kept))}
            names |= {slot_name(segment, part, slot) for slot in slots}
    assert sorted(names) == journal.names()


@pytest.mark.slow
@pytest.mark.usefixtures("small_slots")
@pytest.mark.parametrize("many", ["", "keys", "times"])
def test_any_worker_sees_what_was_committed(journal: RecordingJournal, rng: random.Random, many: str) -> None:
    """Whichever worker takes a batch, whichever attempts were undone, all is as in a backend of dictionaries."""
    workers, truth, states = [attached(journal) for _ in range(3)], MemoryBackend(), 0
    pages: Pages = {}
    for step in range(150):
        worker = rng.choice(workers)
        worker.attach(journal)
        batch, version = random_batch(rng), b"%d" % step
        if many:
            named = times(step, rng) if many == "times" else [b"%d" % n for n in range(500)]
            batch.puts[rng.randint(-2, 2)] = {
                key: rng.randbytes(rng.randrange(60)) for key in rng.choices(named, k=rng.randrange(80))
            }
            there = [*named, *(key for some in pages.values() for key in some)]
            batch.deletes[rng.randint(-2, 2)] = {key for key in there if rng.random() < 0.5}
        chance = rng.random()
        if chance < 0.2:
            worker.write(batch, b"lost")
            assert b"lost" == worker.version
            journal.rollback()
        elif chance < 0.25:
            worker.clear()
            truth.clear()
            journal.commit()
            pages = {}
            assert [] == journal.names()
        else:
            committed(worker, journal, batch, version)
            truth.write(batch, version)
            pages = applied(pages, batch)
            assert_holds(worker, pages, version)
            assert_index_is_true(worker, journal, pages)
            states += 1
        reader = rng.choice(workers)
        reader.attach(journal)
        assert truth.version == reader.version
        assert {n: dict(truth.iterate(n)) for n in truth.segments()} == pages_of(reader)
        for segment in range(-4, 5):
            assert truth.get_many(segment, AWKWARD_KEYS) == reader.get_many(segment, AWKWARD_KEYS)
    assert states


def test_attach_forgets_what_others_have_changed(journal: RecordingJournal) -> None:
    """A worker that had read a slot sees, after the next attach, what another has written since."""
    first, second = attached(journal), attached(journal)
    committed(first, journal, WriteBatch({0: {b"a": b"1"}}), b"v1")
    assert [b"1"] == first.get_many(0, [b"a"])
    second.attach(journal)
    committed(second, journal, WriteBatch({0: {b"a": b"2"}, 1: {b"b": b"2"}}), b"v2")
    first.attach(journal)
    assert_holds(first, {0: {b"a": b"2"}, 1: {b"b": b"2"}}, b"v2")
    other = RecordingJournal()
    first.attach(other)
    assert_holds(first, {}, None)


def test_attached_backend_writes_no_files(tmp_path: Path, journal: RecordingJournal) -> None:
    """With the journal of a batch, the backend's directory is not even made; nor by reads before the first."""
    backend = SparkStateBackend.open(tmp_path / "store", {})
    assert_holds(backend, {}, None)
    backend.attach(journal)
    committed(backend, journal, WriteBatch({0: some_pages(100)}))
    backend.close()
    assert [] == list(tmp_path.iterdir())


def test_own_file_is_left_for_the_journal(tmp_path: Path, journal: RecordingJournal) -> None:
    """After attach nothing of the own file is seen, and it is closed and not written."""
    with closing(SparkStateBackend.open(tmp_path, {})) as backend:
        backend.write(WriteBatch({0: {b"a": b"own"}}), b"v1")
        backend.attach(journal)
        assert [tmp_path / "pages"] == list(tmp_path.iterdir())
        assert_holds(backend, {}, None)
        committed(backend, journal, WriteBatch({1: {b"a": b"2"}}), b"v2")
    with closing(SparkStateBackend.open(tmp_path, {})) as backend:
        assert_holds(backend, {0: {b"a": b"own"}}, b"v1")


def test_attached_backend_never_commits(journal: RecordingJournal) -> None:
    """Writes and clears are the owner's to commit."""
    backend = attached(journal)
    committed(backend, journal, WriteBatch({0: some_pages(9)}), b"v1")
    for change in (lambda: backend.write(WriteBatch({0: {b"a": b"2"}}, {}, 0), b"v2"), backend.clear):
        backend.attach(journal)
        change()
        journal.rollback()
        backend.attach(journal)
        assert_holds(backend, {0: some_pages(9)}, b"v1")


@pytest.mark.usefixtures("small_slots")
def test_slots_double_as_the_segment_grows(journal: RecordingJournal) -> None:
    """Slots stay small on average; doubling them adds some two writes of each slot, in all, to the others."""
    backend, pages = attached(journal), some_pages(600)
    for key, page in pages.items():
        committed(backend, journal, WriteBatch({7: {key: page}}))
    sizes = sum(map(len, pages)) + sum(map(len, pages.values()))
    slots = journal.slots(7)
    assert sizes / 200 <= 1 << backend._known().segments[7].depth < sizes / 50
    assert len(slots) < len(pages)
    assert len(journal.puts) < 2 * len(pages) + 3 * len(slots)
    assert_index_is_true(backend, journal, {7: pages})
    assert_holds(attached(journal), {7: pages}, b"v")


@pytest.mark.usefixtures("small_slots")
def test_large_batch_writes_each_slot_once(journal: RecordingJournal) -> None:
    """A batch that doubles slots many times over writes each of the new ones once, and no others."""
    backend, pages = attached(journal), some_pages(30)
    committed(backend, journal, WriteBatch({0: pages}))
    for batch in (some_pages(600), some_pages(1_800)):
        journal.forget()
        committed(backend, journal, WriteBatch({0: batch}))
        assert journal.names() == sorted(journal.puts)
    assert_holds(attached(journal), {0: some_pages(1_800)}, b"v")


def test_large_page_is_one_slot(journal: RecordingJournal) -> None:
    """There are no more slots than keys: pages that are larger than a slot do not double them in vain."""
    backend = attached(journal)
    committed(backend, journal, WriteBatch({0: {b"a": bytes(3 << 20)}}))
    assert ["slot-0-0-0"] == journal.slots(0)
    committed(backend, journal, WriteBatch({0: {b"%d" % n: bytes(1 << 20) for n in range(4)}}))
    assert 8 == 1 << backend._known().segments[0].depth


@pytest.mark.parametrize("buckets", [1, 2, 8, 200])
def test_keys_of_one_bucket_fill_all_slots(
    journal: RecordingJournal, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that share a bucket have nothing else in common: they spread over all its slots."""
    monkeypatch.setattr(journal_index, "SLOT_BYTES", 2_000)
    keys = [key for key in (b"user-%d" % n for n in range(2_000 * buckets)) if not bucket_of(key, buckets)]
    backend = attached(journal)
    committed(backend, journal, WriteBatch({0: dict.fromkeys(keys, bytes(20))}))
    assert_keys_fill_all_slots(backend, keys, journal)


def assert_keys_fill_all_slots(
    backend: SparkStateBackend, keys: list[bytes], journal: RecordingJournal
) -> None:
    """No slot is empty, and none has twice its share."""
    info = backend._known().segments[0]
    filled = Counter(backend._slots_of(info, keys))
    assert 1 << info.depth == len(filled) == len(journal.slots(0)) > 1
    assert max(filled.values()) < 2 * len(keys) / len(filled)


def with_checksum(key: bytes, wanted: int) -> bytes:
    """The key with four bytes at its end, which give it that CRC-32."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        table.append(value)
    at = {value >> 24: byte for byte, value in enumerate(table)}
    back, steps = wanted ^ 0xFFFFFFFF, []
    for _ in range(4):
        steps.append(at[back >> 24])
        back = (back ^ table[steps[-1]]) << 8 & 0xFFFFFFFF
    state = zlib.crc32(key) ^ 0xFFFFFFFF
    for step in reversed(steps):
        key += bytes([(state ^ step) & 0xFF])
        state = state >> 8 ^ table[step]
    return key


@pytest.mark.slow
def test_nobody_can_choose_a_slot(journal: RecordingJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that were made to have one checksum fall into all slots, into other ones in each state."""
    monkeypatch.setattr(journal_index, "SLOT_BYTES", 2_000)
    keys = [with_checksum(b"user-%d" % n, 0x12345678) for n in range(2_000)]
    assert {zlib.crc32(key) for key in keys} == {0x12345678}
    other = RecordingJournal()
    chosen = []
    for where in (journal, other):
        backend = attached(where)
        committed(backend, where, WriteBatch({0: dict.fromkeys(keys, bytes(20))}))
        assert_keys_fill_all_slots(backend, keys, where)
        chosen.append(attached(where)._slots_of(backend._known().segments[0], keys))
    assert chosen[0] != chosen[1]


@pytest.mark.usefixtures("small_slots")
def test_only_changed_slots_are_written(journal: RecordingJournal) -> None:
    """A batch writes the slots whose pages it changes, and the index; not what is equal, absent, or of others."""
    pages = some_pages(200)
    committed(attached(journal), journal, WriteBatch({0: pages, 1: pages}))
    slots = journal.slots(0)
    assert 16 < len(slots)
    for batch, changed in [
        (WriteBatch({0: {b"key 5": b"other"}}), 1),
        (WriteBatch({0: {b"key 5": b"other"}}), 0),
        (WriteBatch({0: {}}, {0: {b"absent"}, 1: {b"none", b"of"}, 9: {b"these"}}), 0),
        (WriteBatch({}, {1: {b"key 7"}}, -3), 1),
        (WriteBatch(), 0),
    ]:
        backend, before = attached(journal), {*journal.names()}
        journal.forget()
        committed(backend, journal, batch)
        # Keys fall into slots at random: the page that goes may be the only one of its slot.
        emptied = before - {*journal.names()}
        assert 1 + changed == len(journal.puts) + len(emptied)
        assert "index" in journal.puts
    assert slots == journal.slots(0)


@pytest.mark.usefixtures("small_slots")
def test_each_slot_is_read_once(journal: RecordingJournal) -> None:
    """A slot is read when one of its keys is first asked for or changed, and again only after an attach."""
    pages = some_pages(200)
    committed(attached(journal), journal, WriteBatch({0: pages}))
    backend = attached(journal)
    for _ in range(2):
        journal.forget()
        backend.attach(journal)
        assert ["index"] == journal.gets
        for _ in range(2):
            assert list(pages.values()) == backend.get_many(0, list(pages))
            assert [None, None] == backend.get_many(1, [b"key 1", b"key 2"])
        backend.write(WriteBatch({0: {b"key 5": b"other"}}), b"v")
        journal.rollback()
        assert ["index", *journal.slots(0)] == sorted(journal.gets)


@pytest.mark.usefixtures("small_slots")
def test_few_keys_read_few_slots(journal: RecordingJournal) -> None:
    """One key is one slot; a key of a slot that is not there is no read at all."""
    committed(attached(journal), journal, WriteBatch({0: some_pages(200)}))
    absent, backend = journal.slots(0)[0], attached(journal)
    slots = backend._slots_of(backend._known().segments[0], list(some_pages(200)))
    keys = [
        key
        for key, slot in zip(some_pages(200), slots, strict=True)
        if slot == int(absent.rpartition("-")[2])
    ]
    committed(backend, journal, WriteBatch({}, {0: set(keys)}))
    assert absent not in journal.slots(0)
    backend.attach(journal)
    journal.forget()
    assert [None] * len(keys) == backend.get_many(0, keys)
    assert [] == journal.gets
    assert backend.get_many(0, [next(key for key in some_pages(200) if key not in keys)]) != [None]
    assert 1 == len(journal.gets)


@pytest.mark.usefixtures("small_slots")
def test_walk_keeps_nothing_in_memory(journal: RecordingJournal) -> None:
    """Iterating reads slot after slot and keeps none of them."""
    committed(attached(journal), journal, WriteBatch({0: some_pages(200)}))
    backend = attached(journal)
    journal.forget()
    walk = backend.iterate(0)
    next(walk)
    assert 1 == len(journal.gets)
    assert 199 == sum(1 for _ in walk)
    assert journal.slots(0) == sorted(journal.gets)
    assert {} == backend._known().segments[0].loaded


@pytest.mark.usefixtures("small_slots")
def test_no_blob_is_left_behind(journal: RecordingJournal) -> None:
    """Segments that are emptied or dropped leave only the index, and a clear not even that."""
    pages = some_pages(100)
    everywhere = WriteBatch(dict.fromkeys(AWKWARD_SEGMENTS, pages))
    backend = attached(journal)
    for emptied in (
        WriteBatch(deletes={n: set(pages) for n in AWKWARD_SEGMENTS}),
        WriteBatch(drop_segments_below=max(AWKWARD_SEGMENTS) + 1),
    ):
        committed(backend, journal, everywhere)
        assert 100 * len(AWKWARD_SEGMENTS) > len(journal.names()) > 9 * len(AWKWARD_SEGMENTS)
        assert all(map(NAME.fullmatch, journal.names()))
        backend.attach(journal)
        committed(backend, journal, emptied, b"emptied")
        assert ["index"] == journal.names()
        assert_holds(attached(journal), {}, b"emptied")
    committed(backend, journal, everywhere)
    backend.attach(journal)
    backend.clear()
    journal.commit()
    assert [] == journal.names()


@pytest.mark.usefixtures("small_slots")
def test_drop_keeps_the_blobs_of_later_segments(journal: RecordingJournal) -> None:
    """A drop removes the slots of lower segments and writes nothing but the index."""
    committed(attached(journal), journal, WriteBatch({n: some_pages(50) for n in range(-5, 6)}))
    kept = [name for n in range(2, 6) for name in journal.slots(n)]
    backend = attached(journal)
    journal.forget()
    committed(backend, journal, WriteBatch(drop_segments_below=2))
    assert (["index"], []) == (journal.puts, journal.gets)
    assert sorted(["index", *kept]) == journal.names()


def damaged(journal: RecordingJournal, name: str, blob: bytes | None) -> SparkStateBackend:
    """Alter a committed blob, or remove it, and attach to what is left."""
    if blob is None:
        journal.remove(name)
    else:
        journal.put(name, blob)
    journal.commit()
    return attached(journal)


def test_missing_slot_is_told(journal: RecordingJournal) -> None:
    """A slot that the index promises and that is not there is named, whoever needs it, with the way out."""
    committed(attached(journal), journal, WriteBatch({-1: {b"a": b"1"}}))
    backend = damaged(journal, "slot--1-0-0", None)
    for need in (
        lambda: backend.get_many(-1, [b"a"]),
        lambda: list(backend.iterate(-1)),
        lambda: backend.write(WriteBatch({-1: {b"b": b"2"}}), b"v2"),
    ):
        backend.attach(journal)
        with pytest.raises(
            StateError, match=r"the blob 'slot--1-0-0' is missing in the journal: .*Restore it from a copy"
        ):
            need()


@pytest.mark.parametrize("name", ["index", "slot-0-0-0"])
def test_altered_blobs_are_told(journal: RecordingJournal, name: str) -> None:
    """A blob that is cut off, or altered in any byte, is refused by name."""
    committed(attached(journal), journal, WriteBatch({0: {b"a": b"1"}}))
    good = journal.get(name)
    assert good is not None
    cut = [good[:length] for length in range(len(good))]
    altered = [good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :] for at in range(len(good))]
    for blob in [*cut, *altered, good + b"x"]:
        with pytest.raises((CorruptDataError, NewerFormatError), match=f"the journal's blob '{name}'"):
            damaged(journal, name, blob).get_many(0, [b"a"])
    assert [b"1"] == damaged(journal, name, good).get_many(0, [b"a"])


def test_foreign_bytes_are_told(journal: RecordingJournal) -> None:
    """An index of something else is not taken for a newer one."""
    with pytest.raises(
        CorruptDataError,
        match=r"'index' was not written by this library: it has 7 bytes that begin with b'foreign'",
    ):
        damaged(journal, "index", b"foreign")


def test_blob_of_another_name_is_told(journal: RecordingJournal) -> None:
    """A slot under another slot's name is refused, though it is whole."""
    committed(attached(journal), journal, WriteBatch({0: {b"a": b"1"}, 1: {b"a": b"2"}}))
    with pytest.raises(CorruptDataError, match=r"'slot-0-0-0' .*truncated or altered"):
        damaged(journal, "slot-0-0-0", journal.get("slot-1-0-0")).get_many(0, [b"a"])


@pytest.mark.parametrize("name", ["index", "slot-0-0-0"])
def test_newer_blobs_are_refused(journal: RecordingJournal, name: str) -> None:
    """A blob of a newer version is refused by name, with the way out."""
    committed(attached(journal), journal, WriteBatch({0: {b"a": b"1"}}))
    good = journal.get(name)
    assert good is not None
    with pytest.raises(
        NewerFormatError, match=f"'{name}' has format version {FORMAT_VERSION + 1}; .*upgrade"
    ):
        damaged(journal, name, good[:4] + bytes([FORMAT_VERSION + 1]) + good[5:]).get_many(0, [b"a"])


def test_backend_can_be_attached_after_an_error(journal: RecordingJournal) -> None:
    """A worker that met a damaged journal works on the next, whole one."""
    backend = attached(journal)
    committed(backend, journal, WriteBatch({0: {b"a": b"1"}}), b"v1")
    bad = RecordingJournal()
    bad.put("index", b"foreign")
    with pytest.raises(CorruptDataError):
        backend.attach(bad)
    backend.attach(journal)
    assert_holds(backend, {0: {b"a": b"1"}}, b"v1")


@pytest.mark.usefixtures("small_slots")
def test_failed_write_to_the_own_file_changes_nothing(tmp_path: Path) -> None:
    """A write that finds a slot missing leaves the file as it was, and the backend with it."""
    with closing(SparkStateBackend.open(tmp_path, {})) as backend:
        backend.write(WriteBatch({0: {b"a": b"1"}, 1: some_pages(100), 2: {b"a": b"1"}}), b"v1")
        with closing(SqliteJournal(tmp_path / "pages")) as outside:
            outside.remove("slot-2-0-0")
            outside.commit()
        with pytest.raises(StateError, match="slot-2-0-0"):
            backend.write(WriteBatch({n: {b"b": b"2"} for n in range(3)}, {}, 1), b"v2")
        for segment, pages in {0: {b"a": b"1"}, 1: some_pages(100)}.items():
            assert pages == dict(backend.iterate(segment))
        assert b"v1" == backend.version
        backend.write(WriteBatch({0: {b"b": b"2"}}), b"v2")
        assert {b"a": b"1", b"b": b"2"} == dict(backend.iterate(0))
