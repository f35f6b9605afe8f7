"""Errors in workers: told with where they happened, and found again in what Spark makes of them on the driver."""

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
"""What Spark or Python says behind the message of an error in a worker."""
_DEAD = "Python worker exited unexpectedly"
_DEAD_TOLD = (
    "a Python worker of Spark died without a word: it was killed, perhaps for want of memory, or it crashed in native code. "
    "The executor's stderr may say more, with spark.python.worker.faulthandler.enabled=true where it crashed. "
    "A stream's state is safe: start it again"
)


@contextmanager
def located(where: str) -> Iterator[None]:
    """Have errors in the block say where they happened.

    Args:
        where: operator, bucket and batch, or what there is of these.
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
    """Return in words which task of Spark this is."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "a task" if context is None else f"partition {context.partitionId()}"


def what_failed(failed: Any) -> str | None:
    """Return what went wrong in a worker, in a sentence or a few, without Spark's own traces.

    Args:
        failed: a streaming query that has ended, or the exception that it, or an action on a frame, raised.

    Returns:
        operator, bucket and batch, the error and its message; or that a worker process died, which can tell no more; None if
        no operator of this library failed.
    """
    error = failed.exception() if hasattr(failed, "lastProgress") else failed
    text = str(error or "")
    _, mark, told = text.rpartition(_MARK)
    if mark:
        end = _END.search(told)
        return told[: end.start()] if end else told
    return _DEAD_TOLD if _DEAD in text else None
