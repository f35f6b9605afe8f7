"""What a table of pages has of keys, and what follows from it."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from operators.columns.records import number_keys
from operators.columns.zones import Zone
from operators.errors import DefinitionError
from operators.runtime.binding import Binding
from operators.runtime.clock_changes import clock_difference, former_clock
from operators.runtime.keys_to_forget import Keys, cast_key, rows_of_keys
from operators.runtime.moments import moment_of
from operators.runtime.open_windows import open_windows
from operators.sinks.interface import SinkError
from operators.sinks.page_search import Found, KeyRow, PageSearch
from operators.sinks.pages import PageFinder
from operators.sinks.published import Head
from operators.steps.failed_windows import with_keys
from serializers import CorruptDataError, SerializationError, encode_keys
from serializers.arrays import take_rows
from serializers.keys import NO_COLUMNS
from serializers.pages import PageLayout
from state_backends import Entries
from state_backends.backends.memory import MemoryBackend
from state_backends.checkpoints.stored_bucket import Bucket
from state_backends.durability.pointer import NO_VERSION, Pointer
from state_backends.durability.progress import Progress
from state_backends.interface import WriteBatch
from state_backends.store.entries import in_order
from state_backends.store.page_ids import further_names

_LEAST = -(2**63)


@dataclass(frozen=True, slots=True)
class Freshness:
    """How new an answer is.

    Attributes:
        batch: the last batch of the query that is in the table.
        stream_time: the highest event time up to it, as far as the close times of buckets tell; None before any.
        written: when the batch was written, by the clock of the table's server.
        confirmed: until when the table is known to be current: when the query has last found nothing new to read, or when the
            batch was written, by the same clock.
        age: how long before the answer that was, by the same clock.
    """

    batch: int
    stream_time: datetime | None
    written: datetime
    confirmed: datetime
    age: timedelta = field(compare=False)


@dataclass(frozen=True)
class Features:
    """Features as a table has them.

    Attributes:
        head: when they were found.
        binding: the binding of the features, to the columns that the head names.
    """

    head: Head
    binding: Binding

    @cached_property
    def _number(self) -> int:
        return self.head.definition.number

    @cached_property
    def empty(self) -> Entries:
        """An entry of no records."""
        return self.binding.plan.empty()

    @cached_property
    def layout(self) -> PageLayout:
        """The layout of pages."""
        return self.binding.plan.layout

    @cached_property
    def _other_clock(self) -> Zone | None:
        """The clock of the zone where the features are published, if it is not the reader's at all times."""
        return former_clock(self.binding, self.head.definition.identity)

    def check_clock(self, close_time: int, latest: int | None = None) -> None:
        """Refuse windows that another clock cuts differently.

        Args:
            close_time: the time at which they end, or close, in ticks.
            latest: the latest time of an entry; by default `close_time`.

        Raises:
            SinkError: names the first instant at which the clocks differ, and the way out.
        """
        if self._other_clock is None:
            return
        differs = clock_difference(
            self.binding, self._other_clock, close_time, close_time if latest is None else latest
        )
        if differs is not None:
            raise SinkError(
                f"the published windows follow {differs}. Have the reader use the zone and the tz database that the query has: "
                "that of the system, or of the package tzdata"
            )

    def check_kind(self, *, whole: bool) -> None:
        """Refuse what this kind of windows does not answer."""
        if whole == self.binding.plan.answers_moments:
            other = "get(key, at)" if whole else "windows(key)"
            kind = (
                "rolling windows end at the moment that is asked for"
                if whole
                else "these windows have bounds of their own"
            )
            raise DefinitionError(f"{kind}: use {other}")

    def find(self, finder: PageFinder, keys: Keys, time: int | None) -> "FoundKeys | None":
        """Return what a table has of keys; None if it was written meanwhile, or another edition has taken this one's place.

        Args:
            finder: the finder of the table.
            keys: as users give them.
            time: end of the windows in ticks; None for all pages of the keys.
        """
        types = list(self.binding.output.keys)
        table = rows_of_keys(keys, [name for name, _ in types], dict(types))
        cast = [cast_key(table, name, type_, "operator") for name, type_ in types]
        number, distinct = number_keys(cast, table.num_rows)
        encoded = encode_keys(distinct) if distinct else [NO_COLUMNS]
        found = PageSearch(self.head, self._number, self.binding, encoded, time).run(finder)
        return None if found is None else FoundKeys(self, table, number, encoded, found)


