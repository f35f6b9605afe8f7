"""What the driver knows of the session's executors."""

import re
import time

from pyspark.sql import SparkSession

from operators.spark.base.inside import gone_executors

_RECENT_S = 600.0
_LOCAL = re.compile(r"local(?:-cluster\[ *[0-9]+ *, *([0-9]+) *,.*|\[ *([0-9]+|[*]) *(?:,.*)?\])?")
_ONE_CORE = ("yarn", "k8s://")
"""Masters whose executors have one core unless the conf says more."""


def tasks_at_once(spark: SparkSession) -> int | None:
    """Return how many tasks an executor runs at once, by the session's conf; None if it has all cores of its machine."""
    master, cores = spark.conf.get("spark.master", ""), spark.conf.get("spark.executor.cores", None)
    assert master is not None  # noqa: S101 - the default is a text
    local = _LOCAL.fullmatch(master)
    if local is not None:
        cores = local[1] or local[2] or "1"
    elif cores is None and master.startswith(_ONE_CORE):
        cores = "1"
    if cores in (None, "*"):
        return None
    return max(int(cores) // int(spark.conf.get("spark.task.cpus", "1") or 1), 1)


def gone_lately() -> list[str]:
    """Return the ids of executors that have gone in the last ten minutes, those that went first before the others.

    Empty where Spark does not say it.
    """
    since_ms = 1_000 * (time.time() - _RECENT_S)
    return [name for removed_ms, name in sorted(gone_executors()) if removed_ms >= since_ms]
