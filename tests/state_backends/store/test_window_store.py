"""The window store holds what a dictionary of lists holds, whatever is under it and whatever is staged."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import PageLayout
from serializers.arrays import fill
from state_backends import Entries, StateBackend, WindowStore, WriteBatch, chunks
from state_backends.backends.memory import MemoryBackend
from state_backends.store import cutting
from state_backends.store.entries import merge_entries
from state_backends.store.page_ids import key_of, keys_and_starts
from state_backends.store.usage import StoreUsage
from state_backends.store.window_store import TIME_MAX, TIME_MIN
from tests.effort import examples

LAYOUT = PageLayout(("i8", "f8", "object"))
Row = tuple[int, str]
Model = dict[bytes, list[Row]]


def entries(*rows: tuple[int, int, str]) -> Entries:
    """Entries of (key number, time, tag); the tag goes to the float and object columns."""
    key = np.array([row[0] for row in rows], np.int64)
    time = np.array([row[1] for row in rows], np.int64)
    tags = [row[2] for row in rows]
    return Entries(key, (time, np.array([float(len(tag)) for tag in tags]), fill(tags)))


def rows_of(found: Entries) -> list[tuple[int, int, str]]:
    """Entries as (key number, time, tag)."""
    key, (time, size, tag) = found.key.tolist(), (column.tolist() for column in found.columns)
    assert [float(len(text)) for text in tag] == size
    return list(zip(key, time, tag, strict=True))


def model_of(store: WindowStore, start: int = TIME_MIN, end: int = TIME_MAX) -> Model:
    """All that a scan shows, by key."""
    model: Model = {}
    for keys, found in store.scan(start, end):
        for number, time, tag in rows_of(found):
            model.setdefault(keys[number], []).append((time, tag))
    return model


def commit(store: WindowStore) -> None:
    """Write what is staged to the backend."""
    store.backend.write(store.drain_changes(), b"v")


def filled(backend: StateBackend, segment_ticks: int = 10) -> WindowStore:
    """A store with three keys of a few entries, in segments -1, 0 and 2, nothing staged."""
    store = WindowStore(backend, LAYOUT, segment_ticks)
    store.put_many(
        [b"a", b"b", b"c"],
        entries((0, -3, "a-"), (0, 0, "a0"), (0, 9, "a9"), (1, 9, "b9"), (1, 25, "b25"), (2, -10, "c-")),
    )
    commit(store)
    return store


FILLED = {b"a": [(-3, "a-"), (0, "a0"), (9, "a9")], b"b": [(9, "b9"), (25, "b25")], b"c": [(-10, "c-")]}


def test_segment_length_is_checked() -> None:
    """A segment of no length is refused."""
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"segment length is {wrong} ticks: it must be at least 1"):
            WindowStore(MemoryBackend(), LAYOUT, wrong)


@pytest.mark.parametrize(("time", "segment"), [(0, 0), (9, 0), (10, 1), (-1, -1), (-10, -1), (-11, -2)])
def test_segment_of(time: int, segment: int) -> None:
    """Segments are slices of equal length, also before the epoch."""
    assert segment == WindowStore(MemoryBackend(), LAYOUT, 10).segment_of(time)


def test_new_store_is_empty(backend: StateBackend) -> None:
    """A store over an empty backend holds nothing and answers every read with nothing."""
    store = WindowStore(backend, LAYOUT, 10)
    assert ([], True, {}, []) == (store.segments(), store.is_empty(), model_of(store), store.keys(0))
    assert [] == rows_of(store.fetch(b"a", TIME_MIN, TIME_MAX))
    assert [] == rows_of(store.fetch_segment(0, [b"a", b"b"]))
    assert [] == rows_of(store.fetch_many([], 0, 10))
    assert not store.drain_changes()


def test_put_and_scan(backend: StateBackend) -> None:
    """What was put is there, by key and in order of time, with every column."""
    store = filled(backend)
    assert FILLED == model_of(store)
    assert [-1, 0, 2] == store.segments()
    assert not store.is_empty()


def test_scan_goes_by_time(backend: StateBackend) -> None:
    """A scan yields segment by segment, only the times asked for."""
    store = filled(backend)
    yielded = [sorted(time for _, time, _ in rows_of(found)) for _, found in store.scan()]
    assert [[-10, -3], [0, 9, 9], [25]] == yielded
    assert {b"a": [(0, "a0"), (9, "a9")], b"b": [(9, "b9")]} == model_of(store, 0, 24)
    assert {} == model_of(store, 10, 24)


@pytest.mark.parametrize(
    ("start", "end", "times"),
    [
        (-3, 9, [-3, 0, 9]),
        (-2, 8, [0]),
        (0, 0, [0]),
        (1, 8, []),
        (9, 0, []),
        (TIME_MIN, TIME_MAX, [-3, 0, 9]),
    ],
)
def test_fetch_includes_both_ends(backend: StateBackend, start: int, end: int, times: list[int]) -> None:
    """A fetch returns one key's entries from start to end, both included."""
    assert times == filled(backend).fetch(b"a", start, end).time.tolist()


