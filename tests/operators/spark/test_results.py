"""Rows of a bucket reach Spark in a file or as blobs, the same ones."""

import ctypes
import os
import resource
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from operators import TumblingWindows
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.base import logs
from operators.spark.base.session import PARTITIONS_KEY
from operators.spark.inputs import blobs
from operators.spark.inputs.blobs import to_blobs
from operators.spark.inputs.spool import Spool
from operators.spark.replicas import results
from operators.spark.replicas.calls import Blobs, Request
from operators.spark.replicas.copies import drop_copy
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.results import Results, Unpack, leave_sign, sees_files
from operators.spark.stream.bucket_task import BucketTask
from operators.spark.stream.job import Job
from state_backends import StateConfig, StateError, resolve
from state_backends.durability.pointer import Pointer
from state_backends.durability.scratch import mark
from state_backends.journal import MemoryJournal
from tests.operators.spark.test_private_files import belongs_to_another

MANY = 200_000
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("values", pa.list_(pa.float64()))])


def table(rows: int, first: int = 0) -> pa.Table:
    """Rows of three types, with nulls."""
    numbers = np.arange(first, first + rows)
    values = pa.array(
        [[number / 2] if number % 3 else None for number in numbers], SCHEMA.field("values").type
    )
    keys = pa.array([f"key {number}" if number % 5 else None for number in numbers])
    return pa.Table.from_arrays([keys, pa.array(numbers), values], schema=SCHEMA)


@pytest.fixture
def config(tmp_path: Path) -> StateConfig:
    """Local state in a folder with that of a bucket."""
    (tmp_path / "bucket").mkdir()
    return resolve("memory", {"state.directory": str(tmp_path)})


def bucket_dir(config: StateConfig) -> Path:
    return config.directory / "bucket"


def sent(config: StateConfig, *tables: pa.Table, in_files: bool = True, batch: str = "") -> list[bytes]:
    """What goes through Spark for these rows."""
    collected = Results(config, bucket_dir(config), in_files=in_files, batch=batch)
    for one in tables:
        collected.add(one)
    return [*collected.blobs]


def read(config: StateConfig, through: list[bytes]) -> list[pa.RecordBatch]:
    """What a worker makes of it; null is what a call without rows sends."""
    arriving = [pa.RecordBatch.from_pydict({"blob": pa.array([None, blob], pa.binary())}) for blob in through]
    return [*Unpack(SCHEMA, config)(arriving)]


def files(config: StateConfig) -> list[Path]:
    return [*bucket_dir(config).glob("rows-*")]


@pytest.mark.slow
def test_many_rows_go_in_a_file_and_few_as_a_blob(config: StateConfig) -> None:
    """In their order. Files are gone once they are read."""
    tables = table(3), table(MANY, 3), table(2, MANY + 3), table(MANY, MANY + 5)
    through = sent(config, *tables)
    assert 4 == len(through)
    assert sum(map(len, through)) < 10_000
    assert 2 == len(files(config))
    batches = read(config, through)
    assert pa.concat_tables(tables) == pa.Table.from_batches(batches)
    assert [] == files(config)
    assert max(batch.num_rows for batch in batches) <= blobs.BLOB_ROWS
    assert max(batch.nbytes for batch in batches) < 2 * blobs.BLOB_BYTES


@pytest.mark.slow
def test_without_a_sign_all_go_through_spark(config: StateConfig) -> None:
    """As large as they are."""
    through = sent(config, table(MANY), in_files=False)
    assert sum(map(len, through)) > results.LEAST_BYTES
    assert [] == files(config)
    assert table(MANY) == pa.Table.from_batches(read(config, through))


@pytest.fixture
def small_files() -> Iterator[None]:
    """The system lets this process write a MiB into a file, and no more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
@pytest.mark.usefixtures("small_files")
def test_a_file_that_cannot_be_written(
    config: StateConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows go as blobs, and somebody is told once. Nothing of the file stays."""
    monkeypatch.setattr(logs, "_warned", set())
    through = sent(config, table(MANY), table(MANY, MANY))
    assert 1 == caplog.text.count("rows go through Spark, since the worker cannot write them to a file")
    assert [] == files(config)
    assert 2 * MANY == sum(batch.num_rows for batch in read(config, through))


def test_a_file_that_is_gone_is_an_error(config: StateConfig) -> None:
    """Rows are not left out."""
    through = sent(config, table(MANY))
    (path,) = files(config)
    path.unlink()
    with pytest.raises(StateError, match=f"rows that a bucket wrote to {path} cannot be read"):
        read(config, through)


