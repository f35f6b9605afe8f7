"""One step of an operator: its two close times, and what it reports in addition to its rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Counters:
    """What a step counts.

    Attributes:
        rows: records read, including late and bad ones.
        late: records all of whose windows were closed; they changed nothing.
        bad: records that could not be used, because of their event time or gap.
        failed: calls of a user's functions that raised and were skipped.
        key_rows: records of the key that had the most in one batch, including late ones.
        panes: new panes, sessions or stored windows.
        windows: rows emitted, without retractions.
        retracted: rows that retract an emitted row.
        custom: counts of a custom operator, by name.
    """

    rows: int = 0
    late: int = 0
    bad: int = 0
    failed: int = 0
    key_rows: int = 0
    panes: int = 0
    windows: int = 0
    retracted: int = 0
    custom: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Counters") -> None:
        """Add what another step counted, with the larger `key_rows` of both."""
        self.rows += other.rows
        self.late += other.late
        self.bad += other.bad
        self.failed += other.failed
        self.key_rows = max(self.key_rows, other.key_rows)
        self.panes += other.panes
        self.windows += other.windows
        self.retracted += other.retracted
        for name, number in other.custom.items():
            self.custom[name] = self.custom.get(name, 0) + number


@dataclass(frozen=True, slots=True)
class LateRecords:
    """Late records of a batch, and the last window that could have contained each.

    Attributes:
        row: shape (n,), int64: positions among the batch's usable records, in their order of arrival.
        start, end: shape (n,), int64: bounds of the window in ticks, as windows are emitted.
        close_time: the close time in ticks that closed it.
    """

    row: Ints
    start: Ints
    end: Ints
    close_time: int


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call of a user's function that raised, and was skipped.

    Attributes:
        key: encoded.
        time: event time of the record in ticks; None if the call was for a timer.
        values: the record's inputs by name, as far as they are known.
        reason: which function raised what, for which event time.
    """

    key: bytes
    time: int | None
    values: Mapping[str, Any]
    reason: str


@dataclass(slots=True)
class Step:
    """The close times of a step, and where it reports.

    Attributes:
        close_time_start: close time in ticks at the start of the batch; it decides which records are late and which windows
            are final.
        close_time_end: close time in ticks after the batch; not before `close_time_start`.
        counters: are added to.
        late: receives late records; None if they are only counted.
        failed: receives calls that raised and were skipped; None if they are only counted.
    """

    close_time_start: int
    close_time_end: int
    counters: Counters = field(default_factory=Counters)
    late: list[LateRecords] | None = None
    failed: list[FailedCall] | None = None

    def begin(self, close_time: int) -> None:
        """Continue from the close time of earlier steps: close times never decrease."""
        self.close_time_start = max(self.close_time_start, close_time)
        self.close_time_end = max(self.close_time_end, self.close_time_start)

    def count_rows(self, key: Ints, bad: int, records: Ints | None = None) -> None:
        """Count the records of a batch. O(n) array work.

        Args:
            key: shape (n,), int64: key number of each usable record, or of each entry that stands for several.
            bad: records that could not be used.
            records: shape (n,), int64: how many records are in each entry; None if each is one.
        """
        by_key = np.bincount(key, records)  # The sums are floats, exact up to 2^53.
        self.counters.rows += int(by_key.sum()) + bad
        self.counters.bad += bad
        self.counters.key_rows = max(self.counters.key_rows, int(by_key.max(initial=0)))

    def report_late(self, records: LateRecords) -> None:
        """Count records as late, and report them if `late` is given."""
        self.counters.late += len(records.row)
        if self.late is not None and len(records.row):
            self.late.append(records)

    def report_failed(self, call: FailedCall) -> None:
        """Count a call that raised and was skipped, and report it if `failed` is given."""
        self.counters.failed += 1
        if self.failed is not None:
            self.failed.append(call)

    def count(self, name: str, number: Any = 1) -> None:
        """Add to a count of a custom operator."""
        self.counters.custom[name] = self.counters.custom.get(name, 0) + int(number)