def test_fetch_many_numbers_the_keys_asked(backend: StateBackend) -> None:
    """Entries of many keys come by key number in the order asked, then by time; absent keys have none."""
    found = filled(backend).fetch_many([b"x", b"b", b"a"], -3, 24)
    assert [(1, 9, "b9"), (2, -3, "a-"), (2, 0, "a0"), (2, 9, "a9")] == rows_of(found)


def test_fetch_segment(backend: StateBackend) -> None:
    """One segment's entries of the keys come by key number and time, and nothing from other segments."""
    store = filled(backend)
    assert [(0, 9, "b9"), (1, 0, "a0"), (1, 9, "a9")] == rows_of(store.fetch_segment(0, [b"b", b"a", b"c"]))
    assert [] == rows_of(store.fetch_segment(1, [b"a", b"b"]))


@pytest.mark.parametrize(("most_bytes", "parts"), [(1, 3), (10**9, 2)])
def test_scan_in_parts(
    backend: StateBackend, monkeypatch: pytest.MonkeyPatch, most_bytes: int, parts: int
) -> None:
    """A long segment is scanned in several parts, each with keys of its own, stored and staged alike."""
    monkeypatch.setattr(chunks, "_MOST_BYTES", most_bytes)
    monkeypatch.setattr(chunks, "_MANY", 1)
    store = filled(backend)
    store.put_many([b"e", b"f", b"a"], entries((0, 1, "e1"), (1, 2, "f2"), (2, 6, "a6")))
    commit(store)
    store.put_many([b"d", b"e"], entries((0, 5, "d5"), (1, 3, "e3")))
    store.delete_many([b"b"], np.array([0]), np.array([9]))
    found = [
        sorted((keys[n], time, tag) for n, time, tag in rows_of(part)) for keys, part in store.scan_segment(0)
    ]
    expected = [(b"a", 0, "a0"), (b"a", 6, "a6"), (b"a", 9, "a9"), (b"d", 5, "d5")]
    expected += [(b"e", 1, "e1"), (b"e", 3, "e3"), (b"f", 2, "f2")]
    assert (parts, expected) == (len(found), sorted(row for part in found for row in part))
    assert [] == list(store.scan_segment(7))
    store.expire(10)
    assert [] == list(store.scan_segment(0))


def test_keys_of_a_segment(backend: StateBackend) -> None:
    """Keys with a page in the segment are listed once, stored and staged alike."""
    store = filled(backend)
    store.put_many([b"d", b"a"], entries((0, 5, "d5"), (1, 6, "a6")))
    store.delete_many([b"b"], np.array([0]), np.array([9]))
    assert [[b"a", b"d"], [b"b"], []] == [sorted(store.keys(segment)) for segment in (0, 2, 7)]


def test_put_replaces_the_same_key_and_time(backend: StateBackend) -> None:
    """A put takes the place of what is there for the same key and time, and leaves the rest."""
    store = filled(backend)
    store.put_many([b"b", b"a"], entries((0, 9, "new b"), (1, 0, "new a"), (1, 4, "a4")))
    expected = FILLED | {
        b"a": [(-3, "a-"), (0, "new a"), (4, "a4"), (9, "a9")],
        b"b": [(9, "new b"), (25, "b25")],
    }
    assert expected == model_of(store)
    commit(store)
    assert expected == model_of(store)


