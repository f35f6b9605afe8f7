"""Which executors of this session have gone lately."""

import time

from operators.spark.base.inside import gone_executors

_RECENT_S = 600.0


def gone_lately() -> list[str]:
    """Return the ids of executors that have gone in the last ten minutes, those that went first before the others.

    Empty where Spark does not say it.
    """
    since_ms = 1_000 * (time.time() - _RECENT_S)
    return [name for removed_ms, name in sorted(gone_executors()) if removed_ms >= since_ms]
