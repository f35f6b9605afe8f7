"""Promises about pages: what is put is found by its key, whatever its bytes, until it is deleted."""

import random
import tracemalloc
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from state_backends.contract.base import Contract
from state_backends.contract.states import AWKWARD_KEYS, LONG_KEYS, assert_holds, check
from state_backends.interface import StateBackend, WriteBatch

_MANY = "tens of thousands of pages are written and read at once"
_MIB = 48


def _most_mib(act: Callable[[], object]) -> int:
    """The most memory that Python holds for what is done."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1] >> 20
    finally:
        tracemalloc.stop()


class PagesContract(Contract):
    """Pages by key, and the version."""

    def test_get_many_keeps_the_order_asked(self, backend: StateBackend) -> None:
        """Pages come in the order of the keys, None for a missing page; a key may be given twice."""
        backend.write(WriteBatch(puts={3: {b"a": b"1", b"b": b"2", b"c": b"3"}}), b"v")
        asked = [b"c", b"x", b"a", b"c", b"", b"b", b"y"]
        expected = [b"3", None, b"1", b"3", None, b"2", None]
        check(
            "get_many returns one page or None for each key, in the order of the keys",
            expected,
            backend.get_many(3, asked),
        )

    def test_get_many_of_nothing(self, backend: StateBackend) -> None:
        """No keys give no pages, in a segment that exists and in one that does not."""
        backend.write(WriteBatch(puts={3: {b"a": b"1"}}), b"v")
        for segment in (3, 4):
            check("get_many of no keys is an empty list", [], backend.get_many(segment, []))

    def test_get_many_looks_in_one_segment(self, backend: StateBackend) -> None:
        """The same key in neighbouring segments is another page."""
        backend.write(WriteBatch(puts={-1: {b"a": b"-"}, 0: {b"a": b"0"}, 1: {b"b": b"+"}}), b"v")
        found = [backend.get_many(segment, [b"a"]) for segment in (-1, 0, 1)]
        check(
            "get_many finds pages of the given segment, and of no other",
            [[b"-"], [b"0"], [None]],
            found,
        )

    def test_a_purge_removes_the_bytes_of_what_is_gone(self, directory: Path) -> None:
        """No file has deleted and replaced pages, and deleted keys, any more; what is stored stays, also for the next owner."""
        kept = {n: {b"kept %d" % key: bytes(40) for key in range(300)} for n in (0, 1)}
        with closing(self.open(directory)) as backend:
            gone = dict.fromkeys([b"forgotten key %d" % key for key in range(3)], b"forgotten page")
            for n in range(3):
                last = {b"kept 0": b"replaced page" if n < 2 else bytes(40)}
                puts = {0: kept[0] | gone | last, 1: kept[1], 2: gone}
                backend.write(WriteBatch(puts=puts), b"%d" % n)
            backend.write(WriteBatch(deletes={0: {*gone}, 2: {*gone}}), b"last")
            backend.purge()
            assert_holds(backend, kept, b"last", "purge leaves what is stored as it is")
            for when in ("after purge", "after the write that follows"):
                files = {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
                found = [
                    name for name, data in files.items() if b"forgotten" in data or b"replaced page" in data
                ]
                check(f"no file has the bytes of what was deleted or replaced ({when})", [], found)
                backend.write(WriteBatch(), b"next")
        with closing(self.open(directory)) as backend:
            if backend.version is not None:
                assert_holds(backend, kept, b"next", "purge leaves what is stored as it is")

    def test_get_many_of_many_keys(self, backend: StateBackend) -> None:
        """150,000 pages are found at once, and as many missing ones are None."""
        pages = {b"%d" % n: b"page %d" % n for n in range(150_000)}
        backend.write(WriteBatch(puts={0: pages}), b"v")
        asked = [key for n in range(150_000) for key in (b"%d" % n, b"no %d" % n)]
        expected = [pages.get(key) for key in asked]
        check("get_many takes hundreds of thousands of keys at once", expected, backend.get_many(0, asked))

    def test_last_put_counts(self, backend: StateBackend) -> None:
        """A put replaces the page that was there, by a longer or a shorter one."""
        for number, page in enumerate([b"first", b"", b"the longest of them all", b"2"]):
            backend.write(WriteBatch(puts={0: {b"a": page}}), b"v%d" % number)
            assert_holds(
                backend, {0: {b"a": page}}, b"v%d" % number, "a put replaces the page that was there"
            )

    def test_deletes_of_what_is_not_there(self, backend: StateBackend) -> None:
        """Deleting an absent key, or in an absent segment, is no error and changes nothing."""
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v1")
        backend.write(WriteBatch(deletes={0: {b"b", b""}, 7: {b"a"}, -7: set()}), b"v2")
        assert_holds(backend, {0: {b"a": b"1"}}, b"v2", "a delete of a missing page changes nothing")

    def test_write_leaves_its_batch_alone(self, backend: StateBackend) -> None:
        """The batch is the same after the write, since it goes to the changelog next."""
        batch = WriteBatch(
            puts={0: {b"a": b"1"}, 1: {}}, deletes={0: {b"a"}, 2: {b"b"}}, drop_segments_below=0
        )
        backend.write(batch, b"v")
        same = WriteBatch({0: {b"a": b"1"}, 1: {}}, {0: {b"a"}, 2: {b"b"}}, 0)
        check("write leaves its batch as it is", same, batch)

    def test_version_is_that_of_the_last_write(self, backend: StateBackend) -> None:
        """Any bytes are a version, a batch without changes sets it too, and the same one may come twice."""
        pages = {0: {b"a": b"1"}}
        backend.write(WriteBatch(puts=pages), b"first")
        for version in (b"\x00\xff" * 8, b"\x00", b"first", b"first", b"v" * 1_000):
            backend.write(WriteBatch(), version)
            assert_holds(
                backend, pages, version, "the version is that of the last write, also of one without changes"
            )

    def test_keys_of_any_bytes(self, backend: StateBackend) -> None:
        """Keys that are empty, long, prefixes of others or of any bytes are kept apart, in every segment."""
        promise = "keys of any bytes are kept apart"
        pages = {n: {key: b"%d %d" % (n, i) for i, key in enumerate(AWKWARD_KEYS)} for n in (-1, 0, 1)}
        backend.write(WriteBatch(puts=pages), b"v1")
        assert_holds(backend, pages, b"v1", promise)
        for key in AWKWARD_KEYS:
            del pages[0][key]
            pages = {n: kept for n, kept in pages.items() if kept}
            backend.write(WriteBatch(deletes={0: {key}}), b"v2")
            assert_holds(backend, pages, b"v2", promise)

    def test_keys_of_any_length(self, backend: StateBackend) -> None:
        """Keys of each length to 1,100 bytes, and of some to 20 KB, are kept apart, also where they are alike."""
        pages = {key: b"%d" % number for number, key in enumerate(LONG_KEYS)}
        backend.write(WriteBatch(puts={0: pages}), b"v1")
        assert_holds(backend, {0: pages}, b"v1", "keys of any length to 20 KB are kept apart")
        gone = set(LONG_KEYS[::2])
        backend.write(WriteBatch(deletes={0: gone}), b"v2")
        left = {key: page for key, page in pages.items() if key not in gone}
        assert_holds(backend, {0: left}, b"v2", "keys of any length to 20 KB are deleted alone")

    def test_many_pages(self, backend: StateBackend) -> None:
        """Tens of thousands of pages of a segment are put, replaced, deleted, dropped and cleared at once."""
        keys = [b"%030d" % number for number in range(40_000)]
        puts = {segment: dict.fromkeys(keys, b"%d" % segment) for segment in (0, 1)}
        backend.write(WriteBatch(puts=puts), b"v1")
        self._assert_many(backend, puts)
        backend.write(WriteBatch(puts={1: dict.fromkeys(keys, b"new")}, drop_segments_below=1), b"v2")
        self._assert_many(backend, {1: dict.fromkeys(keys, b"new")})
        backend.write(WriteBatch(deletes={1: set(keys[100:])}), b"v3")
        assert_holds(backend, {1: dict.fromkeys(keys[:100], b"new")}, b"v3", _MANY)
        backend.write(WriteBatch(puts=puts), b"v4")
        backend.clear()
        assert_holds(backend, {}, None, _MANY)

    def _assert_many(self, backend: StateBackend, pages: dict[int, dict[bytes, bytes]]) -> None:
        check(f"{_MANY} (segments)", sorted(pages), backend.segments())
        for segment, kept in pages.items():
            check(f"{_MANY} (get_many)", list(kept.values()), backend.get_many(segment, list(kept)))
            check(f"{_MANY} (iterate)", sorted(kept.items()), sorted(backend.iterate(segment)))
            # All lists are held while the next ones are read: none of them may be used again.
            scanned, keys = list(backend.scan(segment)), list(backend.scan_keys(segment))
            pairs = [pair for chunk in scanned for pair in zip(*chunk, strict=True)]
            check(f"{_MANY} (scan)", sorted(kept.items()), sorted(pairs))
            check(f"{_MANY} (scan_keys)", sorted(kept), sorted(key for some in keys for key in some))

    def test_little_memory_is_needed(self, directory: Path) -> None:
        """Iterate holds a few pages at a time, scan some MiB, and open none: a segment may be larger than memory."""
        page = random.Random(1).randbytes(1 << 20)
        with closing(self.open(directory)) as backend:
            for number in range(_MIB):
                backend.write(WriteBatch(puts={0: {b"%d" % number: page}}), b"v")
            sizes = [sum(map(len, pages)) >> 20 for _, pages in backend.scan(0)]
            check("scan yields all pages of a segment", _MIB, sum(sizes))
            check(f"scan yields some MiB at a time, not {max(sizes)}", True, max(sizes) <= _MIB // 2)
            most = _most_mib(lambda: deque(backend.iterate(0), maxlen=0))
            check(f"iterate needs the memory of a few pages, not {most} MiB", True, most <= _MIB // 2)
        most = _most_mib(lambda: self.open(directory).close())
        check(
            f"open needs little memory, whatever the size of the state, not {most} MiB",
            True,
            most <= _MIB // 2,
        )

    def test_pages_of_any_bytes_and_size(self, backend: StateBackend) -> None:
        """Pages may be empty, of any bytes, and of many MiB."""
        large = random.Random(1).randbytes(1 << 20) * 9
        pages = {
            0: {b"empty": b"", b"zero": b"\x00", b"all": bytes(range(256)), b"large": large},
            1: {b"": large},
            2: {b"a": large[: 1 << 20] * _MIB},
        }
        backend.write(WriteBatch(puts=pages), b"v")
        assert_holds(backend, pages, b"v", "pages may be empty, of any bytes, and of many MiB")
