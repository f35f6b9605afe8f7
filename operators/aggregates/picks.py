"""The value of one record: with the earliest or latest event time, or with the smallest or largest value of another column.

The choice depends on the records only, not on their order of arrival: among records with an equal `by`, the one with the
smallest value is the first and the one with the largest is the last. A null is chosen only if there is no other value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.aggregates.definitions import Aggregate, Bound, Types, is_atomic
from operators.aggregates.operation import Operation
from operators.aggregates.result_arrays import one_zero
from operators.aggregates.strategy import OVERLAP, Strategy
from operators.columns.arrow import ColumnData, arrow_column, state_code
from operators.columns.ranges import State
from operators.columns.records import Records

Signs = npt.NDArray[np.int8]
_NOTHING, _NULL, _VALUE = range(3)


@dataclass(frozen=True, slots=True)
class Pick(Operation):
    """The value of the first or last record in order of `by`.

    A state is the `by`, a flag (no record, a null, or a value), and the value.

    Attributes:
        by: a column whose nulls do not count, or None for the event time.
        by_code, code: page codes of `by` and the values: "i8", "f8" or "object".
        last: whether it is the last record.
        nulls: whether records whose value is null count.
    """

    by: str | None
    by_code: str
    idempotent: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = OVERLAP

    code: str
    last: bool
    nulls: bool

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(name for name in (self.column, self.by, self.where) if name is not None)

    @property
    def compared(self) -> tuple[str, ...]:
        return () if self.by is None else (self.by,)

    @property
    def codes(self) -> tuple[str, ...]:
        return self.by_code, "i8", self.code

    @property
    def parts(self) -> tuple[str, ...]:
        return "by", "there", "value"

    def lift(self, records: Records) -> State:
        by = ColumnData(records.time, None) if self.by is None else self.read(records, self.by)
        data = self.read(records)
        counts = self.counted(records)
        for required in (by, *([] if self.nulls else [data])):
            counts = counts if required.valid is None else counts & required.valid
        has = np.where(counts, _VALUE, _NOTHING)
        if data.valid is not None:
            has[counts & ~data.valid] = _NULL
        return one_zero(by.kept(counts).values), has, one_zero(data.kept(counts).values)

    def combine(self, left: State, right: State) -> State:
        better = self._rank(left, right) > 0
        return tuple(np.where(better, b, a) for a, b in zip(left, right, strict=True))

    def _rank(self, left: State, right: State) -> Signs:
        """1 where the right record is preferred to the left one, -1 where the left one is, 0 where they are equal."""
        has = compare(right[1], left[1])
        rank = has.copy()
        both = np.flatnonzero((left[1] > _NOTHING) & (right[1] > _NOTHING))
        rank[both] = self._prefer(left[0][both], right[0][both])
        tied = both[rank[both] == 0]
        rank[tied] = has[tied]
        tied = tied[rank[tied] == 0]
        rank[tied] = self._prefer(left[2][tied], right[2][tied])
        return rank

    def _prefer(self, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Signs:
        return compare(right, left) if self.last else compare(left, right)


def compare(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Signs:
    """Return the sign of a - b, row by row: NaN equals itself and is larger than any number, None equals all."""
    if a.dtype == object:
        return np.asarray(_sign(a, b), np.int8)
    larger, smaller = a > b, a < b
    if a.dtype == np.float64:
        odd_a, odd_b = np.isnan(a), np.isnan(b)
        larger, smaller = larger | (odd_a & ~odd_b), smaller | (odd_b & ~odd_a)
    return larger.astype(np.int8) - smaller.astype(np.int8)


_sign = np.frompyfunc(lambda a, b: 0 if a is None or b is None else (a > b) - (a < b), 2, 1)


@dataclass(frozen=True, slots=True)
class Picked(Aggregate):
    """The value of the first or last record in order of event time or of a column; null without records.

    Attributes:
        order: that column, or None for the event time.
        last: whether it is the last record.
        nulls: whether records whose value is null count.
    """

    order: str | None = field(default=None, kw_only=True)
    last: bool = field(kw_only=True)
    nulls: bool = field(default=True, kw_only=True)

    @property
    def _name(self) -> str:
        if self.order is None:
            return f"{'last' if self.last else 'first'}({self.column})"
        return f"{'max_by' if self.last else 'min_by'}({self.column}, {self.order})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if not is_atomic(type_):
            raise self._refuse(type_, "an atomic type")
        by_code = "i8"
        if self.order is not None:
            if not is_atomic(by_type := self._type(types, self.order)):
                raise self._refuse(by_type, "an orderable type", self.order)
            by_code = state_code(by_type)
        operation = Pick(
            self.column, self.order, by_code, state_code(type_), self.last, self.nulls, where=self.where
        )

        def finish(states: Sequence[State]) -> pa.Array:
            _, has, values = states[0]
            missing = has != _VALUE
            return arrow_column(values, type_, missing if missing.any() else None)

        return Bound((operation,), type_, finish)
