"""Parts of all pages: what changes in some pages leaves the parts of others as they are."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from state_backends import WriteBatch, load_backend
from state_backends.contract import Pages
from state_backends.durability import pages_in_parts, schedule, snapshots
from state_backends.durability.pages_in_parts import page_parts
from tests.state_backends.durability.snapshot_store import Store, names

SEGMENTS, KEYS = 4, 1_000
PART = 40_000
"""Bytes of a part, of which there are some 25."""
CHANGES = {
    "a key comes, before all others": WriteBatch({-1: {b"new": b"page"}}),
    "a key comes": WriteBatch({0: {b"new": b"page"}}),
    "a page grows": WriteBatch({0: {b"k-7": b"p" * 3_000}}),
    "a page shrinks": WriteBatch({0: {b"k-7": b""}}),
    "a key goes": WriteBatch({}, {0: {b"k-7"}}),
    "a key in each segment comes": WriteBatch({segment: {b"new": b"page"} for segment in range(SEGMENTS)}),
    "the first tenth of the pages goes": WriteBatch({}, {0: {b"k-%d" % key for key in range(400)}}),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of so many bytes, each of which is large enough to be shared, and a snapshot with each batch."""
    monkeypatch.setattr(pages_in_parts, "PART_BYTES", PART)
    monkeypatch.setattr(snapshots, "_LEAST_SHARED", PART // 8)
    monkeypatch.setattr(schedule, "LOG_TO_SNAPSHOT", 0)


def filled(rng: random.Random) -> Pages:
    """Pages of many sizes, in several segments."""
    return {
        segment: {b"k-%d" % key: rng.randbytes(rng.randrange(500)) for key in range(KEYS)}
        for segment in range(SEGMENTS)
    }


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_snapshot_sends_what_has_changed(
    tmp_path: Path, opened: Callable[..., Store], rng: random.Random, change: str, *, restored: bool
) -> None:
    """One of `memory`, by the copy that wrote the one before, or by one that was restored from it."""
    store = opened(tmp_path, bytes=1)
    copy = store.copy("memory")
    store.commit(copy, WriteBatch(filled(rng)))
    whole, before = store.pointer.newest.size, names(store.files)
    store.commit(store.copy("memory") if restored else copy, CHANGES[change])
    sent = sum((store.files / name).stat().st_size for name in names(store.files) - before)
    assert 0 < sent < whole / 4
    store.assert_restores("memory")
    store.assert_restores("rocksdb")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("page", [0, 1, 300, PART // 2 + 1, 3 * PART])
def test_parts_have_bounded_sizes(tmp_path: Path, page: int) -> None:
    """Whatever the sizes of pages and the number of segments are; each page is in one part, in order."""
    backend = load_backend("memory").open(tmp_path, {})
    puts = {segment: {b"%d" % key: bytes(page) for key in range(100)} for segment in range(3)}
    backend.write(WriteBatch(puts), b"version")
    found = list(page_parts(backend))
    sizes = [
        sum(len(key) + len(one) for some in part.values() for key, one in some.items()) for part in found
    ]
    assert all(PART // 2 <= size <= 2 * PART + page + 2 for size in sizes[:-1])
    joined: Pages = {}
    for part in found:
        for segment, some in part.items():
            joined.setdefault(segment, {}).update(some)
    assert joined == puts
    assert [list(some) for some in puts.values()] == [list(some) for some in joined.values()]
    backend.close()
