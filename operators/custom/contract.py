"""The base for operators that users write, on columns: what they declare, what a step gives them, what they give back.

An operator of one's own is a frozen dataclass with its settings as fields. It keeps nothing itself: all state is in the
store, as entries of (key, time, declared columns), so that it lives on any backend, outlives a kill, and can be read and moved
as that of the built-in operators, which stand on the same steps, store and timers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.columns.arrow import arrow_column
from operators.columns.durations import Duration
from operators.columns.records import FAR_PAST, Records
from operators.steps.step import Step
from serializers import decode_keys
from serializers.arrays import fill
from state_backends import Entries, WindowStore
from state_backends.store.ordering import row_order
from state_backends.store.window_store import TIME_MAX, TIME_MIN

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Declaration:
    """What an operator reads, keeps and makes, said before the first record.

    Attributes:
        inputs: names of the columns that it reads beside key and event time.
        state: stored columns beside key and time, by name: int, float or object. Objects are what msgpack holds, dates, times
            and decimals too; they cost Python time for each entry.
        results: result columns beside the keys, by name: Spark's name of a type, such as "double" or "array<string>", or an
            Arrow type.
        counts: names under which the operator counts what it does, with `CallContext.count`.
        event_time: the result, a timestamp, that is each row's event time, if later operators of a stream are to go on with it.
            None of a batch may be before the close time of the batch before, less `delay`: such a row fails the batch.
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
    """Entries of the store by name of their columns, sorted by key, then by time.

    Attributes:
        key: shape (n,), int64: positions in `CallContext.keys`.
        time: shape (n,), int64: ticks.
        columns: the declared ones, each of shape (n,): int64, float64 or objects.
    """

    key: Ints
    time: Ints
    columns: Mapping[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        return len(self.key)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    def take(self, rows: Mask | Ints | slice) -> "StoredEntries":
        """Return the entries at these rows, by mask, positions or slice."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return StoredEntries(self.key[rows], self.time[rows], columns)

    def in_order(self) -> "StoredEntries":
        """Return the entries sorted by key, then by time; equal ones stay in order. O(n) if they are so already."""
        order = row_order(self.key, self.time)
        return self if order is None else self.take(order)


@dataclass(frozen=True, slots=True)
class OutputRows:
    """Rows to emit; made by `CallContext.rows`.

    Attributes:
        keys: encoded keys.
        key: shape (n,), int64: position of each row's key in `keys`.
        columns: the declared results in their order, each of length n: NumPy arrays, masked ones where some are null, Arrow
            arrays or lists.
        since: the earliest event time in ticks that they may have, if one is declared.
    """

    retract: ClassVar[bool] = False

    keys: Sequence[bytes]
    key: Ints
    columns: tuple[Any, ...]
    since: int = FAR_PAST


@dataclass(frozen=True, slots=True)
class CallContext:
    """One call of an operator: its records or the entries whose timer has come, and its store.

    Attributes:
        keys: the distinct keys of the call, encoded; `key` columns count positions in it.
        records: those that are not late, sorted by key and event time; none in `fire`. Their columns are `key`, `time`, and
            `values` by name, of which `.filled(default)` is a NumPy array.
        due: entries whose timer has come, taken out of the store; none in `process_batch`.
        close_time: in ticks. Earlier records are late from now on, and `fire` is called for earlier timers. It is 2**61 at the
            end of a bounded frame.
        grace: in ticks; stream time is `close_time` + `grace`.
        store: the window store itself, for what the methods here don't do. Its keys are bytes.
        declared: what the operator declared.
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
        """Return what is stored of the call's keys with start <= time <= end. One backend call for each segment there is."""
        return named(self.store.fetch_many(self.keys, start, end), tuple(self.declared.state))

    def column(self, name: str) -> pa.Array:
        """Return a declared input of the records as an Arrow column. O(n)."""
        data = self.records.values[name]
        return arrow_column(data.values, self.inputs[name], None if data.valid is None else ~data.valid)

    def key_columns(self) -> dict[str, pa.Array]:
        """Return the key columns' values of `keys`, by name. O(keys), some 1 us each."""
        types = list(self.group.values())
        return dict(zip(self.group, decode_keys(self.keys, types), strict=True))

    def stored(self, key: Any, time: Any, /, **columns: Any) -> StoredEntries:
        """Return entries made of columns, sorted by key and time; equal ones stay in order.

        Args:
            key: shape (n,), int64: positions in `keys`.
            time: ticks, shape (n,), int64, or one for all.
            columns: each declared one: n values as a list, a NumPy or an Arrow array, or one value for all.

        Raises:
            ValueError: a column is missing, was not declared, or is of another length or type.
        """
        _check_names("stored column", columns, self.declared.state)
        key = _numbers("key", int, key, None)
        whole = {
            name: _stored_column(name, type_, columns[name], len(key))
            for name, type_ in self.declared.state.items()
        }
        return StoredEntries(key, _numbers("time", int, time, len(key)), whole).in_order()

    def put(self, entries: StoredEntries) -> None:
        """Write entries, in place of what is stored for the same key and time."""
        self.store.put_many(self.keys, self._plain(entries))

    def add(self, entries: StoredEntries) -> None:
        """Write entries beside what is stored, behind those of the same key and time."""
        self.store.add_many(self.keys, self._plain(entries))

    def delete(self, entries: StoredEntries) -> None:
        """Delete all that is stored for the key and time of each of these entries; what is not there is no error."""
        self.store.delete_many(self.keys, entries.key, entries.time)

    def rows(self, key: Any, /, **columns: Any) -> OutputRows:
        """Return rows to emit.

        Args:
            key: shape (n,), int64: positions in `keys`.
            columns: the declared results: n values as a list, a NumPy array (masked where there is none) or an Arrow array, or
                one value for all. Whole numbers for a timestamp are ticks.

        Raises:
            ValueError: a result is missing, was not declared, or is of another length.
        """
        results = self.declared.results
        _check_names("result", columns, results)
        key = self._positions(_numbers("key", int, key, None))
        whole = {name: _repeated(column, len(key)) for name, column in columns.items()}
        for name, column in whole.items():
            if len(column) != len(key):
                raise ValueError(f"result {name!r} has {len(column)} values for {len(key)} rows")
        return OutputRows(self.keys, key, tuple(whole[name] for name in results))

    def count(self, name: str, number: Any = 1) -> None:
        """Add to a declared count, which a stream tells beside its own, in `<name>_out`.

        Raises:
            ValueError: the name was not declared.
        """
        if name not in self.declared.counts:
            known = ", ".join(self.declared.counts) or "none"
            raise ValueError(f"count {name!r} was not declared; declared are {known}")
        self._step.count(name, number)

    def _plain(self, entries: StoredEntries) -> Entries:
        self._positions(entries.key)
        ordered = entries.in_order()
        return Entries(ordered.key, (ordered.time, *(ordered[name] for name in self.declared.state)))

    def _positions(self, key: Ints) -> Ints:
        if len(key) and not 0 <= int(key.min()) <= int(key.max()) < len(self.keys):
            raise ValueError(
                f"keys from {key.min()} to {key.max()}; context.keys has positions 0 to {len(self.keys) - 1}"
            )
        return key


def named(entries: Entries, names: Sequence[str]) -> StoredEntries:
    """Return entries with their columns by name."""
    return StoredEntries(entries.key, entries.time, dict(zip(names, entries.columns[1:], strict=True)))


def _check_names(what: str, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name in wanted:
        if name not in given:
            raise ValueError(f"{what} {name!r} is missing; wanted are {', '.join(wanted)}")
    for name in given:
        if name not in wanted:
            raise ValueError(f"{what} {name!r} was not declared; declared are {', '.join(wanted) or 'none'}")


def _stored_column(name: str, type_: type, given: Any, rows: int) -> npt.NDArray[Any]:
    if type_ is not object:
        return _numbers(f"stored column {name!r}", type_, given, rows)
    values = _repeated(given, rows)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    elif isinstance(values, np.ndarray):
        values = values.tolist()
    if len(values) != rows:
        raise ValueError(f"stored column {name!r} has {len(values)} values for {rows} entries")
    return fill(values)


def _repeated(given: Any, rows: int) -> Any:
    """A column as it is, or one value as often as there are rows."""
    several = isinstance(given, list | pa.Array | pa.ChunkedArray)
    return given if several or (isinstance(given, np.ndarray) and given.ndim) else [given] * rows


def _numbers(what: str, type_: type, given: Any, rows: int | None) -> npt.NDArray[Any]:
    """Numbers as a column of int64 or float64; one number is repeated if it is known how often."""
    values = given.to_numpy(zero_copy_only=False) if isinstance(given, pa.Array) else np.asanyarray(given)
    if np.ma.is_masked(values):
        raise ValueError(f"{what} has nulls: fill them, or declare it as object")
    values = np.ma.getdata(values)
    if values.size and values.dtype.kind not in ("iub" if type_ is int else "iufb"):
        raise ValueError(f"{what} is of type {values.dtype}; {type_.__name__} is wanted")
    if values.ndim == 0 and rows is not None:
        values = np.full(rows, values)
    if values.ndim != 1 or (rows is not None and len(values) != rows):
        wanted = "one dimension is" if rows is None else f"({rows},) is"
        raise ValueError(f"{what} has the shape {values.shape}; {wanted} wanted")
    return values.astype(np.int64 if type_ is int else np.float64, copy=False)


class CustomOperator(Protocol):
    """What the plan needs of an operator that a user wrote; `operators.Operator` documents each."""

    version: ClassVar[int]
    keeps_inputs: ClassVar[bool]
    entry: ClassVar[str]
    timed: ClassVar[bool]
    judges_late: ClassVar[bool]

    @property
    def tick(self) -> str:
        """Resolution of time."""

    def process_batch(self, context: CallContext) -> OutputRows | None:
        """Process a batch's records."""

    def fire(self, context: CallContext) -> OutputRows | None:
        """Process entries whose timer has come."""

    def due(self, entries: StoredEntries) -> Ints:
        """Return each entry's timer in ticks."""

    def late_before(self, close_time: int) -> int:
        """Return the event time before which a record is late."""

    def settings(self) -> dict[str, Any]:
        """Return what stored state depends on."""
