"""The run and the batch of the query to which a task in a worker belongs."""

from pyspark import TaskContext

_BATCH_KEY = "streaming.sql.batchId"
_RUN_KEY = "spark.jobGroup.id"
"""Spark puts all jobs of a run of a streaming query into one group, whose id is that of the run."""
_MOST_RUNS = 1_000
_first_batches: dict[str, int] = {}


def batch_number() -> int | None:
    """Return the number of the micro-batch, or None if the task belongs to none."""
    text = _property(_BATCH_KEY)
    return int(text) if text is not None else None


def run_id() -> str:
    """Return the id of the query's run, "" if the task belongs to none. Users can give several runs the same one."""
    return _property(_RUN_KEY) or ""


def is_first_batch() -> bool:
    """Return whether this is the first batch of its run of which this process runs a task."""
    run, batch = _property(_RUN_KEY), batch_number()
    if run is None or batch is None:
        return False
    if len(_first_batches) > _MOST_RUNS:
        _first_batches.clear()
    return _first_batches.setdefault(run, batch) == batch


def _property(key: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(key)