def test_put_keeps_several_of_one_time(backend: StateBackend) -> None:
    """Several entries of one key and time are kept in their order, and replaced together."""
    store = WindowStore(backend, LAYOUT, 10)
    store.put_many([b"a"], entries((0, 1, "x"), (0, 1, "y"), (0, 1, "x"), (0, 2, "z")))
    commit(store)
    assert {b"a": [(1, "x"), (1, "y"), (1, "x"), (2, "z")]} == model_of(store)
    store.put_many([b"a"], entries((0, 1, "q"), (0, 1, "p")))
    assert {b"a": [(1, "q"), (1, "p"), (2, "z")]} == model_of(store)


def test_put_of_nothing(backend: StateBackend) -> None:
    """A put without entries changes nothing."""
    store = filled(backend)
    store.put_many([b"a", b"new"], entries())
    store.put_many([], entries())
    assert not store.drain_changes()
    assert FILLED == model_of(store)


def test_put_leaves_its_entries_alone(backend: StateBackend) -> None:
    """The entries given to a put are the same afterwards, and later changes to them are not seen."""
    store, given_ = WindowStore(backend, LAYOUT, 10), entries((0, 1, "x"), (0, 12, "y"))
    store.put_many([b"a"], given_)
    assert [(0, 1, "x"), (0, 12, "y")] == rows_of(given_)
    given_.time[:] = 5
    assert {b"a": [(1, "x"), (12, "y")]} == model_of(store)


def test_delete_takes_exact_pairs(backend: StateBackend) -> None:
    """Deletes take the pairs of key and time that are there, pair by pair; others are no error."""
    store = filled(backend)
    key, time = np.array([1, 0, 0, 2, 1]), np.array([25, 9, -4, 0, 0])
    store.delete_many([b"a", b"b", b"x"], key, time)
    expected = {b"a": [(-3, "a-"), (0, "a0")], b"b": [(9, "b9")], b"c": [(-10, "c-")]}
    assert expected == model_of(store)
    commit(store)
    assert expected == model_of(store)


def test_deleting_all_empties_the_store(backend: StateBackend) -> None:
    """When every entry was deleted the store is empty, before and after the commit, and so is the backend."""
    store = filled(backend)
    for key, rows in FILLED.items():
        store.delete_many([key], np.zeros(len(rows), np.int64), np.array([time for time, _ in rows]))
    assert (True, {}) == (store.is_empty(), model_of(store))
    commit(store)
    assert (True, [], []) == (store.is_empty(), store.segments(), backend.segments())


def test_deleted_entries_can_come_back(backend: StateBackend) -> None:
    """A put after a delete of the same page, in one commit, is there."""
    store = filled(backend)
    store.delete_many([b"a"], np.zeros(2, np.int64), np.array([0, 9]))
    store.put_many([b"a"], entries((0, 5, "again")))
    assert [(-3, "a-"), (5, "again")] == model_of(store)[b"a"]
    commit(store)
    assert [(-3, "a-"), (5, "again")] == model_of(store)[b"a"]


def test_replace_segment(backend: StateBackend) -> None:
    """The given entries become the only ones of the keys in the segment; keys without any lose their page."""
    store = filled(backend)
    store.replace_segment(0, [b"d", b"b", b"a"], entries((0, 3, "d3"), (2, 7, "a7"), (2, 8, "a8")))
    expected = FILLED | {b"a": [(-3, "a-"), (7, "a7"), (8, "a8")], b"b": [(25, "b25")], b"d": [(3, "d3")]}
    assert expected == model_of(store)
    commit(store)
    assert expected == model_of(store)
    assert [b"a", b"d"] == sorted(key for key, _ in backend.iterate(0))


def test_changes_are_taken_once(backend: StateBackend) -> None:
    """Taken changes hold exactly what was staged, and are forgotten here."""
    store = filled(backend)
    store.put_many([b"a"], entries((0, 4, "a4")))
    store.delete_many([b"b"], np.array([0]), np.array([25]))
    changes = store.drain_changes()
    assert {0: [b"a"]} == {segment: list(pages) for segment, pages in changes.puts.items()}
    assert {2: {b"b"}} == changes.deletes
    assert None is changes.drop_segments_below
    assert WriteBatch() == store.drain_changes()
    assert FILLED == model_of(store)
    backend.write(changes, b"v2")
    assert FILLED | {b"a": [(-3, "a-"), (0, "a0"), (4, "a4"), (9, "a9")], b"b": [(9, "b9")]} == model_of(
        store
    )


