"""How many distinct values there are, from a state of bounded size."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.definitions import Aggregate, Bound, Types, is_atomic
from operators.aggregates.distinct_sketches import Sketches, most_hashes
from operators.aggregates.hashes import hashes_of, hashes_of_bytes
from operators.aggregates.hyperloglog import shorten
from operators.aggregates.once import different_in
from operators.aggregates.operation import Operation, ReducedOperation
from operators.aggregates.strategy import OVERLAP, RANGES, Strategy
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from operators.errors import DefinitionError
from serializers.arrays import fill

_LOG_SIZES = range(7, 22)
_SHARED_LOG_SIZES = range(4, 22)
_LIST_HEADS, _NOTHING = 0x07_01_02, 0x08_00_0C_03
"""Words of a sketch without values: words of the head, version and family; room, flags (compact, empty) and sort."""


@dataclass(frozen=True, slots=True)
class DistinctSketch(ReducedOperation):
    """The distinct hashes of values, of 32 bits each; 2**size registers of HyperLogLog if there are too many.

    A state is the bytes of a sketch of Apache DataSketches, see `Sketches`. No bytes are a state without values.

    Attributes:
        size: log2 of the number of registers.
    """

    strategy: ClassVar[Strategy] = RANGES
    size: int

    @property
    def compared(self) -> tuple[str, ...]:
        return self.inputs[:1]

    def lift(self, records: Records) -> State:
        return self.accumulate(records, np.arange(len(records)))

    def accumulate(self, records: Records, starts: Ints) -> State:
        data = self.read(records)
        run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(records)))
        run, values = (run, data.values) if data.valid is None else (run[data.valid], data.values[data.valid])
        run, hashes = self._hashes(run, values)
        return (fill(Sketches.of(run, hashes, len(starts), self.size).write(self.size)),)

    def _hashes(self, run: Ints, values: npt.NDArray[Any]) -> tuple[Ints, Ints]:
        """The hashes of values that count, each with its run."""
        return run, shorten(hashes_of(values))

    def reduce(self, state: State, starts: Ints) -> State:
        run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(state[0])))
        parts = Sketches.read(state[0].tolist(), self.size)
        united = Sketches.of(
            run[parts.row], parts.hashes, len(starts), self.size, run[parts.dense], parts.registers
        )
        return (fill(united.write(self.size)),)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the number of distinct values of each range: of their hashes if these are few, else by registers."""
        sketches = Sketches.read(state[0].tolist(), self.size)
        begin, end = sketches.edges[lo], sketches.edges[hi]
        found, several = end - begin, np.flatnonzero((hi - lo > 1) & (end > begin))
        if len(several):
            found[several] = different_in(sketches.hashes, begin[several], end[several])
        before = np.searchsorted(sketches.dense, np.arange(len(sketches.edges)))
        over = (found > most_hashes(self.size)) | (before[hi] > before[lo])
        if over.any():
            found[over] = sketches.estimates_of(lo[over], hi[over], self.size)
        return (found,)


@dataclass(frozen=True, slots=True)
class ValueSketch(DistinctSketch):
    """A sketch of the values as others hash them, which stays one: its bytes are the result."""

    idempotent: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = OVERLAP

    def _hashes(self, run: Ints, values: npt.NDArray[Any]) -> tuple[Ints, Ints]:
        if values.dtype != object:
            return run, shorten(hashes_of(values))
        there = np.fromiter(map(len, values.tolist()), np.int64, len(values)) > 0
        return run[there], shorten(hashes_of_bytes(values[there]))

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        return Operation.combine_ranges(self, state, lo, hi)


@dataclass(frozen=True, slots=True)
class HllSketch(Aggregate):
    """The distinct values as the bytes of a sketch.

    Attributes:
        log_size: log2 of the number of registers.
    """

    log_size: int = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        if type(self.log_size) is not int or self.log_size not in _SHARED_LOG_SIZES:
            raise DefinitionError(
                f"{self._name}: lg_config_k must be a whole number from 4 to 21, got {self.log_size!r}"
            )

    @property
    def _name(self) -> str:
        return f"hll_sketch_agg({self.column})"

    def bind(self, types: Types) -> Bound:
        operation = self._operation(self._type(types))
        nothing = np.array([_LIST_HEADS | self.log_size << 24, _NOTHING], "<u4").tobytes()

        def finish(states: Sequence[State]) -> pa.Array:
            return pa.array([sketch or nothing for sketch in states[0][0].tolist()], pa.binary())

        return Bound((operation,), pa.binary(), finish, nullable=False)

    def _operation(self, type_: pa.DataType) -> ValueSketch:
        texts = pat.is_string, pat.is_large_string, pat.is_binary, pat.is_large_binary, pat.is_integer
        if not any(of(type_) for of in texts):
            raise self._refuse(type_, "an integer, a string or binary")
        return ValueSketch(self.column, self.log_size, where=self.where)


@dataclass(frozen=True, slots=True)
class ApproxCountDistinct(Aggregate):
    """Number of distinct values, estimated.

    Attributes:
        rsd: maximum relative standard deviation of the estimate.
    """

    rsd: float = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        if self._log_size not in _LOG_SIZES:
            raise DefinitionError(f"{self._name}: rsd must be from 0.00072 to 0.5, got {self.rsd!r}")

    @property
    def _log_size(self) -> int:
        if not 0 < self.rsd <= 0.5:
            return 0
        return max(_LOG_SIZES.start, int(np.ceil(2 * np.log2(1.04 / self.rsd))))

    @property
    def _name(self) -> str:
        return f"approx_count_distinct({self.column})"

    def bind(self, types: Types) -> Bound:
        if not is_atomic(type_ := self._type(types)):
            raise self._refuse(type_, "an atomic type")
        operation = DistinctSketch(self.column, self._log_size, where=self.where)

        def finish(states: Sequence[State]) -> pa.Array:
            return pa.array(states[0][0])

        return Bound((operation,), pa.int64(), finish, nullable=False)
