"""The base for operators that users write, on columns: what they declare, what a step gives them, what they give back.

An operator of one's own is a frozen dataclass with its settings as fields. It keeps nothing itself: all state is in the
store, as entries of (key, time, declared columns), so that it lives on any backend, outlives a kill, and can be read and moved
as that of the built-in operators, which stand on the same steps, store and timers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.base.calendar import NEVER
from operators.base.step import Step
from operators.batch import Records
from operators.columns import arrow_column
from operators.durations import Duration
from operators.errors import DefinitionError
from state_backends import Entries, WindowStore
from state_backends.ordering import row_order
from state_backends.window_store import TIME_MAX, TIME_MIN

if TYPE_CHECKING:
    from operators.grouped import GroupedOperator

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
        counts: names under which the operator counts what it does, with `Work.count`.
    """

    inputs: Sequence[str] = ()
    state: Mapping[str, type] = field(default_factory=dict)
    results: Mapping[str, "str | pa.DataType"] = field(default_factory=dict)
    counts: Sequence[str] = ()


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


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to emit; made by `Work.rows`.

    Attributes:
        keys: encoded keys.
        key: shape (n,), int64: position of each row's key in `keys`.
        columns: the declared results in their order, each of length n: NumPy arrays, masked ones where some are null, Arrow
            arrays or lists.
    """

    retract: ClassVar[bool] = False

    keys: Sequence[bytes]
    key: Ints
    columns: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """One call of an operator: its records or the entries whose timer has come, and its store.

    Attributes:
        keys: the distinct keys of the call, encoded; `key` columns count positions in it.
        records: those that are not late, sorted by key and event time; none in `fire`.
        due: entries whose timer has come, taken out of the store; none in `take`.
        close: the close time in ticks: nothing before it comes any more, and `fire` is called for timers before it.
        grace: in ticks; stream time is `close` + `grace`.
        store: the window store itself, for what the methods here don't do. Its keys are bytes.
        inputs: the declared inputs with their Arrow types; `records.values` has them as NumPy columns.
        results: names of the declared results.
    """

    keys: list[bytes]
    records: Records
    due: Stored
    close: int
    grace: int
    store: WindowStore
    inputs: Mapping[str, pa.DataType]
    results: tuple[str, ...]
    _names: tuple[str, ...]
    _counts: tuple[str, ...]
    _step: Step

    def read(self, start: int = TIME_MIN, end: int = TIME_MAX) -> Stored:
        """Return what is stored of the call's keys with start <= time <= end. One backend call for each segment there is."""
        return named(self.store.fetch_many(self.keys, start, end), self._names)

    def column(self, name: str) -> pa.Array:
        """Return a declared input of the records as an Arrow column. O(n)."""
        data = self.records.values[name]
        return arrow_column(data.values, self.inputs[name], None if data.valid is None else ~data.valid)

    def stored(self, key: Any, time: Any, **columns: Any) -> Stored:
        """Return entries made of columns, each of length n or one value for all, sorted by key and time.

        Raises:
            ValueError: a column is missing, or none that was declared.
        """
        _check_names("stored column", columns, self._names)
        key = np.asarray(key, np.int64)
        whole = {name: np.broadcast_to(np.asarray(column), key.shape) for name, column in columns.items()}
        entries = Stored(key, np.broadcast_to(np.asarray(time, np.int64), key.shape), whole)
        order = row_order(entries.key, entries.time)
        return entries if order is None else entries.take(order)

    def put(self, entries: Stored) -> None:
        """Write entries, in place of what is stored for the same key and time."""
        self.store.put_many(self.keys, self._plain(entries))

    def add(self, entries: Stored) -> None:
        """Write entries beside what is stored, behind those of the same key and time."""
        self.store.add_many(self.keys, self._plain(entries))

    def delete(self, entries: Stored) -> None:
        """Delete all that is stored for the key and time of each of these entries; what is not there is no error."""
        self.store.delete_many(self.keys, entries.key, entries.time)

    def rows(self, key: Any, **columns: Any) -> Rows:
        """Return rows to emit.

        Args:
            key: shape (n,), int64: positions in `keys`.
            columns: the declared results, each of length n. A whole-number array for a timestamp is ticks.

        Raises:
            ValueError: a result is missing, or none that was declared.
        """
        _check_names("result", columns, self.results)
        return Rows(self.keys, np.asarray(key, np.int64), tuple(columns[name] for name in self.results))

    def count(self, name: str, number: Any = 1) -> None:
        """Add to a declared count; a stream tells it beside its own.

        Raises:
            ValueError: the name was not declared.
        """
        if name not in self._counts:
            raise ValueError(
                f"count {name!r} was not declared; declared are {', '.join(self._counts) or 'none'}"
            )
        self._step.count(name, number)

    def _plain(self, entries: Stored) -> Entries:
        return Entries(entries.key, (entries.time, *(entries.columns[name] for name in self._names)))


def named(entries: Entries, names: Sequence[str]) -> Stored:
    """Return entries with their columns by name."""
    return Stored(entries.key, entries.time, dict(zip(names, entries.columns[1:], strict=True)))


def _check_names(what: str, given: Mapping[str, Any], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in given:
            raise ValueError(f"{what} {name!r} is missing; wanted are {', '.join(wanted)}")
    for name in given:
        if name not in wanted:
            raise ValueError(f"{what} {name!r} was not declared; declared are {', '.join(wanted) or 'none'}")


@dataclass(frozen=True, kw_only=True)
class Operator(ABC):
    """An operator of one's own, on columns. Make it a frozen dataclass: its fields are its settings.

    A batch comes as in the built-in operators (a batch is atomic and has two close times): timers that the close time at
    its start has passed fire first, on the state as it was; then `take` gets the records that are not late; then those
    timers fire that the close time at its end has passed. On Spark both close times are the watermark's.

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
        """Take a batch's records, change the store, and return the rows to emit now, if any."""

    def fire(self, work: Work) -> Rows | None:
        """Take the entries whose timer has come, and return the rows to emit, if any.

        They have been taken out of the store: put back, with another timer or none, what is to stay. Called once for all
        that is due, in order of key and time. A timer in the past that is set here fires with the next step.
        """
        raise NotImplementedError(f"{type(self).__name__} has timers (`due`) and no `fire`")

    def due(self, entries: Stored) -> Ints:
        """Return each entry's timer in ticks, shape (n,), or NEVER. It depends on the entry alone, by default there is none.

        Timers are not kept beside the entries but follow from them, so that no crash can part the two.
        """
        return np.full(len(entries), NEVER)

    def late_before(self, close: int) -> int:
        """Return the event time in ticks before which a record is late, of a close time; by default that time itself."""
        return close

    def settings(self) -> dict[str, Any]:
        """Return what stored state depends on: by default all fields but `grace`. Under other settings it is refused."""
        fields = getattr(self, "__dataclass_fields__", {})
        return {name: getattr(self, name) for name in fields if name != "grace"}

    def group_by(self, *columns: str) -> "GroupedOperator":
        """Return the operator for each distinct value of these columns. Without columns all records are one group."""
        from operators.grouped import GroupedOperator

        for column in columns:
            if not isinstance(column, str):
                raise DefinitionError(f"group_by takes names of columns, not {column!r}")
        return GroupedOperator(self, columns)
