"""Promises about segments: they are there while they hold a page, in the order of their numbers, and go as a whole."""

from contextlib import closing
from pathlib import Path

from state_backends.contract.base import Contract
from state_backends.contract.states import AWKWARD_KEYS, AWKWARD_SEGMENTS, FAR, assert_holds, check, fail
from state_backends.interface import StateBackend, WriteBatch

_EDGE = "drop_segments_below drops the segments below it as a whole, and no others"


class SegmentsContract(Contract):
    """Segments of pages: dropped, listed and walked through."""

    def test_drops_come_before_deletes_before_puts(self, backend: StateBackend) -> None:
        """A page that one batch drops or deletes and puts is there; one that it drops and deletes is not."""
        backend.write(
            WriteBatch(puts={3: {b"a": b"old", b"b": b"old"}, 6: {b"a": b"old", b"b": b"old"}}), b"v1"
        )
        batch = WriteBatch(
            puts={3: {b"a": b"new"}, 6: {b"a": b"new"}},
            deletes={3: {b"a", b"b"}, 6: {b"a", b"b"}},
            drop_segments_below=5,
        )
        backend.write(batch, b"v2")
        promise = "a batch drops first, then deletes, then puts"
        assert_holds(backend, {3: {b"a": b"new"}, 6: {b"a": b"new"}}, b"v2", promise)

    def test_drop_before_keeps_its_own_segment(self, backend: StateBackend) -> None:
        """Segments with a lower number go as a whole; that number and higher ones stay."""
        backend.write(WriteBatch(puts={n: {b"a": b"1", b"\xff": b"2"} for n in range(-3, 4)}), b"v1")
        for edge in (-9, -1, 0, 3, 9):
            backend.write(WriteBatch(drop_segments_below=edge), b"v2")
            left = {n: {b"a": b"1", b"\xff": b"2"} for n in range(max(edge, -3), 4)}
            assert_holds(backend, left, b"v2", _EDGE)

    def test_dropped_segments_can_come_back(self, backend: StateBackend) -> None:
        """A put into a segment that was dropped earlier is there, and nothing of what was dropped."""
        backend.write(WriteBatch(puts={1: {b"a": b"1", b"b": b"1"}}), b"v1")
        backend.write(WriteBatch(drop_segments_below=2), b"v2")
        backend.write(WriteBatch(puts={1: {b"b": b"2"}}), b"v3")
        assert_holds(
            backend, {1: {b"b": b"2"}}, b"v3", "a dropped segment holds only what is put after the drop"
        )

    def test_segments_of_any_number(self, backend: StateBackend) -> None:
        """Segments from -(2**62) to 2**62 are kept apart, in order, and dropped by number."""
        pages = {n: {b"": b"%d" % n, b"\xff" * 9: b"%d" % n} for n in AWKWARD_SEGMENTS}
        backend.write(WriteBatch(puts=pages), b"v1")
        assert_holds(backend, pages, b"v1", "segments from -(2**62) to 2**62 are kept apart")
        for edge in [*AWKWARD_SEGMENTS, FAR + 1]:
            pages = {n: kept for n, kept in pages.items() if n >= edge}
            backend.write(WriteBatch(drop_segments_below=edge), b"v2")
            assert_holds(backend, pages, b"v2", _EDGE)

    def test_many_segments(self, backend: StateBackend) -> None:
        """Thousands of segments are there at once: they may be as short as a pane."""
        promise = "a store has thousands of segments"
        backend.write(WriteBatch(puts={n: {b"a": b"%d" % n} for n in range(-2_000, 2_000)}), b"v1")
        check(promise, list(range(-2_000, 2_000)), backend.segments())
        check(
            promise, [[b"%d" % n] for n in range(2_000)], [backend.get_many(n, [b"a"]) for n in range(2_000)]
        )
        backend.write(WriteBatch(drop_segments_below=1_990), b"v2")
        assert_holds(backend, {n: {b"a": b"%d" % n} for n in range(1_990, 2_000)}, b"v2", promise)

    def test_segments_are_ascending(self, backend: StateBackend) -> None:
        """Segments come in the order of their numbers, negative ones first, however they were written."""
        for number in (5, -1, 300, 0, -300, 2):
            backend.write(WriteBatch(puts={number: {b"a": b"1"}}), b"v")
        check("segments come in the order of their numbers", [-300, -1, 0, 2, 5, 300], backend.segments())

    def test_segments_without_pages_are_not_there(self, backend: StateBackend) -> None:
        """A segment is there from its first put to the delete of its last page."""
        promise = "a segment is there as long as it holds a page"
        backend.write(WriteBatch(puts={0: {b"a": b"1", b"b": b"1"}, 1: {b"a": b"1"}, 2: {}}), b"v1")
        check(promise, [0, 1], backend.segments())
        backend.write(WriteBatch(deletes={0: {b"a"}, 1: {b"a"}}), b"v2")
        check(promise, [0], backend.segments())
        backend.write(WriteBatch(deletes={0: {b"b"}}, puts={0: {b"c": b"1"}}), b"v3")
        check(promise, [0], backend.segments())
        backend.write(WriteBatch(deletes={0: {b"c"}}), b"v4")
        assert_holds(backend, {}, b"v4", promise)

    def test_iterate_yields_one_segment(self, backend: StateBackend) -> None:
        """Each page of the segment comes once, none of its neighbours', and none from an absent segment."""
        promise = "iterate yields each page of its segment once, and no others"
        pages = {n: dict.fromkeys(AWKWARD_KEYS, b"%d" % n) for n in (-1, 0, 2)}
        backend.write(WriteBatch(puts=pages), b"v")
        check(promise, sorted(pages[0].items()), sorted(backend.iterate(0)))
        check(promise, [], list(backend.iterate(1)))

    def test_iterators_may_be_left_unfinished(self, directory: Path) -> None:
        """An unfinished iterator blocks neither a write, nor a close, nor the next open."""
        pages = {b"a": b"1", b"b": b"2"}
        with closing(self.open(directory)) as backend:
            backend.write(WriteBatch(puts={0: pages}), b"v1")
            left = backend.iterate(0)  # As long as it is held, it is not closed.
            key, page = next(left)
            check("iterate yields keys and pages", pages.get(key), page)
            backend.write(WriteBatch(puts={0: {b"c": b"3"}}), b"v2")
            promise = "a write after an unfinished iterator is seen by the next one"
            check(promise, {**pages, b"c": b"3"}, dict(backend.iterate(0)))
            another = backend.iterate(0)
            next(another)
        try:
            with closing(self.open(directory)) as backend:
                backend.write(WriteBatch(), b"v3")
        except Exception as error:  # noqa: BLE001 - any error breaks the promise
            fail("a store opens again after iterators that were left unfinished", f"it raised {error!r}")
        del left, another
