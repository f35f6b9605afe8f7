"""The contract with custom operators on columns: what they declare, what each call passes to them, and what they return.

A custom operator is a frozen dataclass whose fields are its settings. It has no state of its own: all state is in the store,
as entries of (key, time, declared columns). So it works on any backend, survives a kill, and can be read and moved like the
state of the built-in operators, which use the same steps, store and timers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.columns.arrow import arrow_column
from operators.columns.durations import Duration
from operators.columns.python_values import python_values, unreadable
from operators.columns.records import FAR_PAST, Records
from operators.steps.step import FailedCall, Step
from serializers import decode_keys
from serializers.arrays import fill, one_array
from state_backends import Entries, WindowStore
from state_backends.store.ordering import row_order
from state_backends.store.window_store import TIME_MAX, TIME_MIN

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Declaration:
    """The columns that an operator reads, stores and emits, known before the first record.

    Attributes:
        inputs: names of the columns to read, in addition to keys and event time.
        state: types of the stored columns by name, in addition to key and time: int, float or object. An object is any value
            that msgpack can hold, or a date, time or decimal; objects cost Python time for each entry.
        results: types of the result columns by name, in addition to the keys: Spark's name of a type, such as "double" or
            "array<string>", or an Arrow type.
        counts: names of the operator's counters; see `CallContext.count`.
        event_time: the result, a timestamp, that is each row's event time, if other operators follow in the same stream. A row
            that is earlier than the close time of the previous batch less `delay` fails the batch.
        delay: text, a timedelta, or whole milliseconds.
    """

    inputs: Sequence[str] = ()
    state: Mapping[str, type] = field(default_factory=dict)
    results: Mapping[str, "str | pa.DataType"] = field(default_factory=dict)
    counts: Sequence[str] = ()
    event_time: str | None = None
    delay: Duration = 0


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """Entries of the store with named columns, sorted by key, then by time.

    Attributes:
        key: shape (n,), int64: positions in `CallContext.keys`.
        time: shape (n,), int64: ticks.
        columns: the declared columns, each of shape (n,): int64, float64 or objects.
    """

    key: Ints
    time: Ints
    columns: Mapping[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        return len(self.key)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    def take(self, rows: Mask | Ints | slice) -> "StoredEntries":
        """Return the entries at the given rows: a mask, positions or a slice."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return StoredEntries(self.key[rows], self.time[rows], columns)

    def in_order(self) -> "StoredEntries":
        """Return the entries sorted by key, then by time. The sort is stable, and O(n) for sorted entries."""
        order = row_order(self.key, self.time)
        return self if order is None else self.take(order)


@dataclass(frozen=True, slots=True)
class OutputRows:
    """Rows to emit; made by `CallContext.rows`.

    Attributes:
        keys: encoded keys.
        key: shape (n,), int64: position of each row's key in `keys`.
        columns: the declared results in order, each of length n: NumPy arrays (masked where values are null), Arrow arrays or
            lists.
        since: the earliest event time in ticks that the rows may have, if they have a declared event time.
    """

    retract: ClassVar[bool] = False

    keys: Sequence[bytes]
    key: Ints
    columns: tuple[Any, ...]
    since: int = FAR_PAST


