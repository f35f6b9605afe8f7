"""How much does a batch of a stream of hopping, tumbling and session windows cost, compared with Spark's own on the same rows?

Hopping windows slide by a hundredth of their size, so Spark makes a hundred rows of each; their streams are shorter.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.data import KINDS
from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.pipelines.kinds import ours, own
from benchmarks.pipelines.streams import FILES, Stream, timed


@pytest.mark.parametrize("system", ["Spark's own", "memory", full("rocksdb"), full("spark")])
@pytest.mark.parametrize("kind", KINDS)
def test_kind(
    measure: Measure, spark: SparkSession, source: Path, tmp_path: Path, system: str, kind: str
) -> None:
    stream = Stream(spark, source, tmp_path, large=3 if kind == "hopping" else FILES)
    timed(
        measure,
        stream,
        lambda frame: own(frame, kind) if system == "Spark's own" else ours(frame, kind, system),
        section=f"streaming: {kind} windows",
        system=system,
    )
