"""The built-in operations: counts, sums, extremes, moments and lists."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from operators.aggregates import exact
from operators.aggregates.operation import Operation, UfuncOperation
from operators.aggregates.strategy import DEDUCT, OVERLAP, RANGES, Strategy
from operators.columns.arrow import ColumnData
from operators.columns.ranges import Ints, State, prefix_difference
from operators.columns.records import Records
from serializers.arrays import fill

_INT64 = np.iinfo(np.int64)
_WIDE = Context(prec=80)  # Python rounds to 28 digits by default, Spark has 38


@dataclass(frozen=True, slots=True)
class CountRows(UfuncOperation):
    """Number of records."""

    ufunc: ClassVar[np.ufunc] = np.add
    part: ClassVar[str] = "count"
    strategy: ClassVar[Strategy] = DEDUCT

    @property
    def codes(self) -> tuple[str, ...]:
        return ("i8",)

    def lift(self, records: Records) -> State:
        return (self.counted(records).astype(np.int64),)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        return (prefix_difference(state[0], lo, hi),)


@dataclass(frozen=True, slots=True)
class CountValid(CountRows):
    """Number of records whose value is not null."""

    def lift(self, records: Records) -> State:
        return (_counted(self.read(records)),)


@dataclass(frozen=True, slots=True)
class SumInt(CountRows):
    """Sum of whole numbers of up to 32 bits, exact: the sum of four thousand million of them fits into 64 bits."""

    part: ClassVar[str] = "sum"

    def lift(self, records: Records) -> State:
        return (self.read(records).filled(0),)

    def of_halves(self, high: Ints, low: Ints) -> State:
        """Return sums of the upper and of the lower 32 bits of numbers as states."""
        return ((high << 32) + low,)


@dataclass(frozen=True, slots=True)
class SumLong(Operation):
    """Sum of whole numbers of 64 bits, exact: a word, and how many times 2**64 has to be added to it.

    Intermediate sums may exceed 64 bits, so that the order of the numbers does not matter. Only results are checked for
    overflow.
    """

    former_name: ClassVar[str | None] = "SumInt"
    strategy: ClassVar[Strategy] = DEDUCT

    @property
    def codes(self) -> tuple[str, ...]:
        return ("i8", "i8")

    @property
    def parts(self) -> tuple[str, ...]:
        return "sum", "wraps"

    def lift(self, records: Records) -> State:
        values = self.read(records).filled(0)
        return values, np.zeros(len(values), np.int64)

    def combine(self, left: State, right: State) -> State:
        total = left[0] + right[0]
        wrapped = (left[0] ^ total) & (right[0] ^ total) < 0
        wraps = left[1] + right[1]
        if wrapped.any():
            wraps += np.where(wrapped, np.where(left[0] < 0, -1, 1), 0)
        return total, wraps

    def reduce(self, state: State, starts: Ints) -> State:
        if self._safe(state):
            return np.add.reduceat(state[0], starts), np.zeros(len(starts), np.int64)
        high, low = (np.add.reduceat(half, starts) for half in _halves(state[0]))
        return _join_halves(high, low, np.add.reduceat(state[1], starts))

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        if self._safe(state):
            return prefix_difference(state[0], lo, hi), np.zeros(len(lo), np.int64)
        high, low = (prefix_difference(half, lo, hi) for half in _halves(state[0]))
        return _join_halves(high, low, prefix_difference(state[1], lo, hi))

    def of_halves(self, high: Ints, low: Ints) -> State:
        """Return sums of the upper and of the lower 32 bits of numbers as states."""
        return _join_halves(high, low, np.zeros(len(high), np.int64))

    def total(self, state: State) -> Ints:
        """Return the sums.

        Raises:
            OverflowError: a sum exceeds 64 bits.
        """
        if state[1].any():
            raise OverflowError(
                f"the sum of whole numbers in column {self.column!r} exceeds 64 bits: "
                "cast the column to double or decimal before apply"
            )
        return state[0]

    @staticmethod
    def _safe(state: State) -> bool:
        """Whether no sum of any of these rows can exceed 64 bits."""
        return float(np.abs(state[0].astype(np.float64)).sum()) < 2.0**62 and not state[1].any()


def _halves(words: Ints) -> tuple[Ints, Ints]:
    """The upper 32 bits, with the sign, and the lower ones: sums of thousands of millions of either fit into 64 bits."""
    return words >> 32, words & 0xFFFFFFFF


def _join_halves(high: Ints, low: Ints, wraps: Ints) -> State:
    """Sums of upper and lower 32 bits as states of `SumLong`."""
    high = high + (low >> 32)
    word = (high << 32) | (low & 0xFFFFFFFF)
    return word, wraps + ((high - (word >> 32)) >> 32)


@dataclass(frozen=True, slots=True)
class SumFloat(Operation):
    """Sum of floating-point numbers in twice the precision: it does not drift, and hardly depends on the order of rows."""

    strategy: ClassVar[Strategy] = DEDUCT

    @property
    def codes(self) -> tuple[str, ...]:
        return ("f8", "f8")

    def lift(self, records: Records) -> State:
        values = self.read(records).filled(0)
        if values.dtype == np.int64:
            return exact.of_ints(values)
        return np.asarray(values, np.float64), np.zeros(len(values))

    def combine(self, left: State, right: State) -> State:
        with np.errstate(all="ignore"):
            return exact.add(left, right)

    @property
    def parts(self) -> tuple[str, ...]:
        return "high", "low"

    def reduce(self, state: State, starts: Ints) -> State:
        if 2 * len(starts) > len(state[0]):
            return Operation.reduce(self, state, starts)
        return self.combine_ranges(state, starts, np.append(starts[1:], len(state[0])))

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        return exact.sum_ranges(state, lo, hi) or Operation.combine_ranges(self, state, lo, hi)

    @property
    def narrower(self) -> Operation:
        return SumInt(self.column, where=self.where)

    def of_narrower(self, state: State) -> State:
        return exact.of_ints(state[0])

    def of_halves(self, high: npt.NDArray[np.int64], low: npt.NDArray[np.int64]) -> State:
        """Return sums of the upper and of the lower 32 bits of whole numbers as states."""
        upper, rest = exact.of_ints(high)
        return exact.add((upper * 2.0**32, rest * 2.0**32), exact.of_ints(low))


@dataclass(frozen=True, slots=True)
class SumDecimal(UfuncOperation):
    """Exact sum of decimals, as Python's whole numbers of the column's smallest unit.

    Attributes:
        scale: digits after the point.
    """

    scale: int
    ufunc: ClassVar[np.ufunc] = np.add
    part: ClassVar[str] = "sum"

    def lift(self, records: Records) -> State:
        values = self.read(records).values.tolist()
        return (fill([0 if v is None else int(v.scaleb(self.scale, _WIDE)) for v in values]),)


def decimal_of(units: int, scale: int) -> Decimal:
    """Return the decimal that is a whole number of units of its last digit."""
    return Decimal(units).scaleb(-scale, _WIDE)


@dataclass(frozen=True, slots=True)
class Extreme(UfuncOperation):
    """Smallest or largest number; NaN is larger than all other numbers, as in Spark.

    Attributes:
        code: "i8" or "f8".
    """

    code: str
    idempotent: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = OVERLAP

    @property
    @abstractmethod
    def nothing(self) -> float:
        """The state without any number."""

    @property
    def codes(self) -> tuple[str, ...]:
        return (self.code,)

    def lift(self, records: Records) -> State:
        return (self.read(records).filled(self.nothing),)


@dataclass(frozen=True, slots=True)
class Min(Extreme):
    """Smallest number; NaN only if all are NaN."""

    ufunc: ClassVar[np.ufunc] = np.fmin
    part: ClassVar[str] = "min"

    @property
    def nothing(self) -> float:
        return np.nan if self.code == "f8" else int(_INT64.max)


@dataclass(frozen=True, slots=True)
class Max(Extreme):
    """Largest number; NaN if any is NaN."""

    ufunc: ClassVar[np.ufunc] = np.maximum
    part: ClassVar[str] = "max"

    @property
    def nothing(self) -> float:
        return -np.inf if self.code == "f8" else int(_INT64.min)


@dataclass(frozen=True, slots=True)
class ObjectExtreme(Operation):
    """Smallest or largest of values that are Python objects, such as text; None stands for no value.

    Attributes:
        largest: whether it is the largest value.
    """

    largest: bool
    idempotent: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = OVERLAP

    @property
    def compared(self) -> tuple[str, ...]:
        return self.inputs[:1]

    @property
    def parts(self) -> tuple[str, ...]:
        return ("max" if self.largest else "min",)

    def lift(self, records: Records) -> State:
        return (self.read(records).values,)

    def combine(self, left: State, right: State) -> State:
        pick = np.frompyfunc(_larger if self.largest else _smaller, 2, 1)
        return (np.asarray(pick(left[0], right[0]), object),)


def _smaller(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)


def _larger(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else max(a, b)


@dataclass(frozen=True, slots=True)
class Collect(Operation):
    """All values in order of event time. Values of equal event time are sorted, so that the order of arrival does not matter.

    A state is a list of event times in ticks and the list of values.
    """

    keeps_all: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = RANGES

    @property
    def codes(self) -> tuple[str, ...]:
        return ("object", "object")

    @property
    def parts(self) -> tuple[str, ...]:
        return "times", "values"

    def lift(self, records: Records) -> State:
        data = self.read(records)
        return as_lists(ColumnData(records.time, data.valid)), as_lists(data)

    def combine(self, left: State, right: State) -> State:
        return np.add(left[0], right[0]), np.add(left[1], right[1])

    def reduce(self, state: State, starts: Ints) -> State:
        joined = Operation.reduce(self, state, starts)
        pairs = [_in_order(*both) for both in zip(joined[0].tolist(), joined[1].tolist(), strict=True)]
        return fill([times for times, _ in pairs]), fill([values for _, values in pairs])

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the values of all rows one after another, and the bounds of each range in them.

        A range of panes is a range of values: lists are joined only when results are made.
        """
        lists = state[1].tolist()
        edges = np.cumsum([0, *map(len, lists)])
        return fill(list(chain.from_iterable(lists))), edges[lo], edges[hi]


def _counted(data: ColumnData) -> npt.NDArray[np.int64]:
    return np.ones(len(data.values), np.int64) if data.valid is None else data.valid.astype(np.int64)


def as_lists(data: ColumnData, form: Callable[[Any], Any] = lambda value: value) -> npt.NDArray[np.object_]:
    """Return a list of one value for each value, converted by `form`; nulls are empty lists."""
    valid = [True] * len(data.values) if data.valid is None else data.valid.tolist()
    return fill([[form(v)] if there else [] for v, there in zip(data.values.tolist(), valid, strict=True)])


def _in_order(times: list[int], values: list[Any]) -> tuple[list[int], list[Any]]:
    """The values of one state by event time, then by value, NaN last."""
    order = sorted(range(len(times)), key=lambda n: (times[n], values[n] != values[n], values[n]))
    return [times[n] for n in order], [values[n] for n in order]


def objects_of(data: ColumnData) -> list[Any]:
    """Return values as Python objects, None for null."""
    if data.valid is None:
        return data.values.tolist()
    return [
        value if there else None
        for value, there in zip(data.values.tolist(), data.valid.tolist(), strict=True)
    ]
