"""Queries on the checkpoints of others: found on the driver before they start, and by the first batch wherever its rows lie."""

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, SlidingWindows, TumblingWindows, what_failed
from operators import aggregates as agg
from serializers.keys import bucket_of, encode_keys
from state_backends import StateError, read_state
from state_backends.checkpoints.labels import partition_labels
from tests.operators.spark.frames import BASE_US, SCHEMA, run_query, stream, write_numbered

pytestmark = pytest.mark.spark
OP = TumblingWindows("1 minute", grace="1 day").group_by("k").aggregate(n=agg.count())
BUCKETS, OTHER = 3, 5
"""Those of the session of these tests, and others."""


def file_of(folder: Path, number: int, key: str) -> None:
    """Write a file with a record of a key."""
    folder.mkdir(exist_ok=True)
    at = pa.array([BASE_US + number * 1_000_000], pa.timestamp("us", "UTC"))
    table = pa.table({"k": [key], "at": at, "v": pa.array([1], pa.int64()), "x": [1.0]})
    write_numbered(table, folder, number)


def label(key: str, buckets: int) -> int:
    """Return the label of a key's bucket."""
    return partition_labels(buckets)[bucket_of(encode_keys([pa.array([key])])[0], buckets)]


def apart() -> str:
    """Return a key whose bucket has a label that is there with the one number of buckets, and another with the other."""
    labels = {*partition_labels(BUCKETS)}
    names = (f"key-{number}" for number in range(1_000))
    return next(name for name in names if label(name, BUCKETS) and label(name, OTHER) not in labels)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one record."""
    folder = tmp_path_factory.mktemp("continuing") / "in"
    file_of(folder, 0, apart())
    return folder


@pytest.fixture(scope="module")
def checkpoint(spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a query that has read it."""
    folder = tmp_path_factory.mktemp("checkpoint")
    run_query(OP.apply(stream(spark, source), "at"), folder / "out", folder / "cp")
    return folder / "cp"


def files(folder: Path) -> dict[str, int]:
    """Each file with the time of its last change."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_an_operator_that_can_go_on_is_let_be(
    spark: SparkSession, source: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """The last batch is returned, on any backend; None where there is no batch; nothing is changed."""
    before = files(checkpoint)
    started = tmp_path / "started"
    started.mkdir()
    shutil.copy(checkpoint / "metadata", started)
    batch = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for frame in (stream(spark, source), spark.read.schema(SCHEMA).parquet(str(source))):
        assert OP.check(frame, "at", checkpoint, backend="rocksdb") == batch
        assert OP.check(frame, "at", started) is None
    assert files(checkpoint) == before


@pytest.mark.slow
def test_a_folder_without_a_checkpoint_is_refused(
    spark: SparkSession, source: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """Whether it is empty, not there or the folder above: a typo is not a query that starts anew."""
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "not there", tmp_path / "empty", checkpoint.parent):
        with pytest.raises(
            StateError, match=rf"no checkpoint in {folder}: .* 'metadata'.* checkpointLocation of"
        ):
            OP.check(stream(spark, source), "at", folder)
    assert not (tmp_path / "not there").exists()


@pytest.mark.slow
def test_idle_is_not_added_nor_removed(
    spark: SparkSession, source: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """It is a source, of which a checkpoint keeps the number; both ways are said, with the way out."""
    frame, move = (
        stream(spark, source),
        r"move the state: write_savepoint\(checkpoint, folder\), then start with",
    )
    with pytest.raises(
        StateError, match=f"had no idle, and this one has idle='1 hour': .* Leave idle out. Or {move}"
    ):
        OP.check(frame, "at", checkpoint, idle="1 hour")
    with pytest.raises(DefinitionError, match="idle is 'soon'"):
        OP.check(frame, "at", checkpoint, idle="soon")
    copied = tmp_path / "without"
    shutil.copytree(checkpoint, copied)
    with pytest.raises(StreamingQueryException) as caught:
        run_query(OP.apply(frame, "at", idle="1 hour"), tmp_path / "out", copied)
    said = r"of a query with 1 source, and this one has 2: Spark .*\. This one has idle, .*: leave it out\. Or {}"
    assert re.match("the checkpoint is " + said.format(move), what_failed(caught.value))
    idle = tmp_path / "with"
    run_query(OP.apply(frame, "at", idle="1 hour"), tmp_path / "idle", idle)
    assert OP.check(frame, "at", idle, idle="2 hours") is not None
    with pytest.raises(StateError, match=f"had idle, and check was given none: .* from now on, {move}"):
        OP.check(frame, "at", idle)
    with pytest.raises(StreamingQueryException) as caught:
        run_query(OP.apply(frame, "at"), tmp_path / "out", idle)
    assert re.match(
        rf"the checkpoint is of .* this one has 1: .* idle counts as one\. Or {move}",
        what_failed(caught.value),
    )


CHANGED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "size": (
        TumblingWindows("2 minutes").group_by("k").aggregate(n=agg.count()),
        {},
        "another operator: size was 1 minute, is 2 minutes. Go back",
    ),
    "keys": (OP.group_by("k", "v"), {}, "another operator: keys were k: string, are k: string, v: int64. Go"),
    "emission": (OP.emit("on_update"), {}, "another operator: emission was 'on_close', is 'on_update'. Go"),
    "aggregates": (OP.aggregate(s=agg.sum("v")), {}, r'sum\("v"\) is new'),
    "buckets": (
        OP,
        {"state.buckets": OTHER},
        r"has 3 buckets, but this query has 5: .* back to 3\. Or move the state: write_savepoint",
    ),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_changed_operator_is_found_before_it_starts(
    spark: SparkSession, source: Path, checkpoint: Path, what: str
) -> None:
    """What differs is told in the words of the definition, though there is nothing new to read."""
    changed, options, message = CHANGED[what]
    with pytest.raises(StateError, match=message):
        changed.check(stream(spark, source), "at", checkpoint, options=options)


@pytest.mark.slow
def test_added_aggregates_that_are_to_be_taken_over_are_let_be(
    spark: SparkSession, source: Path, checkpoint: Path
) -> None:
    """As the query itself would."""
    changed = OP.aggregate(s=agg.sum("v"))
    assert changed.check(stream(spark, source), "at", checkpoint, options={"state.evolution": "adapt"})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:spark.sql.shuffle.partitions is 3")
def test_other_buckets_are_found_whatever_bucket_the_rows_are_of(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Though no row is of a bucket that had any before."""
    checkpoint, key = tmp_path / "cp", apart()
    run_query(OP.apply(stream(spark, source), "at"), tmp_path / "out", checkpoint)
    more = tmp_path / "more"
    for number in range(2):
        file_of(more, number, key)
    frame = OP.apply(stream(spark, more), "at", options={"state.buckets": OTHER})
    with pytest.raises(StreamingQueryException) as caught:
        run_query(frame, tmp_path / "out", checkpoint)
    assert "has 3 buckets, but this query has 5" in str(what_failed(caught.value))


