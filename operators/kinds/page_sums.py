"""Sums of whole pages, for steps with long windows.

If all windows of a step contain a page as a whole, the step reads its sum instead: it reads only the pages in which windows
begin or end.
"""

from abc import ABC
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.kinds.panes import PaneSchema
from operators.steps.store_operator import NO_KEYS, PageIds, StoreOperator, Touched
from state_backends import Entries, WindowStore, WriteBatch
from state_backends.store.entries import merge_entries

_DENSE = 32
_FIXED = frozenset({"i8", "f8"})


@dataclass(slots=True)
class _Segment:
    """Sums of the pages of one segment.

    Attributes:
        rows: one pane for each page that was summed.
        row: the row of each key.
    """

    rows: Entries
    row: dict[bytes, int] = field(default_factory=dict)


class PageSums:
    """The combined panes of the pages of one store, by segment and key, in memory until a page changes.

    Segments whose pages have less than `_DENSE` panes on average are not kept: reading them is as fast as looking them up.
    States of variable width are not kept either: a collected list is as large as the values in the pages.

    Args:
        schema: the panes.
        store: has the pages.
    """

    def __init__(self, schema: PaneSchema, store: WindowStore) -> None:
        self._schema = schema
        self._store = store
        self._segments: dict[int, _Segment] = {}
        self._sparse: set[int] = set()
        self._small = all(_FIXED.issuperset(operation.codes) for operation in schema.operations)

    def fetch(self, segment: int, keys: Sequence[bytes]) -> Entries:
        """Return one pane for each of the keys that has a page in the segment, or all its panes where they are few.

        Args:
            segment: number of the segment.
            keys: keys that may have a page there, as the store says.

        Cost: a page is read when it is requested for the first time.
        """
        if segment in self._sparse or not self._small:
            return self._store.fetch_segment(segment, keys, located=True)
        known = self._segments.setdefault(segment, _Segment(merge_entries([], self._store.layout)))
        missing = [key for key in keys if key not in known.row]
        if missing:
            panes = self._store.fetch_segment(segment, missing, located=True)
            starts = np.flatnonzero(np.diff(panes.key, prepend=-1))
            if len(panes) < _DENSE * len(starts):
                self._sparse.add(segment)
                del self._segments[segment]
                return self._store.fetch_segment(segment, keys, located=True)
            if len(starts):
                self._add(known, missing, self._schema.reduce(panes, starts))
        row = np.fromiter((known.row.get(key, -1) for key in keys), np.int64, len(keys))
        present = np.flatnonzero(row >= 0)
        found = known.rows.take(row[present])
        return Entries(present, found.columns)

    @staticmethod
    def _add(known: _Segment, keys: Sequence[bytes], sums: Entries) -> None:
        if len(known.rows) > 2 * len(known.row) + _DENSE:
            known.rows = known.rows.take(np.fromiter(known.row.values(), np.int64, len(known.row)))
            known.row = {key: number for number, key in enumerate(known.row)}
        first = len(known.rows)
        known.row.update((keys[n], first + at) for at, n in enumerate(sums.key.tolist()))
        both = zip(known.rows.columns, sums.columns, strict=True)
        columns = tuple(np.concatenate(pair) for pair in both)
        known.rows = Entries(np.zeros(len(columns[0]), np.int64), columns)

    def forget(self, segment: int, keys: Iterable[bytes]) -> None:
        """Drop the sums of pages that were written."""
        known = self._segments.get(segment)
        if known is not None:
            for key in keys:
                known.row.pop(key, None)

    def keep_from(self, segment: int) -> None:
        """Drop the sums of segments before this one."""
        self._segments = {number: known for number, known in self._segments.items() if number >= segment}
        self._sparse = {number for number in self._sparse if number >= segment}

    def clear(self) -> None:
        """Drop all sums."""
        self._segments.clear()
        self._sparse.clear()


class SummingOperator(StoreOperator, ABC):
    """An operator that keeps sums of the pages of its store.

    Args:
        store: has the pages.
        closes: whether it emits windows when they close.
        schema: the panes, as they are stored.
    """

    def __init__(self, store: WindowStore, closes: bool, schema: PaneSchema) -> None:
        super().__init__(store, closes)
        self._sums = PageSums(schema, store)

    def rebuild(self, close_time: int, changes: Sequence[WriteBatch] | None = None) -> None:
        super().rebuild(close_time, changes)
        if changes is None:
            self._sums.clear()
        for batch in changes or ():
            for pages in (batch.puts, batch.deletes):
                for segment, keys in pages.items():
                    self._sums.forget(segment, keys)

    def _read_pages(self, segment: int, keys: list[bytes], numbers: Ints, summed: Mask) -> Iterator[Entries]:
        """Yield the panes of pages that `_pages` has named, with the numbers of their keys.

        Args:
            segment: number of the segment.
            keys: all keys of the step.
            numbers: shape (n,), int64: numbers of the keys to read.
            summed: shape (n,), bool: of which of them the sum of the page will do.
        """
        for read, group in (
            (partial(self.store.fetch_segment, located=True), numbers[~summed]),
            (self._sums.fetch, numbers[summed]),
        ):
            if len(group):
                entries = read(segment, [keys[n] for n in group.tolist()])
                yield Entries(group[entries.key], entries.columns)

    @staticmethod
    def _only_read(segment: int, numbers: Ints, written: PageIds, touched: Touched) -> Mask:
        """Which keys' pages of a segment the step reads, but does not write, nor set a timer of.

        Args:
            segment: number of the segment.
            numbers: shape (n,), int64: numbers of the keys.
            written: the pages that the step writes.
            touched: has the pages that are due.
        """
        due = touched.due.get(segment, NO_KEYS)
        return ~np.isin(numbers, np.concatenate([written.key[written.segment == segment], due]))

    def _replace(self, segment: int, keys: list[bytes], replaced: Mask, entries: Entries) -> list[bytes]:
        names = super()._replace(segment, keys, replaced, entries)
        self._sums.forget(segment, names)
        return names
