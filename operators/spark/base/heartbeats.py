"""A source without rows that starts a batch from time to time, so that a quiet stream can close windows by the clock."""

import re
import time
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark 4.0 and 4.1, where such a query reads what is there in one batch

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Says nothing."""


NAME = "stateful_windows_heartbeats"
_OFFSET = re.compile(r'\{"beat": ?\d+\}')
_PERIOD = "period_ms"
_SHARE_OF_IDLE = 10
_LEAST_MS, _MOST_MS = 500, 60_000


class Heartbeats(DataSource):
    """Has a new offset after each period, and no rows. A batch is repeated with the offsets that it had."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "beat bigint"

    def streamReader(self, schema: object) -> "HeartbeatReader":  # noqa: N802 - Spark's name
        """Return the reader."""
        return HeartbeatReader(int(self.options[_PERIOD]))


class HeartbeatReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Counts periods since the epoch.

    Args:
        period_ms: length of a period in milliseconds.
    """

    def __init__(self, period_ms: int) -> None:
        self._period_ms = period_ms
        self._latest = 0
        self._ends = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the present period: a new query has its first heartbeat after it."""
        return self.latestOffset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stay at the present period: the query ends when it has read what is there now."""
        self.latestOffset()
        self._ends = True

    def latestOffset(self, *given: object) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the present period, or the latest one if the clock was put back.

        Args:
            given: where to read from and how much, which Spark 4.2 and newer say. There is no limit.
        """
        del given
        if not self._ends:
            self._latest = max(self._latest, int(time.time() * 1_000) // self._period_ms)
        return {"beat": self._latest}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return one partition: its task tells each bucket that there was a batch."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        """Return no rows."""
        return iter(())


def is_heartbeat(offset: str) -> bool:
    """Return whether an offset, as a checkpoint has it, is one of `Heartbeats`."""
    return _OFFSET.fullmatch(offset) is not None


def with_heartbeats(df: DataFrame, idle_ms: int) -> DataFrame:
    """Return a stream with a batch from time to time, also while it has no rows.

    Args:
        df: the stream.
        idle_ms: the time that the stream has to be quiet, in milliseconds. Batches come ten times as often, but at most twice a
            second, and at least once a minute.
    """
    period = min(max(idle_ms // _SHARE_OF_IDLE, _LEAST_MS), _MOST_MS)
    df.sparkSession.dataSource.register(Heartbeats)
    beats = df.sparkSession.readStream.format(NAME).option(_PERIOD, str(period)).load()
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in df.schema]
    return df.union(beats.select(*nothing))
