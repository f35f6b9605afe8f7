"""Operators and records of busy keys: one record of each key in ten seconds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg

STEP_MS = 10_000
"""From one record of a key to its next."""
GRACE = "10 seconds"
RESULTS = {"n": agg.count(), "total": agg.sum("x")}
KINDS: dict[str, Callable[[], Any]] = {
    "sliding": lambda: SlidingWindows("1 hour", GRACE).group_by("k").aggregate(**RESULTS),
    "rolling": lambda: _rolling().aggregate(**RESULTS),
    "rolling on arrival": lambda: _rolling().aggregate(**RESULTS).emit("on_arrival"),
    "estimate": lambda: (
        SlidingWindows("1 hour", GRACE).group_by("k").aggregate(different=agg.approx_count_distinct("x"))
    ),
    "hopping": lambda: HoppingWindows("1 hour", "1 minute", GRACE).group_by("k").aggregate(**RESULTS),
    "tumbling": lambda: TumblingWindows("1 hour", GRACE).group_by("k").aggregate(**RESULTS),
    "session": lambda: SessionWindows("1 minute", grace=GRACE).group_by("k").aggregate(**RESULTS),
    "session up to an hour": lambda: (
        SessionWindows("1 minute", grace=GRACE, max_length="1 hour").group_by("k").aggregate(**RESULTS)
    ),
}


def _rolling() -> Any:
    return RollingWindows({"m": "1 minute", "h": "1 hour"}, GRACE).group_by("k")


def table(keys: Any, at: Any) -> pa.Table:
    """Return records of these keys at these times, in ms."""
    return pa.table({"k": keys, "at": pa.array(at, pa.timestamp("ms")), "x": np.arange(len(keys)) % 100})
