"""How much a store holds is known without reading it: as a count of all pages says, after whatever was done to it."""

import random
from pathlib import Path

import numpy as np
import pytest

from serializers import PageLayout
from serializers.arrays import fill
from state_backends import Entries, StateBackend, WindowStore
from state_backends.backends.memory import MemoryBackend
from state_backends.backends.rocksdb import RocksDBBackend
from state_backends.backends.spark_state import SparkStateBackend
from state_backends.store import cutting
from state_backends.store.key_index import hashes
from state_backends.store.page_ids import key_of
from state_backends.store.usage import KeySample, StoreUsage

LAYOUT = PageLayout(("i8", "f8", "object"))


def entries(rng: random.Random, keys: int) -> Entries:
    """Some entries of some of the keys, sorted."""
    rows = sorted((rng.randrange(keys), rng.randrange(200)) for _ in range(rng.randrange(1, 20)))
    key, time = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Entries(key, (time, time * 0.5, fill([f"value {t}" for t in time.tolist()])))


def held(store: WindowStore) -> tuple[int, int, int, int]:
    """Pages, entries, bytes and keys of a store's backend, counted one by one."""
    pages = {(n, key): page for n in store.backend.segments() for key, page in store.backend.iterate(n)}
    _, counts = LAYOUT.decode(list(pages.values()))
    return len(pages), int(counts.sum()), sum(map(len, pages.values())), len({key for _, key in pages})


def told(found: StoreUsage) -> tuple[int, int, int, int]:
    """The same by what the store knows of itself."""
    return found.pages, found.entries, found.size, found.keys


@pytest.mark.slow
@pytest.mark.parametrize("kind", [MemoryBackend, SparkStateBackend, RocksDBBackend])
def test_usage_follows_every_change(kind: type[StateBackend], tmp_path: Path) -> None:
    """Puts, additions, deletions, whole segments dropped, pages written unread: what is told is what is there."""
    rng, keys = random.Random(11), [f"key {n}".encode() for n in range(30)]
    store = WindowStore(kind.open(tmp_path / "state", {}), LAYOUT, 25)
    for number in range(60):
        for _ in range(rng.randrange(4)):
            some = entries(rng, len(keys))
            rng.choice([store.put_many, store.add_many])(keys, some)
        gone = entries(rng, len(keys))
        store.delete_many(keys, gone.key, gone.time)
        if number % 7 == 6:
            store.expire(rng.randrange(100))
        page = entries(rng, 1).take(slice(0, 1))
        store.replace_segment(int(page.time[0]) // 25, [rng.choice(keys)], page)
        store.backend.write(store.drain_changes(), b"%d" % number)
        assert held(store) == told(store.usage)
        store.check()
    assert held(store)[0] > 20
    again = StoreUsage(LAYOUT)
    again.load(store.usage.plain(), 0)
    assert told(again)[:3] == held(store)[:3]
    again.measure(store.backend)
    assert told(again)[:3] == held(store)[:3]
    store.backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [MemoryBackend, SparkStateBackend, RocksDBBackend])