def test_deletes_of_what_is_not_stored_are_left_out(backend: StateBackend) -> None:
    """Pages that came and went in one batch, and pages that never were, are no changes for the backend."""
    store = filled(backend)
    nothing = entries((0, 0, "")).take(np.array([], np.int64))
    store.replace_segment(0, [b"c", b"a"], nothing)
    store.replace_segment(7, [b"a", b"b"], nothing)
    store.put_many([b"e"], entries((0, 5, "e5")))
    store.delete_many([b"e"], np.array([0]), np.array([5]))
    changes = store.drain_changes()
    assert ({0: {b"a"}}, {}) == (changes.deletes, changes.puts)


def test_expire_drops_whole_dead_segments(backend: StateBackend) -> None:
    """Segments whose time is over go as a whole, in one change; one with any younger entry stays whole."""
    store = filled(backend)
    store.expire(0)
    without = {b"a": [(0, "a0"), (9, "a9")], b"b": FILLED[b"b"]}
    assert (without, [0, 2]) == (model_of(store), store.segments())
    store.expire(9)
    assert without == model_of(store)
    changes = store.drain_changes()
    assert WriteBatch(drop_segments_below=0) == changes
    backend.write(changes, b"v2")
    assert (without, [0, 2]) == (model_of(store), store.segments())


def test_expire_never_goes_back(backend: StateBackend) -> None:
    """An earlier edge after a later one brings nothing back and drops nothing more."""
    store = filled(backend)
    store.expire(20)
    store.expire(-100)
    assert {b"b": [(25, "b25")]} == model_of(store)
    assert 1 == store.drain_changes().drop_segments_below


def test_expire_of_all_empties_the_store(backend: StateBackend) -> None:
    """When all segments are dead the store is empty, before and after the commit."""
    store = filled(backend)
    store.expire(30)
    assert (True, [], {}) == (store.is_empty(), store.segments(), model_of(store))
    commit(store)
    assert (True, [], []) == (store.is_empty(), store.segments(), backend.segments())


def test_expire_drops_what_is_only_staged(backend: StateBackend) -> None:
    """Entries that were put but not yet committed expire too, and may be put anew afterwards."""
    store = WindowStore(backend, LAYOUT, 10)
    store.put_many([b"a"], entries((0, 1, "old"), (0, 31, "young")))
    store.expire(30)
    assert {b"a": [(31, "young")]} == model_of(store)
    store.put_many([b"a"], entries((0, 2, "late")))
    expected = {b"a": [(2, "late"), (31, "young")]}
    assert expected == model_of(store)
    commit(store)
    assert expected == model_of(store)


def test_put_into_an_expired_segment(backend: StateBackend) -> None:
    """An entry put after its segment expired in the same commit is there, and nothing of what expired."""
    store = filled(backend)
    store.expire(10)
    store.put_many([b"b", b"c"], entries((0, 8, "b8"), (1, 3, "c3")))
    expected = {b"b": [(8, "b8"), (25, "b25")], b"c": [(3, "c3")]}
    assert expected == model_of(store)
    commit(store)
    assert expected == model_of(store)


def test_expire_knows_entries_from_before_it_was_opened(backend: StateBackend) -> None:
    """A store does not take its own oldest writes for all that a segment of an earlier store holds."""
    store = WindowStore(backend, LAYOUT, 100)
    store.put_many([b"a"], entries((0, 90, "alive")))
    commit(store)
    again = WindowStore(backend, LAYOUT, 100)
    again.put_many([b"b"], entries((0, 10, "dead")))
    again.expire(50)
    assert [(90, "alive")] == model_of(again).get(b"a")


def test_expire_knows_entries_that_came_from_the_changelog(backend: StateBackend) -> None:
    """Entries that a replay brought to the backend, beside the store, keep their segment alive."""
    store = WindowStore(backend, LAYOUT, 100)
    store.put_many([b"b"], entries((0, 10, "dead")))
    commit(store)
    elsewhere = WindowStore(MemoryBackend(), LAYOUT, 100)
    elsewhere.put_many([b"a"], entries((0, 90, "alive")))
    replayed = elsewhere.drain_changes()
    backend.write(replayed, b"replayed")
    store.changed_outside()
    store.put_many([b"c"], entries((0, 11, "dead")))
    store.expire(50)
    assert [(90, "alive")] == model_of(store).get(b"a")


