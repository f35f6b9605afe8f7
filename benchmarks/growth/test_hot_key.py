"""What does it cost that half of all records are of one key?

The same million records, at the same times, on one worker: of 10,000 keys that are equally frequent, or half of them of one of
these keys. A key has a record in 100 seconds, and the hot one 5,000; windows are 1,000 seconds long.
"""

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data import RECORDS, five_aggregates
from benchmarks.growth.feeding import processor_of
from benchmarks.marks import full
from benchmarks.measure import Measure
from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows, WindowedAggregation

SECTION = "one hot key"
KEYS, EVERY_MS = 10_000, 10
"""Keys, and the time between two records."""
KINDS = {
    "tumbling": TumblingWindows("1000 seconds"),
    "hopping": HoppingWindows("1000 seconds", "100 seconds"),
    "session": SessionWindows("100 seconds"),
    "sliding": SlidingWindows("1000 seconds"),
}


def records(hot: float) -> pa.Table:
    """Return the records, a random share of them of key 0; no two have one time."""
    rng = np.random.default_rng(0)
    key = np.where(rng.random(RECORDS) < hot, 0, rng.integers(0, KEYS, RECORDS))
    at = pa.array(np.arange(RECORDS) * EVERY_MS, pa.timestamp("ms"))
    return pa.table({"k": key, "at": at, "v": rng.random(RECORDS)})


def operator(kind: str) -> WindowedAggregation:
    """Return windows of a kind."""
    return KINDS[kind].group_by("k").aggregate(**five_aggregates())


@pytest.mark.parametrize("keys", ["spread", "half of one"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["memory", full("rocksdb")])
def test_hot_key(measure: Measure, backend: str, kind: str, keys: str) -> None:
    given = records(0.0 if keys == "spread" else 0.5)
    processor_of(measure, operator(kind), given, backend, section=SECTION, kind=kind, records=keys)
