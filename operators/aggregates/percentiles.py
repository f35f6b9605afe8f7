"""Exact percentiles: the values of a window at given ranks, from all of its values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.definitions import Aggregate, Bound, Types, is_number
from operators.aggregates.operation import Operation, runs
from operators.aggregates.operations import as_lists
from operators.aggregates.result_arrays import one_zero
from operators.aggregates.strategy import RANGES, Strategy
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from operators.errors import DefinitionError
from serializers.arrays import fill

Floats = npt.NDArray[np.float64]
_RANKS_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class Values(Operation):
    """All values except nulls, as a list in no order."""

    keeps_all: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = RANGES

    @property
    def parts(self) -> tuple[str, ...]:
        return ("values",)

    def lift(self, records: Records) -> State:
        return (as_lists(self.read(records)),)

    def combine(self, left: State, right: State) -> State:
        return (np.add(left[0], right[0]),)

    def reduce(self, state: State, starts: Ints) -> State:
        lists = state[0].tolist()
        return (fill([list(chain.from_iterable(lists[a:b])) for a, b in runs(starts, len(lists))]),)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the values of all rows one after another, and the bounds of each range in them."""
        lists = state[0].tolist()
        edges = np.cumsum([0, *map(len, lists)])
        return fill(list(chain.from_iterable(lists))), edges[lo], edges[hi]


def smallest(values: Ints, lo: Ints, hi: Ints, rank: Ints, weights: Ints | None = None) -> Ints:
    """Return the value of that rank, from 0 for the smallest, in each range values[lo:hi].

    Cost: O(log(largest)) array passes over the values and over the ranges, independent of their lengths. (Wavelet matrix)

    Args:
        values: shape (n,), int64, 0 or more.
        lo, hi: shape (m,), int64. No range is empty.
        rank: shape (m,), or (r, m) for r values of each range; below what the values of the range count.
        weights: shape (n,): what each value counts; 1 if they are not given.
    """
    if rank.ndim > 1 and len(rank) > 1 and rank.size > _RANKS_AT_ONCE:
        parts = np.array_split(rank, min(len(rank), -(-rank.size // _RANKS_AT_ONCE)))
        return np.concatenate([smallest(values, lo, hi, part, weights) for part in parts])
    found = np.zeros(rank.shape, np.int64)
    for bit in reversed(range(int(values.max(initial=0)).bit_length())):
        zero = values >> bit & 1 == 0
        zeros = np.concatenate([[0], np.cumsum(zero)])
        low, high = zeros[lo], zeros[hi]
        values = np.concatenate([values[zero], values[~zero]])
        if weights is None:
            smaller = high - low
        else:
            weights = np.concatenate([weights[zero], weights[~zero]])
            passed = np.concatenate([[0], np.cumsum(weights)])
            smaller = passed[high] - passed[low]
        up = rank >= smaller
        found |= up.astype(np.int64) << bit
        rank = rank - np.where(up, smaller, 0)
        lo, hi = np.where(up, zeros[-1] + lo - low, low), np.where(up, zeros[-1] + hi - high, high)
    return found


@dataclass(frozen=True, slots=True)
class Percentile(Aggregate):
    """Values at the given ranks, exact; null without values.

    Attributes:
        ranks: from 0 for the smallest value to 1 for the largest; between two values, the result is in between.
        single: whether the result is a number instead of an array.
        discrete: whether the result is a value: the first one of whose rank at least that share of all values is.
    """

    ranks: tuple[float, ...] = field(kw_only=True)
    single: bool = field(kw_only=True)
    discrete: bool = field(default=False, kw_only=True)

    @classmethod
    def at(cls, column: str | None, ranks: Any, where: str | None, *, discrete: bool = False) -> "Percentile":
        """Return the aggregate of a column for one rank, or for a list of ranks."""
        several = isinstance(ranks, Iterable) and not isinstance(ranks, str)
        listed = tuple(ranks) if several else (ranks,)
        return cls(column, ranks=listed, single=not several, discrete=discrete, where=where)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        ranks: tuple[Any, ...] = self.ranks
        numbers = all(isinstance(rank, int | float) and 0 <= rank <= 1 for rank in ranks)
        if not self.ranks or not numbers:
            raise DefinitionError(
                f"{self._name}: percentage must be a number from 0 to 1, such as 0.95, or a list of them, "
                f"got {self.ranks[0] if self.single else list(self.ranks)!r}"
            )

    @property
    def _name(self) -> str:
        return f"percentile{'_disc' if self.discrete else ''}({self.column})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if not (is_number(type_) or pat.is_decimal(type_)):
            raise self._refuse(type_, "a number")
        out = pa.float64() if self.single else pa.list_(pa.float64())
        operation = Values(self.column, where=self.where)
        return Bound((operation,), out, lambda states: pa.array(self._results(*states[0]), out))

    def _results(
        self, values: npt.NDArray[np.object_], lo: Ints, hi: Ints
    ) -> list[float | list[float] | None]:
        found: list[float | list[float] | None] = [None] * len(lo)
        filled = np.flatnonzero(hi > lo)
        numbers, position = np.unique(np.array(values.tolist(), np.float64), return_inverse=True)
        at = (_values_at if self.discrete else _at)(self.ranks, numbers, position, lo[filled], hi[filled])
        for window, results in zip(filled.tolist(), at.T.tolist(), strict=True):
            found[window] = results[0] if self.single else results
        return found


def _at(ranks: Sequence[float], numbers: Floats, position: Ints, lo: Ints, hi: Ints) -> Floats:
    """The values at ranks in ranges of positions in sorted numbers, with Spark's interpolation between two of them."""
    if not len(lo):
        return np.empty((len(ranks), 0))
    place = (hi - lo - 1) * np.array(ranks)[:, None]
    below, above = np.floor(place), np.ceil(place)
    wanted = np.concatenate([below, above]).astype(np.int64)
    low, high = np.split(numbers[smallest(position, lo, hi, wanted)], 2)
    with np.errstate(all="ignore"):
        between = (above - place) * low + (place - below) * high
    return one_zero(np.where((below == above) | (low == high), low, between))


def _values_at(ranks: Sequence[float], numbers: Floats, position: Ints, lo: Ints, hi: Ints) -> Floats:
    """The values of rank ceil(p n), from 1, in ranges of positions in sorted numbers."""
    if not len(lo):
        return np.empty((len(ranks), 0))
    wanted = np.ceil((hi - lo) * np.array(ranks)[:, None]).astype(np.int64)
    return one_zero(numbers[smallest(position, lo, hi, np.maximum(wanted, 1) - 1)])
