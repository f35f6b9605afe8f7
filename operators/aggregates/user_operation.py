"""Custom aggregates on whole columns, by Hazelcast Jet's primitives: create, accumulate, combine, deduct, finish."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.definitions import Aggregate, Bound, Types
from operators.aggregates.operation import Operation
from operators.aggregates.strategy import DEDUCT, DOUBLING, Strategy
from operators.aggregates.user_functions import (
    FAIL,
    MEETS_STATE,
    SKIP,
    AggregateError,
    check_on_error,
    fingerprint,
    first_raising,
    read_only,
    reason_with_place,
    result_type,
    shape_text,
    writes,
)
from operators.columns.arrow import ColumnData, arrow_column
from operators.columns.checks import check_column_name
from operators.columns.expressions import named
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from operators.errors import DefinitionError
from serializers.arrays import fill

if TYPE_CHECKING:
    from pyspark.sql import Column

_CODES = {int: "i8", float: "f8", object: "object", "i8": "i8", "f8": "f8", "object": "object"}
_DTYPES = {"i8": np.dtype(np.int64), "f8": np.dtype(np.float64), "object": np.dtype(object)}


@dataclass(frozen=True, slots=True)
class AggregateOperation:
    """A custom aggregate, defined by functions on NumPy columns. Call it with names of columns to get the aggregate of these.

    A state is a tuple of columns, with one row per pane or window. Values are passed as int64 (whole numbers; booleans as 0 and
    1, dates as days, timestamps and intervals as numbers of their unit), float64, or Python objects. Functions return new
    arrays and must not change their arguments: other windows are combined from the same ones. Arrays are passed so that NumPy
    refuses to write into them; of objects in them, such as lists, nobody sees it.

        geometric_mean = AggregateOperation(
            name="geometric mean",
            state=(int, float),
            create=lambda: (0, 0.0),
            accumulate=lambda state, x: (state[0] + 1, state[1] + np.log(x)),
            combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
            finish=lambda state: np.exp(state[1] / state[0]),
            type="double",
        )
        windows.aggregate(growth=geometric_mean("factor", where="valid"))

    Attributes:
        name: identifies stored state, together with `version`.
        state: types of the state's columns: int or "i8", float or "f8", object (values that msgpack can hold).
        create: returns one empty state, as a tuple of scalars.
        accumulate: called with a state and columns with the same number of rows; returns the state with one record added to
            each row.
        combine: returns the row-wise combination of two states; must be associative and commutative.
        finish: returns the results of a state's rows: an array, a masked array if some are null, or an Arrow array. The state
            of a window without records that count is an empty state.
        type: type of the results: Spark's name, such as "double" or "array<string>", or an Arrow type.
        deduct: called with states `a` and `b`, returns the state that was combined with `b` to give `a`. Define it only if the
            result is exact, bit for bit, for all values. Then each window costs two rows of running totals over all windows and
            keys. This is possible for sums of whole numbers, but not of floating-point numbers: a NaN or a huge number cannot
            be removed from a total.
        version: increase it when the meaning of the state changes.

    Raises:
        DefinitionError: the name is empty, a state column is unknown, or the result of `create` does not match the state.
    """

    name: str
    state: Sequence[Any]
    create: Callable[[], tuple[Any, ...]] = field(compare=False)
    accumulate: Callable[..., State] = field(compare=False)
    combine: Callable[[State, State], State] = field(compare=False)
    finish: Callable[[State], Any] = field(compare=False)
    type: str | pa.DataType
    deduct: Callable[[State, State], State] | None = field(default=None, compare=False)
    version: int = 1
    code: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise DefinitionError("an AggregateOperation needs a name, which identifies its stored state")
        unknown = [column for column in self.state if column not in _CODES]
        if unknown or not self.state or isinstance(self.state, str):
            raise DefinitionError(
                f"aggregate {self.name!r}: state must be a tuple of int, float and object, got {self.state!r}"
            )
        functions = self.create, self.accumulate, self.combine, self.finish, self.deduct
        if not all(map(callable, functions[:4])) or not (self.deduct is None or callable(self.deduct)):
            raise DefinitionError(
                f"aggregate {self.name!r}: create, accumulate, combine, finish and deduct must be functions"
            )
        object.__setattr__(self, "state", tuple(_CODES[column] for column in self.state))
        object.__setattr__(self, "type", result_type(self.type))
        object.__setattr__(self, "code", fingerprint(*functions))
        self._check_create()

    def __call__(
        self, *columns: "str | Column", where: "str | Column | None" = None, on_error: str = FAIL
    ) -> "UserAggregate":
        """Return the aggregate of these columns. Records with a null in any of them do not count.

        Args:
            columns: columns of atomic types, or on Spark expressions, in the order of the arguments of `accumulate`.
            where: a boolean column or expression: records where it is not true do not count.
            on_error: what an exception in `accumulate` does. "fail" ends the query. "skip" leaves out the records for which
                `accumulate` raises when it is called with an empty state and the record alone; they are counted and reported
                as those of `fold` are. Costs two further calls of `accumulate` for each batch, and about 4 log n further ones
                for each record that is left out of n; there is no partial aggregation before the shuffle.

        Raises:
            DefinitionError: `accumulate` has another number of arguments, or `on_error` is unknown.
        """
        inputs = tuple(map(named, columns))
        first = inputs[0] if inputs else None
        return UserAggregate(first, columns=inputs, definition=self, where=named(where), on_error=on_error)

    def _check_create(self) -> None:
        state: Any = self.create()
        if not isinstance(state, tuple) or len(state) != len(self.state):
            raise DefinitionError(
                f"aggregate {self.name!r}: create must return a tuple of {len(self.state)} values, as state has; got {state!r}"
            )
        for code, value in zip(self.state, state, strict=True):
            if code != "object" and not np.can_cast(np.asarray(value).dtype, _DTYPES[code], "same_kind"):
                raise DefinitionError(
                    f"aggregate {self.name!r}: create must return values of the types of state, got {value!r} for {code!r}"
                )


@dataclass(frozen=True, slots=True)
class UserOperation(Operation):
    """The state of an `AggregateOperation` over some columns.

    Attributes:
        columns: the columns that are passed to `accumulate`.
        definition: the user's functions.
        skips: whether a record is left out that cannot be added to an empty state.
    """

    calls_user_code: ClassVar[bool] = True

    columns: tuple[str, ...]
    definition: AggregateOperation
    skips: bool = field(default=False, kw_only=True)

    @property
    def strategy(self) -> Strategy:  # type: ignore[override]
        return DOUBLING if self.definition.deduct is None else DEDUCT

    @property
    def cheaper(self) -> str | None:  # type: ignore[override]
        return "an exact deduct would make this O(1)" if self.definition.deduct is None else None

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns if self.where is None else (*self.columns, self.where)

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(self.definition.state)

    def describe(self) -> str:
        where = "" if self.where is None else f", where={self.where!r}"
        return f"{self.definition.name} {self.definition.version}({', '.join(self.columns)}{where}; {', '.join(self.codes)})"

    def empty_states(self, rows: int) -> State:
        """Return empty states."""
        state = self.definition.create()
        return tuple(_repeat(value, rows, code) for value, code in zip(state, self.codes, strict=True))

    def initial(self) -> State:
        return self.empty_states(1)

    def lift(self, records: Records) -> State:
        return self.add(self.empty_states(len(records)), records)

    def add(self, state: State, records: Records) -> State:
        data = [self.read(records, name) for name in self.columns]
        counts = self._counts(records, data)
        if self.skips:
            counts[[*self.refused(records)]] = False
        if counts.all():
            return self._accumulate(state, [column.values for column in data], records)
        rows = np.flatnonzero(counts)
        columns = [column.values[rows] for column in data]
        added = self._accumulate(tuple(column[rows] for column in state), columns, records.take(rows))
        whole = tuple(column.copy() for column in state)
        for target, values in zip(whole, added, strict=True):
            target[rows] = values
        return whole

    def _accumulate(self, state: State, columns: Sequence[npt.NDArray[Any]], records: Records) -> State:
        try:
            return self._call("accumulate", state, *columns)
        except AggregateError as error:
            if error.__cause__ is None or writes(error.__cause__):
                raise
            hint = MEETS_STATE if self.skips else ""
            culprit = self._culprit(columns, records)
            raised = AggregateError(f"{error}{hint}{culprit}")
            raised.named = bool(culprit)
            raise raised from error.__cause__

    def _culprit(self, columns: Sequence[npt.NDArray[Any]], records: Records) -> str:
        """The first record that cannot be added to an empty state, for an error; found in O(log n) calls."""

        def run(first: int, last: int) -> Any:
            return self._run("accumulate", self.empty_states(last - first), *(c[first:last] for c in columns))

        number = first_raising(run, len(records))
        if number is None:
            return ""
        return records.text_of(number, dict(zip(self.columns, (c[number] for c in columns), strict=True)))

    def _counts(self, records: Records, data: Sequence[ColumnData]) -> npt.NDArray[np.bool_]:
        """A mask of the records that have a value in each column, where `where` is true."""
        counts = self.counted(records)
        for column in data:
            counts = counts if column.valid is None else counts & column.valid
        return counts

    def refused(self, records: Records) -> dict[int, str]:
        if not self.skips:
            return {}
        data = [self.read(records, name) for name in self.columns]
        rows = np.flatnonzero(self._counts(records, data))
        columns = [column.values[rows] for column in data]
        return {int(rows[n]): reason for n, reason in self._raising(columns, 0, len(rows)).items()}

    def _raising(self, columns: Sequence[npt.NDArray[Any]], first: int, last: int) -> dict[int, str]:
        """Which of the records [first, last) cannot be added to an empty state, and why, found by halves.

        Cost: one call of `accumulate` if it takes all records, and about 2 log n calls for each one that it does not take.
        """
        if first == last:
            return {}
        try:
            self._run(
                "accumulate", self.empty_states(last - first), *(column[first:last] for column in columns)
            )
        except AggregateError as error:
            cause = error.__cause__ or error
            if isinstance(cause, MemoryError) or writes(cause):
                raise
            if last - first == 1:
                return {first: reason_with_place(str(error), cause)}
            middle = (first + last) // 2
            found = {**self._raising(columns, first, middle), **self._raising(columns, middle, last)}
            if not found:
                raise AggregateError(
                    f"{error}. It raises for {last - first} records at once, but for neither half of them: "
                    "on_error='skip' cannot tell which record to skip"
                ) from error
            return found
        return {}

    def combine(self, left: State, right: State) -> State:
        return self._call("combine", left, right)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        if self.definition.deduct is None or not len(lo):
            return Operation.combine_ranges(self, state, lo, hi)
        totals = self._totals(state)
        totals = tuple(np.concatenate(column) for column in zip(self.empty_states(1), totals, strict=True))
        return self._call("deduct", *(tuple(column[edge] for column in totals) for edge in (hi, lo)))

    def _totals(self, state: State) -> State:
        """The combination of each row with all before it: O(n) rows in O(log n) calls of `combine`.

        (Parallel prefix; Ladner and Fischer 1980)
        """
        rows = len(state[0])
        if rows < 2:
            return state
        even, odd = tuple(c[: rows // 2 * 2 : 2] for c in state), tuple(c[1::2] for c in state)
        inner = self._totals(self.combine(even, odd))
        before = tuple(column[: (rows - 1) // 2] for column in inner)
        later = self.combine(before, tuple(column[2::2] for column in state))
        totals = tuple(column.copy() for column in state)
        for total, ends, rest in zip(totals, inner, later, strict=True):
            total[1::2], total[2::2] = ends, rest
        return totals

    def results(self, state: State) -> pa.Array:
        """Return the results of a state's rows, of the declared type."""
        name, type_ = self.definition.name, self.definition.type
        if not len(state[0]):
            return pa.array([], type_)
        result = self._run("finish", state)
        if not isinstance(result, pa.Array | pa.ChunkedArray | np.ndarray) or len(result) != len(state[0]):
            raise AggregateError(
                f"aggregate {name!r}: finish must return an array of {len(state[0])} rows, got {shape_text(result)}"
            )
        try:
            if isinstance(result, pa.ChunkedArray):
                return result.combine_chunks().cast(type_)
            if isinstance(result, pa.Array):
                return result.cast(type_)
            missing = np.ma.getmaskarray(result) if isinstance(result, np.ma.MaskedArray) else None
            return arrow_column(np.ma.getdata(result), type_, missing)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise AggregateError(
                f"aggregate {name!r}: finish must return {type_}, got {shape_text(result)}: {error}"
            ) from error

    def _call(self, primitive: str, *arguments: Any) -> State:
        """The result of a primitive, checked to be a state with as many rows as its arguments."""
        rows = len(arguments[0][0])
        if not rows:
            return self.empty_states(0)
        result = self._run(primitive, *arguments)
        if not isinstance(result, tuple) or len(result) != len(self.codes):
            raise self._unfit(primitive, result, rows)
        return tuple(self._column(primitive, *pair, rows) for pair in zip(result, self.codes, strict=True))

    def _column(self, primitive: str, column: Any, code: str, rows: int) -> npt.NDArray[Any]:
        dtype = _DTYPES[code]
        if not isinstance(column, np.ndarray) or column.shape != (rows,):
            raise self._unfit(primitive, column, rows)
        if not np.can_cast(column.dtype, dtype, "same_kind"):
            raise self._unfit(primitive, column, rows)
        return column.astype(dtype, copy=False)

    def _unfit(self, primitive: str, result: Any, rows: int) -> AggregateError:
        return AggregateError(
            f"aggregate {self.definition.name!r}: {primitive} must return a tuple of columns ({', '.join(self.codes)}) with "
            f"{rows} rows each, got {shape_text(result)}"
        )

    def _run(self, primitive: str, *arguments: Any) -> Any:
        try:
            return getattr(self.definition, primitive)(*map(read_only, arguments))
        except Exception as error:
            hint = ": it must return new arrays, and not change those that it is given"
            raise AggregateError(
                f"aggregate {self.definition.name!r}: {primitive} raised {error!r}{hint if writes(error) else ''}"
            ) from error


