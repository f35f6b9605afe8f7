"""Does a batch of busy keys cost more as time goes on?

Each batch brings one record of each key, ten seconds of event time later than the one before, for two hours: windows of an hour
fill, and segments end and begin. Looked at are 32 batches each, in which a page of a key fills and a new one begins, when so
many percent of the two hours have passed.
"""

from collections.abc import Callable, Mapping
from functools import cache
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pytest

from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.operators.busy import KINDS, STEP_MS, table

KEYS, BATCHES, LOOK = 100, 760, 32
PERCENT = 10, 25, 50, 60, 75, 97
"""With 50 the windows of an hour have just become full."""
Found = Mapping[int, Mapping[str, float]]


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Found]:
    """What feeds a kind on a backend for two hours, once, and returns what was found at each look."""

    @cache
    def run(kind: str, backend: str) -> Found:
        taken: dict[str, list[float]] = {"seconds": [], "logged_bytes": [], "changed_bytes": []}
        folder = tmp_path_factory.mktemp("flat")
        with KINDS[kind]().local_runner("at", backend=backend, directory=folder) as runner:
            for number in range(BATCHES):
                batch = table(np.arange(KEYS), np.full(KEYS, number * STEP_MS))
                begin = process_time()
                runner.process(batch)
                taken["seconds"].append(process_time() - begin)
                for name in ("logged_bytes", "changed_bytes"):
                    taken[name].append(runner.metrics[name] / KEYS)
        ends = {percent: BATCHES * percent // 100 for percent in PERCENT}
        return {
            percent: {name: median(values[end - LOOK : end]) for name, values in taken.items()}
            for percent, end in ends.items()
        }

    return run


@pytest.mark.parametrize("percent", PERCENT)
@pytest.mark.parametrize("backend", ["memory", full("rocksdb"), full("spark")])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_two_hours(
    measure: Measure, looks: Callable[[str, str], Found], kind: str, backend: str, percent: int
) -> None:
    found: Any = measure.benchmark.pedantic(looks, (kind, backend))[percent]
    axes = {"kind": kind, "percent": percent}
    measure.taken(
        [found["seconds"]], section="operators: two hours of busy keys", system=backend, rows=KEYS, **axes
    )
    measure.note(logged=round(found["logged_bytes"]), changed=round(found["changed_bytes"]))
