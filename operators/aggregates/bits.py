"""Bitwise and, or and exclusive or of whole numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.definitions import Aggregate, Bound, Types
from operators.aggregates.operation import UfuncOperation
from operators.aggregates.operations import CountValid
from operators.aggregates.strategy import DEDUCT, OVERLAP, Strategy
from operators.columns.arrow import arrow_column
from operators.columns.ranges import Ints, State
from operators.columns.records import Records


@dataclass(frozen=True, slots=True)
class BitAnd(UfuncOperation):
    """Bits that are set in all numbers."""

    ufunc: ClassVar[np.ufunc] = np.bitwise_and
    idempotent: ClassVar[bool] = True
    strategy: ClassVar[Strategy] = OVERLAP
    part: ClassVar[str] = "bits"
    nothing: ClassVar[int] = -1

    @property
    def codes(self) -> tuple[str, ...]:
        return ("i8",)

    def lift(self, records: Records) -> State:
        return (self.read(records).filled(self.nothing),)


@dataclass(frozen=True, slots=True)
class BitOr(BitAnd):
    """Bits that are set in any number."""

    ufunc: ClassVar[np.ufunc] = np.bitwise_or
    nothing: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class BitXor(BitOr):
    """Bits that are set in an odd number of numbers."""

    ufunc: ClassVar[np.ufunc] = np.bitwise_xor
    idempotent: ClassVar[bool] = False
    strategy: ClassVar[Strategy] = DEDUCT

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        prefix = np.zeros(len(state[0]) + 1, np.int64)
        np.bitwise_xor.accumulate(state[0], out=prefix[1:])
        return (prefix[hi] ^ prefix[lo],)


OF_BITS = {"bit_and": BitAnd, "bit_or": BitOr, "bit_xor": BitXor}


@dataclass(frozen=True, slots=True)
class Bits(Aggregate):
    """A bitwise combination of whole numbers; null without values.

    Attributes:
        kind: the name of the function.
    """

    kind: str = field(kw_only=True)

    @property
    def _name(self) -> str:
        return f"{self.kind}({self.column})"

    def bind(self, types: Types) -> Bound:
        if not pat.is_integer(type_ := self._type(types)):
            raise self._refuse(type_, "a whole number")
        valid = CountValid(self.column, where=self.where)

        def finish(states: Sequence[State]) -> pa.Array:
            (count,), (bits,) = states
            return arrow_column(bits, type_, count == 0)

        return Bound((valid, OF_BITS[self.kind](self.column, where=self.where)), type_, finish)
