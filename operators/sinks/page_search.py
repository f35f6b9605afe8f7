"""Which rows of a table of pages an answer needs: it reads few, however many records a key has.

A key's page of a segment is found under the key's own name. If it has several, `runtime.page_places` says where they are, and
where their sums. Of these, an answer reads those of what its windows contain whole, and goes down where one begins or ends:

    windows     |-------------------------------------------|
    segments  |   x    |   sum   |   sum   |   sum   |    x    |        x: read its blocks, of these parts, of these pages

Rows of one round are wanted together. Of few keys, the first round takes sums of blocks and parts with it, by guess, so that
there are two rounds at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from operators.runtime.binding import Binding
from operators.runtime.page_places import (
    FAN,
    NO_KEY,
    BucketHead,
    blocks_name,
    pages_name,
    parts_name,
    slices,
    total_name,
)
from operators.sinks.confirmations import confirmed_us, wanted_confirmation
from operators.sinks.interface import SinkError
from operators.sinks.pages import FoundPage, PageFinder, Wanted
from operators.sinks.published import Head, decoded_head, wanted_head
from operators.steps.plan import Summed
from serializers.keys import bucket_of, stored_key
from state_backends import Entries
from state_backends.store.entries import in_order, merge_entries

_LEAST, _MOST = -(2**63), 2**63 - 1
_FEW_KEYS = 8
"""The first round takes a guess for so many keys."""


class Node(NamedTuple):
    """What rows are of.

    Attributes:
        level: "head", "idle" (when the query has found nothing new), "bucket", "page" (the only one of a key in a segment),
            "total", "blocks", "parts" or "pages" (of a part).
        key: number of the key.
        segment, block, part: numbers of those that the rows are of.
    """

    level: str
    key: int = -1
    segment: int = 0
    block: int = 0
    part: int = 0


_HEAD = Node("head")
_IDLE = Node("idle")


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A page that was found.

    Attributes:
        key: number of the key.
        wanted: by which it was found.
        row: the row.
    """

    key: int
    wanted: Wanted
    row: FoundPage


@dataclass(frozen=True, slots=True)
class Found:
    """What a table has of keys, as of one batch.

    Attributes:
        head: the head of the features.
        buckets: the heads of the keys' buckets, of those that have state.
        pages: pages of the keys.
        sums: sums of other pages, by key number; sorted. None if pages are not summed.
        idle_us: when the query has last noted that it found nothing new, by the table's clock; None if it has not.
    """

    head: Head
    buckets: Sequence[BucketHead]
    pages: Sequence[KeyRow]
    sums: Entries | None
    idle_us: int | None


