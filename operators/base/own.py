"""An operator that a user wrote, as a plan over a window store: what the hosts run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.operation import Operation
from operators.base.calendar import NEVER
from operators.base.columnar import Declaration, Ints, Operator, Rows, Work, named
from operators.base.step import Step
from operators.base.store_operator import StoreOperator, first_by_key
from operators.batch import Records
from operators.columns import arrow_column
from operators.emission import key_columns, to_unit
from serializers.pages import PageLayout
from state_backends import Entries, WindowStore, WriteBatch
from state_backends.ordering import row_order
from state_backends.stored import FLOAT, NUMBER, TIME, VALUE, head_codes
from state_backends.window_store import merge_entries

KINDS = {int: NUMBER, float: FLOAT, object: VALUE}
"""Kinds of stored columns by the type that declares them."""
_PLAIN = (bool, int, float, str, bytes)


class OwnPlan:
    """An operator with what it declared of some frame.

    Args:
        definition: the operator.
        declaration: what it said.
        inputs: the declared inputs with their Arrow types.
        grace: in ticks.
    """

    operations: tuple[Operation, ...] = ()

    def __init__(
        self,
        definition: Operator,
        declaration: Declaration,
        inputs: tuple[tuple[str, pa.DataType], ...],
        grace: int,
    ) -> None:
        self.definition = definition
        self.declaration = declaration
        self.inputs = dict(inputs)
        self.grace = grace

    def __eq__(self, other: object) -> bool:
        """Plans that store the same in the same way are equal: Spark sends an operator anew with each batch."""
        return isinstance(other, OwnPlan) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.head)

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        """The stored columns: the time, and what was declared."""
        return ("time", TIME), *((name, KINDS[type_]) for name, type_ in self.declaration.state.items())

    @cached_property
    def layout(self) -> PageLayout:
        """The layout of stored entries."""
        return PageLayout(head_codes(self.head))

    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on."""
        kind = type(self.definition)
        settings = self.definition.settings()
        return {
            "operator": kind.__qualname__,
            "version": kind.version,
            "settings": {
                name: value if type(value) in _PLAIN else repr(value) for name, value in settings.items()
            },
            "stored": [f"{name}: {kind_}" for name, kind_ in self.head],
            "state": [],
        }

    def operator(self, store: WindowStore) -> "OwnOperator":
        """Return the operator over a store."""
        return OwnOperator(self, store)


