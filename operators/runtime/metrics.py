"""Metrics of a batch of one bucket: counts, sizes and times, by name."""

from collections.abc import Mapping, Sequence

from operators.errors import DefinitionError
from operators.runtime.binding import Binding
from operators.steps.step import Counters

LARGEST = {
    "max_bucket_rows": "input records of the bucket that had the most",
    "max_bucket_ms": "milliseconds of the bucket that took the longest, for its step, commit and restore",
    "max_bucket_bytes": "bytes of the pages of the bucket that had the most",
    "max_key_rows": "input records of the key that had the most",
    "max_page_bytes": "bytes of the largest page that was written",
    "since_ms": "event time in milliseconds from which on all aggregates count all records; 0 if none was added later",
}
"""Metrics of which a stream takes the largest of the buckets that worked in the batch."""
METRICS = {
    "rows": "input records, late ones included",
    "late": "records all of whose windows were closed",
    "failed": "records and timers whose function raised, and that were skipped (`on_error`)",
    "panes_opened": "panes or sessions that began",
    "windows": "rows emitted, without those that retract",
    "windows_closed": "of these, windows that are final",
    "windows_updated": "of these, windows that may change again",
    "windows_retracted": "rows that retract an emitted window",
    "live_keys": "distinct keys in the state",
    "live_panes": "panes, sessions or other entries in the state",
    "state_bytes": "bytes of the state's pages",
    "pages_read": "pages read from the backend",
    "pages_written": "pages written to it",
    "changed_bytes": "bytes of the pages that were written",
    "logged_bytes": "bytes of these changes in the changelog, before compression",
    "step_ms": "milliseconds in which the operator worked",
    "commit_ms": "milliseconds in which the changes were written",
    "restore_ms": "milliseconds in which the state was brought up to date before the step",
    "snapshots": "snapshots of the state that were completed",
    "snapshot_failures": "snapshots that failed, or were given up",
    "snapshots_overdue": "buckets whose last snapshot failed or takes over 15 minutes, and that have completed none since",
    "buckets": "buckets that worked",
    **LARGEST,
}
"""The metrics of each batch, all bigint. A stream sums them over the buckets that worked in the batch, but for `LARGEST`."""
_LAST = {
    "live_keys",
    "live_panes",
    "state_bytes",
    "snapshots_overdue",
    "buckets",
    "max_bucket_bytes",
    "since_ms",
}
"""Metrics of a moment, not of what was done."""
_MOST = {"max_page_bytes"}
"""Metrics of the largest thing in any part of a batch."""


def names(counts: Sequence[str]) -> list[str]:
    """Return the names of all metrics: those of `LARGEST` first, the counts of a custom operator last.

    Raises:
        DefinitionError: a custom operator's count has the name of a built-in metric.
    """
    taken = [name for name in counts if name in METRICS]
    if taken:
        raise DefinitionError(f"the counts {', '.join(taken)} have names of built-in metrics: rename them")
    return [*LARGEST, *(name for name in METRICS if name not in LARGEST), *counts]


def counted(binding: Binding, counters: Counters) -> dict[str, int]:
    """Return the metrics that follow from a step's counters."""
    may_change = binding.output.may_change
    return {
        "rows": counters.rows,
        "late": counters.late,
        "failed": counters.failed,
        "panes_opened": counters.panes,
        "windows": counters.windows,
        "windows_closed": counters.windows if may_change is False else 0,
        "windows_updated": counters.windows if may_change else 0,
        "windows_retracted": counters.retracted,
        "buckets": 1,
        "max_bucket_rows": counters.rows,
        "max_key_rows": counters.key_rows,
        **counters.custom,
    }


def add_metrics(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return the metrics of a batch that was processed in parts: what the state holds is that after the last one.

    `max_key_rows` is the sum of the parts' largest, which may be of different keys.
    """
    return {name: _with(name, before.get(name, 0), value) for name, value in now.items()}


def _with(name: str, before: int, now: int) -> int:
    """One metric of the parts until now, and of one more."""
    if name in _MOST:
        return max(before, now)
    return now if name in _LAST else before + now


def line(metrics: Mapping[str, int]) -> str:
    """Return the metrics that are not zero as text of name=value."""
    return " ".join(f"{name}={value}" for name, value in metrics.items() if value)
