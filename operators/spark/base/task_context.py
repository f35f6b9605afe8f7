"""The run and the batch of the query to which a task in a worker belongs."""

from pyspark import TaskContext

from operators.spark.base.inside import BATCH_ID, QUERY_ID, RUN_ID, task_property


def batch_number() -> int | None:
    """Return the number of the micro-batch, or None if the task belongs to none."""
    text = task_property(BATCH_ID)
    return int(text) if text is not None else None


def run_id() -> str:
    """Return the id of the query's run, "" if the task belongs to none. Users can give several runs the same one."""
    return task_property(RUN_ID) or ""


def query_of_task() -> str:
    """Return the id of the query, which its checkpoint keeps; "" if the task belongs to none."""
    return task_property(QUERY_ID) or ""


def partition() -> int:
    """Return the number of the task's partition, the same in each attempt of it; 0 without a task."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
