"""What a query's last batches say of snapshots that are not completed."""

from typing import Any

from operators.spark.base.listener import operator_batches

_OVERDUE = (
    "operator {operator!r}: of {buckets} buckets, the last snapshot failed or takes over 15 minutes, so that the changelog in "
    "the checkpoint grows, and with it the time of a restore. No rows are lost. The executors' stderr says why snapshots fail; "
    "see whether all workers can write to state.snapshots.folder, and how fast"
)


def overdue_snapshots(query: Any) -> str | None:
    """Return which operators of a query have buckets without a snapshot that is complete in time; None if none has.

    Args:
        query: a streaming query, running or ended.
    """
    batches = (one for progress in query.recentProgress for one in operator_batches(progress))
    last = {one.operator: one for one in batches if one.whole_state}
    late = {name: one.counts_out.get("snapshots_overdue", 0) for name, one in last.items()}
    told = [_OVERDUE.format(operator=name, buckets=count) for name, count in late.items() if count]
    return ". ".join(told) or None
