"""What does a small batch cost, and each of its buckets, compared with Spark's own windows and their shuffle partitions?

All keep their state on the same state store provider. A bucket is a shuffle partition with a state store, as each partition of
Spark's own windows is. Spark's own windows work in Java. The least that one of PySpark's stateful processors costs, whatever it
does, is measured with them.
"""

import pytest
from pyspark.sql import SparkSession

from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.pipelines.floor import counted
from benchmarks.pipelines.kinds import ours, own
from benchmarks.pipelines.pairs import SMALL, Pairs

SYSTEMS = "Spark's own", "a processor that counts", "memory"
POINTS = [
    ("tumbling", 2), full("tumbling", 8), full("tumbling", 16), full("tumbling", 64),
    full("session", 2), full("session", 8), full("session", 16), full("session", 64),
]  # fmt: skip


@pytest.fixture(scope="module")
def pairs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return Pairs(spark, tmp_path_factory.mktemp("pairs"))


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(("kind", "buckets"), POINTS)
def test_small_batch(measure: Measure, pairs: Pairs, kind: str, buckets: int, system: str) -> None:
    """The streams of all systems run in turn, once, for the figures of all."""
    made = {
        "Spark's own": lambda frame: own(frame, kind),
        "a processor that counts": lambda frame: counted(frame, buckets),
        "memory": lambda frame: ours(frame, kind, "memory"),
    }
    times = measure.benchmark.pedantic(lambda: pairs.of(kind, buckets, made), rounds=1)
    measure.taken(
        times[system], section=f"small batches: {kind} windows", system=system, rows=SMALL, buckets=buckets
    )