@dataclass(frozen=True, slots=True)
class UserAggregate(Aggregate):
    """An `AggregateOperation` of some columns.

    Attributes:
        columns: the columns that are passed to `accumulate`.
        definition: the user's functions.
        on_error: what an exception in `accumulate` does.
    """

    columns: tuple[str, ...] = field(kw_only=True)
    definition: AggregateOperation = field(kw_only=True)
    on_error: str = field(default=FAIL, kw_only=True)

    def __post_init__(self) -> None:
        for column in self.columns:
            check_column_name(self.definition.name, column)
        check_on_error(self._name, self.on_error)
        Aggregate.__post_init__(self)
        try:
            inspect.signature(self.definition.accumulate).bind(None, *self.columns)
        except TypeError as error:
            raise DefinitionError(
                f"{self._name}: accumulate does not accept a state and {len(self.columns)} columns: {error}"
            ) from None
        except ValueError:  # A function without a signature, such as some built-in ones.
            return

    @property
    def _name(self) -> str:
        return f"{self.definition.name}({', '.join(self.columns)})"

    def bind(self, types: Types) -> Bound:
        self._check_where(types)
        for column in self.columns:
            if pat.is_nested(type_ := self._type(types, column)):
                raise self._refuse(type_, "an atomic type", column)
        skips = self.on_error == SKIP
        operation = UserOperation(self.column, self.columns, self.definition, skips=skips, where=self.where)
        return Bound((operation,), self.definition.type, lambda states: operation.results(states[0]))


def _repeat(value: Any, rows: int, code: str) -> npt.NDArray[Any]:
    return fill([value] * rows) if code == "object" else np.full(rows, value, _DTYPES[code])
