"""Quantiles from sketches of bounded size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.definitions import Aggregate, Bound, Types, is_number
from operators.aggregates.kll import DOUBLE, FLOAT, LONG, Floats, Sketches, no_values, union
from operators.aggregates.operation import ReducedOperation
from operators.aggregates.percentiles import smallest
from operators.aggregates.strategy import RANGES, Strategy
from operators.columns.arrow import ColumnData
from operators.columns.ranges import Ints, State, rows_of_ranges
from operators.columns.records import Records
from operators.errors import DefinitionError
from serializers.arrays import fill, rows_between

_SIZES = range(8, 65536)


@dataclass(frozen=True, slots=True)
class QuantileSketch(ReducedOperation):
    """Bytes of a KLL sketch: up to `size` values are kept, then a sample of them; empty where no record counts.

    Attributes:
        size: k, the width of the highest level of a sketch.
    """

    strategy: ClassVar[Strategy] = RANGES
    item: ClassVar[str] = DOUBLE
    """NumPy's type of the values of a state."""
    size: int

    def lift(self, records: Records) -> State:
        return self.accumulate(records, np.arange(len(records)))

    def accumulate(self, records: Records, starts: Ints) -> State:
        return self._of(self.read(records), starts)

    def _of(self, data: ColumnData, starts: Ints) -> State:
        values = data.values.astype(self.item)
        counted = ~np.isnan(values)
        if data.valid is not None:
            counted &= data.valid
        edges = np.append(0, np.cumsum(counted))[np.append(starts, len(values))]
        return self._stored(Sketches.of(values[counted], edges, self.size))

    def reduce(self, state: State, starts: Ints) -> State:
        sketches = self._read(state[0].tolist())
        return self._stored(union(sketches, np.append(starts, len(state[0])), self.size))

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the values of all sketches one after another, what each counts, and the bounds of each range in them.

        Sketches of a window are not combined to one: the sample of each is all that is known, and is read as it is. The other
        columns are for results that are sketches: the edges and extremes of all, and the ranges.
        """
        sketches = self._read(state[0].tolist())
        values, edges = sketches.values, sketches.edges
        return values, 1 << sketches.levels, edges[lo], edges[hi], edges, *sketches.extremes, lo, hi

    def _read(self, stored: list[bytes]) -> Sketches:
        return Sketches.read(stored, self.item)

    def _stored(self, sketches: Sketches) -> State:
        return (fill(sketches.write(self.size)),)


@dataclass(frozen=True, slots=True)
class FloatSketch(QuantileSketch):
    """The same of values that are rounded to floats."""

    def accumulate(self, records: Records, starts: Ints) -> State:
        data = self.read(records)
        rounded = replace(data, values=data.values.astype(np.float32))
        return self._of(rounded, starts)


@dataclass(frozen=True, slots=True)
class LongSketch(QuantileSketch):
    """The same of whole numbers, all of whose 64 bits are kept."""

    item: ClassVar[str] = LONG


@dataclass(frozen=True, slots=True)
class ApproxQuantiles(Aggregate):
    """Values at the given ranks, estimated; null without values.

    Attributes:
        probabilities: the ranks, from 0 for the smallest value to 1 for the largest.
        size: the size of the sketch.
    """

    probabilities: tuple[float, ...] = field(kw_only=True)
    size: int = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        if not self.probabilities or not all(0 <= rank <= 1 for rank in self.probabilities):
            raise DefinitionError(
                f"{self._name}: probabilities must be numbers from 0 to 1, got {list(self.probabilities)}"
            )
        if self.size not in _SIZES:
            raise DefinitionError(
                f"{self._name}: k must be a whole number from 8 to 65535, got {self.size!r}"
            )

    @property
    def _name(self) -> str:
        return f"approx_quantiles({self.column})"

    def bind(self, types: Types) -> Bound:
        if not is_number(type_ := self._type(types)):
            raise self._refuse(type_, "an integer or floating-point number")
        operation, ranks = QuantileSketch(self.column, self.size, where=self.where), self.probabilities

        def finish(states: Sequence[State]) -> pa.Array:
            return _quantiles(ranks, *states[0][:4])

        return Bound((operation,), pa.list_(pa.float64()), finish)


@dataclass(frozen=True, slots=True)
class KllSketch(Aggregate):
    """A sample of the values as the bytes of a sketch.

    Attributes:
        size: the size of the sketch.
        item: Spark's type of the values in the sketch: "double", "float" or "bigint".
    """

    size: int = field(kw_only=True)
    item: str = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        if type(self.size) is not int or self.size not in _SIZES:
            raise DefinitionError(
                f"{self._name}: k must be a whole number from 8 to 65535, got {self.size!r}"
            )

    @property
    def _name(self) -> str:
        return f"kll_sketch_agg_{self.item}({self.column})"

    def bind(self, types: Types) -> Bound:
        operation = self._operation(self._type(types))
        nothing, item = no_values(self.size), self.stored

        def finish(states: Sequence[State]) -> pa.Array:
            found = _united(states[0], self.size).write(self.size, item)
            return pa.array([sketch or nothing for sketch in found], pa.binary())

        return Bound((operation,), pa.binary(), finish, nullable=False)

    @property
    def stored(self) -> str:
        """NumPy's type of the values in the bytes."""
        return {"double": DOUBLE, "float": FLOAT, "bigint": LONG}[self.item]

    def _operation(self, type_: pa.DataType) -> QuantileSketch:
        if self.item == "bigint":
            if not pat.is_integer(type_):
                raise self._refuse(type_, "an integer")
            return LongSketch(self.column, self.size, where=self.where)
        if not is_number(type_):
            raise self._refuse(type_, "an integer or floating-point number")
        kind = FloatSketch if self.item == "float" else QuantileSketch
        return kind(self.column, self.size, where=self.where)