class OwnOperator(StoreOperator):
    """Runs a user's operator over one store: late records go aside, timers fire, each as the operator says."""

    def __init__(self, plan: OwnPlan, store: WindowStore) -> None:
        definition = plan.definition
        super().__init__(store, closes=type(definition).due is not Operator.due)
        self.plan = plan
        self._definition = definition
        self._names = tuple(plan.declaration.state)
        self._entered: dict[int, dict[bytes, int]] = {}
        """When each page is due, by the calendar: a later due time than that is not entered before this one has come."""
        if self.closes:
            store.on_write = self._enter_written

    def next_due(self, entries: Entries) -> Ints:
        return np.asarray(self._definition.due(named(entries, self._names)), np.int64)

    def rebuild(self, close: int, changes: Sequence[WriteBatch] | None = None) -> None:
        if changes is None:
            self._entered.clear()
        super().rebuild(close, changes)

    def _enter_pages(self, segment: int, keys: Sequence[bytes], entries: Entries) -> None:
        present, due = first_by_key(entries.key, self.next_due(entries))
        entered, names, times = self._entered.setdefault(segment, {}), [], []
        for number, time in zip(present.tolist(), due.tolist(), strict=True):
            if time < entered.get(keys[number], NEVER):
                entered[keys[number]] = time
                names.append(keys[number])
                times.append(time)
        self._calendar.add(segment, names, np.array(times, np.int64))

    def _enter_written(self, segment: int, keys: Sequence[bytes], entries: Entries) -> None:
        if len(entries):
            self._enter_pages(segment, keys, entries)

    def take(self, batch: Records, step: Step) -> list[Rows]:
        emitted = [self._fired(step, step.close_start)] if step.close_start > self.close else []
        records = self._accepted(batch, step)
        if len(records):
            emitted.append(
                self._definition.take(self._work(records.keys, records, None, step.close_start, step))
            )
        emitted.append(self._fired(step, step.close_end))
        return [rows for rows in emitted if rows is not None]

    def _accepted(self, records: Records, step: Step) -> Records:
        """The records that are not late, sorted by key and time."""
        late = records.time < self._definition.late_before(step.close_start)
        step.counters.rows += len(records) + records.bad
        step.counters.bad += records.bad
        time = records.time[late]
        step.report_late(np.flatnonzero(late), (time, time))
        accepted = records.take(np.flatnonzero(~late)) if late.any() else records
        order = row_order(accepted.key, accepted.time)
        return accepted if order is None else accepted.take(order)

    def _fired(self, step: Step, close: int) -> Rows | None:
        """Take the entries whose timer is before the close time out of the store, and hand them over."""
        if not self.closes:
            return None
        keys, due = self._take_due([], close)
        parts = []
        for segment, numbers in due.items():
            fired = self._popped(segment, [keys[n] for n in numbers.tolist()], close)
            parts.append(Entries(numbers[fired.key], fired.columns))
        entries = merge_entries(parts, self.store.layout)
        if not len(entries):
            return None
        return self._definition.fire(self._work(keys, _no_records(keys), entries, close, step))

    def _popped(self, segment: int, names: list[bytes], close: int) -> Entries:
        """Take what fires out of the pages, and enter what is left of them in the calendar anew."""
        entered = self._entered.get(segment, {})
        for name in names:
            entered.pop(name, None)
        entries = self.store.fetch_segment(segment, names)
        fires = self.next_due(entries) < close
        touched = np.zeros(len(names), bool)
        touched[entries.key[fires]] = True
        kept = ~fires & touched[entries.key]
        self._replace(segment, names, touched, entries.take(kept))
        self._enter_pages(segment, names, entries.take(~touched[entries.key]))
        return entries.take(fires)

    def _work(self, keys: list[bytes], records: Records, due: Entries | None, close: int, step: Step) -> Work:
        declared = self.plan.declaration
        return Work(
            keys,
            records,
            named(merge_entries([], self.store.layout) if due is None else due, self._names),
            close,
            self.plan.grace,
            self.store,
            self.plan.inputs,
            tuple(declared.results),
            self._names,
            tuple(declared.counts),
            step,
        )


def _no_records(keys: list[bytes]) -> Records:
    nothing = np.empty(0, np.int64)
    return Records(keys, nothing, nothing, {}, 0)


@dataclass(frozen=True)
class OwnOutput:
    """The rows of a user's operator: key columns, then the declared results.

    Attributes:
        keys: names and Arrow types of the key columns.
        results: names and Arrow types of the results.
        tick_us: length of a tick in microseconds.
    """

    keys: tuple[tuple[str, pa.DataType], ...]
    results: tuple[tuple[str, pa.DataType], ...]
    tick_us: int

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of a result."""
        return pa.schema([*self.keys, *self.results])

    def table(self, emitted: Sequence[Rows]) -> pa.Table:
        """Return emitted rows as a table.

        Raises:
            ValueError: a result is of another length or type than was declared; names it.
        """
        batches = [self._batch(rows) for rows in emitted if len(rows.key)]
        return pa.Table.from_batches(batches, self.arrow)

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        columns = key_columns(rows.keys, rows.key, [type_ for _, type_ in self.keys])
        for (name, type_), values in zip(self.results, rows.columns, strict=True):
            if len(values) != len(rows.key):
                raise ValueError(f"result {name!r} has {len(values)} values for {len(rows.key)} rows")
            try:
                columns.append(self._column(values, type_))
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise ValueError(f"result {name!r} is not of the declared type {type_}: {error}") from error
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def _column(self, values: Any, type_: pa.DataType) -> pa.Array:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, pa.Array):
            return values.cast(type_)
        if not isinstance(values, np.ndarray):
            return pa.array(values, type_)
        missing = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        plain = np.ma.getdata(values)
        if pat.is_timestamp(type_) and plain.dtype == np.int64:
            plain = to_unit(plain, self.tick_us, type_.unit)
        return arrow_column(plain, type_, missing)
