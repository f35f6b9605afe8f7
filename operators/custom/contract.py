"""The base for operators that users write, on columns: what they declare, what a step gives them, what they give back.

An operator of one's own is a frozen dataclass with its settings as fields. It keeps nothing itself: all state is in the
store, as entries of (key, time, declared columns), so that it lives on any backend, outlives a kill, and can be read and moved
as that of the built-in operators, which stand on the same steps, store and timers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.columns.arrow import arrow_column
from operators.columns.durations import Duration, tick_length, ticks
from operators.columns.records import FAR_PAST, Records
from operators.steps.step import Step
from operators.steps.timers import NEVER
from serializers import decode_keys
from serializers.arrays import fill
from state_backends import Entries, WindowStore
from state_backends.store.ordering import row_order
from state_backends.store.window_store import TIME_MAX, TIME_MIN

if TYPE_CHECKING:
    from operators.definitions.custom import GroupedOperator

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Declaration:
    """What an operator reads, keeps and makes, said before the first record.

    Attributes:
        inputs: names of the columns that it reads beside key and event time.
        state: stored columns beside key and time, by name: int, float or object. Objects are what msgpack holds, dates, times
            and decimals too; they cost Python time for each entry.
        results: result columns beside the keys, by name: Spark's name of a type, such as "double" or "array<string>", or an
            Arrow type.
        counts: names under which the operator counts what it does, with `Work.count`.
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
class Stored:
    """Entries of the store by name of their columns, sorted by key, then by time.

    Attributes:
        key: shape (n,), int64: positions in `Work.keys`.
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

    def take(self, rows: Mask | Ints | slice) -> "Stored":
        """Return the entries at these rows, by mask, positions or slice."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Stored(self.key[rows], self.time[rows], columns)

    def in_order(self) -> "Stored":
        """Return the entries sorted by key, then by time; equal ones stay in order. O(n) if they are so already."""
        order = row_order(self.key, self.time)
        return self if order is None else self.take(order)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to emit; made by `Work.rows`.

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
class Work:
    """One call of an operator: its records or the entries whose timer has come, and its store.

    Attributes:
        keys: the distinct keys of the call, encoded; `key` columns count positions in it.
        records: those that are not late, sorted by key and event time; none in `fire`. Their columns are `key`, `time`, and
            `values` by name, of which `.filled(default)` is a NumPy array.
        due: entries whose timer has come, taken out of the store; none in `take`.
        close: the close time in ticks: nothing before it comes any more, and `fire` is called for timers before it. It is 2**61
            at the end of a bounded frame.
        grace: in ticks; stream time is `close` + `grace`.
        store: the window store itself, for what the methods here don't do. Its keys are bytes.
        declared: what the operator declared.
        inputs: the declared inputs with their Arrow types.
        group: the key columns with their Arrow types.
    """

    keys: list[bytes]
    records: Records
    due: Stored
    close: int
    grace: int
    store: WindowStore
    declared: Declaration
    inputs: Mapping[str, pa.DataType]
    group: Mapping[str, pa.DataType]
    _step: Step

    def read(self, start: int = TIME_MIN, end: int = TIME_MAX) -> Stored:
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

    def stored(self, key: Any, time: Any, /, **columns: Any) -> Stored:
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
        return Stored(key, _numbers("time", int, time, len(key)), whole).in_order()

    def put(self, entries: Stored) -> None:
        """Write entries, in place of what is stored for the same key and time."""
        self.store.put_many(self.keys, self._plain(entries))

    def add(self, entries: Stored) -> None:
        """Write entries beside what is stored, behind those of the same key and time."""
        self.store.add_many(self.keys, self._plain(entries))

    def delete(self, entries: Stored) -> None:
        """Delete all that is stored for the key and time of each of these entries; what is not there is no error."""
        self.store.delete_many(self.keys, entries.key, entries.time)

    def rows(self, key: Any, /, **columns: Any) -> Rows:
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
        return Rows(self.keys, key, tuple(whole[name] for name in results))

    def count(self, name: str, number: Any = 1) -> None:
        """Add to a declared count, which a stream tells beside its own, in `<name>_out`.

        Raises:
            ValueError: the name was not declared.
        """
        if name not in self.declared.counts:
            known = ", ".join(self.declared.counts) or "none"
            raise ValueError(f"count {name!r} was not declared; declared are {known}")
        self._step.count(name, number)

    def _plain(self, entries: Stored) -> Entries:
        self._positions(entries.key)
        ordered = entries.in_order()
        return Entries(ordered.key, (ordered.time, *(ordered[name] for name in self.declared.state)))

    def _positions(self, key: Ints) -> Ints:
        if len(key) and not 0 <= int(key.min()) <= int(key.max()) < len(self.keys):
            raise ValueError(
                f"keys from {key.min()} to {key.max()}; work.keys has positions 0 to {len(self.keys) - 1}"
            )
        return key


