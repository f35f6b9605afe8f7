"""A line of text for each batch."""

from collections.abc import Callable

from operators.monitoring.batch import OperatorBatch
from operators.monitoring.output import BatchOutput

_MIB = 1 << 20
_TIMES = "step", "commit", "restore"
_SLOW_MS = 100
_SKEWED = 2


def batch_line(batch: OperatorBatch) -> str:
    """Return what an operator did in a batch as a line of text."""
    rows, bad, did = batch.counts_in.get("rows", 0), batch.counts_in.get("bad", 0), batch.counts_out
    held = f"{did['live_keys']:,} keys and {did['live_panes']:,} panes in {did['state_bytes'] / _MIB:.1f} MiB"
    slow = [f"{what} {did[f'{what}_ms'] / 1_000:.1f} s" for what in _TIMES if did[f"{what}_ms"] >= _SLOW_MS]
    if did["max_bucket_ms"] >= _SLOW_MS and (batch.time_skew or 0) >= _SKEWED:
        slow.append(f"slowest bucket {did['max_bucket_ms'] / 1_000:.1f} s")
    skipped, failed = did.get("failed", 0), did.get("snapshot_failures", 0)
    parts = [
        f"batch {batch.number}, {batch.operator}: {rows:,} rows in {batch.seconds:.1f} s",
        f"{did['windows']:,} rows out",
        f"{did['late']:,} late" if did["late"] else "",
        f"{bad:,} bad" if bad else "",
        f"{skipped:,} failed" if skipped else "",
        held if batch.whole_state else "",
        ", ".join(slow),
        f"{failed:,} snapshots failed" if failed else "",
    ]
    return "; ".join(part for part in parts if part)


class TextOutput(BatchOutput):
    """Writes a line of text for each operator and batch.

    Args:
        write: receives the line, without an end of line.
    """

    def __init__(self, write: Callable[[str], object] = print) -> None:
        self._write = write

    def report(self, batch: OperatorBatch) -> None:
        """Write the line of the batch."""
        self._write(batch_line(batch))
