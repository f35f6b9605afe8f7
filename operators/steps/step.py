"""One step of an operator: the close times between which it moves, and what it reports beside its rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Counters:
    """What a step saw and did.

    Attributes:
        rows: records that came, late and bad ones included.
        late: records of which every window was closed; they changed nothing.
        bad: records that could not be used, because of their event time or gap.
        panes: panes, frames, sessions or folded windows that began: what windows are made of.
        windows: rows that were emitted, without those that retract.
        retracted: rows that took an emitted one back.
        own: what an operator counts itself, by name.
    """

    rows: int = 0
    late: int = 0
    bad: int = 0
    panes: int = 0
    windows: int = 0
    retracted: int = 0
    own: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Counters") -> None:
        """Add what another step counted."""
        self.rows += other.rows
        self.late += other.late
        self.bad += other.bad
        self.panes += other.panes
        self.windows += other.windows
        self.retracted += other.retracted
        for name, number in other.own.items():
            self.own[name] = self.own.get(name, 0) + number


@dataclass(frozen=True, slots=True)
class LateRecords:
    """Some records of a batch that came too late, and the last window that could have held each.

    Attributes:
        row: shape (n,), int64: positions among the batch's usable records, in their order of arrival.
        start, end: shape (n,), int64: bounds of the window in ticks, as windows are emitted.
        close: the close time in ticks that had closed it.
    """

    row: Ints
    start: Ints
    end: Ints
    close: int


@dataclass(slots=True)
class Step:
    """What an operator's step is given beside its batch.

    Attributes:
        close_start: close time in ticks that says what is late and what is final already.
        close_end: close time in ticks after the batch, not before `close_start`.
        counters: are added to.
        late: where late records are reported; None if nobody wants them.
    """

    close_start: int
    close_end: int
    counters: Counters = field(default_factory=Counters)
    late: list[LateRecords] | None = None

    def begin(self, close: int) -> None:
        """Start where earlier steps came to: close times never go back."""
        self.close_start = max(self.close_start, close)
        self.close_end = max(self.close_end, self.close_start)

    def report_late(self, row: Ints, bounds: tuple[Ints, Ints]) -> None:
        """Count records as late, and tell of them if somebody wants to know.

        Args:
            row: shape (n,), int64: positions among the batch's usable records.
            bounds: start and end in ticks of the last window that could have held each, each of shape (n,).
        """
        self.counters.late += len(row)
        if self.late is not None and len(row):
            self.late.append(LateRecords(row, *bounds, self.close_start))

    def count(self, name: str, number: Any = 1) -> None:
        """Add to a count of the operator's own."""
        self.counters.own[name] = self.counters.own.get(name, 0) + int(number)
