"""Any local copy reaches the journal's version, whatever happened to it; damage is a clear error."""

import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serializers import CorruptDataError, NewerFormatError
from serializers.pages import PageLayout
from state_backends import StateBackend, StateError, WriteBatch
from state_backends.backends.memory import MemoryBackend
from state_backends.contract import Pages, applied, random_batch
from state_backends.durability import durable, pages_in_parts, schedule
from state_backends.durability.changelog import change_bytes
from state_backends.durability.durable import Alignment, Durable
from state_backends.durability.pointer import POINTER_VERSION, Pending, Pointer, Snapshot, read_pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress
from state_backends.journal import Blob, Journal, MemoryJournal
from state_backends.store.entries import Entries
from state_backends.store.window_store import WindowStore

Opener = Callable[[str], StateBackend]
_policies = [SnapshotPolicy()]


def durable_copy(copy: StateBackend) -> Durable:
    """The copy made durable; no snapshot has a folder here."""
    return Durable(copy, "unused", Path("unused"), _policies[-1])


def align(copy: StateBackend, journal: Journal, pointer: Pointer) -> Alignment:
    """Align the copy."""
    return durable_copy(copy).align(journal, pointer)


def commit(
    copy: StateBackend, journal: Journal, pointer: Pointer, batch: WriteBatch, progress: Progress
) -> Pointer:
    """Commit a batch through the copy."""
    return durable_copy(copy).commit(journal, pointer, batch, progress)


class Bucket:
    """One state with its journal and a record of what it was after each commit."""

    def __init__(self, journal: MemoryJournal | None = None) -> None:
        self.journal = journal or MemoryJournal()
        self.pointer = Pointer.fresh()
        self.states: list[Pages] = [{}]

    @property
    def pages(self) -> Pages:
        """What counts now."""
        return self.states[-1]

    def commit(self, copy: StateBackend, batch: WriteBatch, **progress: Any) -> Pointer:
        """Align the copy, commit the batch through it, and keep the pointer."""
        align(copy, self.journal, self.pointer)
        self.pointer = commit(copy, self.journal, self.pointer, batch, Progress(**progress))
        if batch:
            self.states.append(applied(self.pages, batch))
        return self.pointer

    def commits(self, copy: StateBackend, *numbers: int) -> None:
        """Commit one put for each number, into a segment of that number."""
        for number in numbers:
            self.commit(copy, put(number))

    def fail(self, copy: StateBackend, batch: WriteBatch) -> None:
        """An attempt that reached the copy and was then thrown away with all that it journalled."""
        align(copy, self.journal, self.pointer)
        lost = MemoryJournal()
        commit(copy, lost, self.pointer, batch, Progress())


PAGE = b"a page of 20 bytes.."


def put(number: int, page: bytes = PAGE) -> WriteBatch:
    """A put of one page into the segment of that number."""
    return WriteBatch(puts={number: {b"k": page}})


def pages_of(copy: StateBackend) -> Pages:
    """All pages of a copy."""
    return {segment: dict(copy.iterate(segment)) for segment in copy.segments()}


def names(journal: MemoryJournal, kind: str) -> list[str]:
    """The names of the blobs of one kind, by number."""
    found = [f"{kind}-{n}" for n in range(100)] + [f"{kind}-{n}-{i}" for n in range(100) for i in range(20)]
    return [name for name in found if journal.get(name) is not None]