@pytest.mark.slow
def test_another_operator_is_found_whatever_bucket_the_rows_are_of(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Though the first row is of a key whose bucket had none before."""
    checkpoint, key = tmp_path / "cp", apart()
    run_query(OP.apply(stream(spark, source), "at"), tmp_path / "out", checkpoint)
    more = tmp_path / "more"
    other = next(
        name for name in map(str, range(100)) if label(name, BUCKETS) not in (0, label(key, BUCKETS))
    )
    for number in range(2):
        file_of(more, number, other)
    with pytest.raises(StreamingQueryException) as caught:
        run_query(CHANGED["size"][0].apply(stream(spark, more), "at"), tmp_path / "out", checkpoint)
    assert "size was 1 minute, is 2 minutes" in str(what_failed(caught.value))


@pytest.mark.slow
def test_several_frames_are_checked(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """As one frame is."""
    windows = SlidingWindows("2 seconds").group_by("k")
    both = windows.cogroup(left={"n": agg.count()}, right={"m": agg.count()})
    frames = {"left": stream(spark, source), "right": stream(spark, source)}
    run_query(both.apply(frames, "at"), tmp_path / "out", tmp_path / "cp")
    assert both.check(frames, "at", tmp_path / "cp") is not None
    with pytest.raises(StateError, match="emission was 'on_close', is 'on_update'"):
        both.emit("on_update").check(frames, "at", tmp_path / "cp")
    with pytest.raises(DefinitionError, match="expected the frames left, right"):
        both.check({"left": frames["left"]}, "at", tmp_path / "cp")


def counted(frame: DataFrame) -> DataFrame:
    """Spark's own windows."""
    return frame.withWatermark("at", "1 day").groupBy("k", F.window("at", "1 minute")).count()


@pytest.fixture(scope="module")
def others(spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of queries without this library, and of one that has ours behind an operator of Spark."""
    folder = tmp_path_factory.mktemp("others")
    plain = stream(spark, source)
    distinct = plain.withWatermark("at", "1 day").dropDuplicatesWithinWatermark(["k", "at"])
    queries = {"spark": counted(plain), "stateless": plain, "behind": OP.apply(distinct, "at")}
    for name, frame in queries.items():
        run_query(frame, folder / "out" / name, folder / name)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "spark",
            {},
            r"the query has the state of other operators: 0 \(stateStoreSave\)\. Give",
        ),
        ("stateless", {}, r"the query has no state\. Give the checkpoint"),
        (
            "behind",
            {"operator": 1},
            r"not an operator of this library\. The query has 0 \(tra.*give operator=0",
        ),
        ("behind", {"operator": 2}, "give operator=0"),
        ("behind", {"batch": 77}, "cannot be read after batch 77, its last one is "),
        (
            "nowhere",
            {},
            "nowhere cannot be read: no batch was committed. Give the checkpoint folder of a",
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_a_checkpoint_holds_instead_is_told(
    spark: SparkSession, others: Path, name: str, arguments: dict[str, Any], message: str
) -> None:
    """Whose state it is, and which operator's can be read."""
    with pytest.raises(StateError, match=message) as caught:
        read_state(others / name, spark=spark, **arguments)
    assert "stateVarName" not in str(caught.value)


@pytest.mark.slow
def test_checkpoints_of_others_are_refused(spark: SparkSession, source: Path, others: Path) -> None:
    """By the driver; the number of the operator says which one is meant."""
    frame = stream(spark, source)
    for name, number in (("spark", 0), ("stateless", 0), ("behind", 1)):
        with pytest.raises(StateError, match=r"cannot be read: (it is not|the query has) "):
            OP.check(frame, "at", others / name, operator=number)
    assert OP.check(frame, "at", others / "behind") is not None


@pytest.mark.slow
def test_spark_refuses_state_of_another_kind_of_operator(spark: SparkSession, tmp_path: Path) -> None:
    """Ours on its checkpoint, and its own on ours: with the words that the page on errors explains."""
    folder = tmp_path / "in"
    file_of(folder, 0, "a")
    frame = stream(spark, folder)
    queries = {"ours": OP.apply(frame, "at"), "spark": counted(frame), "stateless": frame}
    for name, rows in queries.items():
        run_query(rows, tmp_path / name, tmp_path / "checkpoints" / name)
    file_of(folder, 1, "b")
    other, missing = "OPERATOR_NOT_MATCH_IN_STATE_METADATA", "OPERATOR_MISSING_STATE_DIRECTORY"
    for before, now, condition in (
        ("spark", "ours", other),
        ("ours", "spark", other),
        ("stateless", "ours", missing),
    ):
        with pytest.raises(StreamingQueryException, match=f"STREAMING_STATEFUL_{condition}"):
            run_query(queries[now], tmp_path / now, tmp_path / "checkpoints" / before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "named",
    ["metadata", "commits/{}", "offsets/{}", "state/0/_metadata/v2/0", "state/0/_stateSchema/default/[0-9]*"],
)
def test_a_file_of_spark_that_was_cut_off_is_named(
    spark: SparkSession, source: Path, checkpoint: Path, tmp_path: Path, named: str
) -> None:
    """By `check`, by what reads the state, and of the query that fails; without the note of a commit, the batch runs again."""
    aside = tmp_path / "aside"
    shutil.copytree(checkpoint, aside)
    name = named.format(max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")))
    file = next(checkpoint.glob(name), None)
    if file is None:
        pytest.skip(f"this version of Spark has no {name}")
    name = str(file.relative_to(checkpoint))
    try:
        file.write_bytes(file.read_bytes()[:-3])
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        told = f"Spark's file {name} in the checkpoint .* is empty, cut off or altered. It "
        with pytest.raises(StateError, match=told):
            OP.check(stream(spark, source), "at", checkpoint)
        if "commits" in name or "state" in name:  # The others are the query's alone.
            with pytest.raises(StateError, match=told):
                read_state(checkpoint)
        file_of(source, 1, "more")
        windows = OP.apply(stream(spark, source), "at").writeStream.format("noop")
        start = windows.option("checkpointLocation", str(checkpoint)).start
        if name == "metadata":
            with pytest.raises(Py4JJavaError) as failed:
                start()
            said = what_failed(failed.value) or ""
            assert said.startswith("Spark cannot read the file 'metadata' of the checkpoint")
        else:
            query = start()
            with pytest.raises(StreamingQueryException):
                query.processAllAvailable()
            assert re.match(told, what_failed(query) or "")
        if named.startswith("commits"):
            file.unlink()
            run_query(OP.apply(stream(spark, source), "at"), tmp_path / "out", checkpoint)
    finally:
        shutil.rmtree(checkpoint)
        shutil.copytree(aside, checkpoint)
        (source / "part-0001.parquet").unlink(missing_ok=True)
