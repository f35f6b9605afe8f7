"""Counts, sums and means in which a record counts for less the older it is: half as much after each half-life.

At the end T of a window, a record of time t weighs 2 ** ((t - T) / half_life). A state that is rescaled whenever time goes on
rounds each time. Here a record gives its value times 2 ** (t / half_life), which depends on the record alone: a number from 0.5
to 2, and a whole power of two. Such numbers are added up as pairs of doubles, and scaled to T once, in the result:

    t / half_life   =   whole power   +   fraction
    state           =   2 ** power    *   (sum of value * 2 ** fraction, shifted by whole powers)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from operators.aggregates import exact
from operators.aggregates.definitions import Aggregate, Bound, Types, is_number
from operators.aggregates.operation import Operation
from operators.aggregates.operations import CountValid
from operators.aggregates.strategy import DEDUCT, Strategy
from operators.columns.durations import Duration, ticks
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from serializers.arrays import one_array

_NOTHING = -(2**62)
"""The power of a sum of nothing, or of zeros: below all others."""
_NEAR = 900
"""Powers that differ by less than this have one scale in which none of their sums is lost."""


@dataclass(frozen=True, slots=True)
class DecayedSum(Operation):
    """Sum of values, or number of records, each times 2 ** (its time / half_life).

    A state is a power of two and a pair of doubles.

    Attributes:
        half_life: half-life in ticks.
        counts: whether each value is 1; without a column, in each record.
    """

    strategy: ClassVar[Strategy] = DEDUCT
    half_life: int
    counts: bool

    @property
    def codes(self) -> tuple[str, ...]:
        return "i8", "f8", "f8"

    @property
    def parts(self) -> tuple[str, ...]:
        return "power", "high", "low"

    def lift(self, records: Records) -> State:
        high, low = self._values(records)
        with np.errstate(all="ignore"):
            mantissa, exponent = np.frexp(high)
            exponent = np.where(np.isfinite(high), exponent, 0)
            power, rest = np.divmod(records.time, self.half_life)
            high, low = exact.times((mantissa, np.ldexp(low, -exponent)), np.exp2(rest / self.half_life))
            low = np.where(np.isfinite(high), low, 0.0)
        return np.where(high != 0, power + exponent, _NOTHING), high, low

    def _values(self, records: Records) -> exact.Pair:
        """The values as pairs, 0 where there is none."""
        if self.counts:
            data = None if self.column is None else self.read(records)
            there = self.counted(records) if data is None or data.valid is None else data.valid
            return there.astype(np.float64), np.zeros(len(records))
        values = self.read(records).filled(0)
        return exact.of_ints(values) if values.dtype == np.int64 else (values, np.zeros(len(values)))

    def combine(self, left: State, right: State) -> State:
        power = np.maximum(left[0], right[0])
        with np.errstate(all="ignore"):
            return power, *exact.add(_shifted(left, power), _shifted(right, power))

    def reduce(self, state: State, starts: Ints) -> State:
        if 2 * len(starts) > len(state[0]):
            return Operation.reduce(self, state, starts)
        return self.combine_ranges(state, starts, np.append(starts[1:], len(state[0])))

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        powers = state[0][state[0] > _NOTHING]
        if not len(powers) or not len(lo):
            return Operation.combine_ranges(self, state, lo, hi)
        highest = int(powers.max())
        if highest - int(powers.min()) < _NEAR:
            sums = exact.sum_ranges(_shifted(state, np.full(len(state[0]), highest)), lo, hi)
            if sums is not None:
                return np.where(sums[0] != 0, highest, _NOTHING), *sums
        return Operation.combine_ranges(self, state, lo, hi)


def _shifted(state: State, power: Ints) -> exact.Pair:
    """The pairs of states in units of these powers of two, which are not lower than their own."""
    return exact.shift(state[1], state[0] - power), exact.shift(state[2], state[0] - power)


@dataclass(frozen=True, slots=True)
class Decayed(Aggregate):
    """A count, sum or mean in which records lose half of their weight in each half-life.

    Attributes:
        half_life: length of time.
        kind: the name of the function.
        tick_us: length of a tick in microseconds.
    """

    half_life: Duration = field(kw_only=True)
    kind: str = field(kw_only=True)
    tick_us: int = field(default=1_000, kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        ticks(self.half_life, 1, f"{self._name}: half_life", 1)

    @property
    def _name(self) -> str:
        return f"{self.kind}({self.column or ''})"

    def in_ticks(self, tick_us: int) -> "Decayed":
        return replace(self, tick_us=tick_us)

    def bind(self, types: Types) -> Bound:
        self._check_where(types)
        if self.column is not None:
            type_ = self._type(types)
            if self.kind != "decayed_count" and not is_number(type_):
                raise self._refuse(type_, "an integer or floating-point number")
        half_life = ticks(self.half_life, self.tick_us, f"{self._name}: half_life", 1)
        count = DecayedSum(self.column, half_life, True, where=self.where)
        if self.kind == "decayed_count":
            return Bound((count,), pa.float64(), _unscaled, nullable=False, at_end=_to_end(half_life))
        total = DecayedSum(self.column, half_life, False, where=self.where)
        if self.kind == "decayed_avg":
            return Bound((count, total), pa.float64(), _means)
        valid = CountValid(self.column, where=self.where)
        return Bound((total, valid), pa.float64(), _unscaled, at_end=_to_end(half_life))


def _unscaled(states: Sequence[State]) -> pa.Array:
    """Sums as a whole power of two and a double, null without values: what does not depend on the end of a window."""
    power, high, low = states[0]
    missing = states[1][0] == 0 if len(states) > 1 else np.zeros(len(power), bool)
    columns = [pa.array(power), pa.array(high + low)]
    return pa.StructArray.from_arrays(columns, ["power", "sum"], mask=pa.array(missing))


def _to_end(half_life: int) -> Callable[[pa.Array | pa.ChunkedArray, Ints], pa.Array]:
    """What scales sums to the ends of their windows, in ticks."""

    def at_end(sums: pa.Array | pa.ChunkedArray, end: Ints) -> pa.Array:
        array = one_array(sums)
        power, total = (array.field(name).to_numpy(zero_copy_only=False) for name in ("power", "sum"))
        periods, rest = np.divmod(end, half_life)
        # By the factor of `lift`, so that whole half-lives are exact.
        scaled = exact.shift(total / np.exp2(rest / half_life), power - periods)
        return pa.array(scaled + 0.0, mask=array.is_null().to_numpy(zero_copy_only=False))

    return at_end


def _means(states: Sequence[State]) -> pa.Array:
    """Sums over counts: the powers of both cancel, so that a mean outlasts them."""
    (count_power, *count), (power, *total) = states
    weight = count[0] + count[1]
    with np.errstate(all="ignore"):
        means = exact.shift((total[0] + total[1]) / weight, power - count_power)
    return pa.array(means + 0.0, mask=weight == 0)