@dataclass(frozen=True)
class FoundKeys:
    """What a table has of keys, as of one batch.

    Attributes:
        features: as they were found before.
        table: rows of the keys, as users gave them.
        number: shape (rows,), int64: the key of each row.
        keys: distinct keys, encoded.
        found: what was found.
    """

    features: Features
    table: pa.Table
    number: Any
    keys: list[bytes]
    found: Found

    @property
    def binding(self) -> Binding:
        """The binding of the features."""
        return self.features.binding

    def freshness(self, now_us: int) -> Freshness:
        """Return how new it is.

        Args:
            now_us: the time by the table's clock.
        """
        stream_time: datetime | None = None
        if self.found.head.close_time is not None:
            with suppress(OverflowError):
                latest = self.found.head.close_time + self.found.head.definition.grace
                stream_time = moment_of(latest, self.binding.tick_us)
        written_us = self.found.head.written_us
        confirmed_us = max(written_us, self.found.idle_us or written_us)
        return Freshness(
            self.found.head.batch,
            stream_time,
            moment_of(written_us, 1),
            moment_of(confirmed_us, 1),
            timedelta(microseconds=max(now_us - confirmed_us, 0)),
        )

    @cached_property
    def _close_time(self) -> int | None:
        """The highest close time of the keys' buckets; None if these have no state."""
        heads = self.found.buckets
        if any(head.segment != self.found.head.segment for head in heads):
            raise SinkError(
                "the buckets of the table have segments of several lengths: start the query again"
            )
        return max((head.close_time for head in heads), default=None)

    def check_held(self, at: int) -> None:
        """Refuse a moment before which a window has lost records."""
        close_time, tick_us = self._close_time, self.binding.tick_us
        if close_time is not None and at < close_time:
            raise SinkError(
                f"at is {_shown(at, tick_us)}, and whole windows are held for moments from {_shown(close_time, tick_us)} on: "
                "ask for a later moment, or use apply_as_of in a batch"
            )

    def results(self, at: int) -> pa.Table:
        """Return the results of the windows that end at a time in ticks, a row for each row of the keys."""
        plan, pages = self.binding.plan, self.found.pages
        self.features.check_clock(at)
        columns, counts = self._decoded()
        owner = np.fromiter((page.key for page in pages), np.int64, len(pages))
        entries = in_order(Entries(np.repeat(owner, counts), tuple(columns)))
        with self.binding.windows_named(), with_keys(self.keys):
            windows = plan.windows_at(entries, self.found.sums, len(self.keys), at, self.features.empty)
            results = self.binding.output.table([windows])
        return take_rows(results, self.number) if len(self.keys) < len(self.number) else results

    def open_windows(self) -> pa.Table:
        """Return the open windows of the only key, as the rows that would come out if no record followed."""
        columns, _ = self._decoded()
        (key,), backend = self.keys, MemoryBackend()
        puts: dict[int, dict[bytes, bytes]] = {}
        segment_ticks = self.found.head.segment
        for row in (page.row for page in self.found.pages):
            begins = row.start <= max(row.segment * segment_ticks, _LEAST)
            name = key if begins else further_names([key], np.array([row.start]))[0]
            puts.setdefault(row.segment, {})[name] = bytes(row.page)
        backend.write(WriteBatch(puts), NO_VERSION)
        schema, binding = self.binding.stored_schema(), self.binding
        close_time = self._close_time
        if close_time is None:
            return binding.output.table([])
        self.features.check_clock(close_time, int(np.max(columns[0], initial=close_time)))
        progress = Progress(identity=binding.identity(), schema=schema, close_time=close_time)
        pointer = Pointer("", progress=progress)
        return open_windows(
            binding, binding, Bucket(pointer, replace(schema, segment=segment_ticks), backend)
        )

    def _decoded(self) -> tuple[list[Any], Any]:
        """The entries of all pages.

        Raises:
            CorruptDataError: a page is damaged; names it.
        """
        layout, pages = self.features.layout, self.found.pages
        try:
            return layout.decode([page.row.page for page in pages])
        except SerializationError:
            for page in pages:
                self._check(page)
            raise

    def _check(self, page: KeyRow) -> None:
        try:
            self.features.layout.decode([page.row.page])
        except SerializationError as error:
            one, row = page.wanted, page.row
            raise CorruptDataError(
                f"the page of key {one.key!r}, bucket {one.bucket}, segment {row.segment}, start {row.start}: {error}"
            ) from error


def _shown(ticks: int, tick_us: int) -> str:
    try:
        return moment_of(ticks, tick_us).isoformat()
    except OverflowError:
        return f"{ticks} ticks"