def test_changes_from_outside_replace_what_is_staged(backend: StateBackend) -> None:
    """When the backend was written beside the store, what was staged is forgotten."""
    store = filled(backend)
    store.put_many([b"a"], entries((0, 5, "a5")))
    store.expire(0)
    store.changed_outside()
    assert FILLED == model_of(store)
    assert WriteBatch() == store.drain_changes()


@pytest.mark.parametrize("segment_ticks", [1, 7, 10**6, 2**59])
def test_any_segment_length(backend: StateBackend, segment_ticks: int) -> None:
    """Segments may be one tick or longer than all time; what is stored is the same."""
    times = sorted({-(2**60) + 1, -1_000_001, -7, -1, 0, 1, 6, 7, 8, 10**6, 2**60 - 1})
    store = WindowStore(backend, LAYOUT, segment_ticks)
    store.put_many([b"a", b"b"], entries(*((n, time, f"{n} {time}") for n in (0, 1) for time in times)))
    commit(store)
    expected = {key: [(time, f"{n} {time}") for time in times] for n, key in enumerate([b"a", b"b"])}
    assert expected == model_of(store)
    assert sorted({time // segment_ticks for time in times}) == store.segments()
    assert [-7, -1, 0, 1] == store.fetch(b"b", -7, 5).time.tolist()
    store.expire(-(2**60))
    assert expected == model_of(store)


def test_second_store_over_the_same_pages(open_copy: Callable[[str], StateBackend]) -> None:
    """A second store over the committed pages reads what the first wrote."""
    backend = open_copy("shared")
    filled(backend)
    assert FILLED == model_of(WindowStore(backend, LAYOUT, 10))


def test_rocksdb_reopened(tmp_path: Path) -> None:
    """What was committed is there after the backend was closed and opened again."""
    from state_backends.backends.rocksdb import RocksDBBackend

    filled(first := RocksDBBackend.open(tmp_path, {}))
    first.close()
    second = RocksDBBackend.open(tmp_path, {})
    assert FILLED == model_of(WindowStore(second, LAYOUT, 10))
    second.close()


def test_merge_entries() -> None:
    """Parts are merged by key and time; equal ones stay in the order of the parts, however many there are."""
    rng = random.Random(1)
    for count in range(8):
        parts = [sorted_rows(rng, rng.randrange(6)) for _ in range(count)]
        merged = merge_entries([entries(*part) for part in parts], LAYOUT)
        expected = sorted((row for part in parts for row in part), key=lambda row: row[:2])
        assert expected == rows_of(merged)


def sorted_rows(rng: random.Random, count: int) -> list[tuple[int, int, str]]:
    rows = [(rng.randrange(3), rng.randrange(-3, 3), str(rng.random())) for _ in range(count)]
    return sorted(rows, key=lambda row: row[:2])


KEYS = [b"", b"a", b"b", b"\xff"]
PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(-25, 25)), max_size=8)
STEP = st.one_of(
    st.tuples(st.just("put"), PAIRS),
    st.tuples(st.just("delete"), PAIRS),
    st.tuples(st.just("replace"), st.integers(-3, 3), st.sets(st.integers(0, 3)), PAIRS),
    st.tuples(st.just("expire"), st.integers(-30, 30)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("abort")),
    st.tuples(st.just("replay"), PAIRS),
)
SIZES = [(1, 8192), (2, 8192), (3, 200), (32, 8192)]
"""Most entries and bytes of a page."""


