"""Errors in workers: raised with the place where they happened, and found in Spark's errors on the driver."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from operators.errors import WorkerError

_MARK = f"{WorkerError.__name__}: "
_END = re.compile(
    r"\s*\n\s*(?:at [\w.$/]+\(|Caused by: |JVM stacktrace|Driver stacktrace|SQLSTATE: |=== Streaming Query ==="
    r"|Traceback \(|During handling of |The above exception )|\s*\Z"
)
"""What Spark or Python appends to the message of an error in a worker."""
_DEAD = "Python worker exited unexpectedly"
_DEAD_MESSAGE = (
    "a Python worker of Spark died without an error message: it was killed, perhaps for lack of memory, or crashed in native "
    "code. The executor's stderr may have more; spark.python.worker.faulthandler.enabled=true shows where it crashed. "
    "The state of a stream is safe: start the query again"
)


@contextmanager
def located(where: str) -> Iterator[None]:
    """Raise errors of the block as a WorkerError that says where they happened.

    Args:
        where: operator, bucket and batch, as far as known.
    """
    try:
        yield
    except GeneratorExit:
        raise
    except WorkerError:
        raise
    except Exception as error:
        raise WorkerError(f"{where}: {type(error).__name__}: {error}") from error


def task() -> str:
    """Return the task of Spark that this is, as text."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "a task" if context is None else f"partition {context.partitionId()}"


def what_failed(failed: Any) -> str | None:
    """Return what went wrong in a worker, in a few sentences, without Spark's stack traces.

    Args:
        failed: a streaming query that has ended, or the exception that the query or an action on a frame raised.

    Returns:
        operator, bucket and batch, the error and its message; or that a worker process died; None if no operator of this
        library failed.
    """
    error = failed.exception() if hasattr(failed, "lastProgress") else failed
    text = str(error or "")
    _, mark, message = text.rpartition(_MARK)
    if mark:
        end = _END.search(message)
        return message[: end.start()] if end else message
    return _DEAD_MESSAGE if _DEAD in text else None