@pytest.fixture
def small_bases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A new base after each few log entries, in small parts."""
    monkeypatch.setattr(schedule, "LOG_TO_SNAPSHOT", 2)
    monkeypatch.setattr(pages_in_parts, "PART_BYTES", 40)
    _policies.append(SnapshotPolicy(bytes=100))
    yield
    _policies.pop()


def test_journal_that_was_never_written() -> None:
    """A journal without a pointer has none; a fresh pointer is of an empty state with a name of its own."""
    assert None is read_pointer(MemoryJournal())
    one, other = Pointer.fresh(), Pointer.fresh()
    assert (0, 0, Progress()) == (one.number, one.newest.number, one.progress)
    assert one.store_id != other.store_id


def test_fresh_state_needs_no_work(open_copy: Opener) -> None:
    """An absent copy of a state that was never written is right as it is."""
    copy = open_copy("a")
    fresh = Pointer.fresh()
    assert Alignment(fresh, current=True) == align(copy, MemoryJournal(), fresh)
    assert (None, {}) == (copy.version, pages_of(copy))


def test_commit_writes_copy_log_and_pointer(open_copy: Opener) -> None:
    """A commit brings the batch to the copy and to the journal, and its pointer is the one read back."""
    bucket, copy = Bucket(), open_copy("a")
    pointer = bucket.commit(copy, put(3), close_time=17, max_event_time=20)
    assert (1, Progress(close_time=17, max_event_time=20)) == (pointer.number, pointer.progress)
    assert pointer == read_pointer(bucket.journal)
    assert (pointer.version, {3: {b"k": PAGE}}) == (copy.version, pages_of(copy))
    assert ["log-1"] == names(bucket.journal, "log")


def test_commit_without_changes_writes_the_pointer_only(open_copy: Opener) -> None:
    """A batch that changes nothing keeps the version, and the progress is kept with the pointer."""
    bucket, copy = Bucket(), open_copy("a")
    before = bucket.commit(copy, put(1), close_time=1)
    after = bucket.commit(copy, WriteBatch(), close_time=2)
    assert replace(before, progress=Progress(close_time=2)) == after == read_pointer(bucket.journal)
    assert ["log-1"] == names(bucket.journal, "log")
    assert Alignment(after, current=True) == align(copy, bucket.journal, after)


def test_versions_are_never_the_same_twice() -> None:
    """Two attempts at the same batch make different versions of the same number."""
    bucket = Bucket()
    versions = {
        commit(MemoryBackend(), bucket.journal, bucket.pointer, put(1), Progress()).version for _ in range(20)
    }
    assert 20 == len(versions)


def test_copy_at_the_version_goes_on(open_copy: Opener) -> None:
    """A copy that is at the pointer's version is left alone."""
    bucket, copy = Bucket(), open_copy("a")
    bucket.commits(copy, 1, 2)
    assert Alignment(bucket.pointer, current=True) == align(copy, bucket.journal, bucket.pointer)
    assert bucket.pages == pages_of(copy)


def test_copy_behind_replays_what_it_lacks(open_copy: Opener) -> None:
    """A copy that is some batches behind replays exactly those, in order."""
    bucket, ahead, behind = Bucket(), open_copy("ahead"), open_copy("behind")
    bucket.commits(ahead, 1)
    align(behind, bucket.journal, bucket.pointer)
    bucket.commits(ahead, 2, 3)
    bucket.commit(ahead, WriteBatch(puts={3: {b"k": b"new"}}, deletes={1: {b"k"}}, drop_segments_below=0))
    bucket.journal.remove("log-1")  # A restore would ask for it.
    assert Alignment(bucket.pointer, current=False) == align(behind, bucket.journal, bucket.pointer)
    assert (bucket.pages, bucket.pointer.version) == (pages_of(behind), behind.version)


def test_absent_copy_is_restored(open_copy: Opener) -> None:
    """A copy that is not there replays the whole log."""
    bucket = Bucket()
    bucket.commits(open_copy("a"), 1, 2, 3)
    absent = open_copy("b")
    assert Alignment(bucket.pointer, current=False) == align(absent, bucket.journal, bucket.pointer)
    assert (bucket.pages, bucket.pointer.version) == (pages_of(absent), absent.version)


def test_copy_ahead_by_a_failed_attempt_is_restored(open_copy: Opener) -> None:
    """A copy with a batch that never counted is restored, and nothing of that batch is left."""
    bucket, copy = Bucket(), open_copy("a")
    bucket.commits(copy, 1)
    bucket.fail(copy, WriteBatch(puts={9: {b"k": b"lost"}}, deletes={1: {b"k"}}))
    assert Alignment(bucket.pointer, current=False) == align(copy, bucket.journal, bucket.pointer)
    assert (bucket.pages, bucket.pointer.version) == (pages_of(copy), copy.version)


def test_copy_ahead_of_an_empty_state_is_cleared(open_copy: Opener) -> None:
    """A copy with the first batch, which failed, is empty again."""
    bucket, copy = Bucket(), open_copy("a")
    bucket.fail(copy, put(1))
    assert not align(copy, bucket.journal, bucket.pointer).current
    assert {} == pages_of(copy)
    assert Alignment(bucket.pointer, current=True) == align(copy, bucket.journal, bucket.pointer)


