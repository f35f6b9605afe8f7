"""State at rest: looked at, summed up, moved to other backends and numbers of buckets, and taken over by changed operators."""

import hashlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from operators import SlidingWindows
from operators import aggregates as agg
from state_backends import StateError, read_state, summarize_state, write_savepoint
from tests.effort import soak
from tests.operators.spark.frames import closed_rows, operator, rows, run_query, stream, write_source

pytestmark = pytest.mark.spark
FILES = 6


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=FILES, rows=400, seed=11)
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Each file with a digest of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", soak("rocksdb"), soak("spark")])
def test_state_is_read_as_it_was_after_each_batch(
    spark: SparkSession, source: Path, tmp_path: Path, backend: str
) -> None:
    """The panes of a stopped query are those of the records so far, at any batch; its checkpoint stays as it was."""
    checkpoint = tmp_path / "a checkpoint, 100 % é"
    op = SlidingWindows("2 seconds", grace="10 days").group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))
    options = {"state.snapshots.folder": str(tmp_path / "snap shots"), "state.snapshots.bytes": "8k"}
    options |= {"state.snapshots.background": "false"}
    frame = op.apply(stream(spark, source), event_time="at", backend=backend, options=options)
    run_query(frame, tmp_path / "out", checkpoint)
    before = contents(checkpoint)
    for batch, files in ((None, FILES), (2, 3)):
        read = spark.read.parquet(*[str(path) for path in sorted(source.iterdir())[:files]])
        panes = read.groupBy("k", F.col("at").alias("time")).agg(F.count("*"), F.sum("v"))
        state = read_state(checkpoint, batch=batch)
        found = state.select("k", "time", "n.count", "s.sum")
        assert sorted(map(tuple, panes.collect()), key=repr) == sorted(map(tuple, found.collect()), key=repr)
        sums = summarize_state(checkpoint, batch=batch)
        total = sums.agg(F.sum("panes"), F.min("oldest"), F.max("newest"), F.countDistinct("bucket")).first()
        assert (panes.count(), *panes.agg(F.min("time"), F.max("time")).first(), 3) == tuple(total)
        assert sums.where("bytes < 24 * panes or oldest < start or newest > end or keys > panes").isEmpty()
    assert before == contents(checkpoint)
    assert (backend != "spark") == (tmp_path / "snap shots").exists()
    moved = checkpoint.rename(tmp_path / "moved")
    with pytest.raises(
        StateError, match=rf"checkpoint {moved} was moved.* looks for its state in .*/a checkpoint"
    ):
        read_state(moved)


def test_no_state_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """A folder that is no checkpoint is refused by name."""
    with pytest.raises(StateError, match=f"the state in {tmp_path} cannot be read"):
        read_state(tmp_path, spark=spark)


@pytest.mark.slow
def test_state_moves_between_backends_and_numbers_of_buckets(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Queries that go on from one another's savepoints, on other backends and buckets, close what an undisturbed one does."""
    files = sorted(source.iterdir())
    savepoint, before = "", spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for number, (backend, buckets) in enumerate(
            [("memory", 4), ("rocksdb", 16), ("spark", 3), ("memory", 2)]
        ):
            part = tmp_path / f"in-{number}"
            part.mkdir()
            for path in files[number : number + 1 if number < 3 else None]:
                (part / path.name).hardlink_to(path)
            spark.conf.set("spark.sql.shuffle.partitions", str(buckets))
            frame = operator().apply(
                stream(spark, part), event_time="at", backend=backend, options={"state.savepoint": savepoint}
            )
            run_query(frame, tmp_path / f"out-{number}", tmp_path / f"cp-{number}")
            savepoint = str(tmp_path / f"save point-{number}")
            saved = write_savepoint(tmp_path / f"cp-{number}", savepoint)
            panes = summarize_state(tmp_path / f"cp-{number}").groupBy("bucket").agg(F.sum("panes")).collect()
            assert buckets == len(panes)
            assert sorted(count for _, count in panes if count) == sorted(one.rows for one in saved.files)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before or "3")
    outs = [spark.read.parquet(str(tmp_path / f"out-{number}")) for number in range(4)]
    found = outs[0].unionAll(outs[1]).unionAll(outs[2]).unionAll(outs[3])
    assert closed_rows(spark, source) == rows(found)


@pytest.mark.slow
def test_changed_aggregates_are_taken_over_if_that_is_wanted(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Other aggregates are refused, naming them, or taken over: what stays goes on, what is new counts from here."""
    first = tmp_path / "in"
    first.mkdir()
    files = sorted(source.iterdir())
    for path in files[:3]:
        (first / path.name).hardlink_to(path)
    windows = SlidingWindows("2 seconds", grace="8 seconds").group_by("k")
    before = windows.aggregate(n=agg.count(), low=agg.min("v"))
    run_query(before.apply(stream(spark, first), event_time="at"), tmp_path / "out", tmp_path / "cp")
    for path in files[3:]:
        (first / path.name).hardlink_to(path)
    after = windows.aggregate(n=agg.count(), mean=agg.avg("x"))
    with pytest.raises(Exception, match=r'sum\("x"\) is new.*min\("v"\) is gone.*state.evolution to adapt'):
        run_query(after.apply(stream(spark, first), event_time="at"), tmp_path / "out", tmp_path / "cp")
    adapted = after.apply(stream(spark, first), event_time="at", options={"state.evolution": "adapt"})
    run_query(adapted, tmp_path / "out", tmp_path / "cp")
    out = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "out"))
    direct = operator().apply(spark.read.parquet(str(source)), event_time="at").select("k", "window", "n")
    close = spark.read.parquet(str(source)).selectExpr("max(at) - interval 8 seconds").first()[0]
    assert rows(direct.where(direct["window"]["end"] < close)) == rows(out.select("k", "window", "n"))
    assert {(True, False), (False, True)} <= {(r.mean is None, r.low is None) for r in out.collect()}
