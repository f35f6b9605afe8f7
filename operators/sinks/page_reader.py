"""A reader of what the windows of a key hold at a moment, from a table of pages. It needs neither Spark nor Java."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

import pyarrow as pa

from operators.columns.durations import Duration, microseconds
from operators.errors import DefinitionError
from operators.runtime.binding import Binding
from operators.runtime.keys_to_forget import Keys
from operators.runtime.moments import ticks_of
from operators.sinks.confirmations import TableClock
from operators.sinks.interface import SinkError
from operators.sinks.page_answers import Features, FoundKeys, Freshness
from operators.sinks.pages import PageFinder, PageTable
from operators.sinks.published import Definition, Head, find_heads

_TRIES = 5


class StaleError(SinkError):
    """A table is older than an answer may be."""


@dataclass(frozen=True, slots=True)
class Answer(Mapping[str, Any]):
    """What the windows of a key hold: the results by name.

    Attributes:
        values: the results.
        freshness: how new they are.
    """

    results: dict[str, Any]
    freshness: Freshness

    def __getitem__(self, name: str) -> Any:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


@dataclass(frozen=True, slots=True)
class Answers:
    """What the windows of keys hold.

    Attributes:
        table: a row for each key, in the order in which they were asked for: the key columns, then the results.
        freshness: how new they are; all are of one batch.
    """

    table: pa.Table
    freshness: Freshness


class FeatureReader:
    """Reads what the windows of keys hold, from a table of pages. Use it as a context manager, or close it.

    It keeps one connection, which threads use in turn. A process that is forked opens its own.

    Args:
        pages: the table.
        bind: returns the features bound to the columns of what is published.
    """

    def __init__(self, pages: PageTable, bind: Callable[[Definition], Binding]) -> None:
        self._pages = pages
        self._bind = bind
        self._context = pages.finder()
        self._finder: PageFinder = self._context.__enter__()
        self._clock = TableClock(self._finder)
        self._features: Features | None = None

    def __enter__(self) -> "FeatureReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the connection. May be called twice."""
        self._finder.close()

    def get(
        self,
        key: Mapping[str, object],
        at: datetime | int | None = None,
        *,
        min_batch: int | None = None,
        max_age: Duration | None = None,
    ) -> Answer:
        """Return what the windows of a key hold at a moment, over the records of all batches in the table.

        It is what `apply_as_of` gives a label of the key at this time. A key without records has 0 or null.

        Args:
            key: the key columns by name.
            at: the end of the windows, as a datetime or whole ticks; now by default.
            min_batch: the batch that has to be in the table.
            max_age: how long ago the query may have written its last batch, or found nothing new to read, such as "30 seconds";
                by the clock of the table's server.

        Raises:
            DefinitionError: the key has other columns or types.
            SinkError: nothing was published, or other features; `at` lies before what is held; the zone of windows to date has
                another clock here than where they were published, over the time that is asked for; or the table cannot be read.
            StaleError: the table lacks `min_batch`, or is older than `max_age`.
            CorruptDataError: a page is damaged; names it.

        Cost: one round trip; two for a key with several pages in a segment.
        """
        found, at_ticks, freshness = self._ask([key], at, min_batch, max_age)
        results = found.results(at_ticks)
        row = zip(results.column_names, results.columns, strict=True)
        return Answer({name: column[0].as_py() for name, column in row}, freshness)

    def get_many(
        self,
        keys: Keys,
        at: datetime | int | None = None,
        *,
        min_batch: int | None = None,
        max_age: Duration | None = None,
    ) -> Answers:
        """Return what the windows of several keys hold at one moment, as of one batch.

        Args:
            keys: rows of the key columns: a table, or a dictionary for each row.
            at, min_batch, max_age: as for `get`.

        Raises:
            DefinitionError, SinkError, StaleError, CorruptDataError: as for `get`.

        Cost: one round trip; up to four if one of many keys has several pages in a segment.
        """
        found, at_ticks, freshness = self._ask(keys, at, min_batch, max_age)
        given, results = found.table, found.results(at_ticks)
        table = pa.Table.from_arrays(
            [*given.columns, *results.columns], [*given.column_names, *results.column_names]
        )
        return Answers(table, freshness)

    def windows(
        self,
        key: Mapping[str, object],
        *,
        min_batch: int | None = None,
        max_age: Duration | None = None,
    ) -> Answers:
        """Return the open windows of a key, for tumbling, hopping, sliding and session windows.

        They are the rows that would come out if no record followed, as `read_windows` gives them for a stopped query.

        Args:
            key: the key columns by name.
            min_batch, max_age: as for `get`.

        Raises:
            DefinitionError, SinkError, StaleError, CorruptDataError: as for `get`.

        Cost: one round trip; all stored pages of the key are read.
        """
        found, _, freshness = self._ask([key], None, min_batch, max_age, whole=True)
        return Answers(found.open_windows(), freshness)

    async def aget(
        self,
        key: Mapping[str, object],
        at: datetime | int | None = None,
        *,
        min_batch: int | None = None,
        max_age: Duration | None = None,
    ) -> Answer:
        """Return what `get` does, from a service's event loop, which goes on meanwhile: a thread waits for the answer.

        A call that is cancelled is carried out to its end, so that no other one gets its reply.

        Args:
            key, at, min_batch, max_age: as for `get`.

        Raises:
            DefinitionError, SinkError, StaleError, CorruptDataError: as for `get`.
        """
        import asyncio  # nothing else of a reader needs it

        return await asyncio.to_thread(self.get, key, at, min_batch=min_batch, max_age=max_age)

    def _ask(
        self,
        keys: Keys,
        at: datetime | int | None,
        min_batch: int | None,
        max_age: Duration | None,
        *,
        whole: bool = False,
    ) -> tuple[FoundKeys, int, Freshness]:
        """What a table has of keys, the moment in ticks, and how new it is.

        It is what windows need that end at the moment; with `whole`, all.
        """
        for _ in range(_TRIES):
            features = self._bound()
            features.check_kind(whole=whole)
            tick_us = features.binding.tick_us
            time_ = time.time_ns() // 1_000 // tick_us if at is None else ticks_of(at, tick_us, "at")
            found = features.find(self._finder, keys, None if whole else time_)
            if found is not None:
                break
            self._features = None  # Another head has taken the place of the one that was read.
        else:
            raise SinkError(f"{self._pages!r} was replaced several times while it was read: ask again")
        freshness = found.freshness(self._clock.now_us())
        _check_fresh(freshness, min_batch, max_age)
        if not whole:
            found.check_held(time_)
        return found, time_, freshness

    def _bound(self) -> Features:
        """The features, bound to the columns that the table names."""
        if self._features is None:
            heads = find_heads(self._finder)
            if not heads:
                raise SinkError(
                    f"nothing was published to {self._pages!r} yet: start the query that does, or give the table of one"
                )
            self._features = self._matching(heads)
        return self._features

    def _matching(self, heads: Sequence[Head]) -> Features:
        same, of_other_clocks = list[Features](), list[Features]()
        for head in heads:
            try:
                binding = self._bind(head.definition)
            except DefinitionError:
                if len(heads) == 1:
                    raise
                continue
            own = Definition.of(binding, head.definition.schema)
            if own.number == head.definition.number:
                same.append(Features(head, binding))
            elif own.differs_by_clock(head.definition):
                of_other_clocks.append(Features(head, binding))
        # A query that goes on with another tz database leaves what it published before as it was.
        queries = {features.head.query for features in same}
        found = [*same, *(one for one in of_other_clocks if not queries or one.head.query in queries)]
        if found:
            return max(found, key=lambda features: features.head.written_us)
        newest = max(heads, key=lambda head: head.written_us)
        binding = self._bind(newest.definition)
        Definition.of(binding, newest.definition.schema).check_same(newest.definition)
        raise SinkError(f"{self._pages!r} has no pages of these features")


def _check_fresh(freshness: Freshness, min_batch: int | None, max_age: Duration | None) -> None:
    if min_batch is not None and freshness.batch < min_batch:
        raise StaleError(
            f"the table has batch {freshness.batch}, and min_batch is {min_batch}: ask again later"
        )
    if max_age is not None and freshness.age > timedelta(microseconds=microseconds(max_age, "max_age")):
        raise StaleError(
            f"the query has written batch {freshness.batch}, or found nothing new, {freshness.age.total_seconds():.1f} seconds "
            f"ago, and max_age is {max_age!r}: see whether the query runs"
        )
