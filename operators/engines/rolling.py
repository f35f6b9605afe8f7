"""Rolling windows: the windows of each record that end at its own time, one for each of several lookbacks.

All lookbacks share one set of panes, one pane for each key and event time. With a lookback without end ("lifetime"), panes that
are older than the longest finite lookback are combined to one pane for each key, in a segment of its own. Rows that wait until
their windows are closed are stored beside the panes: those of one key, segment and batch in one entry.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from operators.aggregates.definitions import Bound
from operators.aggregates.empty import empty_state
from operators.aggregates.operation import Operation, join_states
from operators.columns.ranges import Ints, Mask, key_edges
from operators.columns.records import FAR_FUTURE, FAR_PAST, Records
from operators.engines.rolling_lifetimes import Lifetimes, stored_lifetimes
from operators.engines.rolling_rows import RollingRows, Waiting, windows_of
from operators.engines.rolling_state import LIFE_PANE_TIME, RollingPaneSchema, WaitingSchema
from operators.kinds.described import WindowsPart
from operators.kinds.rolling import LASTING, ROWS, Rolling
from operators.steps.emission import AggregateOutput
from operators.steps.lateness import count_and_report
from operators.steps.page_sums import PageSums
from operators.steps.panes import PaneSchema, merge_marked, merge_panes
from operators.steps.plan import KindPlan, Summed, WindowPlan
from operators.steps.step import Step
from operators.steps.timed_store import Emitted, TimedStore
from operators.steps.touched import Rows, Timers, Touched
from serializers.rows import RowCodec
from state_backends import Entries, WindowStore
from state_backends.store.entries import merge_entries
from state_backends.store.ordering import row_order
from state_backends.store.page_ids import PageIds


@dataclass(frozen=True)
class RollingPlan(KindPlan):
    """What a rolling operator computes.

    Attributes:
        kind: its lookbacks.
        on_arrival: whether a row is emitted in the batch of its record, instead of when its windows are closed.
        operations: the distinct operations of all aggregates.
        lasting: those whose states are kept for the lookback without end, if there is one.
        types: names and Arrow types of the columns that the operations read.
        rows: names and Arrow types of the columns of the rows that come out.
        event_time: the column of event times among the rows.
        tick_us: length of a tick in microseconds.
        label: a boolean column that is true in rows that come out and are in no window, while all others are in windows and
            don't come out; None if each row is both.
        emits: whether rows come out at all; if not, only the state is kept, for others who read it.
    """

    kind: Rolling
    on_arrival: bool
    operations: tuple[Operation, ...]
    lasting: tuple[Operation, ...]
    types: tuple[tuple[str, pa.DataType], ...]
    rows: tuple[tuple[str, pa.DataType], ...]
    event_time: str
    tick_us: int
    label: str | None = None
    emits: bool = True
    late_alone: ClassVar[bool] = True
    answers_moments: ClassVar[bool] = True

    @property
    def on_update(self) -> bool:  # type: ignore[override]
        return self.on_arrival

    def apart(self, output: Any, records: Any, name: str) -> tuple[pa.Table, Any, Records] | None:
        if not (self.on_arrival and self.emits) or records.rows is None:
            return None
        numbered = replace(records, rows=pa.table({name: np.arange(records.rows.num_rows)}))
        return records.rows.select([column for column, _, _ in output.rows]), output.by_row(name), numbered

    @property
    def keeps_state(self) -> bool:
        return self.kind.lifetime

    @cached_property
    def panes(self) -> PaneSchema:
        """The panes without what is stored beside them."""
        return PaneSchema(self.operations)

    @cached_property
    def stored(self) -> RollingPaneSchema:
        """The panes as they are stored."""
        plain = self.on_arrival and not self.ends_lifetimes
        return (RollingPaneSchema if plain else WaitingSchema)(self.operations)

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        return self.stored.head

    @property
    def waiting_rows(self) -> pa.Schema | None:
        return None if self.on_arrival else pa.schema(list(self.rows))

    @property
    def row_time(self) -> str:
        return self.event_time

    @property
    def why_rows(self) -> str:
        return "each row comes out with all its columns"

    def windows(self, tick_us: int, gap: str | None) -> WindowsPart:
        described = self.kind.describe(tick_us)
        when = "in the batch in which it came"
        if not self.on_arrival:
            rows = ", and the rows of a key, segment and batch while they wait"
            described = replace(described, entry=described.entry + rows)
            when = "when no record can change its windows any more"
        rows = f"each record once, with all its columns and the aggregates of its windows, {when}"
        return replace(described, emission=rows)

    def next_due(self, entries: Entries, close_time: int) -> Ints:
        return WaitingSchema.due(entries, close_time)

    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on. Shorter lookbacks, and which ends belong to them, may change."""
        emission = "on_arrival" if self.on_arrival else "on_close"
        rows = None if self.on_arrival else [f"{name}: {type_}" for name, type_ in self.rows]
        described = {**WindowPlan.describe(self), "emission": emission, ROWS: rows}
        if self.kind.lifetime:
            described[LASTING] = [each.describe() for each in self.operations if each in {*self.lasting}]
        return described

    @property
    def ends_lifetimes(self) -> bool:
        return self.kind.forget_after is not None

    def lasting_results(self, output: AggregateOutput) -> list[str]:
        return [name for name, _ in self._over_lifetime(output)]

    def _over_lifetime(self, output: Any) -> list[tuple[str, Bound]]:
        return output.aggregates_over(self.kind.lifetimes)  # type: ignore[no-any-return]

    def of_output(self, output: AggregateOutput, kept: Collection[Operation]) -> "RollingPlan":
        needed = {operation for _, bound in self._over_lifetime(output) for operation in bound.operations}
        lasting = tuple(each for each in output.operations if each in needed or each in kept)
        return replace(self, operations=output.operations, lasting=lasting)

    def missing_head(self, time: Ints) -> dict[str, Any]:
        return WaitingSchema.head_without_rows(time)

    @property
    def codec(self) -> RowCodec:
        """Packs the rows that wait."""
        return RowCodec(pa.schema(list(self.rows)))

    def empty(self) -> Entries:
        """Return one pane of no records."""
        types = dict(self.types)
        columns = join_states([empty_state(operation, types) for operation in self.operations])
        return Entries(np.zeros(1, np.int64), (np.zeros(1, np.int64), *columns))

    def cut_entries(self, entries: Entries, segment_ticks: int, close_time: int) -> Entries:
        if self.on_arrival:
            return entries
        times = self.event_time, self.tick_us
        schema, empty = WaitingSchema(self.operations), self.empty()
        return schema.cut(entries, segment_ticks, close_time, self.codec, times, empty)

    def without_rows(self) -> "RollingPlan":
        return replace(self, emits=False)

    @property
    def summed(self) -> Summed | None:
        if self.panes.layout.has_objects or self.kind.forget_after is not None:
            return None
        return Summed(self.panes, self.stored.panes, self.kind.ends, self.kind.contain_whole)

    def spans_at(self, time: int, segment_ticks: int) -> list[tuple[int, int]]:
        last = time // segment_ticks
        if not self.kind.lifetime:
            return [(self.kind.dead_before(time) // segment_ticks, last)]
        life = LIFE_PANE_TIME // segment_ticks
        return [(FAR_PAST // segment_ticks, last), (life, life)]

    def windows_at(
        self, entries: Entries, sums: Entries | None, keys: int, time: int, empty: Entries
    ) -> RollingRows:
        is_life = entries.time == LIFE_PANE_TIME
        life = stored_lifetimes(entries.take(is_life), self.stored, self.kind.forget_after)
        number = np.arange(keys)
        rows = Waiting(number, np.full(keys, time), pa.Table.from_arrays([pa.array(number)], ["key"]))
        panes = self.stored.panes(entries.take(~is_life))
        if sums is not None:
            panes = merge_entries([panes, sums], self.panes.layout)
        return windows_of(rows, panes, life, empty, self.panes, self.kind)

    def engine(self, store: WindowStore) -> "RollingEngine":
        """Return the engine over a store."""
        return RollingEngine(self, store)


class RollingEngine:
    """Processes batches over the panes and waiting rows of one store.

    Args:
        plan: what is computed.
        store: has the panes and rows.
    """

    def __init__(self, plan: RollingPlan, store: WindowStore) -> None:
        self.plan = plan
        self._stored = plan.stored
        self._sums = PageSums(plan.panes, store, self._stored.panes)
        self.state = TimedStore(store, plan, self._sums)
        self._codec = plan.codec
        self._empty = plan.empty()
        self._lifetimes = None
        if plan.kind.lifetime:
            pause = plan.kind.forget_after
            self._lifetimes = Lifetimes(store, self._stored, self._empty, plan.lasting, pause)

    def step(self, batch: Records, step: Step) -> Sequence[Emitted]:
        """Process one batch and return the rows to emit."""
        self.state.begin(step)
        plan, since, close_time = self.plan, step.close_time_start, step.close_time_end
        records, emitting = self._accepted_records(batch, step)
        panes = self._new_panes(records, plan.kind.dead_before(since))
        edge = FAR_FUTURE if plan.on_arrival else close_time
        now, later = (
            Waiting.of(records, emitting & side) for side in (records.time < edge, records.time >= edge)
        )
        touched = self.state.touch(batch.keys, close_time)
        self._choose_spans(touched, panes, now, later, close_time)
        stored, waiting = self._load(touched, panes, later, self._emitted_times(touched, now, close_time))
        life = None if self._lifetimes is None else self._lifetimes.fetch(touched.keys)
        emitted, merged = [], merge_panes(plan.panes, stored, panes, touched.keys)
        if not plan.on_arrival:
            times = plan.event_time, plan.tick_us
            ready = WaitingSchema.unpack(waiting, self._codec, times, self.state.close_time, close_time)
            if since > self.state.close_time and len(closed := ready.between(self.state.close_time, since)):
                before = merge_entries(stored, plan.panes.layout)
                emitted.append(self._windows(closed, before, life))
            now = Waiting.join([ready.between(since, close_time), now])
        emitted.append(self._windows(now, merged.panes, life))
        step.counters.panes += int(np.count_nonzero(merged.fresh))
        # Nothing follows the end of a bounded frame, so that nothing has to be stored.
        if close_time < FAR_FUTURE:
            self._save(
                touched, panes, merged.panes, waiting, later, (self._forgotten(close_time), close_time)
            )
        return self.state.end(step, emitted)

    def _accepted_records(self, batch: Records, step: Step) -> tuple[Records, Mask]:
        """The records in order of key and time, and which of them are rows that come out. Late ones are reported."""
        emitting = ~count_and_report(batch, self.plan, step)
        order = row_order(batch.key, batch.time)
        records, emitting = (batch, emitting) if order is None else (batch.take(order), emitting[order])
        if self.plan.label is not None:
            emitting &= records.values[self.plan.label].filled(0) != 0
        if not self.plan.emits:
            emitting[:] = False
        return records, emitting

    def _forgotten(self, close_time: int) -> int:
        """The time before which panes are no longer stored by themselves: whole segments, if they go into the lifetime."""
        since, ticks = self.plan.kind.dead_before(close_time), self.state.store.segment_ticks
        return since // ticks * ticks if self.plan.kind.lifetime else since

    def _new_panes(self, records: Records, since: int) -> Entries:
        """The panes of records. Records that no window contains any more are left out, and labels."""
        kept = np.ones(len(records), bool)
        if not self.plan.kind.lifetime or self.plan.kind.forget_after is not None:
            kept &= records.time >= since
        if self.plan.label is not None:
            kept &= records.values[self.plan.label].filled(0) == 0
        if not kept.all():
            records = records.take(np.flatnonzero(kept))
        return self.plan.panes.accumulate(records, records.time).entries

    def _choose_spans(
        self, touched: Touched, panes: Entries, now: Waiting, later: Waiting, close_time: int
    ) -> None:
        """Set the span of time of each key that the step reads.

        Pages that get panes or rows are read, and for rows that come out all that their longest window contains:

            earliest begin            t
              |-----------------------|

        For the lifetime, all panes of the key are read.
        """
        kind = self.plan.kind
        for key, time in ((panes.key, panes.time), (later.key, later.time)):
            first, last = key_edges(key)
            touched.widen(key[first], time[first], time[last])
        first, last = key_edges(now.key)
        since = np.full(len(first), FAR_PAST) if kind.lifetime else kind.earliest(now.time[first])
        touched.widen(now.key[first], since, now.time[last])
        for segment, due in touched.due.items():
            # The rows of an entry may begin before its page, but not before its segment.
            begin, end = self.state.store.span_of(segment)
            earliest = FAR_PAST if kind.lifetime else kind.dead_before(max(begin, self.state.close_time))
            touched.widen(due.key, earliest, min(end, close_time - 1))

    def _emitted_times(self, touched: Touched, now: Waiting, close_time: int) -> tuple[Ints, Ints]:
        """The first and the last time of the rows of each key that come out in this step, or earlier and later ones."""
        first, last = np.full(len(touched.keys), FAR_FUTURE), np.full(len(touched.keys), FAR_PAST)
        begins, ends = key_edges(now.key)
        first[now.key[begins]], last[now.key[begins]] = now.time[begins], now.time[ends]
        for segment, due in touched.due.items():
            begin, final = self.state.store.span_of(segment)
            np.minimum.at(first, due.key, max(begin, self.state.close_time))
            np.maximum.at(last, due.key, min(final, close_time - 1))
        return first, last

    def _load(
        self, touched: Touched, panes: Entries, later: Waiting, emitted: tuple[Ints, Ints]
    ) -> tuple[list[Entries], Entries]:
        """Read what the step needs: panes in parts by segment, without what is stored beside them; and waiting rows.

        A page of which each window contains all or nothing is read as its sum.
        Pages that the step writes, or sets the timers of, are read whole.
        """
        parts, waiting = [], []
        changing = [Rows(each.key, each.time) for each in (panes, later)]

        def is_summed(segment: int, numbers: Ints) -> bool:
            if not self._sums.knows(segment, touched.keys, numbers):
                return False
            whole = PageIds.first(self.state.store.span_of(segment), numbers)
            if not self._are_whole(whole, *emitted).all() or touched.changes(segment, whole.span, changing):
                return False
            parts.append(self._sums.of_known_keys(segment, touched.keys, numbers))
            return True

        for segment, pages in self.state.pages(touched, is_summed):
            held = self.state.hold(touched, segment, pages, changing)
            whole = self._are_whole(pages, *emitted)
            summed = whole & ~held & self._sums.has(pages)
            others = ~held & ~summed & (pages.start <= emitted[1][pages.key])
            if summed.any():
                parts += self._sums.fetch(segment, touched.keys, pages.take(summed))
            if others.any():
                entries = self.state.store.read(segment, touched.keys, pages.take(others))
                parts.append(self._stored.panes(entries))
            if held.any():  # Mostly the youngest, and so after the others: they are merged without a sort.
                entries = self.state.store.read(segment, touched.keys, touched.held[segment])
                parts.append(self._stored.panes(entries))
                if not self.plan.on_arrival:
                    waiting.append(WaitingSchema.waiting(entries))
        return parts, merge_entries(waiting, self._stored.layout)

    def _are_whole(self, pages: PageIds, first: Ints, last: Ints) -> Mask:
        """Of which pages each window of the rows of their keys from `first` to `last` contains all or nothing."""
        return self.plan.kind.contain_whole(pages.start, pages.last, first[pages.key], last[pages.key])

    def _windows(self, rows: Waiting, panes: Entries, life: Entries | None) -> RollingRows:
        """The windows of rows over panes."""
        return windows_of(rows, panes, life, self._empty, self.plan.panes, self.plan.kind)

    def _save(
        self,
        touched: Touched,
        new: Entries,
        panes: Entries,
        waiting: Entries,
        later: Waiting,
        close_times: tuple[int, int],
    ) -> None:
        """Write the pages that got panes or rows, or whose last waiting row came out, and forget what no window needs.

        Args:
            touched: what the step touched.
            new: panes of the batch.
            panes: all panes that were read, with those of the batch.
            waiting: entries of waiting rows that were read.
            later: rows of the batch that have to wait.
            close_times: the close time at which panes are forgotten, and the one by which rows have come out.
        """
        forgotten, close_time = close_times
        old = new.time < forgotten
        if self._lifetimes is not None:
            self._lifetimes.fold(touched.keys, new.take(old), forgotten)
            self._lifetimes.forget_idle(self.state.close_time, close_time, forgotten)
        new = new.take(~old)
        changed, timers = [Rows(new.key, new.time)], None
        if not self.plan.on_arrival:
            ticks, out = self.state.store.segment_ticks, WaitingSchema.out(waiting, close_time)
            later_entries = WaitingSchema.pack(later, self._codec, ticks, self._empty)
            changed += [Rows(each.key, each.time) for each in (waiting.take(out), later_entries)]
            parts = (self._stored.stored(panes), waiting.take(~out), later_entries)
            panes, fresh = merge_marked(parts, (False, False, True), self._stored.layout)
            due, stored = WaitingSchema.due(panes, close_time), ~fresh
            timers = Timers(due, Rows(panes.key[stored], panes.time[stored]), due[stored])
        else:
            panes = self._stored.stored(panes)
        self.state.write_back(touched, panes, changed, timers, forgotten)
        self._sums.end_step(forgotten // self.state.store.segment_ticks)
