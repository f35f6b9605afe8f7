"""The index of keys never misses a page, and seldom tells of one that is not there."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import PageLayout
from state_backends import Entries, WindowStore
from state_backends.backends.memory import MemoryBackend
from state_backends.store.key_index import KeyIndex, hashes

KEYS = [b"key %d" % number for number in range(3_000)]
STEPS = st.lists(
    st.tuples(st.sampled_from(["note", "note", "note", "drop"]), st.integers(-40, 40), st.integers(0, 2_999)),
    max_size=30,
)


def keys_in(index: KeyIndex, segment: int) -> set[bytes]:
    """All keys that may have a page in the segment."""
    return set(np.array(KEYS)[index.has(segment, index.segments(hashes(KEYS)))].tolist())


@pytest.mark.slow
@given(STEPS)
def test_pages_that_were_noted_are_found(steps: list[tuple[str, int, int]]) -> None:
    """Whatever was noted and not dropped is told; of other keys at most those of segments 32 apart, or of the same hash."""
    index, noted, ever = KeyIndex(), dict[int, set[bytes]](), dict[int, set[bytes]]()
    for what, segment, first in steps:
        if what == "note":
            index.know(segment)
            index.note(segment, hashes(KEYS[first : first + 700]))
            for kept in (noted, ever):
                kept.setdefault(segment, set()).update(KEYS[first : first + 700])
        else:
            index.drop_segments_below(segment)
            noted = {number: keys for number, keys in noted.items() if number >= segment}
    same = {}
    for key, number in zip(KEYS, hashes(KEYS).tolist(), strict=True):
        same.setdefault(number, set()).add(key)
    twins = {key for keys in same.values() if len(keys) > 1 for key in keys}
    for segment in range(-40, 41):
        assert (segment in noted) == (segment in index)
        if segment in noted:
            apart = [keys for number, keys in ever.items() if (number - segment) % 32 == 0]
            assert noted[segment] <= keys_in(index, segment) <= set().union(*apart) | twins


def test_dropped_segments_leave_nothing() -> None:
    """A segment that comes back after it was dropped begins without keys, also 32 later."""
    index = KeyIndex()
    for segment in (0, 1):
        index.know(segment)
        index.note(segment, hashes(KEYS))
    index.drop_segments_below(1)
    for segment in (32, 0):
        index.know(segment)
        assert set() == keys_in(index, segment)
    assert set(KEYS) == keys_in(index, 1)


def test_unknown_segments() -> None:
    """What was noted of a segment counts once all of it was noted; nothing is known after `clear`."""
    index = KeyIndex()
    index.note(3, hashes(KEYS[:10]))
    assert 3 not in index
    index.know(3)
    assert set(KEYS[:10]) == keys_in(index, 3)
    index.clear()
    assert 3 not in index


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1_000, 300_000])
def test_size_and_errors(at_once: int) -> None:
    """300,000 keys take up to 20 bytes each, also when older ones have gone, and few others are taken for one of them."""
    index, keys = KeyIndex(), [b"%d" % number for number in range(600_000)]
    for segment, begin in enumerate(range(0, 600_000, at_once)):
        index.know(segment)
        index.drop_segments_below(segment - 300_000 // at_once + 1)
        index.note(segment, hashes(keys[begin : begin + at_once]))
    assert len(index._hash) * 8 <= 20 * 300_000 * 2
    told = index.segments(hashes(keys[300_000:])) != 0
    assert told.all()
    others = index.segments(hashes(b"other %d" % number for number in range(100_000))) != 0
    assert 0.001 > others.mean()


def test_equal_hashes_in_one_call() -> None:
    """Hashes that are equal, or want the same place, all find one."""
    index, rng = KeyIndex(), random.Random(5)
    crowded = np.array([rng.randrange(1, 2**10) for _ in range(500)], np.uint32)
    index.know(0)
    index.note(0, crowded)
    assert index.has(0, index.segments(crowded)).all()
    assert not index.has(0, index.segments(np.array([2**10 + 1, 2**31], np.uint32))).any()


class Counting(MemoryBackend):
    """Counts the keys that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def scan_keys(self, segment: int) -> Iterator[list[bytes]]:
        for keys in super().scan_keys(segment):
            self.read += len(keys)
            yield keys


def names_of(batch: int) -> list[bytes]:
    """The keys of a batch, which no other has."""
    return [b"%d %d" % (batch, number) for number in range(1_000)]


def put(store: WindowStore, batch: int, time: int) -> None:
    """Write an entry for each key of a batch."""
    store.put_many(names_of(batch), Entries(np.arange(1_000), (np.full(1_000, time),)))


@pytest.mark.slow
@pytest.mark.parametrize("segments", [1, 8, 40])
def test_keys_that_come_and_go(segments: int) -> None:
    """However many keys there ever were, the index holds few more than there are pages, and building it again costs little.

    Each key is in one segment. One segment is always there; of the others, if any, each has a batch's keys and is dropped
    later: 32 and more share the bits of the index, so that keys stay there although their segment was dropped.
    """
    backend = Counting()
    store = WindowStore(backend, PageLayout(("i8",)), 10)
    always, live = [b"%d" % number for number in range(100)], max(segments - 1, 3)
    store.put_many(always, Entries(np.arange(100), (np.full(100, 10_000),)))
    for batch in range(150):
        put(store, batch, 10_005 if segments == 1 else 10 * batch)
        if segments == 1 and batch >= live:
            gone = names_of(batch - live)
            store.delete_many(gone, np.arange(1_000), np.full(1_000, 10_005))
        store.expire(10 * (batch - live + 1))
        backend.write(store.drain_changes(), b"%d" % batch)
        assert len(store._directory) <= max(1 << 14, 2 * store.usage.pages) + 2_000
    kept = {key for batch in range(150 - live, 150) for key in names_of(batch)} | {*always}
    assert kept == {key for segment in store.segments() for key in store.keys(segment)}
    assert store.usage.keys == pytest.approx(len(kept), rel=0.055)  # five standard errors
    names = sorted(kept)
    assert len(names) == sum(len(store.fetch_segment(segment, names)) for segment in store.segments())
    assert store.may_have(1_000, always, store.locate(always)).all()
    assert backend.read <= 150_000
    assert (backend.read > 0) == (
        segments != 8
    )  # What was dropped with all its segments is forgotten without it.