def test_copy_of_the_same_number_but_another_attempt_is_restored(open_copy: Opener) -> None:
    """A copy that a failed attempt left at the pointer's own number is found out by its token."""
    bucket, failed, good = Bucket(), open_copy("failed"), open_copy("good")
    bucket.commits(good, 1)
    bucket.fail(failed, put(2, b"lost"))
    bucket.commits(good, 2)
    assert bucket.pointer.version[:8] == failed.version[:8]
    assert Alignment(bucket.pointer, current=False) == align(failed, bucket.journal, bucket.pointer)
    assert (bucket.pages, bucket.pointer.version) == (pages_of(failed), failed.version)


def test_failed_attempt_does_not_count_as_behind(open_copy: Opener) -> None:
    """A copy of a failed attempt whose number has since been passed is restored, not replayed from there."""
    bucket, failed, good = Bucket(), open_copy("failed"), open_copy("good")
    bucket.commits(good, 1)
    bucket.fail(failed, put(77, b"lost"))
    bucket.commits(good, 2, 3, 4)
    assert Alignment(bucket.pointer, current=False) == align(failed, bucket.journal, bucket.pointer)
    assert bucket.pages == pages_of(failed)


def test_copy_of_another_state_is_restored(open_copy: Opener) -> None:
    """A copy that holds another query's state at the same number is restored."""
    bucket, other, copy = Bucket(), Bucket(), open_copy("a")
    other.commits(copy, 5, 6)
    bucket.commits(open_copy("b"), 1, 2, 3)
    assert Alignment(bucket.pointer, current=False) == align(copy, bucket.journal, bucket.pointer)
    assert bucket.pages == pages_of(copy)


@pytest.mark.parametrize("version", [b"", b"restoring", b"x" * 16, b"\xff" * 16, b"v" * 100])
def test_copy_of_a_strange_version_is_restored(open_copy: Opener, version: bytes) -> None:
    """A copy whose version is unknown is restored."""
    bucket, copy = Bucket(), open_copy("a")
    bucket.commits(open_copy("b"), 1, 2)
    copy.write(put(9), version)
    assert Alignment(bucket.pointer, current=False) == align(copy, bucket.journal, bucket.pointer)
    assert bucket.pages == pages_of(copy)


class ReadAnew(MemoryJournal):
    """A journal that has its blobs elsewhere, as that of a query does: each read returns other bytes."""

    def get(self, name: str) -> bytes | None:
        blob = super().get(name)
        return None if blob is None else bytes(bytearray(blob))


@pytest.fixture
def long_log() -> Iterator[None]:
    """Many MiB of log entries without a base."""
    _policies.append(SnapshotPolicy(bytes=100 << 20))
    yield
    _policies.pop()


@pytest.mark.slow
@pytest.mark.usefixtures("long_log")
@pytest.mark.parametrize("is_behind", [True, False])
def test_a_long_changelog_is_not_held_at_once(is_behind: bool) -> None:
    """A copy gets its entries one at a time."""
    bucket, laggard = Bucket(ReadAnew()), MemoryBackend()
    copy, rng, size = MemoryBackend(), random.Random(5), 1 << 20
    for number in range(60):
        bucket.commit(copy, put(0, rng.randbytes(size)))
        if number == 0 and is_behind:
            align(laggard, bucket.journal, bucket.pointer)
    assert 60 == len(names(bucket.journal, "log"))
    tracemalloc.start()
    try:
        done = align(laggard, bucket.journal, bucket.pointer)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert Alignment(bucket.pointer, current=False) == done
    assert (bucket.pages, bucket.pointer.version) == (pages_of(laggard), laggard.version)
    assert most < 20 * size


def test_a_chain_that_breaks_leaves_a_version(open_copy: Opener) -> None:
    """What a copy got before a damaged entry is a version of the state; each further attempt names the entry."""
    bucket, laggard = Bucket(), open_copy("laggard")
    for number in range(1, 6):
        bucket.commits(open_copy(f"{number}"), number)
        if number == 1:
            align(laggard, bucket.journal, bucket.pointer)
    bucket.journal.put("log-4", b"x" * 40)
    for _ in range(2):
        with pytest.raises(CorruptDataError, match="'log-4' of 40 bytes is truncated or altered"):
            align(laggard, bucket.journal, bucket.pointer)
        assert bucket.states[3] == pages_of(laggard)
        assert (3).to_bytes(8, "big") == (laggard.version or b"")[:8]


