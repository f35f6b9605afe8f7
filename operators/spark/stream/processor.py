"""The processor that Spark calls with each bucket's rows.

Before a query's first batch, Spark starts a Python on the driver that only calls `init`, and waits for it. So little is loaded
with this module: neither Arrow nor pandas, and nothing that works on a bucket.
"""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from operators.spark.stream.spark_journal import SparkJournal

if TYPE_CHECKING:
    from operators.spark.stream.bucket_task import BucketTask
    from operators.spark.stream.job import Job


class BucketProcessor(StatefulProcessor):
    """Runs a job over one bucket per call: one commit, and one event-time timer as long as there is state.

    Args:
        job: what is run.
        name: the name of the operator, in errors and in the log.
    """

    def __init__(self, job: "Job", name: str) -> None:
        self._job = job
        self._name = name
        self._pickled = b""

    def __getstate__(self) -> dict[str, Any]:
        """What the driver sends, as it is at that moment: functions may have changed since `apply`.

        The job is pickled apart: only tasks load it, and processes that work for them get exactly that.
        """
        return {"_pickled": cloudpickle.dumps(self._job), "_name": self._name}  # type: ignore[no-untyped-call]

    @property
    def digest(self) -> str:
        """Differs for jobs of which anything differs."""
        return hashlib.sha256(self._pickled).hexdigest()[:16]

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep Spark's handle and open the journal."""
        self._handle = handle
        self._journal = SparkJournal(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Process a bucket's packed rows."""
        return self._task.take(key, rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Close windows because the watermark moved."""
        return self._task.wake(key, timerValues, expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        """Keep the copies open for the next batch."""

    @cached_property
    def _task(self) -> "BucketTask":
        from operators.spark.stream.bucket_task import BucketTask

        return BucketTask(self._pickled, self.digest, self._name, self._handle, self._journal)