def _united(state: State, size: int) -> Sketches:
    """The sketches of ranges of sketches, as `QuantileSketch.combine_ranges` returns these."""
    values, weights, _, _, edges, least, greatest, lo, hi = state
    levels = np.frexp(weights.astype(np.float64))[1] - 1
    _, rows = rows_of_ranges(lo, hi)
    sizes = edges[rows + 1] - edges[rows]
    at = rows_between(edges[rows], sizes)
    parts = Sketches(
        values[at],
        levels[at].astype(np.int64),
        np.append(0, np.cumsum(sizes)),
        np.stack([least[rows], greatest[rows]]),
    )
    return union(parts, np.append(0, np.cumsum(hi - lo)), size)


def several(probabilities: Sequence[float]) -> tuple[float, ...]:
    """Return the ranks that a user gave.

    Raises:
        DefinitionError: they are no list.
    """
    if not isinstance(probabilities, Iterable):
        raise DefinitionError(
            f"probabilities must be a list of numbers, such as [0.5, 0.99], got {probabilities!r}"
        )
    return tuple(probabilities)


def _quantiles(ranks: Sequence[float], values: Floats, weights: Ints, lo: Ints, hi: Ints) -> pa.Array:
    """Lists of the values at ranks in ranges of values: the least up to which the share of all is the rank or more.

    Null where a range has no values.
    """
    filled = hi > lo
    found = np.empty((len(ranks), 0))
    if filled.any():
        lo, hi = lo[filled], hi[filled]
        numbers, position = np.unique(values, return_inverse=True)
        passed = np.append(0, np.cumsum(weights))
        totals = passed[hi] - passed[lo]
        wanted = np.clip(np.ceil(np.array(ranks)[:, None] * totals), 1, totals).astype(np.int64) - 1
        several = weights if passed[-1] > len(values) else None
        found = 0.0 + numbers[smallest(position, lo, hi, wanted, several)]
    offsets = np.append(0, np.cumsum(np.where(filled, len(ranks), 0)))
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(found.T.reshape(-1)), mask=pa.array(~filled)
    )
