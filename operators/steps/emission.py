"""The output of an operator: windows as columns of numbers and states, then as Arrow rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from operators.aggregates.definitions import Aggregate, Bound
from operators.aggregates.operation import Operation, part_of
from operators.aggregates.user_functions import AggregateError
from operators.columns.arrow import to_unit
from operators.columns.ranges import Ints, State
from operators.errors import DefinitionError
from operators.steps.failed_windows import FailedWindow, note_window
from operators.steps.since_column import SinceColumn
from serializers import decode_keys
from serializers.arrays import take_values

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on

UPDATE, RETRACT = "update", "retract"


@dataclass(frozen=True, slots=True)
class Emission:
    """Windows of several keys.

    Attributes:
        keys: encoded keys.
        key: shape (n,), int64: position of each window's key in `keys`.
        start, end: shape (n,), int64: bounds in ticks.
        states: one state per operation; empty if windows are retracted whose results are not known any more.
        retract: whether the windows were emitted before and no longer exist.
        rows: shape (n,), int64: the position of each window's result among those that the states make; None if each result is
            that of a window.
    """

    keys: Sequence[bytes]
    key: Ints
    start: Ints
    end: Ints
    states: Sequence[State]
    retract: bool = False
    rows: Ints | None = None

    def window(self, row: int) -> FailedWindow | None:
        """Return the window whose result the states make in this row; None if no window has it."""
        at = np.array([row]) if self.rows is None else np.flatnonzero(self.rows == row)
        if not len(at):
            return None
        n = int(at[0])
        return FailedWindow(self.keys[self.key[n]], int(self.start[n]), int(self.end[n]))

    def without(self, emitted: Sequence[Any]) -> "Emission":
        """Return the windows that are not among emitted rows, so that a batch has one row for each window.

        Args:
            emitted: emissions of other windows or of the same; those that retract do not count.
        """
        mine = {*self.keys}
        again = set[tuple[bytes, int, int]]()
        for rows in emitted:
            number = {n: key for n, key in enumerate(rows.keys) if key in mine} if not rows.retract else {}
            at = np.flatnonzero(np.isin(rows.key, list(number)))
            names = [number[n] for n in rows.key[at].tolist()]
            again.update(zip(names, rows.start[at].tolist(), rows.end[at].tolist(), strict=True))
        bounds = zip(self.key.tolist(), self.start.tolist(), self.end.tolist(), strict=True)
        kept = np.array([(self.keys[n], start, end) not in again for n, start, end in bounds], bool)
        # States need not have a row for each window, results have.
        rows = np.flatnonzero(kept) if self.rows is None else self.rows[kept]
        return replace(self, key=self.key[kept], start=self.start[kept], end=self.end[kept], rows=rows)


class AggregateOutput(ABC):
    """The rows of an operator that computes aggregates.

    Attributes:
        keys: names and Arrow types of the key columns.
        aggregates: result names and their bound aggregates.
        since: the column that says since when all results count all records, if there is one.
    """

    keys: tuple[tuple[str, pa.DataType], ...]
    aggregates: tuple[tuple[str, Bound], ...]
    since: SinceColumn | None

    @property
    @abstractmethod
    def arrow(self) -> pa.Schema:
        """The Arrow schema of a result."""

    @property
    def may_change(self) -> bool:
        """Whether a row that was emitted can be followed by another one in its place."""
        return False

    @property
    def result_names(self) -> Sequence[Sequence[str]]:
        """The names of the results of each aggregate."""
        return [[name] for name, _ in self.aggregates]

    @property
    def bounds_type(self) -> pa.DataType | None:
        """Arrow type of the bounds of windows, if they come out."""
        return None

    @property
    def emission(self) -> str | None:
        """When windows come out, as text, if the rows say it."""
        return None

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The distinct operations of all aggregates."""
        return tuple(dict.fromkeys(op for _, bound in self.aggregates for op in bound.operations))

    def counting_since(self, since: Mapping[str, int]) -> "Self":
        """Return the output of a state of which these parts were added later; see `SinceColumn.of_states`."""
        if self.since is None:
            return self
        return replace(self, since=self.since.of_states(self.operations, since))  # type: ignore[type-var]


