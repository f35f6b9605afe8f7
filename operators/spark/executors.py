"""Which executors of this session have gone lately."""

import time
from typing import Any

import pyspark

_RECENT_S = 600.0


def gone_lately() -> list[str]:
    """Return the ids of executors that have gone in the last ten minutes, those that went first before the others.

    Empty with Spark Connect, whose client does not know them, without a session, and where Spark's process has gone.
    """
    context = getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)
    if context is None:
        return []
    from py4j.protocol import Py4JError

    try:
        gone = _gone(context)
    except (Py4JError, OSError):
        return []
    since_ms = 1_000 * (time.time() - _RECENT_S)
    return [name for removed_ms, name in sorted(gone) if removed_ms >= since_ms]


def _gone(context: Any) -> list[tuple[int, str]]:
    """When each executor went, in milliseconds since the epoch, and its id."""
    listed = context._jsc.sc().statusStore().executorList(False)  # noqa: SLF001 - only the REST API has it in public
    executors = [listed.apply(number) for number in range(listed.size())]
    return [
        (executor.removeTime().get().getTime(), str(executor.id()))
        for executor in executors
        if executor.removeTime().isDefined()
    ]
