"""What a batch of one bucket tells beside its rows: counts, sizes and times, by name."""

from collections.abc import Mapping, Sequence

from operators.errors import DefinitionError
from operators.runtime.program import Program
from operators.steps.emission import OutputSchema
from operators.steps.step import Counters

METRICS = {
    "rows": "records that came, late ones included",
    "late": "records of which every window was closed",
    "panes_opened": "panes, frames or sessions that began",
    "windows": "rows emitted, but for those that retract",
    "windows_closed": "of these, windows that are final",
    "windows_updated": "of these, windows that may change again",
    "windows_retracted": "rows that took an emitted window back",
    "live_keys": "distinct keys in the state",
    "live_panes": "entries in the state",
    "state_bytes": "bytes of the state's pages",
    "pages_read": "pages read from the backend",
    "pages_written": "pages written to it",
    "changed_bytes": "bytes of the pages that were written",
    "step_ms": "milliseconds in which the operator worked",
    "commit_ms": "milliseconds in which the changes were written",
    "restore_ms": "milliseconds in which the state was brought up to date before",
    "buckets": "buckets that worked",
}
"""What is told of each batch, all bigint. A stream sums them over the buckets that worked in the batch."""


def names(counts: Sequence[str]) -> list[str]:
    """Return the names of all metrics, those that an operator counts itself behind the others.

    Raises:
        DefinitionError: one of the operator's own is a name of ours.
    """
    taken = [name for name in counts if name in METRICS]
    if taken:
        raise DefinitionError(
            f"the operator counts {', '.join(taken)}, as every operator does already; give the count another name"
        )
    return [*METRICS, *counts]


def counted(program: Program, counters: Counters) -> dict[str, int]:
    """Return the metrics that a step's counters tell."""
    final = isinstance(program.output, OutputSchema) and not program.output.with_change
    updated = isinstance(program.output, OutputSchema) and program.output.with_change
    return {
        "rows": counters.rows,
        "late": counters.late,
        "panes_opened": counters.panes,
        "windows": counters.windows,
        "windows_closed": counters.windows if final else 0,
        "windows_updated": counters.windows if updated else 0,
        "windows_retracted": counters.retracted,
        "buckets": 1,
        **counters.own,
    }


def line(metrics: Mapping[str, int]) -> str:
    """Return metrics as text of name=value, those that are not zero."""
    return " ".join(f"{name}={value}" for name, value in metrics.items() if value)