@dataclass(frozen=True)
class OutputSchema(AggregateOutput):
    """The rows of an operator: key columns, the window and the aggregates; on update also `change` and `sequence`.

    Attributes:
        keys: names and Arrow types of the key columns.
        time: Arrow type of the window's bounds.
        tick_us: length of a tick in microseconds.
        aggregates: result names and their bound aggregates.
        with_change: whether rows have the columns `change` and `sequence`.
        retracts: whether windows can be retracted, by rows whose aggregates are null.
        since: the column that says since when all results count all records, if there is one.
    """

    keys: tuple[tuple[str, pa.DataType], ...]
    time: pa.DataType
    tick_us: int
    aggregates: tuple[tuple[str, Bound], ...]
    with_change: bool
    retracts: bool = False
    since: SinceColumn | None = None

    @property
    def may_change(self) -> bool:
        return self.with_change

    @property
    def bounds_type(self) -> pa.DataType:
        return self.time

    @property
    def emission(self) -> str:
        if not self.with_change:
            return "each window once, when it is closed"
        retracted = ", and retractions of those that no longer exist" if self.retracts else ""
        return (
            f"after each batch, the windows that it changed{retracted}; for a bounded frame, each window once"
        )

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of a result."""
        bounds = [pa.field("start", self.time, nullable=False), pa.field("end", self.time, nullable=False)]
        fields = [pa.field(name, type_) for name, type_ in self.keys]
        fields.append(pa.field("window", pa.struct(bounds), nullable=False))
        fields += [
            pa.field(name, bound.type, nullable=bound.nullable or self.retracts)
            for name, bound in self.aggregates
        ]
        fields += [] if self.since is None else [self.since.field]
        if self.with_change:
            fields.append(pa.field("change", pa.string(), nullable=False))
            fields.append(pa.field("sequence", pa.int64(), nullable=False))
        return pa.schema(fields)

    def table(self, emissions: Sequence[Emission], sequence: int = 0) -> pa.Table:
        """Return emitted windows as a table."""
        tables = [self._table(emission, sequence) for emission in emissions if len(emission.key)]
        return pa.concat_tables(tables) if tables else self.arrow.empty_table()

    def _table(self, emission: Emission, sequence: int) -> pa.Table:
        schema = self.arrow
        columns = key_columns(emission.keys, emission.key, [type_ for _, type_ in self.keys])
        columns.append(self._windows(emission, schema.field("window").type))
        columns += self._results(emission)
        columns += [] if self.since is None else [self.since.values(len(emission.key))]
        if self.with_change:
            columns.append(pa.repeat(pa.scalar(RETRACT if emission.retract else UPDATE), len(emission.key)))
            columns.append(pa.repeat(pa.scalar(sequence, pa.int64()), len(emission.key)))
        return pa.Table.from_arrays(columns, schema=schema)

    def _results(self, emission: Emission) -> list[pa.Array]:
        if not emission.states:
            return [pa.nulls(len(emission.key), bound.type) for _, bound in self.aggregates]
        try:
            results = self._finished(emission.states)
        except AggregateError as error:
            rows = len(emission.states[0][0])
            note_window(
                error, lambda a, b: self._finished(part_of(emission.states, a, b)), rows, emission.window
            )
            raise
        if emission.rows is not None:
            results = [take_values(each, emission.rows) for each in results]
        return [
            each if bound.at_end is None else bound.at_end(each, emission.end)
            for each, (_, bound) in zip(results, self.aggregates, strict=True)
        ]

    def _finished(self, states: Sequence[State]) -> list[pa.Array]:
        """The results of each row of the states."""
        state_of = dict(zip(self.operations, states, strict=True))
        return [bound.finish([state_of[op] for op in bound.operations]) for _, bound in self.aggregates]

    def _windows(self, emission: Emission, type_: pa.StructType) -> pa.StructArray:
        bounds = [
            pa.array(to_unit(t, self.tick_us, self.time.unit)).cast(self.time)
            for t in (emission.start, emission.end)
        ]
        return pa.StructArray.from_arrays(bounds, fields=list(type_))


def key_columns(
    keys: Sequence[bytes], key: Ints, types: Sequence[pa.DataType]
) -> list[pa.Array | pa.ChunkedArray]:
    """Return the key columns of rows.

    Args:
        keys: encoded keys.
        key: shape (n,), int64: position of each row's key in `keys`.
        types: the types of the key columns.
    """
    used = np.zeros(len(keys), bool)
    used[key] = True
    names = [keys[n] for n in np.flatnonzero(used).tolist()]
    number = (np.cumsum(used) - 1)[key]
    return [take_values(column, number) for column in decode_keys(names, types)]


def bind_aggregates(
    aggregates: Mapping[str, Aggregate], types: Mapping[str, pa.DataType], tick_us: int
) -> tuple[tuple[str, Bound], ...]:
    """Return the aggregates bound to a frame's column types, and to ticks of so many microseconds.

    Raises:
        DefinitionError: a column is missing or has a wrong type; the message starts with the name of the result.
    """
    bound = []
    for name, aggregate in aggregates.items():
        try:
            bound.append((name, aggregate.in_ticks(tick_us).bind(types)))
        except DefinitionError as error:
            raise DefinitionError(f"aggregate {name!r}: {error}") from None
    return tuple(bound)