@dataclass(frozen=True, slots=True)
class CallContext:
    """One call of an operator: the batch's records or the entries whose timers are due, and the store.

    Attributes:
        keys: the distinct keys of the call, encoded. Columns named `key` hold positions in this list.
        records: the records that are not late, sorted by key and event time; empty in `fire`. They have the columns `key` and
            `time`, and `values` by name: `values["v"].filled(default)` is a NumPy array.
        due: the entries whose timers are due, removed from the store; empty in `process_batch`.
        close_time: in ticks. Earlier records are late from now on, and `fire` is called for earlier timers. It is 2**61 at the
            end of a bounded frame.
        grace: grace in ticks; stream time is `close_time` + `grace`.
        store: the window store itself, for what the methods here do not cover. Its keys are bytes.
        declared: the operator's declaration.
        inputs: the declared inputs with their Arrow types.
        group: the key columns with their Arrow types.
    """

    keys: list[bytes]
    records: Records
    due: StoredEntries
    close_time: int
    grace: int
    store: WindowStore
    declared: Declaration
    inputs: Mapping[str, pa.DataType]
    group: Mapping[str, pa.DataType]
    _step: Step

    def read(self, start: int = TIME_MIN, end: int = TIME_MAX) -> StoredEntries:
        """Return the stored entries of the call's keys with start <= time <= end. Cost: a backend call for each segment."""
        return named(self.store.fetch_many(self.keys, start, end), tuple(self.declared.state))

    def column(self, name: str) -> pa.Array:
        """Return a declared input of the records as an Arrow column. O(n)."""
        data = self.records.values[name]
        return arrow_column(data.values, self.inputs[name], None if data.valid is None else ~data.valid)

    def key_columns(self) -> dict[str, pa.Array]:
        """Return the values of the key columns of `keys`, by name. O(keys), about 1 us for each key."""
        types = list(self.group.values())
        return dict(zip(self.group, decode_keys(self.keys, types), strict=True))

    def stored(self, key: Any, time: Any, /, **columns: Any) -> StoredEntries:
        """Return entries made of columns, sorted by key, then by time. The sort is stable.

        Args:
            key: shape (n,), int64: positions in `keys`.
            time: ticks, shape (n,), int64, or one value for all entries.
            columns: all declared columns by name: n values as a list, a NumPy or an Arrow array, or one value for all entries.

        Raises:
            ValueError: a column is missing, was not declared, or has the wrong length or type.
        """
        _check_names("stored", columns, self.declared.state)
        key = _numbers("key", int, key, None)
        whole = {
            name: _stored_column(name, type_, columns[name], len(key))
            for name, type_ in self.declared.state.items()
        }
        return StoredEntries(key, _numbers("time", int, time, len(key)), whole).in_order()

    def put(self, entries: StoredEntries) -> None:
        """Write entries. They replace what is stored for the same key and time."""
        self.store.put_many(self.keys, self._plain(entries))

    def add(self, entries: StoredEntries) -> None:
        """Write entries without replacing any. Those of the same key and time stay in the order of writing."""
        self.store.add_many(self.keys, self._plain(entries))

    def delete(self, entries: StoredEntries) -> None:
        """Delete everything that is stored for the key and time of each of these entries. Missing entries are ignored."""
        self.store.delete_many(self.keys, entries.key, entries.time)

    def rows(self, key: Any, /, **columns: Any) -> OutputRows:
        """Return rows to emit.

        Args:
            key: shape (n,), int64: positions in `keys`.
            columns: all declared results by name: n values as a list, a NumPy array (masked where values are null) or an Arrow
                array, or one value for all rows. Whole numbers for a timestamp are ticks.

        Raises:
            ValueError: a result is missing, was not declared, or has the wrong length.
        """
        results = self.declared.results
        _check_names("result", columns, results)
        key = self._positions(_numbers("key", int, key, None))
        whole = {name: _repeated(column, len(key)) for name, column in columns.items()}
        for name, column in whole.items():
            if len(column) != len(key):
                raise ValueError(f"result column {name!r} has length {len(column)}, expected {len(key)}")
        return OutputRows(self.keys, key, tuple(whole[name] for name in results))

    def count(self, name: str, number: Any = 1) -> None:
        """Add to a declared counter. A streaming query reports it in the metric `<name>_out`.

        Raises:
            ValueError: the name was not declared.
        """
        if name not in self.declared.counts:
            known = ", ".join(self.declared.counts) or "none"
            raise ValueError(f"unknown counter {name!r}; declared counters: {known}")
        self._step.count(name, number)

    def report_failed(
        self, reason: str, key: int, time: int | None = None, values: Sequence[Any] | None = None
    ) -> None:
        """Count a record that could not be processed in the metric `failed`. `apply_with_late` returns it as data.

        Args:
            reason: what went wrong, and where.
            key: position in `keys`.
            time: event time of the record in ticks; None if it is not about a record.
            values: the declared inputs of the record as Python values, in order; None if they are not known.
        """
        named = {} if values is None else dict(zip(self.inputs, values, strict=True))
        self._step.report_failed(FailedCall(self.keys[key], time, named, reason))

    def _plain(self, entries: StoredEntries) -> Entries:
        self._positions(entries.key)
        ordered = entries.in_order()
        return Entries(ordered.key, (ordered.time, *(ordered[name] for name in self.declared.state)))

    def _positions(self, key: Ints) -> Ints:
        if len(key) and not 0 <= int(key.min()) <= int(key.max()) < len(self.keys):
            raise ValueError(
                f"keys are positions in context.keys, 0 to {len(self.keys) - 1}; got {key.min()} to {key.max()}"
            )
        return key


