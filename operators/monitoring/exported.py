"""The metrics that monitoring systems get: their names, units and meaning, and their values in a batch."""

from collections.abc import Callable
from dataclasses import dataclass

from operators.monitoring.batch import OperatorBatch

PREFIX = "windows"
Value = Callable[[OperatorBatch], float | None]
_SYMBOLS = {"": "", "ratio": "1", "seconds": "s", "bytes": "By"}


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of an operator.

    Attributes:
        name: without prefix and unit.
        unit: "seconds", "bytes", "ratio", or "" for a number of things.
        help: one sentence.
        value: its value in a batch. For a total it is added; None leaves the metric as it was.
        total: whether it is a sum over all batches (a counter). If not, it is the last value (a gauge).
        of_state: whether it is a size of the state, which not every batch tells.
    """

    name: str
    unit: str
    help: str
    value: Value
    total: bool = False
    of_state: bool = False

    @property
    def prometheus(self) -> str:
        """The name in Prometheus."""
        parts = [PREFIX, self.name, self.unit, "total" if self.total else ""]
        return "_".join(part for part in parts if part)

    @property
    def opentelemetry(self) -> str:
        """The name in OpenTelemetry, in which units are not a part of names."""
        return f"{PREFIX}.{self.name}_ratio" if self.unit == "ratio" else f"{PREFIX}.{self.name}"

    @property
    def symbol(self) -> str:
        """The unit in OpenTelemetry."""
        return _SYMBOLS[self.unit]


def _in(name: str) -> Value:
    return lambda batch: batch.counts_in.get(name, 0)


def _out(name: str) -> Value:
    return lambda batch: batch.counts_out.get(name, 0)


def _seconds(name: str) -> Value:
    return lambda batch: batch.counts_out.get(name, 0) / 1_000


def _seconds_in(name: str) -> Value:
    return lambda batch: batch.counts_in.get(name, 0) / 1_000


def _watermark(batch: OperatorBatch) -> float | None:
    return None if batch.watermark is None else batch.watermark.timestamp()


TOTALS = tuple(
    Metric(name, unit, help_, value, total=True)
    for name, unit, help_, value in (
        ("batches", "", "Batches in which the operator worked.", lambda _: 1),
        ("batch", "seconds", "Duration of these batches.", lambda batch: batch.seconds),
        ("bucket_batches", "", "Buckets that worked, added up over the batches.", _out("buckets")),
        ("records", "", "Records with a valid event time.", _in("rows")),
        ("bad_records", "", "Records without a valid event time or gap; they are in no window.", _in("bad")),
        ("late_records", "", "Records all of whose windows were closed.", _out("late")),
        (
            "failed_records",
            "",
            "Records and timers whose function raised, and that were skipped.",
            _out("failed"),
        ),
        ("shuffled_rows", "", "Rows that crossed the shuffle.", _in("sent")),
        ("shuffled", "bytes", "Bytes that crossed the shuffle.", _in("sent_bytes")),
        ("sort", "seconds", "Time in which tasks sorted rows from a shuffle.", _seconds_in("sort_ms")),
        ("opened_panes", "", "Panes or sessions that began.", _out("panes_opened")),
        ("emitted_rows", "", "Emitted rows, without those that retract.", _out("windows")),
        ("final_rows", "", "Emitted rows of windows that are final.", _out("windows_closed")),
        ("updated_rows", "", "Emitted rows of windows that may change again.", _out("windows_updated")),
        ("retracted_rows", "", "Rows that retract an emitted window.", _out("windows_retracted")),
        ("read_pages", "", "Pages read from the backend.", _out("pages_read")),
        ("written_pages", "", "Pages written to the backend.", _out("pages_written")),
        ("changed", "bytes", "Bytes of the pages that were written.", _out("changed_bytes")),
        ("logged", "bytes", "Bytes of these changes in the changelog, uncompressed.", _out("logged_bytes")),
        (
            "step",
            "seconds",
            "Time in which buckets processed records and closed windows.",
            _seconds("step_ms"),
        ),
        ("commit", "seconds", "Time in which buckets wrote their changes.", _seconds("commit_ms")),
        (
            "restore",
            "seconds",
            "Time in which buckets brought local copies up to date.",
            _seconds("restore_ms"),
        ),
        ("snapshots", "", "Snapshots of the state that were completed.", _out("snapshots")),
        ("snapshot_failures", "", "Snapshots that failed, or were given up.", _out("snapshot_failures")),
    )
)
"""Sums since the output was made."""

_OF_STATE = (
    *(
        Metric(name, unit, help_, _out(count), of_state=True)
        for name, unit, help_, count in (
            ("live_keys", "", "Distinct keys in the state.", "live_keys"),
            ("live_panes", "", "Panes, sessions or other entries in the state.", "live_panes"),
            ("state", "bytes", "Bytes of the state's pages.", "state_bytes"),
            (
                "max_bucket_state",
                "bytes",
                "Bytes of the pages of the bucket that has the most.",
                "max_bucket_bytes",
            ),
            (
                "snapshots_overdue",
                "",
                "Buckets whose last snapshot failed or takes over 15 minutes, and that have completed none since.",
                "snapshots_overdue",
            ),
        )
    ),
    Metric(
        "complete_since_timestamp",
        "seconds",
        "Event time from which on all results count all records, in seconds since 1970; 0 if none was added later.",
        _seconds("since_ms"),
        of_state=True,
    ),
)
_OF_BATCH = tuple(
    Metric(name, unit, help_, value)
    for name, unit, help_, value in (
        ("last_batch", "seconds", "Duration of the last batch.", lambda batch: batch.seconds),
        (
            "last_batch_timestamp",
            "seconds",
            "When the last batch was triggered, in seconds since 1970.",
            lambda batch: batch.started.timestamp(),
        ),
        ("buckets", "", "Buckets that worked in the last batch.", _out("buckets")),
        (
            "max_bucket_time",
            "seconds",
            "Time of the bucket that took the longest in the last batch.",
            _seconds("max_bucket_ms"),
        ),
        (
            "max_bucket_rows",
            "",
            "Records of the bucket that had the most in the last batch.",
            _out("max_bucket_rows"),
        ),
        ("max_key_rows", "", "Records of the key that had the most in the last batch.", _out("max_key_rows")),
        (
            "max_page",
            "bytes",
            "Bytes of the largest page that was written in the last batch.",
            _out("max_page_bytes"),
        ),
        (
            "time_skew",
            "ratio",
            "Time of the bucket that took the longest, over the mean of all.",
            lambda batch: batch.time_skew,
        ),
        (
            "row_skew",
            "ratio",
            "Records of the bucket that had the most, over the mean of all.",
            lambda batch: batch.row_skew,
        ),
        (
            "late",
            "ratio",
            "Share of late records in the last batch with records.",
            lambda batch: batch.late_share,
        ),
        ("state_per_key", "bytes", "Bytes of state for each key.", lambda batch: batch.bytes_per_key),
        ("watermark_timestamp", "seconds", "The watermark, in seconds since 1970.", _watermark),
        (
            "watermark_lag",
            "seconds",
            "From the watermark to the start of the last batch; negative if the watermark is ahead of the clock.",
            lambda batch: batch.watermark_lag,
        ),
    )
)
GAUGES = (*_OF_BATCH, *_OF_STATE)
"""Values of the last batch. They go away when the query ends."""

CUSTOM = f"{PREFIX}_custom_total"
CUSTOM_HELP = "Counts that a custom operator declares."
RUNNING = f"{PREFIX}_query_running"
RUNNING_HELP = "1 while a streaming query runs, 0 after it has ended with an error."
LABELS: tuple[str, ...] = ("query", "operator")
LAG = f"{PREFIX}_source_lag_records"
LAG_HELP = "Records of a partition of Kafka that were there when the last batch began, and that it left for later ones."
LAG_LABELS = ("query", "topic", "partition")
EXPORTED = frozenset({*(metric.prometheus for metric in (*TOTALS, *GAUGES)), CUSTOM, RUNNING, LAG})
"""All names in Prometheus."""