@contextmanager
def pages_of(most_entries: int, most_bytes: int) -> Iterator[None]:
    """Pages are cut beyond so many entries or bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "PAGE_ENTRIES", most_entries)
        patch.setattr(cutting, "PAGE_BYTES", most_bytes)
        yield


@pytest.mark.slow
@examples(2)
@given(st.lists(STEP, max_size=12), st.sampled_from([1, 5, 10, 1000]), st.sampled_from(SIZES))
def test_store_is_a_dictionary_of_lists(steps: list[Any], segment_ticks: int, size: tuple[int, int]) -> None:
    """Whatever was put, deleted, replaced, expired and committed, every read shows what plain lists hold."""
    with pages_of(*size):
        run(WindowStore(MemoryBackend(), LAYOUT, segment_ticks), steps)


def test_an_expiry_that_does_not_count_leaves_no_earlier_end_of_a_segment(backend: StateBackend) -> None:
    """A segment is dropped and written anew, and both are aborted: what it has again is as late as it was."""
    store = WindowStore(backend, LAYOUT, 10)
    steps = [("put", [(1, 9)]), ("commit",), ("expire", 20), ("put", [(1, 2)]), ("abort",), ("expire", 5)]
    run(store, steps)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("segment_ticks", [10, 40])
def test_store_over_each_backend(
    backend: StateBackend, segment_ticks: int, size: tuple[int, int], rng: random.Random
) -> None:
    """The same on every backend, with stores that are opened anew over the committed state now and then."""

    def pairs(most: int) -> list[tuple[int, int]]:
        return [(rng.randrange(4), rng.randint(-25, 25)) for _ in range(rng.randint(0, most))]

    kinds = ["put", "put", "delete", "replace", "expire", "commit", "abort", "replay", "reopen"]
    steps: list[Any] = []
    for kind in rng.choices(kinds, k=150):
        arguments = {
            "put": [pairs(3)],
            "delete": [pairs(8)],
            "replace": [rng.randint(-3, 3), {0, 2, 3}, pairs(5)],
            "expire": [rng.randint(-60, 30)],
            "replay": [pairs(3)],
        }
        steps.append((kind, *arguments.get(kind, [])))
    with pages_of(*size):
        run(WindowStore(backend, LAYOUT, segment_ticks), steps)


def run(store: WindowStore, steps: Iterable[Any]) -> None:
    """Take the steps on the store and on a dictionary of lists, and compare after each."""
    model: Model = {}
    committed: Model = {}
    for number, (step, *arguments) in enumerate(steps):
        ticks = store.segment_ticks
        if step == "put":
            put(store, model, number, arguments[0])
        elif step == "delete":
            gone = arguments[0]
            store.delete_many(
                KEYS, np.array([k for k, _ in gone], np.int64), np.array([t for _, t in gone], np.int64)
            )
            remove(model, set(gone))
        elif step == "replace":
            segment, numbers, given_ = arguments
            chosen = sorted(numbers)
            pairs = [(k, segment * ticks + t % ticks) for k, t in given_ if k in numbers]
            rows = sorted((key, time, f"{number}.{n}") for n, (key, time) in enumerate(pairs))
            local = [(chosen.index(key), time, tag) for key, time, tag in rows]
            store.replace_segment(segment, [KEYS[n] for n in chosen], entries(*local))
            remove(
                model, {(n, t) for n in chosen for t, _ in model.get(KEYS[n], []) if t // ticks == segment}
            )
            insert(model, rows)
        elif step == "expire":
            store.expire(arguments[0])
            model = expired(model, model_of(store), arguments[0], ticks)
        elif step == "abort":
            store.changed_outside()
            model = copied(committed)
        elif step == "replay":
            other, model = WindowStore(store.backend, LAYOUT, ticks), copied(committed)
            put(other, model, number, arguments[0])
            changes = other.drain_changes()
            store.backend.write(changes, b"v")
            store.changed_outside()
            store.usage.measure(store.backend)
            committed = copied(model)
        else:
            commit(store)
            committed = copied(model)
            check_usage(store)
            if step == "reopen":
                store = WindowStore(store.backend, LAYOUT, ticks)
                store.usage.measure(store.backend)
        check(store, model)


def put(store: WindowStore, model: Model, number: int, pairs: list[tuple[int, int]]) -> None:
    """Put entries in the store and in the model."""
    rows = sorted((key, time, f"{number}.{n}") for n, (key, time) in enumerate(pairs))
    store.put_many(KEYS, entries(*rows))
    remove(model, {(key, time) for key, time, _ in rows})
    insert(model, rows)


def copied(model: Model) -> Model:
    return {key: list(rows) for key, rows in model.items()}


def check_usage(store: WindowStore) -> None:
    """Assert that pages are counted right, and that none is larger than it may be."""
    counted = StoreUsage(LAYOUT)
    counted.measure(store.backend)
    assert sorted(counted.plain()) == sorted(store.usage.plain())
    for segment in store.backend.segments():
        begin, _ = store.span_of(segment)
        for name, page in store.backend.iterate(segment):
            (times, *_), _ = LAYOUT.decode([page])
            _, (start,) = keys_and_starts([name], begin)
            assert key_of(name) in KEYS
            assert start <= times[0]
            assert len(times) - Counter(times.tolist()).most_common(1)[0][1] < cutting.PAGE_ENTRIES


def remove(model: Model, pairs: set[tuple[int, int]]) -> None:
    for number, key in enumerate(KEYS):
        kept = [row for row in model.get(key, []) if (number, row[0]) not in pairs]
        model.pop(key, None)
        model |= {key: kept} if kept else {}


def insert(model: Model, rows: Sequence[tuple[int, int, str]]) -> None:
    for number, time, tag in rows:
        model.setdefault(KEYS[number], []).append((time, tag))
        model[KEYS[number]].sort(key=lambda row: row[0])


def expired(model: Model, found: Model, before: int, ticks: int) -> Model:
    """The model after an expiry, which may drop a segment early only if all that it holds is dead."""
    times: dict[int, list[int]] = {}
    for rows in model.values():
        for time, _ in rows:
            times.setdefault(time // ticks, []).append(time)
    left = {time // ticks for rows in found.values() for time, _ in rows}
    for segment, here in times.items():
        if max(here) >= before:
            assert segment in left, f"segment {segment} holds {max(here)}, which is not before {before}"
        if (segment + 1) * ticks <= before:
            assert segment not in left, f"segment {segment} is over at {before}"
    kept = {key: [row for row in rows if row[0] // ticks in left] for key, rows in model.items()}
    return {key: rows for key, rows in kept.items() if rows}


def check(store: WindowStore, model: Model) -> None:
    """Assert that every read of the store shows the model, and that what it knows of pages is right."""
    store.check()
    assert model == model_of(store)
    assert (not model) == store.is_empty()
    ticks = store.segment_ticks
    held = {time // ticks for rows in model.values() for time, _ in rows}
    assert held <= set(store.segments())
    assert sorted(store.segments()) == store.segments()
    for segment in {0, *store.segments()}:
        expected = sorted(
            key for key, rows in model.items() if any(time // ticks == segment for time, _ in rows)
        )
        assert expected == sorted(store.keys(segment))
    asked = [b"absent", *KEYS[::-1]]
    for start, end in [(TIME_MIN, TIME_MAX), (-7, 4), (5, 5), (3, -3)]:
        expected_rows = [
            (n, *row) for n, key in enumerate(asked) for row in model.get(key, []) if start <= row[0] <= end
        ]
        assert expected_rows == rows_of(store.fetch_many(asked, start, end))


class CountingBackend(MemoryBackend):
    """Counts the pages that are asked for."""

    asked = 0

    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        self.asked += len(keys)
        return super().get_many(segment, keys)


def test_keys_are_looked_up_where_they_are() -> None:
    """Of keys with a page each, a page each is asked for, whatever the number of segments; also after a scan."""
    counting = CountingBackend()
    store = WindowStore(counting, LAYOUT, 10)
    keys = [b"key %d" % n for n in range(100)]
    store.put_many(keys, entries(*((n, n % 20 * 10, f"{n}") for n in range(100))))
    assert 0 == counting.asked
    changes = store.drain_changes()
    counting.write(changes, b"1")
    assert 100 == len(store.fetch_many(keys, 0, 1_000)) == counting.asked
    store.put_many([b"key 3", b"new"], entries((0, 31, "c"), (1, 50, "d")))
    counting.write(store.drain_changes(), b"2")
    assert 101 == counting.asked

    reopened = WindowStore(counting, LAYOUT, 10)
    reopened.changed_outside()
    assert 102 == len(reopened.fetch_many([*keys, b"new"], 0, 1_000))
    assert 101 + 20 * 101 == counting.asked
    for segment in reopened.segments():
        reopened.note_keys(segment)
    counting.asked = 0
    assert 5 == len(reopened.fetch_segment(0, [b"key 0", b"key 1", b"none", *keys[20::20]]))
    assert 5 == counting.asked
