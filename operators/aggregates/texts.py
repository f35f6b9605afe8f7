"""Texts, or bytes, one after another."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from operators.aggregates.definitions import Aggregate, Bound, CollectList, Types
from operators.aggregates.distinct import CollectSet
from operators.columns.ranges import State
from operators.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Joined(Aggregate):
    """The values of a column as one text; null if all are null.

    Attributes:
        delimiter: what stands between two values.
        distinct: whether each value stands there once, in their order, instead of by event time.
    """

    delimiter: str | bytes = field(kw_only=True)
    distinct: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        if not isinstance(self.delimiter, str | bytes):
            raise DefinitionError(f"{self._name}: delimiter must be a text, or bytes, got {self.delimiter!r}")

    @property
    def _name(self) -> str:
        return f"listagg{'_distinct' if self.distinct else ''}({self.column})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if not (pat.is_string(type_) or pat.is_binary(type_)):
            raise self._refuse(type_, "a string or binary")
        delimiter = self.delimiter.encode() if isinstance(self.delimiter, str) else self.delimiter
        listed = (CollectSet if self.distinct else CollectList)(self.column, where=self.where).bind(types)

        def finish(states: Sequence[State]) -> pa.Array:
            lists = listed.finish(states)
            joined = pc.binary_join(lists.cast(pa.list_(pa.binary())), delimiter)
            return pc.if_else(pc.equal(pc.list_value_length(lists), 0), None, joined).cast(type_)

        return Bound(listed.operations, type_, finish)