@pytest.mark.usefixtures("small_bases")
def test_log_that_outgrows_the_base_makes_a_new_one(open_copy: Opener) -> None:
    """When the log is larger than the limit the whole state is written as base; the log starts over."""
    bucket, copy = Bucket(), open_copy("a")
    number = 0
    while not bucket.pointer.newest.number:
        number += 1
        bucket.commits(copy, number)
    assert (number, 0) == (bucket.pointer.newest.number, bucket.pointer.log_bytes)
    expected = [f"base-{number}-{part}" for part in range(bucket.pointer.newest.parts)]
    assert expected == names(bucket.journal, "base")
    assert sum(len(key) + len(page) for kept in bucket.pages.values() for key, page in kept.items()) == (
        bucket.pointer.newest.size
    )
    assert 1 < bucket.pointer.newest.parts


@pytest.mark.usefixtures("small_bases")
def test_restore_from_base_and_log(open_copy: Opener) -> None:
    """A copy too far behind, or absent, gets the base and the log after it, at every version."""
    bucket, copy = Bucket(), open_copy("a")
    late = open_copy("late")
    bucket.commits(copy, 1)
    align(late, bucket.journal, bucket.pointer)
    bases = set()
    for number in range(2, 60):
        bucket.commits(copy, number)
        bases.add(bucket.pointer.newest.number)
        absent = MemoryBackend()
        assert Alignment(bucket.pointer, current=False) == align(absent, bucket.journal, bucket.pointer)
        assert (bucket.pages, bucket.pointer.version) == (pages_of(absent), absent.version)
    assert 2 < len(bases)
    assert Alignment(bucket.pointer, current=False) == align(late, bucket.journal, bucket.pointer)
    assert (bucket.pages, bucket.pointer.version) == (pages_of(late), late.version)


