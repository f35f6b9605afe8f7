"""How many distinct values there are, from sketches of bounded size.

A state is the bytes of a sketch of Apache DataSketches, an optional package: spark-stateful-windows[sketches].
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.aggregates.definitions import Aggregate, Bound, Types, is_atomic
from operators.aggregates.operation import Operation, runs
from operators.columns.ranges import Ints, State, combine_ranges
from operators.columns.records import Records
from operators.errors import DefinitionError
from serializers.arrays import fill

_LOG_SIZES = range(7, 22)
_AT_ONCE = 4
"""How many sketches a union of many takes in the time of a union of two: 2.5 to 11, by their size."""


@dataclass(frozen=True, slots=True)
class Sketch(Operation):
    """Bytes of a sketch; empty where no record counts.

    Attributes:
        size: size of the sketch, in the unit of its library.
    """

    size: int

    @property
    def codes(self) -> tuple[str, ...]:
        return ("object",)

    @abstractmethod
    def of(self, values: npt.NDArray[Any]) -> Any:
        """Return a sketch of the values."""

    @abstractmethod
    def from_bytes(self, stored: bytes) -> Any:
        """Return the sketch of these bytes."""

    @abstractmethod
    def to_bytes(self, sketch: Any) -> bytes:
        """Return the bytes of a sketch."""

    @abstractmethod
    def union(self, sketches: Iterable[Any]) -> Any:
        """Return a new sketch of all values of the given sketches."""

    def lift(self, records: Records) -> State:
        return self.accumulate(records, np.arange(len(records)))

    def accumulate(self, records: Records, starts: Ints) -> State:
        data = self.read(records)
        values = data.values
        if data.valid is not None:
            starts = np.concatenate([[0], np.cumsum(data.valid)])[starts]
            values = values[data.valid]
        return (fill([self._packed(values[a:b]) for a, b in runs(starts, len(values))]),)

    def combine(self, left: State, right: State) -> State:
        pairs = zip(left[0].tolist(), right[0].tolist(), strict=True)
        return (fill([self._joined(pair) for pair in pairs]),)

    def reduce(self, state: State, starts: Ints) -> State:
        stored = state[0].tolist()
        return (fill([self._joined(stored[a:b]) for a, b in runs(starts, len(stored))]),)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return sketch objects, None where no record counts: each row is deserialised once, and results are not serialised."""
        sketches = fill([self.from_bytes(stored) if stored else None for stored in state[0].tolist()])
        length = hi - lo
        levels = int(length.max(initial=1)).bit_length() - 1
        if int(length.sum()) > _AT_ONCE * len(sketches) * levels:
            return combine_ranges(self._unions, (sketches,), lo, hi)
        ranges = (sketches[a:b].tolist() for a, b in zip(lo.tolist(), hi.tolist(), strict=True))
        found = ([one for one in of_range if one is not None] for of_range in ranges)
        return (fill([(self.union(some) if len(some) > 1 else some[0]) if some else None for some in found]),)

    def _packed(self, values: npt.NDArray[Any]) -> bytes:
        return self.to_bytes(self.of(values)) if len(values) else b""

    def _joined(self, stored: Sequence[bytes]) -> bytes:
        filled = [one for one in stored if one]
        if len(filled) < 2:
            return filled[0] if filled else b""
        return self.to_bytes(self.union(map(self.from_bytes, filled)))

    def _unions(self, left: State, right: State) -> State:
        pairs = zip(left[0].tolist(), right[0].tolist(), strict=True)
        return (fill([b if a is None else a if b is None else self.union((a, b)) for a, b in pairs]),)


@dataclass(frozen=True, slots=True)
class DistinctSketch(Sketch):
    """A HyperLogLog sketch of up to 2**size bytes, smaller for few values.

    (Flajolet et al. 2007)
    """

    @property
    def compared(self) -> tuple[str, ...]:
        return self.inputs[:1]

    def of(self, values: npt.NDArray[Any]) -> Any:
        sketch = _library().hll_sketch(self.size, _library().tgt_hll_type.HLL_8)
        for value in values.tolist():
            sketch.update(value if isinstance(value, int | float) else _text(value))
        return sketch

    def from_bytes(self, stored: bytes) -> Any:
        return _library().hll_sketch.deserialize(stored)

    def to_bytes(self, sketch: Any) -> bytes:
        return sketch.serialize_compact()

    def union(self, sketches: Iterable[Any]) -> Any:
        return self._unified(sketches).get_result(_library().tgt_hll_type.HLL_8)

    def estimate(self, sketch: Any) -> int:
        """Return the number of distinct values.

        The estimate of a sketch without a union also depends on the order of its values. After a union with itself it depends
        on the set of values only.
        """
        return round(self._unified((sketch, sketch)).get_estimate())

    def _unified(self, sketches: Iterable[Any]) -> Any:
        union = _library().hll_union(self.size)
        for sketch in sketches:
            union.update(sketch)
        return union


@dataclass(frozen=True, slots=True)
class ApproxCountDistinct(Aggregate):
    """Number of distinct values, estimated.

    Attributes:
        rsd: maximum relative standard deviation of the estimate.
    """

    rsd: float = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        _check_library(self._name)
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
            sketches = states[0][0].tolist()
            return pa.array([0 if one is None else operation.estimate(one) for one in sketches], pa.int64())

        return Bound((operation,), pa.int64(), finish, nullable=False)


def _text(value: Any) -> str:
    """A distinct text for each value of one type, never empty: sketches do not accept bytes and ignore empty texts."""
    return f"={value.decode('latin-1') if isinstance(value, bytes) else value}"


def _library() -> Any:
    import datasketches

    return datasketches


def _check_library(name: str) -> None:
    try:
        _library()
    except ImportError:
        raise DefinitionError(
            f"{name} needs the package datasketches: pip install spark-stateful-windows[sketches]"
        ) from None
