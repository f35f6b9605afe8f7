"""The engine of windows over panes: sliding, hopping and tumbling ones.

A step processes one batch between two close times. It reads the pages that are due and those that the batch touches, merges the
new panes into them, emits windows, and writes back the pages that the batch changed. The kind says where windows lie.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from operators.aggregates.operation import Operation
from operators.aggregates.user_functions import AggregateError
from operators.columns.ranges import Ints, key_edges
from operators.columns.records import FAR_PAST, Records
from operators.kinds.kind import PaneKind, Windows
from operators.steps.emission import Emission
from operators.steps.failed_windows import FailedWindow, note_window, with_keys
from operators.steps.lateness import find_late
from operators.steps.page_sums import PageSums
from operators.steps.panes import MergedPanes, PaneSchema, combined_alone, merge_panes
from operators.steps.partials import Partials
from operators.steps.plan import KindPlan
from operators.steps.step import Step
from operators.steps.timed_store import Emitted, TimedStore
from operators.steps.touched import Rows, Timers, Touched
from state_backends import Entries, WindowStore
from state_backends.store.entries import merge_entries


@dataclass(frozen=True, slots=True)
class PanePlan(KindPlan):
    """What an operator over panes computes.

    Attributes:
        kind: where its windows lie, with lengths in ticks.
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
        operations: the distinct operations of all aggregates.
    """

    kind: PaneKind
    on_update: bool
    operations: tuple[Operation, ...]
    late_alone: ClassVar[bool] = True

    @property
    def schema(self) -> PaneSchema:
        """The panes."""
        return PaneSchema(self.operations)

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        return self.schema.head

    @property
    def two_stages(self) -> "PanePlan":
        return self

    @property
    def grid(self) -> tuple[int, int] | None:
        return self.kind.grid

    @property
    def longest_pane(self) -> int:
        return self.kind.longest_pane

    @property
    def condenses(self) -> bool:
        """Whether a pane stands for a span of time, so that panes are few even if records are many."""
        return self.kind.condenses

    def next_due(self, entries: Entries, close_time: int) -> Ints:
        return self.kind.next_end(entries.time, close_time)

    def earliest_due(self, first: int, last: int, close_time: int) -> int:
        return self.kind.earliest_end(first, last, close_time)

    def accumulate(self, records: Records) -> Partials:
        """Return the panes of records."""
        return self.schema.accumulate(records, self.kind.pane_of(records.time))

    def reduce(self, partials: Partials) -> Partials:
        """Return the panes of several tasks sorted, and one for each key and time."""
        return self.schema.join(partials)

    def engine(self, store: WindowStore) -> "PaneEngine":
        """Return the engine over a store."""
        return PaneEngine(self, store)


class PaneEngine:
    """Processes batches over the panes of one store.

    Args:
        plan: what is computed.
        store: has the panes.
    """

    def __init__(self, plan: PanePlan, store: WindowStore) -> None:
        self.plan = plan
        self._sums = PageSums(plan.schema, store, lambda panes: panes)
        self.state = TimedStore(store, plan, self._sums, self._retract if plan.on_update else None)

    def step(self, batch: Partials, step: Step) -> Sequence[Emitted]:
        """Process one batch and return the windows to emit."""
        self.state.begin(step)
        plan, since, close_time = self.plan, step.close_time_start, step.close_time_end
        batch.check_order(distinct=True)
        batch.count_rows(step)
        late, missed = find_late(batch.entries.time, plan, step)
        batch.report_late(step, missed)
        accepted = batch.entries.take(~late) if late.any() else batch.entries
        new = Rows(accepted.key, accepted.time)
        touched = self.state.touch(batch.keys, close_time)
        self._choose_spans(touched, new, close_time)
        stored, windows = self._load(touched, new, close_time), []
        if not plan.on_update and since > self.state.close_time:
            # Former versions of this library stored several panes of one time, of records that arrived at other close times.
            with with_keys(touched.keys):
                before = plan.schema.by_time(merge_entries(stored, self.state.store.layout))
            windows.append(self._closed(touched.keys, before, self.state.close_time, since))
        merged = merge_panes(plan.schema, stored, accepted, touched.keys)
        del stored  # It is as large as `merged`, and the rest of the step needs memory.
        step.counters.panes += int(np.count_nonzero(merged.fresh))
        if plan.on_update:
            windows.append(self._changed(touched.keys, merged, since))
        elif close_time > since:
            windows.append(self._closed(touched.keys, merged.panes, since, close_time))
        self._save(touched, new, merged, close_time)
        return self.state.end(step, windows)

    def _retract(self, keys: list[bytes], entries: Entries) -> list[Emission]:
        panes = self.plan.schema.by_time(entries)
        every = np.ones(len(panes), bool)
        open_ = self._changed(keys, MergedPanes(panes, every, every), self.state.close_time)
        return [replace(open_, retract=True)]

    def _closed(self, keys: list[bytes], panes: Entries, since: int, close_time: int) -> Emission:
        """The windows of distinct sorted panes that end at `since` or later and before `close_time`."""
        return self._emission(
            keys, panes, self.plan.kind.closed_windows(panes.key, panes.time, since, close_time)
        )

    def _changed(self, keys: list[bytes], merged: MergedPanes, close_time: int) -> Emission:
        """The windows that a batch changed, without those that its first close time closed."""
        panes, changed, fresh = merged.panes, merged.changed, merged.fresh
        windows = self.plan.kind.changed_windows(panes.key, panes.time, changed, fresh, close_time)
        return self._emission(keys, panes, windows)

    def _emission(self, keys: list[bytes], panes: Entries, windows: Windows) -> Emission:
        schema, lo, hi = self.plan.schema, windows.lo, windows.hi
        try:
            states = schema.combine_ranges(panes, lo, hi)
        except AggregateError as error:

            def window(n: int) -> FailedWindow:
                return FailedWindow(
                    keys[panes.key[windows.pane[n]]], int(windows.start[n]), int(windows.end[n])
                )

            note_window(error, lambda a, b: combined_alone(schema, panes, lo[a:b], hi[a:b]), len(lo), window)
            raise
        return Emission(keys, panes.key[windows.pane], windows.start, windows.end, states)

    def _load(self, touched: Touched, new: Rows, close_time: int) -> list[Entries]:
        """Read the panes that the step needs, by segment. If its windows contain a whole page, they need only its sum.

        A window that closes in this step ends at the last close time or later and before `close_time`:

            first window        |--------------------|              ends at the last close time
            last window                |--------------------|       ends before close_time
            pages            |read |read | sum | sum |read |read |

        A page that all of them contain starts with the last of them or later, and ends before the last close time.
        Pages that the step writes, or sets the timers of, are read whole.
        """
        if self.plan.on_update:
            return [self.state.fetch(touched)]
        since, parts, whole_since = self._since, [], self.plan.kind.within_all(close_time)
        for segment, pages in self.state.pages(touched):
            held = self.state.hold(touched, segment, pages, [new])
            inside = (pages.start >= whole_since) & (pages.last < self.state.close_time)
            summed = inside & ~held & self._sums.has(pages)
            others = ~held & ~summed & (pages.start < close_time)
            if summed.any():
                parts += self._sums.fetch(segment, touched.keys, pages.take(summed))
            if held.any():
                parts.append(self.state.store.read(segment, touched.keys, touched.held[segment]))
            if others.any():
                entries = self.state.store.read(segment, touched.keys, pages.take(others))
                parts.append(entries if pages.span[0] >= since else entries.take(entries.time >= since))
        return parts

    @property
    def _since(self) -> int:
        """The time before which the windows that the step emits have no pane.

        The earliest window that closes in this step ends at the close time of the last step.
        """
        return self.state.close_time - self.plan.kind.dependency_span

    def _choose_spans(self, touched: Touched, panes: Rows, close_time: int) -> None:
        """Set the span of time of each key that the step reads.

        A key that has a record in a window that closes, or a page that is due, has to be read for all windows that close:

            since                                      close_time - 1
              |---- windows that close in this step ---------|
                                 ^ a record, or a page that is due

        For the other keys, the pages of their records are enough. On update, windows change that contain a record:

            t - span              t              t + span
              |-------------------|-------------------|
        """
        span = self.plan.kind.dependency_span
        first, last = key_edges(panes.key)
        keys, earliest, latest = panes.key[first], panes.time[first], panes.time[last]
        if self.plan.on_update:
            touched.widen(keys, earliest - span, latest + span)
            return
        touched.widen(keys, earliest, latest)
        closing = keys[self.plan.kind.next_end(earliest, FAR_PAST) < close_time]
        touched.widen(closing, self._since, close_time - 1)
        for due in touched.due.values():
            touched.widen(due.key, np.minimum(due.start, self._since), np.maximum(due.start, close_time - 1))

    def _save(self, touched: Touched, new: Rows, merged: MergedPanes, close_time: int) -> None:
        """Write the pages in which the batch has panes, without panes that no window needs."""
        dead, panes = self.plan.kind.dead_before(close_time), merged.panes
        timers = None
        if self.plan.has_timers:
            ends, stored = self.plan.kind.next_end(panes.time, close_time), ~merged.fresh
            timers = Timers(ends, Rows(panes.key[stored], panes.time[stored]), ends[stored])
        self.state.write_back(touched, panes, [new], timers, dead)
        self._sums.end_step(dead // self.state.store.segment_ticks)