def cut_to_its_batches(data: bytes) -> bytes:
    """A stream of Arrow without its last batch and its end is a stream, too."""
    with pa.ipc.open_stream(data) as reader:
        batches = [*reader]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        for batch in batches[:-1]:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(cut_to_its_batches, id="without its last batch"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut"),
        pytest.param(lambda _: b"", id="emptied"),
        pytest.param(lambda data: data[:-500_000] + b"7" + data[-499_999:], id="a byte"),
        pytest.param(lambda data: data + data, id="twice"),
    ],
)
def test_a_file_that_was_damaged_is_an_error(config: StateConfig, damage: Callable[[bytes], bytes]) -> None:
    """No row of it is read, and the task runs again, which writes another file."""
    through = sent(config, table(MANY))
    (path,) = files(config)
    before = path.read_bytes()
    path.write_bytes(damage(before))
    assert path.read_bytes() != before
    with pytest.raises(
        StateError, match=f"rows that a bucket wrote to {path} were cut or altered: .*runs the task again"
    ):
        read(config, through)
    assert [] == files(config)
    assert table(MANY) == pa.Table.from_batches(read(config, sent(config, table(MANY))))


@pytest.mark.parametrize("place", ["elsewhere/bucket/rows-0123456789abcdef", "here/bucket/owner"])
def test_other_files_are_not_read(
    config: StateConfig, tmp_path_factory: pytest.TempPathFactory, place: str
) -> None:
    """Nor removed, whatever a blob says."""
    where, _, rest = place.partition("/")
    path = (config.directory if where == "here" else tmp_path_factory.mktemp("else")) / rest
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"of somebody")
    with pytest.raises(StateError, match="rows are not read from"):
        read(config, [b"\0rows in the file " + bytes(12) + bytes(path)])
    assert path.exists()


@pytest.mark.slow
def test_what_nobody_has_read_is_removed_with_the_next_batch(config: StateConfig) -> None:
    """A worker was killed before it came to it. Other attempts at the same batch may still be read."""
    first = sent(config, table(MANY), batch="7 1000")
    sent(config, table(MANY), batch="7 1000")
    assert 2 == len(files(config))
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in files(config)}
    assert table(MANY) == pa.Table.from_batches(read(config, first))
    sent(config, table(1), in_files=False, batch="8 2000")
    assert [] == files(config)


def test_signs(config: StateConfig) -> None:
    """They say which executor's workers see the directory; those of old ones go when a new one is left."""
    mine, other = Parent(1, "now"), Parent(1, "earlier")
    leave_sign(config.directory / "not there", mine)
    assert not (config.directory / "not there").exists()
    leave_sign(config.directory, other)
    assert (False, True) == (sees_files(config.directory, mine), sees_files(config.directory, other))
    for sign in config.directory.glob("reads-*"):
        os.utime(sign, (time.time() - 3_700,) * 2)
    leave_sign(config.directory, other)
    leave_sign(config.directory, mine)
    assert sees_files(config.directory, mine)
    assert sees_files(config.directory, other)
    for sign in config.directory.glob("reads-*"):
        os.utime(sign, (time.time() - 3_700,) * 2)
    leave_sign(config.directory, Parent(2, "now"))
    assert not sees_files(config.directory, mine)


def test_whoever_renews_its_sign_sweeps_the_directory(config: StateConfig) -> None:
    """So it is also done where no worker opens a copy: rows of a task that failed go in a day, and copies of ended queries."""
    mine, bucket = Parent(1, "now"), config.directory / f"{1:016x}"
    bucket.mkdir()
    mark(bucket)
    Results(config, bucket, in_files=True).add(table(MANY))
    (rows,) = bucket.glob("rows-*")
    (bucket / "0-abc-memory").mkdir()
    leave_sign(config.directory, mine)
    for path in (rows, bucket / "0.lock"):
        path.touch()
        os.utime(path, (time.time() - 100_000,) * 2)
    leave_sign(config.directory, mine)
    assert rows.exists(), "the sign is fresh"
    for sign in config.directory.glob("reads-*"):
        os.utime(sign, (time.time() - 700,) * 2)
    leave_sign(config.directory, mine)
    assert [] == [*config.directory.glob(f"{1:016x}/*")]


@pytest.mark.slow
def test_a_bucket_without_work_removes_what_failed_attempts_left(tmp_path: Path) -> None:
    """Spark calls all buckets in each batch."""
    config = resolve("memory", {"state.directory": str(tmp_path)})
    op = TumblingWindows(10).aggregate(n=agg.count())
    binding = op.bind(pa.schema([("at", pa.int64())]), "at", config)
    job, journal = Job(binding, config, (0,), WatermarkRule()), MemoryJournal()
    pointer = replace(Pointer.fresh(), store_id=f"{1:016x}")
    rows = Blobs([*to_blobs(pa.table({binding.inputs.names[0]: [1]}))])
    job.run(journal.get, Request(pointer, 0, 0, Call(0, 1_000), rows)).write_to(journal)
    drop_copy(config, pointer.store_id)
    Results(config, tmp_path / pointer.store_id, in_files=True, batch="0 1000").add(table(MANY))
    times = SimpleNamespace(getCurrentWatermarkInMs=lambda: 0, getCurrentProcessingTimeInMs=lambda: 2_000)
    task = BucketTask(cloudpickle.dumps(job), "digest", "windows", None, journal)  # type: ignore[arg-type]
    assert [*tmp_path.rglob("rows-*")]
    assert 1 >= len([*task.take((0,), [], times)])
    assert [] == [*tmp_path.rglob("rows-*")]


