"""The engine of windows that have a stored state each, to which their records are added: folds that cannot be merged.

A step processes one batch between two close times. It reads the pages that are due and those that the batch can change, adds
the records to the windows, emits, and writes back the pages that changed. The kind says where windows lie.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from operators.aggregates.definitions import Bound
from operators.aggregates.operation import Operation
from operators.aggregates.state_words import listed
from operators.aggregates.strategy import FOLD, Strategy
from operators.columns.ranges import Ints, Mask, key_edges
from operators.columns.records import NEVER, Records
from operators.kinds.folding import FoldedWindows, FoldSchema
from operators.kinds.kind import FoldKind
from operators.steps.emission import Emission
from operators.steps.lateness import accept
from operators.steps.plan import KindPlan
from operators.steps.step import Step
from operators.steps.timed_store import Emitted, TimedStore
from operators.steps.touched import Rows, Timers, Touched
from state_backends import Entries, WindowStore


@dataclass(frozen=True, slots=True)
class FoldPlan(KindPlan):
    """What an operator computes that stores a state for each window.

    Attributes:
        kind: where its windows lie, with lengths in ticks.
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
        operations: the distinct operations of all aggregates.
    """

    kind: FoldKind
    on_update: bool
    operations: tuple[Operation, ...]

    @property
    def schema(self) -> FoldSchema:
        """The columns of stored windows."""
        return FoldSchema(len(self.head), self.operations)

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        return self.kind.head

    def next_due(self, entries: Entries, close_time: int) -> Ints:
        return np.where(self.kind.is_window(entries) & (entries.time >= close_time), entries.time, NEVER)

    def earliest_due(self, first: int, last: int, close_time: int) -> int:
        return first

    def strategy_of(self, bound: Bound) -> tuple[Strategy, str]:
        del bound
        unmerged = listed(op.describe() for op in self.operations if not op.combines)
        return FOLD, f"a merge for {unmerged} would allow panes"

    def engine(self, store: WindowStore) -> "FoldEngine":
        """Return the engine over a store."""
        return FoldEngine(self, store)


class FoldEngine:
    """Processes batches over the windows of one store.

    Args:
        plan: what is computed.
        store: has the windows.
    """

    def __init__(self, plan: FoldPlan, store: WindowStore) -> None:
        self.plan = plan
        self.state = TimedStore(store, plan, retract=self._retract if plan.on_update else None)

    def step(self, batch: Records, step: Step) -> Sequence[Emitted]:
        """Process one batch and return the windows to emit."""
        self.state.begin(step)
        close_times = step.close_time_start, step.close_time_end
        accepted = accept(batch, self.plan, step)
        touched = self.state.touch(batch.keys, step.close_time_end)
        stored = self._load(touched, accepted)
        folded = self.plan.kind.fold(self.plan.schema, stored, accepted, step.close_time_start)
        fresh = self.plan.kind.is_window(folded.entries) & folded.fresh
        step.counters.panes += int(np.count_nonzero(fresh))
        windows = list(self._emit(touched.keys, stored, folded, close_times))
        self._save(touched, folded, step.close_time_end)
        return self.state.end(step, windows)

    def _retract(self, keys: list[bytes], entries: Entries) -> list[Emission]:
        chosen = self.plan.kind.is_window(entries) & (entries.time >= self.state.close_time)
        return [replace(self._emission(keys, entries, chosen), retract=True)]

    def _load(self, touched: Touched, records: Records) -> Entries:
        """Read whole pages: those that are due, and those within reach of the records of their key."""
        span = self.plan.kind.dependency_span
        first, last = key_edges(records.key)
        touched.widen(records.key[first], records.time[first] - span, records.time[last] + span)
        return self.state.fetch(touched)

    def _emit(
        self, keys: list[bytes], stored: Entries, folded: FoldedWindows, close_times: tuple[int, int]
    ) -> Iterator[Emission]:
        close_time_start, close_time_end = close_times
        last_tick, windows = folded.entries.time, self.plan.kind.is_window(folded.entries)
        if self.plan.on_update:
            changed = windows & folded.changed & (last_tick >= close_time_start)
            yield self._emission(keys, folded.entries, changed)
            return
        closed = (stored.time >= self.state.close_time) & (stored.time < close_time_start)
        yield self._emission(keys, stored, self.plan.kind.is_window(stored) & closed)
        closed = (last_tick >= close_time_start) & (last_tick < close_time_end)
        yield self._emission(keys, folded.entries, windows & closed)

    def _emission(self, keys: list[bytes], entries: Entries, chosen: Mask) -> Emission:
        windows = entries.take(chosen)
        return Emission(
            keys, windows.key, *self.plan.kind.bounds(windows.time), self.plan.schema.results(windows)
        )

    def _save(self, touched: Touched, folded: FoldedWindows, close_time: int) -> None:
        """Write the pages that changed, without entries that no window needs."""
        entries, timers = folded.entries, None
        if self.plan.has_timers:
            due = self.plan.next_due(entries, close_time)
            stored = ~folded.fresh
            timers = Timers(due, Rows(entries.key[stored], entries.time[stored]), due[stored])
        changed = Rows(entries.key[folded.changed], entries.time[folded.changed])
        self.state.write_back(touched, entries, [changed], timers, self.plan.kind.dead_before(close_time))
