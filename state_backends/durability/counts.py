"""What became of the snapshots of one copy, for the metrics of a batch."""

from dataclasses import dataclass


@dataclass(slots=True)
class SnapshotCounts:
    """Snapshots since the counts were last taken.

    Attributes:
        written: that were completed.
        failed: attempts that failed or were given up.
        overdue: whether the last attempt failed or takes long, and none has been completed since.
    """

    written: int = 0
    failed: int = 0
    overdue: bool = False
