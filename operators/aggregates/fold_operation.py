"""The states of folds: records are added one by one, and states are merged if the fold has a function for it.

A state is kept as msgpack bytes, in memory and in the store. So windows never share a state, functions that change their
arguments change copies, and functions get the same types of values before and after a restart.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.once import ascending_runs
from operators.aggregates.operation import Operation
from operators.aggregates.row_order import Row, in_order, sort_ties
from operators.aggregates.strategy import FOLD, KEPT, TWO_STACKS, Strategy
from operators.aggregates.user_functions import MEETS_STATE, AggregateError, error_text, reason_with_place
from operators.columns.arrow import ColumnData, arrow_column
from operators.columns.python_values import may_be_unreadable, python_values, unreadable
from operators.columns.ranges import Ints, State, run_starts
from operators.columns.record_text import record_text
from operators.columns.records import Records
from serializers.arrays import fill
from serializers.errors import SerializationError
from serializers.values import pack_value, unpack_value

_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of a fold: `init()`, `add(state, *values)`, `merge(state, other)`, `finish(state)`."""

    init: Callable[[], Any]
    add: Callable[..., Any]
    merge: Callable[[Any, Any], Any] | None
    finish: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class FoldOperation(Operation):
    """A fold whose states cannot be merged: records are added to the state of each window one by one.

    Attributes:
        columns: the columns of a record that are passed to `add`, after the state.
        types: Arrow types of these columns.
        name: identifies the fold in errors and checkpoints.
        code: fingerprint of the functions; folds are equal if their descriptions and fingerprints are equal.
        functions: the user's functions; in each process that the fold is sent to, they are different objects.
        skips: whether a record is left out that cannot be added to the initial state.
    """

    combines: ClassVar[bool] = False
    calls_user_code: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = FOLD
    cheaper: ClassVar[str | None] = "an AggregateOperation would use NumPy columns instead"

    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    name: str
    code: str
    functions: Functions = field(compare=False, repr=False)
    skips: bool = field(default=False, kw_only=True)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns if self.where is None else (*self.columns, self.where)

    def describe(self) -> str:
        where = "" if self.where is None else f" where {self.where}"
        return f"fold {self.name}({', '.join(self.columns)}){where}"

    def combining(self) -> Operation:
        return self if self.combines else KeptFold.of(self)

    def initial(self) -> State | None:
        return (fill([pack_value(self.functions.init())]),)

    def lift(self, records: Records) -> State:
        rows = self._rows(records)
        with _naming(self.columns, rows, records):
            return (fill([self._add(None, [row]) for row in rows]),)

    def combine(self, left: State, right: State) -> State:
        raise self._error_without_merge()

    def add(self, state: State, records: Records) -> State:
        rows = self._rows(records)
        with _naming(self.columns, rows, records):
            return (fill([self._add(packed, [row]) for packed, row in zip(state[0], rows, strict=True)]),)

    def extend(self, states: Sequence[bytes | None], records: Records, lo: Ints, hi: Ints) -> State:
        """Return each state with the records [lo, hi) added; None stands for the initial state.

        Args:
            states: n packed states.
            records: sorted by key and event time; those of one key and time are added in order of their values.
            lo, hi: shape (n,), int64; no range splits records of one key and time.

        Cost: one call of `add` for each record in each range, and one unpacking and packing of each state.
        """
        return self._extend(states, records, (lo, hi), run_starts(records.key, records.time))

    def fold(self, state: State, base: Ints, records: Records, ranges: tuple[Ints, Ints]) -> State:
        packed = state[0].tolist()
        return self.extend([packed[n] if n >= 0 else None for n in base.tolist()], records, *ranges)

    def accumulate(self, records: Records, starts: Ints) -> State:
        # Records of one time may be of several runs: those of sessions with gaps of their own may be late or not.
        ties = np.union1d(run_starts(records.key, records.time), starts)
        ranges = starts, _ends(starts, len(records))
        return self._extend([None] * len(starts), records, ranges, ties)

    def _extend(
        self, states: Sequence[bytes | None], records: Records, ranges: tuple[Ints, Ints], ties: Ints
    ) -> State:
        """The states with their ranges of records added, those of each run that begins at `ties` in order of their values."""
        rows = self._rows(records)
        sort_ties(rows, ties, _ends(ties, len(rows)))
        added = zip(states, *(edge.tolist() for edge in ranges), strict=True)
        with _naming(self.columns, rows, records):
            return (fill([self._add(packed, rows[a:b]) for packed, a, b in added]),)

    def reduce(self, state: State, starts: Ints) -> State:
        if len(starts) != len(state[0]):
            raise self._error_without_merge()
        return state

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        if (hi - lo != 1).any():
            raise self._error_without_merge()
        return (state[0][lo],)

    def result(self, packed: bytes) -> Any:
        """Return the result of a state."""
        state, finish = self._unpack(packed), self.functions.finish
        return state if finish is None else self._call("finish", finish, state)

    def refused(self, records: Records) -> dict[int, str]:
        return self._refusals(self._counted(records)) if self.skips else {}

    def _refusals(self, rows: Sequence[Row]) -> dict[int, str]:
        """Why rows cannot be added to the initial state, by their position."""
        initial, found = self._initial(), {}
        for number, row in enumerate(rows):
            if why := self._unreadable(row):
                found[number] = why
                continue
            try:
                self._pack("add", self._sum(initial, [row]))
            except AggregateError as error:
                cause = error.__cause__ or error
                if isinstance(cause, MemoryError):
                    raise
                found[number] = reason_with_place(str(error), cause)
        return found

    def _unreadable(self, row: Row) -> str | None:
        """Why a row cannot be given to `add`, or None."""
        why = None if row is None else unreadable(row, self.columns)
        return why and f"{self.describe()}: {why}"

    def _take(self, rows: list[Row]) -> list[Row]:
        """The rows; None for those that are refused."""
        refused = self._refusals(rows) if self.skips else {}
        if not self.skips and any(map(may_be_unreadable, self.types)):
            for row in rows:
                if why := self._unreadable(row):
                    raise AggregateError(why)
        return [None if n in refused else row for n, row in enumerate(rows)] if refused else rows

    def _rows(self, records: Records) -> list[Row]:
        """The values of each record as Python objects."""
        return self._take(self._counted(records))

    def _counted(self, records: Records) -> list[Row]:
        lists = [
            _python_values(records.values[name], type_)
            for name, type_ in zip(self.columns, self.types, strict=True)
        ]
        rows: list[Row] = list(zip(*lists, strict=True)) if lists else [()] * len(records)
        if self.where is None:
            return rows
        return [
            row if there else None for row, there in zip(rows, self.counted(records).tolist(), strict=True)
        ]

    def _add(self, packed: bytes | None, rows: Sequence[Row]) -> bytes:
        if packed is not None and not rows:
            return packed
        hint = MEETS_STATE if self.skips else ""
        return self._pack("add", self._sum(self._initial() if packed is None else packed, rows, hint))

    def _sum(self, packed: bytes, rows: Sequence[Row], hint: str = "") -> Any:
        """A state with rows added. What is said of an error ends with the hint."""
        state, row = self._unpack(packed), None
        add, nested = self.functions.add, any(map(pat.is_nested, self.types))
        try:
            for row in rows:
                if row is not None:
                    state = add(state, *(deepcopy(row) if nested else row))
                    if isinstance(state, tuple):
                        state = list(state)  # as it is read from the store
        except Exception as error:
            failed = self._error_of("add", error, state, hint)
            failed.values = row
            raise failed from error
        return state

    def _initial(self) -> bytes:
        return self._pack("init", self._call("init", self.functions.init))

    def _call(self, role: str, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            raise self._error_of(role, error) from error

    def _pack(self, role: str, state: Any) -> bytes:
        try:
            return pack_value(state)
        except (SerializationError, ValueError, TypeError) as error:
            raise AggregateError(
                f"{self.describe()}: {role} returned a state that cannot be stored: {error}"
            ) from error

    def _unpack(self, packed: bytes) -> Any:
        try:
            return unpack_value(packed)
        except SerializationError as error:
            raise AggregateError(
                f"{self.describe()}: a state cannot be read back; the keys of its dicts must be text, bytes or numbers: {error}"
            ) from error

    def _error_of(self, role: str, error: Exception, state: Any = _UNKNOWN, hint: str = "") -> AggregateError:
        if state is None and not isinstance(error, MemoryError):
            hint = f": its state was None, add must return the new state{hint}"
        return AggregateError(f"{self.describe()}: {role} raised {error_text(error)}{hint}")

    def _error_without_merge(self) -> AggregateError:
        return AggregateError(f"{self.describe()} has no merge: its states cannot be combined")


@dataclass(frozen=True, slots=True)
class MergeableFold(FoldOperation):
    """A fold whose states can be merged. `merge` is called with states of one window only, in any order."""

    combines: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = TWO_STACKS

    def combine(self, left: State, right: State) -> State:
        return (fill([self._merge(a, b) for a, b in zip(left[0], right[0], strict=True)]),)

    def reduce(self, state: State, starts: Ints) -> State:
        return self.combine_ranges(state, starts, _ends(starts, len(state[0])))

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the combination of each range. Cost: if ends ascend with starts, about two `merge` calls per row and range.

        The rows of a range are split at a boundary: those before it are merged from the last to the first and each partial
        result is kept; those from it on are merged as ranges reach them. (Two stacks; Tangwongsan, Hirzel, Schneider 2017)
        """
        packed, found = state[0].tolist(), np.empty(len(lo), object)
        rests: dict[int, bytes] = {}
        begin, middle, end, added = 0, 0, 0, None
        # Windows of two lengths are in order of time each, but not together: sorted by their starts, each would begin anew.
        sorted_, unsorted = np.lexsort((hi, lo)), np.arange(len(lo))
        order = min((sorted_, unsorted), key=lambda order: len(ascending_runs(lo[order], hi[order])))
        for n in order.tolist():
            first, last = int(lo[n]), int(hi[n])
            if first < begin or first >= middle or last < end:
                rests = self._rests(packed, first, last)
                begin, middle, end, added = first, last, last, None
            for part in packed[end:last]:
                added = part if added is None else self._merge(added, part)
            end = last
            found[n] = rests[first] if added is None else self._merge(rests[first], added)
        return (found,)

    def _rests(self, packed: list[bytes], first: int, last: int) -> dict[int, bytes]:
        """The combination of the rows [n, last) for each n from `first` on."""
        rests = {last - 1: packed[last - 1]}
        for n in range(last - 2, first - 1, -1):
            rests[n] = self._merge(packed[n], rests[n + 1])
        return rests

    def _merge(self, a: bytes, b: bytes) -> bytes:
        merge = self.functions.merge
        return self._pack("merge", self._call("merge", merge, self._unpack(a), self._unpack(b)))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class KeptFold(FoldOperation):
    """A fold without merge in rolling windows: a state has the records' times and values, and each window adds them anew."""

    combines: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = KEPT
    keeps_all: ClassVar[bool] = True

    @classmethod
    def of(cls, fold: FoldOperation) -> "KeptFold":
        """Return the operation of a fold."""
        return cls(
            fold.column,
            fold.columns,
            fold.types,
            fold.name,
            fold.code,
            fold.functions,
            skips=fold.skips,
            where=fold.where,
        )

    def describe(self) -> str:
        return f"records of {FoldOperation.describe(self)}"

    def initial(self) -> None:
        return None

    def lift(self, records: Records) -> State:
        rows = zip(records.time.tolist(), self._rows(records), strict=True)
        return (fill([[] if row is None else [[time, *row]] for time, row in rows]),)

    def combine(self, left: State, right: State) -> State:
        return (np.add(left[0], right[0]),)

    def accumulate(self, records: Records, starts: Ints) -> State:
        return Operation.accumulate(self, records, starts)

    def reduce(self, state: State, starts: Ints) -> State:
        lists, ends = state[0].tolist(), _ends(starts, len(state[0])).tolist()
        runs = zip(starts.tolist(), ends, strict=True)
        return (fill([in_order(list(chain.from_iterable(lists[a:b]))) for a, b in runs]),)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the state of the fold for each range. Cost: one call of `add` for each record in each range."""
        lists = state[0].tolist()
        edges = np.concatenate([[0], np.cumsum([len(each) for each in lists], dtype=np.int64)])
        # The switch may be newer than the records.
        rows = self._take([tuple(row) for _, *row in chain.from_iterable(lists)])
        ranges = zip(edges[lo].tolist(), edges[hi].tolist(), strict=True)
        with _naming(self.columns, rows):
            return (fill([self._add(None, rows[a:b]) for a, b in ranges]),)


@contextmanager
def _naming(columns: Sequence[str], rows: Sequence[Row], records: Records | None = None) -> Iterator[None]:
    """Say in errors which record they are about: its values alone, if it was stored in an earlier batch."""
    try:
        yield
    except AggregateError as error:
        if not error.values:
            raise
        values = dict(zip(columns, error.values, strict=True))
        number = next((n for n, row in enumerate(rows) if row is error.values), None)
        about = record_text({}, None, values)
        if records is not None and number is not None:
            about = records.text_of(number, values)
        raised = AggregateError(f"{error}{about}")
        raised.named = records is not None and number is not None
        raise raised from error.__cause__


def _ends(starts: Ints, rows: int) -> Ints:
    """The ends of the runs that begin at `starts`; empty if there are no rows."""
    return np.append(starts[1:], rows)[: len(starts)]


def _python_values(data: ColumnData, type_: pa.DataType) -> list[Any]:
    """The values of a column as Python objects, None for null."""
    if data.values.dtype == object:
        return data.values.tolist()
    missing: npt.NDArray[np.bool_] | None = None if data.valid is None else ~data.valid
    if not (pat.is_integer(type_) or pat.is_floating(type_)):
        return python_values(arrow_column(data.values, type_, missing))
    values = data.values.tolist()
    if missing is None:
        return values
    return [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]
