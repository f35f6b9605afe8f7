"""What an operator did in one batch of a streaming query, as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from operators.runtime.metrics import METRICS


@dataclass(frozen=True, slots=True)
class QueryRun:
    """One run of a streaming query, from its start to its end.

    Attributes:
        name: that `queryName` gave it, or None.
        query_id: the same in all runs on one checkpoint.
        run_id: the id of this run only.
    """

    name: str | None
    query_id: str
    run_id: str

    @property
    def label(self) -> str:
        """The query's name, or its id if it has none."""
        return self.name or self.query_id


@dataclass(frozen=True, slots=True)
class OperatorBatch:
    """What one operator did in one batch.

    Attributes:
        query: the run of the query.
        operator: `name` of `apply`.
        number: the number of the batch. A batch that Spark repeats after a failure has its number again.
        started: when the batch was triggered, in UTC.
        seconds: how long the whole batch took.
        counts_in: the observed counts of `<name>_in`.
        counts_out: the observed counts of `<name>_out`.
        watermark: the watermark of the query in this batch, in UTC, or None if there is none yet.
        lag: records of each topic of Kafka and partition that were there when the batch began, and that it left for later ones.
    """

    query: QueryRun
    operator: str
    number: int
    started: datetime
    seconds: float
    counts_in: Mapping[str, int]
    counts_out: Mapping[str, int]
    watermark: datetime | None = None
    lag: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def whole_state(self) -> bool:
        """Whether the batch tells how much state there is: `live_keys`, `live_panes`, `state_bytes` and `max_bucket_bytes`.

        One with records does, in all buckets. One that Spark adds only because the watermark moved may have nothing to do.
        """
        return self.counts_out.get("buckets", 0) > 0 or self.counts_out.get("live_keys", 0) > 0

    @property
    def late_share(self) -> float | None:
        """Late records as a share of all that arrived at the buckets, or None if none did."""
        rows = self.counts_out.get("rows", 0)
        return self.counts_out.get("late", 0) / rows if rows else None

    @property
    def bytes_per_key(self) -> float | None:
        """Bytes of state for each key, in the buckets that worked, or None if they have no keys."""
        keys = self.counts_out.get("live_keys", 0)
        return self.counts_out.get("state_bytes", 0) / keys if keys else None

    @property
    def row_skew(self) -> float | None:
        """Records of the bucket that had the most, over the mean of the buckets that worked, or None if none had any."""
        return self._over_mean("max_bucket_rows", "rows")

    @property
    def time_skew(self) -> float | None:
        """Time of the bucket that took the longest, over the mean of the buckets that worked, or None if none took any."""
        return self._over_mean("max_bucket_ms", "step_ms", "commit_ms", "restore_ms")

    def _over_mean(self, largest: str, *summed: str) -> float | None:
        total = sum(self.counts_out.get(name, 0) for name in summed)
        if not total:
            return None
        return self.counts_out.get(largest, 0) * self.counts_out.get("buckets", 0) / total

    @property
    def watermark_lag(self) -> float | None:
        """Seconds from the watermark to the start of the batch, or None if there is no watermark yet."""
        return None if self.watermark is None else (self.started - self.watermark).total_seconds()

    @property
    def custom(self) -> dict[str, int]:
        """The counts that a custom operator declares."""
        return {name: value for name, value in self.counts_out.items() if name not in METRICS}