def test_only_signs_of_the_library_are_touched(config: StateConfig) -> None:
    """What has such a name, or begins so, and was made by others stays as it is; a link is not followed."""
    root, mine = config.directory, Parent(1, "now")
    leave_sign(root, mine)
    (sign,) = root.glob("reads-*")
    sign.unlink()
    theirs = [root / "reads-sample1.fastq", root / f"reads-{'0' * 16}", root / f"reads-{'1' * 16}"]
    for path in theirs[:2]:
        path.write_text("sequences")
        os.utime(path, (0, 0))
    theirs[2].symlink_to(theirs[0])
    sign.symlink_to(root / "made by a link")
    assert not sees_files(root, mine)
    leave_sign(root, mine)
    assert sees_files(root, mine)
    assert not sign.is_symlink()
    assert not (root / "made by a link").exists()
    assert ["sequences"] * 3 == [path.read_text() for path in theirs]
    assert [0, 0] == [path.stat().st_mtime for path in theirs[:2]]


def test_only_result_files_of_the_library_are_removed(config: StateConfig) -> None:
    """An old file that begins like one stays."""
    other = bucket_dir(config) / "rows-of-mine.csv"
    other.write_text("a,b")
    os.utime(other, (0, 0))
    sent(config, table(1))
    assert other.exists()


@pytest.mark.parametrize("linked", [False, True])
def test_no_sign_in_a_directory_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    """Another local user who made `state.directory` first has no file made in the worker's name."""
    (tmp_path / "theirs").mkdir(mode=0o777)
    if linked:
        (tmp_path / "link").symlink_to(tmp_path / "theirs")
    root = tmp_path / ("link" if linked else "theirs")
    belongs_to_another(root, monkeypatch)
    leave_sign(root, Parent(1, "now"))
    assert [] == [*(tmp_path / "theirs").iterdir()]
    with pytest.raises(OSError, match="belongs to another user"):
        Spool(root, 0).extend([b"blob"])


def test_a_spool_makes_the_directory_for_its_user_alone(tmp_path: Path) -> None:
    """Whichever part of the library needs the directory first."""
    Spool(tmp_path / "parent" / "root", 0).extend([b"blob"])
    assert 0o700 == (tmp_path / "parent" / "root").stat().st_mode & 0o777


def put(source: Path, number: int) -> None:
    """A file of a stream: a record of each key."""
    at = pa.array(np.full(MANY, 10_000_000 * number), pa.timestamp("us", "UTC"))
    records = pa.table({"k": np.arange(MANY), "at": at})
    aside = source / "_written"
    pq.write_table(records, aside)
    aside.rename(source / f"{number}.parquet")


class Watch:
    """Tells which files are made in folders, by the system's inotify."""

    def __init__(self, folders: list[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(os.O_NONBLOCK)
        for folder in folders:
            assert libc.inotify_add_watch(self._events, bytes(folder), 0x100) > 0

    def made(self) -> bytes:
        """The events up to now, with the names of the files; the watch ends."""
        try:
            return os.read(self._events, 1 << 16)
        finally:
            os.close(self._events)


@pytest.mark.slow
@pytest.mark.spark
def test_a_query_hands_rows_over_in_files(spark: SparkSession, tmp_path: Path) -> None:
    """From its second batch on: in the first one, no worker has left a sign."""
    buckets = spark.conf.get(PARTITIONS_KEY)
    source, state, out = (tmp_path / name for name in ("source", "state", "out"))
    source.mkdir()
    windows = TumblingWindows("1 second").group_by("k").aggregate(n=agg.count())
    stream = spark.readStream.schema("k long, at timestamp").parquet(str(source))
    rows = windows.apply(
        stream,
        event_time="at",
        backend="memory",
        options={"state.directory": str(state), "state.buckets": buckets},
    )
    writing = rows.writeStream.format("parquet").option("path", str(out))
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for number in range(2):
            put(source, number)
            query.processAllAvailable()
        (sign,) = state.glob("reads-*")
        watch = Watch([path for path in state.iterdir() if path.is_dir()])
        put(source, 2)
        query.processAllAvailable()
        made = watch.made()
    finally:
        query.stop()
    assert int(buckets) == made.count(b"rows-")
    assert [] == [*state.rglob("rows-*")]
    assert sign.exists()
    found = spark.read.parquet(str(out)).groupBy("window.start", "n").count().collect()
    assert {(0, 1, MANY), (10, 1, MANY)} == {
        (int(row.start.timestamp()), row.n, row["count"]) for row in found
    }