def named(entries: Entries, names: Sequence[str]) -> Stored:
    """Return entries with their columns by name."""
    return Stored(entries.key, entries.time, dict(zip(names, entries.columns[1:], strict=True)))


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


@lru_cache(maxsize=256, typed=True)
def _ticks(length: Duration, tick: str, name: str) -> int:
    return ticks(length, tick_length(tick), name, 0)


@dataclass(frozen=True, kw_only=True)
class Operator(ABC):
    """An operator of one's own, on columns. Make it a frozen dataclass: its fields are its settings.

    A batch comes as in the built-in operators (a batch is atomic and has two close times): timers that the close time at
    its start has passed fire first, on the state as it was; then `take` gets the records that are not late; then those
    timers fire that the close time at its end has passed. On Spark both close times are the watermark's.

    What `take`, `fire`, `due` and `late_before` raise comes as an `OperatorError` that names the operator and the method.

    Attributes:
        grace: how long the operator waits for records that are out of order: text, a timedelta, or whole milliseconds.
        tick: resolution of time, "1 ms" or "1 us".
        version: raise it when what is stored gets another meaning: state of another version is refused.
        segment: length of a stored time segment; about what a batch of timers or of reads spans serves well.
    """

    grace: Duration = 0
    tick: str = "1 ms"

    version: ClassVar[int] = 1
    segment: ClassVar[Duration] = "10 minutes"
    keeps_inputs: ClassVar[bool] = False
    """Whether stored state has the declared inputs in their order, so that others are refused on it."""

    @abstractmethod
    def declare(self, types: Mapping[str, pa.DataType]) -> Declaration:
        """Return what the operator reads, keeps and makes. Called on the driver and in each worker.

        Args:
            types: the frame's columns with their Arrow types.

        Raises:
            DefinitionError: the columns don't serve; say which, and what would.
        """

    @abstractmethod
    def take(self, work: Work) -> Rows | None:
        """Take a batch's records, change the store, and return the rows to emit now, if any. Not called without records."""

    def fire(self, work: Work) -> Rows | None:
        """Take the entries whose timer has come, and return the rows to emit, if any.

        They have been taken out of the store: put back, with a later timer or none, what is to stay. Called once for all
        that is due, in order of key and time, and again while entries that it wrote are due before the same close time.
        """
        raise NotImplementedError(f"{type(self).__name__} has timers (`due`) and no `fire`")

    def due(self, entries: Stored) -> Ints:
        """Return each entry's timer in ticks, shape (n,), or NEVER. It depends on the entry alone, by default there is none.

        Timers are not kept beside the entries but follow from them, so that no crash can part the two. One that is past when
        its entry is written fires in the same batch.
        """
        return np.full(len(entries), NEVER)

    def late_before(self, close: int) -> int:
        """Return the event time in ticks before which a record is late, of a close time; by default that time itself."""
        return close

    def settings(self) -> dict[str, Any]:
        """Return what stored state depends on: by default all fields but `grace`. Under other settings it is refused.

        Values are compared as plain ones, or by their `repr`.
        """
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "grace"}

    def ticks(self, length: Duration) -> int:
        """Return a length of time (text, a timedelta, or whole milliseconds) in ticks.

        Raises:
            DefinitionError: it is no length of time, negative, or no whole number of ticks.
        """
        return _ticks(length, self.tick, f"a length of {type(self).__name__}")

    def instant(self, time: int) -> datetime:
        """Return ticks as a datetime with zone UTC.

        Raises:
            OverflowError: it is not between the years 1 and 9999.
        """
        return _EPOCH + timedelta(microseconds=time * tick_length(self.tick))

    def group_by(self, *columns: str) -> "GroupedOperator":
        """Return the operator for each distinct value of these columns. Without columns all records are one group.

        Raises:
            DefinitionError: the operator's grace, tick, segment or timers cannot be used, or a column is no name.
        """
        from operators.definitions.custom import GroupedOperator

        return GroupedOperator(self, columns)
