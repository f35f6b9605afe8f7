"""The run and the batch of the query to which a task in a worker belongs."""

from pyspark import TaskContext

_BATCH_KEY = "streaming.sql.batchId"
_RUN_KEY = "spark.jobGroup.id"
"""Spark puts all jobs of a run of a streaming query into one group, whose id is that of the run."""


def batch_number() -> int | None:
    """Return the number of the micro-batch, or None if the task belongs to none."""
    text = _property(_BATCH_KEY)
    return int(text) if text is not None else None


def run_id() -> str:
    """Return the id of the query's run, "" if the task belongs to none. Users can give several runs the same one."""
    return _property(_RUN_KEY) or ""


def partition() -> int:
    """Return the number of the task's partition, the same in each attempt of it; 0 without a task."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _property(key: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(key)