def test_keys_of_several_pages(
    kind: type[StateBackend], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key counts until its last page is deleted, whichever goes first."""
    monkeypatch.setattr(cutting, "PAGE_ENTRIES", 3)
    rng, keys = random.Random(47), [f"key {n}".encode() for n in range(8)]
    store = WindowStore(kind.open(tmp_path / "store", {}), LAYOUT, 100)
    further, orphans = 0, 0
    for number in range(220):
        if number % 3:
            some = entries(rng, len(keys))
            store.put_many(keys, some)
        else:
            for key in rng.sample(keys, 4):
                begin = rng.randrange(0, 200, 10)
                time = store.fetch(key, begin, begin + rng.choice([9, 60, 200])).time
                store.delete_many([key], np.zeros(len(time), np.int64), time)
        store.backend.write(store.drain_changes(), b"%d" % number)
        names = {(n, name) for n in store.backend.segments() for name, _ in store.backend.iterate(n)}
        further += len(names)
        orphans += len({(n, key_of(name)) for n, name in names} - names)
        alive = len({key_of(name) for _, name in names})
        assert alive == store.usage.keys, number
        store.check()
    assert (further > 1_000, orphans > 100) == (True, True), (further, orphans)
    store.backend.close()


def test_a_key_that_goes_before_it_is_stored_does_not_count() -> None:
    """As of a lifetime that begins, and is over, in one batch: it is written, seen by a scan, and deleted."""
    store = WindowStore(MemoryBackend(), LAYOUT, 10)
    store.put_many([b"a"], Entries(np.array([0]), (np.array([1]), np.zeros(1), fill(["x"]))))
    assert 1 == len([*store.scan()])
    store.delete_many([b"a"], np.array([0]), np.array([1]))
    store.backend.write(store.drain_changes(), b"1")
    assert (0, 0) == (store.usage.keys, store.usage.pages)
    store.check()


def test_rows_of_pages_without_objects() -> None:
    """Their number follows from the bytes alone."""
    layout, counts = PageLayout(("i8", "f8", "i8", "f8")), np.array([3, 1, 7])
    pages = layout.encode([np.arange(11), np.zeros(11), np.arange(11), np.ones(11)], counts)
    assert 11 == layout.count_rows(pages, sum(map(len, pages)))
    assert 0 == layout.count_rows([], 0)


def test_traffic_counts_pages() -> None:
    """Pages that are there count as read, each time; pages that change as written, once a batch."""
    store = WindowStore(MemoryBackend(), LAYOUT, 10)
    store.put_many(
        [b"a", b"b"], Entries(np.array([0, 1]), (np.array([1, 2]), np.zeros(2), fill(["x", "y" * 99])))
    )
    store.backend.write(store.drain_changes(), b"1")
    pages = [page for _, some in store.backend.scan(0) for page in some]
    longest = max(map(len, pages))
    assert store.usage.drain_traffic() == (0, 2, sum(map(len, pages)), longest)
    store.fetch_segment(0, [b"a", b"b", b"c"])
    store.fetch_segment(0, [b"a"])
    assert store.usage.drain_traffic() == (3, 0, 0, 0)
    store.put_many([b"a"], Entries(np.array([0]), (np.array([1]), np.zeros(1), fill(["z"]))))
    store.backend.write(store.drain_changes(), b"2")
    assert 0 < store.usage.drain_traffic().largest_page < longest, "pages that stay as they are do not count"


def test_many_keys_are_estimated() -> None:
    """Beyond the sample the count is near.

    Hashes differ from process to process: what is allowed is five standard errors.
    """
    names = [f"key {n}".encode() for n in range(50_000)]
    sample = KeySample()
    for segment in range(4):
        sample.add(segment, hashes(names[: 20_000 + 10_000 * segment]))
    assert abs(sample.keys - 50_000) < 5_000
    sample.remove(3, hashes(names))
    sample.drop_segments_below(2)
    assert abs(sample.keys - 40_000) < 4_000


def test_keys_of_many_segments_are_counted_as_well() -> None:
    """What is sampled is keys, not pages: the count is exact up to 16,384 keys, in however many segments each has a page."""
    names = hashes(f"key {n}".encode() for n in range(16_000))
    sample, distinct = KeySample(), len(np.unique(names))
    for segment in range(24):
        sample.add(segment, names)
    assert sample.keys == distinct
    sample.drop_segments_below(23)
    sample.remove(23, names[:1_000])
    assert sample.keys == len(np.unique(names[1_000:]))
    for segment in (23, 24, 30):
        sample.remove(segment, names)
    assert sample.keys == 0


@pytest.mark.slow
def test_the_error_of_the_estimate() -> None:
    """Of ten sets of keys, each in four segments, the root of the mean squared error is that of 8,192 keys or more."""
    rng, errors = np.random.default_rng(5), []
    for _ in range(10):
        keys, sample = np.unique(rng.integers(1, 2**32, 40_000, np.uint32)), KeySample()
        for segment in range(4):
            sample.add(segment, rng.permutation(keys))
        errors.append(sample.keys / len(keys) - 1)
    assert 0.003 < np.sqrt(np.mean(np.square(errors))) < 0.0111