@dataclass
class PageSearch:
    """Finds what an answer needs.

    Attributes:
        head: the head of the features, as it was found before.
        number: the number of their definition.
        binding: the binding of the features.
        keys: distinct keys, encoded.
        time: the end of the windows in ticks; None for all pages of the keys.
    """

    head: Head
    number: int
    binding: Binding
    keys: Sequence[bytes]
    time: int | None
    _rows: dict[Node, list[KeyRow]] = field(default_factory=dict, init=False)
    """What was asked for, and found."""

    def __post_init__(self) -> None:
        self._stored = [stored_key(key) for key in self.keys]
        self._buckets = [bucket_of(key, self.head.buckets) for key in self.keys]
        summed = self._summed = None if self.time is None else self.binding.plan.summed
        self._ends = []
        if self.time is not None and summed is not None and self.head.segment:
            self._ends = summed.ends(self.time)

    def run(self, finder: PageFinder) -> Found | None:
        """Return what the table has; None if another batch was written between two rounds, or the head names other rows.

        Raises:
            SinkError: a row is missing, so that an answer would lack records; or the table cannot be reached.
        """
        spans, summed = self._spans(), self._summed
        wants, first = {**self._plain(spans), **({} if summed is None else self._sums(spans))}, None
        descent: _Descent | None = None
        while True:
            self._ask(finder, wants)
            head = next((decoded_head(row.row.page) for row in self._rows[_HEAD]), None)
            if head is None or (first is not None and head != first):
                return None
            if (head.edition, head.segment) != (self.head.edition, self.head.segment):
                return None
            if self.time is None or summed is None:
                return self._found(head, None)
            descent = descent or _Descent(self, self.time, summed)
            wants = descent.go_on()
            if not wants:
                return self._found(head, descent.sums())
            first = head

    def _found(self, head: Head, sums: Entries | None) -> Found:
        idle = [confirmed_us(row.row.page) for row in self._rows[_IDLE]]
        return Found(head, self._bucket_heads(), self._pages(), sums, max(idle, default=None))

    def _spans(self) -> list[tuple[int, int]]:
        if self.time is None:
            return [(_LEAST, _MOST)]
        if not self.head.segment:  # No bucket has worked, and there are no pages.
            return []
        return self.binding.plan.spans_at(self.time, self.head.segment)

    def _plain(self, spans: Sequence[tuple[int, int]]) -> dict[Node, Wanted]:
        """Whether the query is idle, the heads of the keys' buckets, and pages under the names of the keys."""
        edition = self.head.edition
        wants = {_IDLE: wanted_confirmation(self.head.query, self.number)}
        for bucket in dict.fromkeys(self._buckets):
            wants[Node("bucket", bucket)] = Wanted(edition, bucket, NO_KEY, 0, 0)
        for n, name in enumerate(self._stored):
            for at, span in enumerate(spans):
                wants[Node("page", n, at)] = Wanted(edition, self._buckets[n], name, *span)
        return wants

    def _sums(self, spans: Sequence[tuple[int, int]]) -> dict[Node, Wanted]:
        """The sums of segments; and, by guess, those of the blocks and parts in which windows begin and end."""
        wants = {
            Node("total", n, at): Wanted(self.head.edition, self._buckets[n], total_name(name), *span)
            for n, name in enumerate(self._stored)
            for at, span in enumerate(spans)
        }
        if self.is_small:
            for segment in {end // self.head.segment for end in self._ends}:
                for n in range(len(self._stored)):
                    wants.update(self.guess(n, segment))
        return wants

    @property
    def is_small(self) -> bool:
        """Whether the keys are so few that the first round takes a guess."""
        return len(self.keys) <= _FEW_KEYS

    def guess(self, n: int, segment: int) -> dict[Node, Wanted]:
        """The sums of the blocks of a segment, and those of the parts in which windows probably begin and end."""
        wants = self._of_segment(Node("blocks", n, segment), blocks_name(segment, self._stored[n]))
        for end in self._ends:
            if end // self.head.segment == segment:
                block, _ = self.slice_of(segment, end)
                # The page of the end may have started in the block before.
                for each in {block, max(block - 1, 0)}:
                    wants.update(self.parts(n, segment, each))
        return wants

    def slice_of(self, segment: int, time: int) -> tuple[int, int]:
        """Return the block and the part of a segment in which a time is."""
        block, part = slices(np.array([time], np.int64), self.span_of(segment))
        return int(block[0]), int(part[0])

    def span_of(self, segment: int) -> tuple[int, int]:
        """Return the first and the last tick of a segment."""
        begin = segment * self.head.segment
        return max(begin, _LEAST), min(begin + self.head.segment - 1, _MOST)

    def parts(self, n: int, segment: int, block: int) -> dict[Node, Wanted]:
        """The sums of the parts of a block."""
        return self._of_segment(Node("parts", n, segment, block), parts_name(segment, block, self._stored[n]))

    def pages(self, n: int, segment: int, block: int, part: int) -> dict[Node, Wanted]:
        """The pages of a part."""
        name = pages_name(segment, block, part, self._stored[n])
        return self._of_segment(Node("pages", n, segment, block, part), name)

    def _of_segment(self, node: Node, name: bytes) -> dict[Node, Wanted]:
        return {node: Wanted(self.head.edition, self._buckets[node.key], name, node.segment, node.segment)}

    def _ask(self, finder: PageFinder, wants: dict[Node, Wanted]) -> None:
        """Ask for rows, and for the head."""
        asked = [(_HEAD, wanted_head(self.number)), *wants.items()]
        self._rows.update((node, []) for node, _ in asked)
        for row in finder.find([wanted for _, wanted in asked]):
            node, wanted = asked[row.wanted]
            self._rows[node].append(KeyRow(node.key, wanted, row))

    def found(self, node: Node) -> "list[KeyRow] | None":
        """Return the rows that were found; None if they were not asked for."""
        return self._rows.get(node)

    def at_level(self, level: str) -> list[KeyRow]:
        """Return all rows of a level that were found."""
        return [row for node, rows in self._rows.items() if node.level == level for row in rows]

    def _pages(self) -> list[KeyRow]:
        return self.at_level("page") + self.at_level("pages")

    def _bucket_heads(self) -> list[BucketHead]:
        return [BucketHead.decode(row.row.page) for row in self.at_level("bucket")]


class _Descent:
    """The way down through the sums, from the whole segments that were found; made after the first round.

    Args:
        search: asks for rows.
        time: the end of the windows in ticks.
        summed: which sums windows contain.
    """

    def __init__(self, search: PageSearch, time: int, summed: Summed) -> None:
        self._search = search
        self._time = time
        self._layout = summed.schema.layout
        self._contain_whole = summed.contain_whole
        self._taken: list[Entries] = []
        self._missing: dict[Node, Wanted] = {}
        totals = search.at_level("total")
        self._segments = self._cut(totals, [search.span_of(row.row.segment)[1] for row in totals])
        self._blocks: list[_Span] = []
        self._parts: list[_Span] = []

    def go_on(self) -> dict[Node, Wanted]:
        """Go down as far as rows were found; return what has to be asked for."""
        self._missing = {}
        self._blocks += self._cut(*self._blocks_of(self._segments))
        self._parts += self._cut(*self._parts_of(self._blocks))
        self._parts = [part for part in self._parts if not self._is_read(part)]
        return self._missing

    def sums(self) -> Entries:
        """Return the sums that an answer takes, sorted."""
        return merge_entries([in_order(one) for one in self._taken], self._layout)

    def _cut(self, rows: Sequence[KeyRow], last: Sequence[int]) -> "list[_Span]":
        """Take the sums of spans that windows contain whole; return the other spans that they reach into.

        Args:
            rows: rows with sums of spans that follow one another.
            last: the last tick of each row.
        """
        if not rows:
            return []
        columns, counts = self._layout.decode([row.row.page for row in rows])
        number, start = np.repeat(np.arange(len(rows)), counts), columns[0]
        end = np.array(last, np.int64)[number]
        followed = np.flatnonzero(number[1:] == number[:-1])
        end[followed] = start[followed + 1] - 1
        reached = start <= self._time
        times = np.full(len(start), self._time)
        whole = self._contain_whole(start, end, times, times)
        key = np.array([row.key for row in rows], np.int64)[number]
        self._taken.append(Entries(key, tuple(columns)).take(np.flatnonzero(whole & reached)))
        cut = np.flatnonzero(~whole & reached)
        return [
            _Span(rows[n].key, rows[n].row.segment, begin, until)
            for n, begin, until in zip(
                number[cut].tolist(), start[cut].tolist(), end[cut].tolist(), strict=True
            )
        ]

    def _blocks_of(self, segments: "list[_Span]") -> tuple[list[KeyRow], list[int]]:
        """The sums of the blocks of segments, and the last tick of each segment; segments whose sums are missing are left."""
        rows, last, left = list[KeyRow](), list[int](), list[_Span]()
        for span in segments:
            found = self._search.found(Node("blocks", span.key, span.segment))
            if found is None:
                self._missing.update(self._search.guess(span.key, span.segment))
                left.append(span)
            else:
                rows.append(self._only(found))
                last.append(span.end)
        segments[:] = left
        return rows, last

    def _parts_of(self, blocks: "list[_Span]") -> tuple[list[KeyRow], list[int]]:
        """The sums of the parts of blocks, and the last tick of each block; blocks whose sums are missing are left."""
        rows, last, left = list[KeyRow](), list[int](), list[_Span]()
        for span in blocks:
            key, segment, begin, end = span
            block, _ = self._search.slice_of(segment, begin)
            found = self._search.found(Node("parts", key, segment, block))
            if found is not None:
                rows.append(self._only(found))
                last.append(end)
                continue
            pages = [Node("pages", key, segment, block, part) for part in range(FAN)]
            if not self._search.is_small:
                self._missing.update(self._search.parts(key, segment, block))
                left.append(span)
            elif self._search.found(pages[0]) is None:
                # The guess was wrong: a page reaches over more than a block, which has few, then.
                for part in range(FAN):
                    self._missing.update(self._search.pages(key, segment, block, part))
                left.append(span)
            elif not any(map(self._search.found, pages)):
                raise _incomplete()
        blocks[:] = left
        return rows, last

    def _is_read(self, part: "_Span") -> bool:
        """Whether the pages of a part were read; else they are missing."""
        key, segment, begin, _ = part
        at = self._search.slice_of(segment, begin)
        found = self._search.found(Node("pages", key, segment, *at))
        if found is None:
            self._missing.update(self._search.pages(key, segment, *at))
            return False
        if not found:
            raise _incomplete()
        return True

    @staticmethod
    def _only(found: Sequence[KeyRow]) -> KeyRow:
        if not found:
            raise _incomplete()
        return found[0]


class _Span(NamedTuple):
    """A segment, a block or a part of a key, from the start of its first page to the end of its last one."""

    key: int
    segment: int
    begin: int
    end: int


def _incomplete() -> SinkError:
    return SinkError(
        "the table of pages lacks a row of this key, so that an answer would lack records: something else deletes rows. "
        "Remove the table: the query writes all pages again with its next batch"
    )
