"""A column of results: since when all results of its row count all records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from operators.aggregates.operation import Operation
from operators.columns.arrow import to_unit


@dataclass(frozen=True, slots=True)
class SinceColumn:
    """The column, and its value, which the rows of a state share.

    Attributes:
        name: its name.
        type: its Arrow type, a timestamp.
        tick_us: length of a tick in microseconds.
        ticks: the time; None if no aggregate was added later.
    """

    name: str
    type: pa.DataType
    tick_us: int
    ticks: int | None = None

    @property
    def field(self) -> pa.Field:
        """The column in a schema."""
        return pa.field(self.name, self.type)

    def of_states(self, operations: Sequence[Operation], since: Mapping[str, int]) -> "SinceColumn":
        """Return the column with the value for results that are made from these operations' states.

        Args:
            operations: the operations of all results.
            since: since when each state that was added later counts all records, in ticks, by the state's name.
        """
        times = [since[name] for name in (each.describe() for each in operations) if name in since]
        return replace(self, ticks=max(times, default=None))

    def values(self, rows: int) -> pa.Array:
        """Return the values of so many rows."""
        if self.ticks is None:
            return pa.nulls(rows, self.type)
        moment = pa.array(to_unit(np.array([self.ticks]), self.tick_us, self.type.unit)).cast(self.type)
        return pa.repeat(moment[0], rows)
