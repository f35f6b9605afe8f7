"""Columns of sketches, made here or by others that use Apache DataSketches, merged to one sketch."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates import kll
from operators.aggregates.distinct_sketches import Sketches
from operators.aggregates.kll import DOUBLE, FLOAT, LONG
from operators.aggregates.quantile_sketches import KllSketch, QuantileSketch
from operators.aggregates.sketches import HllSketch, ValueSketch
from operators.aggregates.user_functions import AggregateError
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from serializers import SerializationError
from serializers.arrays import fill

_HLL_FAMILY, _KLL_FAMILY = 7, 15
_LIST, _SET, _REGISTERS, _HLL_8 = 0, 1, 2, 2
_HEADS = {_LIST: 8, _SET: 12, _REGISTERS: 40}
"""Bytes before the hashes, or the registers, of each sort of HyperLogLog sketch."""
_TO_MAKE = "make it by hll_sketch_agg, here or in Spark"


@dataclass(frozen=True, slots=True)
class UnionSketch(ValueSketch):
    """The union of HLL_8 sketches, with the registers of `size`."""

    def accumulate(self, records: Records, starts: Ints) -> State:
        data = self.read(records)
        runs = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(records)))
        runs, stored = (
            (runs, data.values) if data.valid is None else (runs[data.valid], data.values[data.valid])
        )
        owners, hashes, dense = list[Ints](), list[Ints](), dict[int, npt.NDArray[np.uint8]]()
        for run, one in zip(runs.tolist(), stored.tolist(), strict=True):
            content = _content(one, self.size, self.column or "")
            if content.dtype == np.uint8:
                known = dense.get(run)
                dense[run] = content if known is None else np.maximum(known, content)
            else:
                hashes.append(content)
                owners.append(np.full(len(content), run))
        registers = np.stack([dense[run] for run in sorted(dense)]) if dense else None
        united = Sketches.of(
            _joined(owners),
            _joined(hashes),
            len(starts),
            self.size,
            np.array(sorted(dense), np.int64),
            registers,
        )
        return (fill(united.write(self.size)),)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _content(one: bytes, log_size: int, column: str) -> npt.NDArray[Any]:
    """The hashes of a sketch as int64, or its registers as uint8.

    Raises:
        AggregateError: the bytes are another sketch, or none.
    """
    head = np.frombuffer(one[:8], np.uint8)
    if len(head) < 8 or head[1] != 1 or head[2] != _HLL_FAMILY or head[7] & 3 > _REGISTERS:
        raise _refused(
            "hll_union_agg", column, "is not a HyperLogLog sketch of Apache DataSketches", _TO_MAKE
        )
    sort, theirs = int(head[7]) & 3, int(head[3])
    if theirs < log_size:
        raise _refused(
            "hll_union_agg",
            column,
            f"is a sketch with lg_config_k {theirs}",
            f"give hll_union_agg an lg_config_k of {theirs} or less, not {log_size}",
        )
    words = np.frombuffer(one[_HEADS[sort] :], np.uint8)
    if sort != _REGISTERS:
        hashes = words[: len(words) // 4 * 4].view("<u4").astype(np.int64)
        return hashes[hashes > 0]
    if head[7] >> 2 & 3 != _HLL_8 or len(words) < 1 << theirs:
        raise _refused("hll_union_agg", column, "is a sketch of another sort than HLL_8", _TO_MAKE)
    # The last bits of a hash are the number of its register: of those with equal ones, the highest rank counts.
    return np.asarray(words[: 1 << theirs].reshape(-1, 1 << log_size).max(axis=0))


def _refused(function: str, column: str, what: str, instead: str) -> AggregateError:
    return AggregateError(f"{function}({column}): a value {what}: {instead}")


@dataclass(frozen=True, slots=True)
class _Merged(QuantileSketch):
    """The union of KLL sketches."""

    function: ClassVar[str] = "kll_merge_agg_double"
    read_as: ClassVar[str] = DOUBLE
    """NumPy's type of the values in the column's sketches."""

    def accumulate(self, records: Records, starts: Ints) -> State:
        data = self.read(records)
        stored = [
            one if there else b""
            for one, there in zip(data.values.tolist(), _there(data.valid, len(records)), strict=True)
        ]
        for one in filter(None, stored):
            self._check(one)
        try:
            sketches = kll.Sketches.read(stored, self.read_as)
        except SerializationError as error:
            raise self._unreadable(str(error)) from error
        if [*map(_values_of, stored)] != sketches.totals.tolist():
            raise self._unreadable("it has more or fewer values than its head says")
        return self._stored(kll.union(sketches, np.append(starts, len(records)), self.size))

    def _check(self, one: bytes) -> None:
        ints = one[0] if len(one) >= 8 and not len(one) % 4 else 0
        if ints not in (2, 5) or one[2] != _KLL_FAMILY:
            raise self._unreadable("its head is another one")

    def _unreadable(self, why: str) -> AggregateError:
        return _refused(
            self.function,
            self.column or "",
            f"is not a KLL sketch of Apache DataSketches with values of this type ({why})",
            "make it by the kll_sketch_agg of the same type, here or in Spark",
        )


def _values_of(one: bytes) -> int:
    """For how many values the head of a sketch says that it stands."""
    return int.from_bytes(one[8:16], "little") if one[:1] == b"\x05" else int(len(one) > 8)


def _there(valid: npt.NDArray[np.bool_] | None, rows: int) -> Iterable[bool]:
    return [True] * rows if valid is None else valid.tolist()


@dataclass(frozen=True, slots=True)
class MergedDoubles(_Merged):
    """The union of sketches of doubles."""


@dataclass(frozen=True, slots=True)
class MergedFloats(_Merged):
    """The union of sketches of floats."""

    function: ClassVar[str] = "kll_merge_agg_float"
    read_as: ClassVar[str] = FLOAT


@dataclass(frozen=True, slots=True)
class MergedLongs(_Merged):
    """The union of sketches of whole numbers."""

    item: ClassVar[str] = LONG
    function: ClassVar[str] = "kll_merge_agg_bigint"
    read_as: ClassVar[str] = LONG


class HllUnion(HllSketch):
    """The union of a column of sketches of distinct values, as the bytes of a sketch."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"hll_union_agg({self.column})"

    def _operation(self, type_: pa.DataType) -> ValueSketch:
        if not is_binary(type_):
            raise self._refuse(type_, "binary")
        return UnionSketch(self.column, self.log_size, where=self.where)


class KllMerge(KllSketch):
    """The union of a column of sketches of ranks, as the bytes of a sketch."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"kll_merge_agg_{self.item}({self.column})"

    def _operation(self, type_: pa.DataType) -> QuantileSketch:
        if not is_binary(type_):
            raise self._refuse(type_, "binary")
        kinds = {"double": MergedDoubles, "float": MergedFloats, "bigint": MergedLongs}
        return kinds[self.item](self.column, self.size, where=self.where)


def is_binary(type_: pa.DataType) -> bool:
    """Return whether values of a type are bytes."""
    return bool(pat.is_binary(type_) or pat.is_large_binary(type_))