def named(entries: Entries, names: Sequence[str]) -> StoredEntries:
    """Return entries with their columns by name."""
    return StoredEntries(entries.key, entries.time, dict(zip(names, entries.columns[1:], strict=True)))


def _check_names(what: str, columns: Mapping[str, Any], declared: Mapping[str, Any]) -> None:
    known = f"declared {what} columns: {', '.join(declared) or 'none'}"
    for name in declared:
        if name not in columns:
            raise ValueError(f"missing {what} column {name!r}; {known}")
    for name in columns:
        if name not in declared:
            raise ValueError(f"unknown {what} column {name!r}; {known}")


def _stored_column(name: str, type_: type, column: Any, rows: int) -> npt.NDArray[Any]:
    if type_ is not object:
        return _numbers(f"stored column {name!r}", type_, column, rows)
    values = _repeated(column, rows)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = python_values(one_array(values))
        if why := unreadable(values):
            raise ValueError(f"stored column {name!r} {why}")
    elif isinstance(values, np.ndarray):
        values = values.tolist()
    if len(values) != rows:
        raise ValueError(f"stored column {name!r} has length {len(values)}, expected {rows}")
    return fill(values)


def _repeated(column: Any, rows: int) -> Any:
    """A column as it is; a single value is repeated for each row."""
    is_column = isinstance(column, list | pa.Array | pa.ChunkedArray)
    return column if is_column or (isinstance(column, np.ndarray) and column.ndim) else [column] * rows


def _numbers(what: str, type_: type, column: Any, rows: int | None) -> npt.NDArray[Any]:
    """Numbers as a column of int64 or float64; a single number is repeated if the number of rows is known."""
    values = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else np.asanyarray(column)
    if np.ma.is_masked(values):
        raise ValueError(f"{what} has nulls: fill them, or declare the column as object")
    values = np.ma.getdata(values)
    if values.size and values.dtype.kind not in ("iub" if type_ is int else "iufb"):
        raise ValueError(f"{what} is of type {values.dtype}, not {type_.__name__}")
    if values.ndim == 0 and rows is not None:
        values = np.full(rows, values)
    if values.ndim != 1 or (rows is not None and len(values) != rows):
        expected = "one dimension" if rows is None else f"({rows},)"
        raise ValueError(f"{what} has shape {values.shape}, expected {expected}")
    return values.astype(np.int64 if type_ is int else np.float64, copy=False)


class CustomOperator(Protocol):
    """What the plan needs of a custom operator. See `operators.Operator` for each member."""

    version: ClassVar[int]
    keeps_inputs: ClassVar[bool]
    entry: ClassVar[str]
    timed: ClassVar[bool]
    judges_late: ClassVar[bool]

    @property
    def tick(self) -> str:
        """Resolution of event time."""

    def process_batch(self, context: CallContext) -> OutputRows | None:
        """Process the records of a batch."""

    def fire(self, context: CallContext) -> OutputRows | None:
        """Process the entries whose timers are due."""

    def due(self, entries: StoredEntries) -> Ints:
        """Return the timer of each entry in ticks."""

    def late_before(self, close_time: int) -> int:
        """Return the event time before which records are late."""

    @property
    def skips_errors(self) -> bool:
        """Whether calls for a record or timer that raise are skipped."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that stored state depends on."""