@pytest.mark.usefixtures("small_bases")
def test_base_grows_with_the_state(open_copy: Opener) -> None:
    """The log may grow as large as the last base before a new one is written, so bases cost a fixed share."""
    bucket, copy = Bucket(), open_copy("a")
    rng = random.Random(1)
    at: list[int] = []
    for number in range(1, 120):
        bucket.commit(copy, put(number, rng.randbytes(100)))
        at += [number] if bucket.pointer.newest.number == number else []
    gaps = [after - before for before, after in pairwise(at)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 4 * gaps[0]


@pytest.mark.slow
@pytest.mark.usefixtures("small_bases")
def test_old_bases_and_entries_are_removed(open_copy: Opener) -> None:
    """The journal holds the last base, the log after it, and a few entries before; nothing else stays."""
    bucket, copy = Bucket(), open_copy("a")
    for number in range(1, 80):
        bucket.commit(copy, WriteBatch({number: {b"k": b"page" * 10}}, {}, number - 3))
        pointer = bucket.pointer
        assert [f"log-{n}" for n in range(pointer.oldest, number + 1)] == names(bucket.journal, "log")
        expected = [f"base-{pointer.newest.number}-{part}" for part in range(pointer.newest.parts)]
        assert expected == names(bucket.journal, "base")
        assert pointer.oldest <= pointer.newest.number + 1
    assert 40 < bucket.pointer.newest.number


@pytest.mark.usefixtures("small_bases")
@pytest.mark.parametrize("lag", range(1, durable.KEPT_ENTRIES + 1))
def test_kept_entries_let_a_laggard_catch_up(open_copy: Opener, lag: int) -> None:
    """A copy up to the kept number of entries behind a new base replays them, and needs no base."""
    bucket, copy = Bucket(), open_copy("a")
    laggards: dict[int, StateBackend] = {}
    number = 0
    while bucket.pointer.newest.number < 20:
        laggards[number] = MemoryBackend()
        align(laggards[number], bucket.journal, bucket.pointer)
        number += 1
        bucket.commits(copy, number)
    assert number == bucket.pointer.newest.number
    laggard = laggards[number - lag]
    for name in names(bucket.journal, "base"):
        bucket.journal.remove(name)
    assert Alignment(bucket.pointer, current=False) == align(laggard, bucket.journal, bucket.pointer)
    assert (bucket.pages, bucket.pointer.version) == (pages_of(laggard), laggard.version)


@pytest.mark.usefixtures("small_bases")
def test_state_that_was_emptied_after_its_base(open_copy: Opener) -> None:
    """A state whose base was dropped since is restored as empty, and goes on from there."""
    bucket, copy = Bucket(), open_copy("a")
    bucket.commit(copy, put(1, bytes(350)))
    bucket.commit(copy, WriteBatch(drop_segments_below=5))
    assert (1, {}) == (bucket.pointer.newest.number, bucket.pages)
    absent = open_copy("b")
    assert Alignment(bucket.pointer, current=False) == align(absent, bucket.journal, bucket.pointer)
    assert ({}, bucket.pointer.version) == (pages_of(absent), absent.version)
    bucket.commits(absent, 7)
    assert bucket.pages == pages_of(absent)


@pytest.mark.usefixtures("small_bases")
@pytest.mark.parametrize("missing", ["log", "base"])
def test_missing_entry_is_a_clear_error(open_copy: Opener, missing: str) -> None:
    """A missing entry is an error with its name and the way out; the copy is not taken for whole."""
    bucket, copy = Bucket(), open_copy("a")
    while bucket.pointer.oldest == 1 or bucket.pointer.number == bucket.pointer.newest.number:
        bucket.commits(copy, bucket.pointer.number + 1)
    pointer = bucket.pointer
    name = (
        f"log-{pointer.number}"
        if missing == "log"
        else f"base-{pointer.newest.number}-{pointer.newest.parts - 1}"
    )
    blob = bucket.journal.get(name)
    bucket.journal.remove(name)
    absent = open_copy("b")
    with pytest.raises(
        StateError,
        match=f"the entry '{name}' is missing in the changelog.*Restore it from a copy, or start with a new one",
    ):
        align(absent, bucket.journal, pointer)
    assert pointer.version != absent.version
    bucket.journal.put(name, blob or b"")
    align(absent, bucket.journal, pointer)
    assert (bucket.pages, pointer.version) == (pages_of(absent), absent.version)


@pytest.mark.usefixtures("small_bases")
@pytest.mark.parametrize("damaged", ["log", "base"])
@pytest.mark.parametrize("cut", [slice(0, 0), slice(0, 10), slice(0, 40), slice(0, -1)], ids=str)
def test_damaged_entry_is_a_clear_error(open_copy: Opener, damaged: str, cut: slice) -> None:
    """A damaged entry is an error, never other state; the copy is not taken for whole, and restored later."""
    bucket, copy = Bucket(), open_copy("a")
    while bucket.pointer.oldest == 1 or bucket.pointer.number == bucket.pointer.newest.number:
        bucket.commits(copy, bucket.pointer.number + 1)
    pointer = bucket.pointer
    name = f"log-{pointer.number}" if damaged == "log" else f"base-{pointer.newest.number}-0"
    blob = bucket.journal.get(name) or b""
    bucket.journal.put(name, blob[cut])
    absent = open_copy("b")
    with pytest.raises(CorruptDataError):
        align(absent, bucket.journal, pointer)
    assert pointer.version != absent.version
    bucket.journal.put(name, blob)
    align(absent, bucket.journal, pointer)
    assert (bucket.pages, pointer.version) == (pages_of(absent), absent.version)


def test_every_flipped_byte_of_an_entry() -> None:
    """A log entry with one altered byte is an error or read as written; other state never comes out."""
    bucket = Bucket()
    bucket.commits(MemoryBackend(), 1, 2)
    blob = bucket.journal.get("log-2") or b""
    for at in range(len(blob)):
        bucket.journal.put("log-2", blob[:at] + bytes([blob[at] ^ 0x04]) + blob[at + 1 :])
        for copy in (MemoryBackend(), laggard(bucket)):
            try:
                align(copy, bucket.journal, bucket.pointer)
            except (CorruptDataError, NewerFormatError):
                continue
            assert bucket.pages == pages_of(copy)


def test_a_pointer_that_no_snapshot_leads_to_is_refused(open_copy: Opener) -> None:
    """By name, and not for want of a problem to tell."""
    bucket, copy = Bucket(), open_copy("a")
    bucket.commits(copy, 1, 2, 3)
    pointer = replace(bucket.pointer, oldest=3)
    with pytest.raises(
        CorruptDataError, match=r"restored: no snapshot leads to version 3, and the log begins at 3"
    ):
        align(open_copy("b"), bucket.journal, pointer)


def test_copy_is_at_the_version_after_a_damaged_header() -> None:
    """A log entry whose own version is altered is an error, or leaves the copy at the pointer's version."""
    bucket = Bucket()
    bucket.commits(MemoryBackend(), 1, 2)
    blob, copy = bucket.journal.get("log-2") or b"", laggard(bucket)
    bucket.journal.put("log-2", blob[:20] + b"?" + blob[21:])
    try:
        align(copy, bucket.journal, bucket.pointer)
    except CorruptDataError:
        return
    assert bucket.pointer.version == copy.version


def laggard(bucket: Bucket) -> MemoryBackend:
    """A copy at the first version."""
    copy = MemoryBackend()
    copy.write(put(1), (bucket.journal.get("log-1") or b"")[16:32])
    return copy


@pytest.mark.usefixtures("small_bases")
def test_interrupted_restore_starts_over(open_copy: Opener) -> None:
    """A copy that a restore left half way is never taken for whole, even at the version that it shows."""
    bucket, copy = Bucket(), open_copy("a")
    while bucket.pointer.newest.parts < 3:
        bucket.commits(copy, bucket.pointer.number + 1)
    half = open_copy("half")
    last = f"base-{bucket.pointer.newest.number}-{bucket.pointer.newest.parts - 1}"
    blob = bucket.journal.get(last) or b""
    bucket.journal.remove(last)
    with pytest.raises(StateError):
        align(half, bucket.journal, bucket.pointer)
    bucket.journal.put(last, blob)
    bucket.commits(copy, 50)
    assert Alignment(bucket.pointer, current=False) == align(half, bucket.journal, bucket.pointer)
    assert bucket.pages == pages_of(half)


class StoppingJournal(MemoryJournal):
    """A journal that stops the process after some changes."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10**9

    def put(self, name: str, blob: Blob) -> None:
        self._count()
        super().put(name, blob)

    def remove(self, name: str) -> None:
        self._count()
        super().remove(name)

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.usefixtures("small_bases")
@pytest.mark.parametrize("changes", range(18))
def test_commit_that_stops_half_way_loses_nothing(changes: int) -> None:
    """A commit that stops after any change to the journal, new base or not, leaves one of two states."""
    journal = StoppingJournal()
    bucket, copy = Bucket(journal), MemoryBackend()
    for number in range(1, 60):
        batch = WriteBatch({number: {b"k": b"page" * 5}}, {}, number - 4)
        journal.left = changes
        with suppress(KeyboardInterrupt):
            commit(copy, journal, bucket.pointer, batch, Progress())
        journal.left = 10**9
        journal.rollback()
        pointer = read_pointer(journal) or bucket.pointer
        states = {number - 1: bucket.pages, number: applied(bucket.pages, batch)}
        for found in (MemoryBackend(), copy):
            align(found, journal, pointer)
            assert states[pointer.number] == pages_of(found)
        if pointer.number == number:
            bucket.pointer = pointer
            bucket.states.append(states[number])
        else:
            bucket.commit(copy, batch)


@pytest.mark.usefixtures("small_bases")
@pytest.mark.parametrize(("backend_name", "rounds"), [("memory", 200), ("rocksdb", 25)])
def test_many_copies_and_failed_attempts(open_copy: Opener, rounds: int, rng: random.Random) -> None:
    """Whichever copy takes a batch, whatever failed in between, each aligned copy holds what counts."""
    bucket, copies = Bucket(), [open_copy(name) for name in "abc"]
    for _ in range(rounds):
        copy = rng.choice(copies)
        chance = rng.random()
        if chance < 0.25:
            bucket.fail(copy, random_batch(rng))
        elif chance < 0.3:
            copy.clear()
        else:
            bucket.commit(copy, random_batch(rng))
            assert bucket.pages == pages_of(copy)
        checked = rng.choice(copies)
        align(checked, bucket.journal, bucket.pointer)
        assert (bucket.pages, bucket.pointer.number) == (pages_of(checked), len(bucket.states) - 1)
    assert bucket.pointer.number


def test_pointer_round_trip() -> None:
    """A pointer comes back with every field, the operator's progress included."""
    version = b"v" * 16
    snapshots = (Snapshot(6, version, 10, "s3://a/b", "6-x"), Snapshot(4, version, 9, parts=2))
    pointer = Pointer(
        "0123456789abcdef",
        "journal",
        7,
        version,
        oldest=3,
        log_bytes=99,
        snapshots=snapshots,
        retired=(Snapshot(2, version, 8, "f", "2-y", retired=5),),
        pending=Pending(snapshots[0], 50, 1.5, "host:7"),
        failures=1,
        progress=Progress({"a": [1, "b", None]}, close_time=-5),
    )
    assert pointer == Pointer.decode(pointer.encode())
    with pytest.raises(CorruptDataError, match=r"names the state '[./]+elsewhere', not 16 hex digits"):
        Pointer.decode(replace(pointer, store_id="../../elsewhere").encode())


def test_pointer_of_a_newer_version_is_refused() -> None:
    """A pointer that a newer version wrote is refused with the way out, also when read from the journal."""
    blob = bytes([POINTER_VERSION + 1]) + Pointer.fresh().encode()[1:]
    journal = MemoryJournal()
    journal.put("pointer", blob)
    with pytest.raises(NewerFormatError, match=r"the state of this query has format version 2.*upgrade"):
        read_pointer(journal)


@pytest.mark.parametrize("blob", [b"", b"\x00", b"\x01", b"\x01\xc0", b"\x01\x93\x01\x02\x03"])
def test_what_is_no_pointer_is_refused(blob: bytes) -> None:
    """Bytes that are no pointer are refused."""
    with pytest.raises(CorruptDataError):
        Pointer.decode(blob)


def test_truncated_pointer_is_refused() -> None:
    """A pointer cut off at any length is refused."""
    blob = Pointer.fresh().encode()
    for length in range(len(blob)):
        with pytest.raises(CorruptDataError):
            Pointer.decode(blob[:length])


EDITED = PageLayout(("i8", "i8"))


def busy(numbers: int) -> tuple[MemoryBackend, Bucket, WindowStore]:
    """A copy with a page of so many rows of one key, and the store over it."""
    copy, bucket = MemoryBackend(), Bucket()
    store = WindowStore(copy, EDITED, 1_000)
    change(bucket, copy, store, range(numbers))
    return copy, bucket, store


def change(bucket: Bucket, copy: MemoryBackend, store: WindowStore, times: range) -> WriteBatch:
    """Write one row of the key for each time, as one batch."""
    column = np.arange(times.start, times.stop)
    store.put_many([b"key"], Entries(np.zeros(len(times), np.int64), (column, column)))
    batch = store.drain_changes()
    bucket.commit(copy, batch)
    return batch


def test_a_copy_behind_gets_the_rows_that_it_lacks(open_copy: Opener) -> None:
    """The log has rows, and a copy that is behind, or that has nothing, gets the pages."""
    copy, bucket, store = busy(500)
    behind = open_copy("behind")
    assert align(behind, bucket.journal, bucket.pointer).pointer == bucket.pointer
    logged = [change_bytes(change(bucket, copy, store, range(n, n + 1))) for n in (500, 3, 501)]
    assert max(logged) <= 2 * 24 + 40
    assert not align(behind, bucket.journal, bucket.pointer).current
    absent = open_copy("absent")
    align(absent, bucket.journal, bucket.pointer)
    assert pages_of(copy) == pages_of(behind) == pages_of(absent) == bucket.pages
    behind.close()
    absent.close()


def test_a_copy_with_another_page_is_rebuilt() -> None:
    """Rows are never put into a page that they are not of: such a copy is built again from the start."""
    copy, bucket, store = busy(500)
    other = MemoryBackend()
    other.write(applied_rows(499), bucket.pointer.version)
    change(bucket, copy, store, range(500, 501))
    assert not align(other, bucket.journal, bucket.pointer).current
    assert pages_of(copy) == pages_of(other)


def applied_rows(numbers: int) -> WriteBatch:
    """A page of so many rows."""
    times = np.arange(numbers)
    return WriteBatch({0: {b"key": EDITED.encode([times, times], np.array([numbers]))[0]}})
