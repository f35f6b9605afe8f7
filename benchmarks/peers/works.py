"""The workloads for our operators and other systems."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import GAP_MS, KEYS, KINDS, operator, operator_of, records
from operators import WindowedAggregation

LONG_AGO_MS = 10**12
"""Added to event times, which start at 0. So no window starts before the epoch, which Quix does not support."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Windows of one kind and size, with five aggregates.

    Attributes:
        kind: sliding, rolling, tumbling, hopping or session. Rolling ones have three lookbacks.
        per_window: records per sliding window, or per longest rolling window.
        keys: number of keys.
    """

    kind: str
    per_window: int = 0
    keys: int = KEYS

    def __str__(self) -> str:
        return "-".join(map(str, [self.kind, *self.axes.values()]))

    @property
    def size_ms(self) -> int:
        """Length of the windows, or the gap of sessions."""
        if self.kind in ("sliding", "rolling"):
            return self.per_window * GAP_MS
        return KINDS[self.kind].gap_ticks if self.kind == "session" else KINDS[self.kind].times.size

    @property
    def step_ms(self) -> int:
        """The advance of hopping windows."""
        return KINDS[self.kind].times.advance if self.kind == "hopping" else 0

    @property
    def operator(self) -> WindowedAggregation:
        """Our operator for this workload, unless it is a rolling one."""
        return operator(self.per_window) if self.kind == "sliding" else operator_of(self.kind)

    @property
    def section(self) -> str:
        """Section of the figures in the report."""
        return f"{self.kind} windows, local"

    @property
    def axes(self) -> dict[str, int]:
        """Position of the figures in the section."""
        if self.kind == "rolling":
            return {"lookbacks": 3, "keys": self.keys}
        return {"per_window": self.per_window, "keys": self.keys} if self.per_window else {"keys": self.keys}


def later_records(least: int, keys: int) -> pa.Table:
    """Return at least `least` records with equally frequent keys, at times long after the epoch."""
    table = records(-(-least // keys) * keys, keys)
    at = pc.add(table.column("at").cast(pa.int64()), LONG_AGO_MS)
    return table.set_column(1, "at", at.cast(pa.timestamp("ms")))
