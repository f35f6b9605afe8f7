"""What do a row and a key cost as the number of keys grows from a thousand to ten million?

Sliding windows of an hour, a record of each key in an hour, batches of 100,000 random keys: each row opens a pane and closes
one, whatever the number of keys. Two processes, as in `benchmarks.growth.keys`; times are those of the processor.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from benchmarks.growth.processes import Stages, stages
from benchmarks.marks import full, largest
from benchmarks.measure import Measure

ROWS = "growth: rows of steady batches"
FILLING = "growth: rows of new keys"
BYTES = "growth: bytes of a key"
RESTART = "growth: a restart on what is on disk"
BACKENDS = "memory", "rocksdb", "spark"
LARGE = [
    *(full(backend, 1_000_000) for backend in BACKENDS),
    *(largest(backend, 10_000_000) for backend in BACKENDS[:2]),
]
POINTS = [*((backend, keys) for backend in BACKENDS for keys in (1_000, 10_000, 100_000)), *LARGE]
WITH_BYTES = [*((backend, 100_000) for backend in BACKENDS), *LARGE]
"""With fewer keys, their bytes would be those of the process."""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux has the memory of a process in /proc"
)


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Stages]:
    """What runs the two processes of a backend with so many keys, once, and returns what their stages took."""

    @cache
    def run(backend: str, keys: int) -> Stages:
        folder = tmp_path_factory.mktemp(f"keys-{backend}")
        return {
            **stages("benchmarks.growth.keys", "work", backend, keys, folder),
            **stages("benchmarks.growth.keys", "restart", backend, keys, folder),
        }

    return run


@pytest.mark.parametrize(("backend", "keys"), POINTS)
@pytest.mark.parametrize(("stage", "section"), [("steady", ROWS), ("growing", FILLING), ("restart", RESTART)])
def test_stage(
    measure: Measure, worked: Callable[[str, int], Stages], stage: str, section: str, backend: str, keys: int
) -> None:
    found = measure.benchmark.pedantic(worked, (backend, keys))[stage]
    measure.taken([found["processor"]], section=section, system=backend, rows=found["rows"], keys=keys)
    measure.note(resident_mb=found["resident_mb"], clock_seconds=round(found["seconds"], 3))
    assert found["windows"] > 0.9 * found["rows"]


@pytest.mark.parametrize(("backend", "keys"), WITH_BYTES)
def test_bytes(measure: Measure, worked: Callable[[str, int], Stages], backend: str, keys: int) -> None:
    """Pages as such; the memory that the process has taken beyond its start; and all files: copy, changelog, snapshots."""
    found = measure.benchmark.pedantic(worked, (backend, keys))["steady"]
    live = found["live_keys"]
    taken = (found["now_mb"] - found["begin_mb"]) * 10**6
    measure.taken([found["processor"]], section=BYTES, system=backend, rows=found["rows"], keys=keys)
    measure.note(
        page_bytes=round(found["state_bytes"] / live, 1),
        disk_bytes=round(found["disk_bytes"] / live, 1),
        memory_bytes=round(taken / live, 1),
    )
    assert 0.5 * keys < live < 1.05 * keys  # It is an estimate.
