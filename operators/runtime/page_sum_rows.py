"""The rows of a table of pages where keys have several pages in a segment: the pages, and the tree of their sums."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, repeat
from typing import NamedTuple

import numpy as np

from operators.columns.ranges import Ints, Mask, run_starts
from operators.runtime.page_places import FAN, blocks_name, pages_name, parts_name, slices, total_name
from operators.steps.page_sums import PageSums
from operators.steps.plan import Summed
from serializers.keys import stored_key
from state_backends import Entries, WindowStore
from state_backends.store.entries import in_order, merge_entries, run_lengths
from state_backends.store.page_ids import PageIds, distinct_keys, keys_and_starts

_Touched = set[tuple[int, int]]
"""Numbers of keys and blocks whose pages change."""


class PageRow(NamedTuple):
    """A row of a segment.

    Attributes:
        name: the name under which the table has it.
        start: where it starts, in ticks.
        page: its bytes; None for a row that is gone.
    """

    name: bytes
    start: int
    page: bytes | None


@dataclass(frozen=True, slots=True)
class _Pages:
    """Pages of one segment, by the names that the backend has.

    Attributes:
        segment, begin: number and first tick of the segment.
        keys: their distinct keys.
        stored: the keys as tables have them.
        key, start, block, part: shape (pages,), int64: the number of the page's key, and where it starts.
    """

    segment: int
    begin: int
    keys: list[bytes]
    stored: list[bytes]
    key: Ints
    start: Ints
    block: Ints
    part: Ints

    @classmethod
    def named(cls, segment: int, span: tuple[int, int], names: list[bytes]) -> "_Pages":
        keys, key = distinct_keys(names)
        _, start = keys_and_starts(names, span[0])
        return cls(
            segment, span[0], keys, [stored_key(one) for one in keys], key, start, *slices(start, span)
        )

    @property
    def has_further(self) -> Mask:
        """Which keys have one among them that is not the first."""
        found = np.zeros(len(self.keys), bool)
        found[self.key[self.start > self.begin]] = True
        return found

    def rows(self, in_tree: Mask, bodies: Iterable[bytes | None]) -> list[PageRow]:
        """Their rows, given which of them are in a tree."""
        columns = (in_tree, self.key, self.start, self.block, self.part)
        rows = zip(*(column.tolist() for column in columns), bodies, strict=False)
        return [
            PageRow(
                pages_name(self.segment, block, part, self.stored[key]) if tree else self.stored[key],
                start,
                body,
            )
            for tree, key, start, block, part, body in rows
        ]

    def blocks(self, in_tree: Mask) -> _Touched:
        """The blocks of those in a tree."""
        return {*zip(self.key[in_tree].tolist(), self.block[in_tree].tolist(), strict=True)}


class PageTrees:
    """Makes the rows of one store.

    Args:
        store: has the pages.
        summed: how the entries of pages are summed.
        known: has sums of the pages in the store's backend.
    """

    def __init__(self, store: WindowStore, summed: Summed, known: PageSums | None = None) -> None:
        self._store = store
        self._schema, self._panes_of = summed.schema, summed.panes_of
        self._known = PageSums(self._schema, store, self._panes_of) if known is None else known

    def changed(self, segment: int, puts: Mapping[bytes, bytes], gone: Collection[bytes]) -> list[PageRow]:
        """Return the rows that change with pages of a segment.

        Args:
            segment: its number.
            puts: the bytes of pages that were written, by name. The backend does not have them yet.
            gone: names of pages that were deleted.

        Cost: O(changed pages) bytes; for keys with several pages, O(their pages in the segment) array work.
        """
        found = _Pages.named(segment, self._store.span_of(segment), [*puts, *gone])
        pages = self._store.pages(segment, found.keys, np.arange(len(found.keys)))
        several = np.bincount(pages.key, minlength=len(found.keys)) > 1
        alone_again = np.flatnonzero(found.has_further & ~several).tolist()
        in_tree = several[found.key] | (found.start > found.begin)
        rows = found.rows(in_tree, chain(puts.values(), repeat(None)))
        # A first page that was written may have been alone before.
        first = found.key[in_tree & (found.start == found.begin)].tolist()
        rows += [PageRow(found.stored[n], found.begin, None) for n in first]
        rows += self._alone_again(found, alone_again, {*puts, *gone})
        if in_tree.any():
            sums = self._sums(segment, found.keys, pages.take(several[pages.key]), puts)
            changed = [*np.flatnonzero(several).tolist(), *alone_again]
            touched = found.blocks(in_tree) | {(n, 0) for n in alone_again}
            rows += self._sum_rows(segment, found.stored, sums, changed, touched)
        return rows

    def _alone_again(self, found: _Pages, numbers: Sequence[int], named: Collection[bytes]) -> list[PageRow]:
        """The first pages of keys that have no further ones any more: they go back under the names of their keys."""
        rows = [PageRow(pages_name(found.segment, 0, 0, found.stored[n]), found.begin, None) for n in numbers]
        left = [found.keys[n] for n in numbers if found.keys[n] not in named]
        bodies = self._store.backend.get_many(found.segment, left)
        pages = zip(left, bodies, strict=True)
        rows += [PageRow(stored_key(key), found.begin, body) for key, body in pages if body is not None]
        return rows

    def _sums(
        self, segment: int, keys: Sequence[bytes], pages: PageIds, puts: Mapping[bytes, bytes]
    ) -> Entries:
        """The sums of pages, by key number, with the starts of the pages as times."""
        names = pages.names(keys) if len(pages) else []
        written = np.fromiter(map(puts.__contains__, names), bool, len(names))
        others = pages.take(~written)
        known = self._known.of_pages(segment, keys, others)
        known = _at(known, others.start[others.holding(known.key, known.time)])
        fresh = self._of_bodies(pages.take(written), [puts[name] for name in compress(names, written)])
        return merge_entries([known, fresh], self._schema.layout)

    def _of_bodies(self, pages: PageIds, bodies: Sequence[bytes]) -> Entries:
        """The same of pages whose bytes are given. A page without panes has no sum."""
        columns, counts = self._store.layout.decode(bodies)
        panes = self._panes_of(Entries(np.repeat(np.arange(len(pages)), counts), tuple(columns)))
        sums = self._schema.reduce(panes, run_starts(panes.key, panes.key))
        return _at(Entries(pages.key[sums.key], sums.columns), pages.start[sums.key])

    def gone(self, segment: int, names: list[bytes]) -> list[PageRow]:
        """Return the rows that go with all pages of a segment, given their names."""
        found = _Pages.named(segment, self._store.span_of(segment), names)
        several = found.has_further
        in_tree, trees = several[found.key], np.flatnonzero(several).tolist()
        nothing = merge_entries([], self._schema.layout)
        rows = found.rows(in_tree, repeat(None))
        return rows + self._sum_rows(segment, found.stored, nothing, trees, found.blocks(in_tree))

    def all(self, segment: int) -> Iterator[list[PageRow]]:
        """Yield the rows of all pages of a segment, and then those of their sums. O(names) memory, and that of some pages."""
        store, span = self._store, self._store.span_of(segment)
        names = [name for some in store.backend.scan_keys(segment) for name in some]
        found = _Pages.named(segment, span, names)
        several = found.has_further
        number = {key: n for n, key in enumerate(found.keys)}
        parts = []
        for some, bodies in store.backend.scan(segment):
            read = _Pages.named(segment, span, list(some))
            of = np.fromiter(map(number.__getitem__, read.keys), np.int64, len(read.keys))
            in_tree = several[of[read.key]]
            yield read.rows(in_tree, bodies)
            key, start = of[read.key[in_tree]], read.start[in_tree]
            pages = PageIds(span, key, start, start)
            parts.append(in_order(self._of_bodies(pages, list(compress(bodies, in_tree)))))
        sums = merge_entries(parts, self._schema.layout)
        trees = np.flatnonzero(several).tolist()
        yield self._sum_rows(segment, found.stored, sums, trees, found.blocks(several[found.key]))

    def _sum_rows(
        self,
        segment: int,
        keys: Sequence[bytes],
        sums: Entries,
        trees: Iterable[int],
        touched: Collection[tuple[int, int]],
    ) -> list[PageRow]:
        """The rows of sums.

        Args:
            segment: number of the segment.
            keys: the keys, as tables have them.
            sums: the sums of all pages of those with several, sorted.
            trees: numbers of the keys whose rows change.
            touched: numbers of keys and blocks whose pages change.
        """
        schema, span = self._schema, self._store.span_of(segment)
        block, part = slices(sums.time, span)
        parts = schema.reduce(sums, run_starts(sums.key, block * FAN + part))
        block, _ = slices(parts.time, span)
        blocks = schema.reduce(parts, run_starts(parts.key, block))
        totals = schema.reduce(blocks, run_starts(blocks.key, blocks.key))
        total, by_key = self._encoded(totals, totals.key), self._encoded(blocks, blocks.key)
        by_block = self._encoded(parts, parts.key * FAN + block)
        rows = []
        for n in trees:
            rows.append(PageRow(total_name(keys[n]), span[0], total.get(n)))
            rows.append(PageRow(blocks_name(segment, keys[n]), span[0], by_key.get(n)))
        for n, at in sorted(touched):
            rows.append(PageRow(parts_name(segment, at, keys[n]), span[0], by_block.get(n * FAN + at)))
        return rows

    def _encoded(self, sums: Entries, number: Ints) -> dict[int, bytes]:
        """The bytes of the sums of each number, which ascend."""
        present, count = run_lengths(number)
        return dict(zip(present.tolist(), self._schema.layout.encode(sums.columns, count), strict=True))


def _at(sums: Entries, time: Ints) -> Entries:
    """Sums with other times."""
    return Entries(sums.key, (time, *sums.columns[1:]))
