"""How fast is the steady state of millions of keys on Spark, beside Spark's own windows and Flink's?

Tumbling windows by the hour and sessions with a gap of an hour, two cores, batches of 100,000 random keys, a record of each key
in an hour. Ours on rocksdb and Spark's own on its RocksDB state store run in the same kind of session, one after the other, on
the same records. Flink has its RocksDB backend, makes its records itself, and is clocked over all steady rows: with tumbling
windows and few keys these include windows that close.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from benchmarks.data import BATCH
from benchmarks.growth.processes import Stages, stages
from benchmarks.growth.spark_keys import KINDS
from benchmarks.marks import full, largest
from benchmarks.measure import Measure
from benchmarks.peers.environments import environment
from benchmarks.peers.processes import SCRIPTS, answered

SECTION = "many keys on Spark: {}"
SYSTEMS = {"rocksdb": "rocksdb", "Spark's own": "own"}
KEYS = [100_000, full(1_000_000), largest(10_000_000)]
FLINK_ROWS = 1_000_000
"""Steady rows, after which its job ends."""


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, int], Stages]:
    """What runs the process of a system, once, and returns what its stages took."""

    @cache
    def run(system: str, kind: str, keys: int) -> Stages:
        folder = tmp_path_factory.mktemp("beside")
        return stages("benchmarks.growth.spark_keys", system, kind, keys, folder)

    return run


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_steady(
    measure: Measure, worked: Callable[[str, str, int], Stages], system: str, kind: str, keys: int
) -> None:
    found = measure.benchmark.pedantic(worked, (SYSTEMS[system], kind, keys))
    one = found["steady"]
    measure.taken([one["seconds"]], section=SECTION.format(kind), system=system, rows=one["rows"], keys=keys)
    measure.note(
        filling_rows_a_second=round(found["growing"]["rows"] / found["growing"]["seconds"]),
        slowest_first_seconds=found["closing"]["seconds"],
    )


@pytest.mark.parametrize("keys", [full(100_000), largest(1_000_000), largest(10_000_000)])
@pytest.mark.parametrize("kind", KINDS)
def test_flink(measure: Measure, tmp_path: Path, kind: str, keys: int) -> None:
    python, problem = environment("flink")
    if python is None:
        pytest.skip(problem)
    command = [python, SCRIPTS / "in_flink.py", kind, keys, FLINK_ROWS, tmp_path]
    answer = measure.benchmark.pedantic(answered, ("flink", list(map(str, command))))
    measure.taken(
        [BATCH / answer["steady"]], section=SECTION.format(kind), system="Flink", rows=BATCH, keys=keys
    )
    measure.note(filling_rows_a_second=round(answer["growing"]))
    measure.benchmark.extra_info["version"] = answer["version"]
