"""Features that a stream publishes: readers answer what `apply_as_of` gives, whatever stops in between."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, RollingAggregation, TumblingWindows, WindowedAggregation, read_windows
from operators import aggregates as agg
from operators.sinks import Changes, PageTable, SinkError, SQLitePages
from tests.operators.spark.frames import BASE_US, SCHEMA, operator, stream, use_up, write_source
from tests.patience import files, wait_until

pytestmark = pytest.mark.spark
KEYS = [None, *(f"key-{n}" for n in range(7)), "unknown"]
FILES = 3
IDLE_MS = "spark.sql.streaming.noDataProgressEventInterval"


def features() -> RollingAggregation:
    """The rolling operator of these tests."""
    made = operator("on_arrival", "rolling")
    assert isinstance(made, RollingAggregation)
    return made


def publish(spark: SparkSession, folder: Path, to: PageTable, backend: str = "memory", **options: Any) -> Any:
    """Publish the files of a folder to the end."""
    writer = features().publish(stream(spark, folder / "in"), "at", to, backend=backend, options=options)
    return use_up(writer.option("checkpointLocation", str(folder / "checkpoint")).start)


def answers(pages: PageTable, at: dt.datetime) -> tuple[list[dict[str, Any]], int]:
    """What a reader answers for all keys, and of which batch."""
    with features().reader(pages) as reader:
        found = reader.get_many([{"k": key} for key in KEYS], at)
    return found.table.to_pylist(), found.freshness.batch


def as_of(spark: SparkSession, folder: Path, at: dt.datetime) -> list[dict[str, Any]]:
    """What labels of all keys get from the same files."""
    labels = spark.createDataFrame([(key, at.timestamp()) for key in KEYS], "k string, asked double")
    labels = labels.select("k", F.timestamp_micros((F.col("asked") * 1_000_000).cast("long")).alias("asked"))
    records = spark.read.schema(SCHEMA).parquet(str(folder / "in"))
    found = features().apply_as_of(labels, records, "asked", "at").drop("asked").toArrow()
    rows = {row["k"]: row for row in found.to_pylist()}
    return [rows[key] for key in KEYS]


def instant(ms: int) -> dt.datetime:
    """The time so long after the first record can be."""
    return dt.datetime.fromtimestamp(BASE_US // 1_000_000, dt.timezone.utc) + dt.timedelta(milliseconds=ms)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_answers_are_those_of_labels(spark: SparkSession, backend: str, tmp_path: Path) -> None:
    """After all batches, and after a restart with more of them; a table that comes later gets all pages."""
    write_source(tmp_path / "in", FILES, 120, seed=5)
    pages = SQLitePages(tmp_path / "f.db", "pages")
    publish(spark, tmp_path, pages, backend)
    for ms in (FILES * 10_000, FILES * 10_000 + 1_999, 600_000):
        found, batch = answers(pages, instant(ms))
        assert as_of(spark, tmp_path, instant(ms)) == found
        assert batch >= FILES - 1


@pytest.mark.slow
def test_a_table_that_lacks_batches_gets_all_pages(spark: SparkSession, tmp_path: Path) -> None:
    """A new one beside a query that has run for long, and one that comes back."""
    write_source(tmp_path / "in", FILES, 60, seed=6)
    first, second = (SQLitePages(tmp_path / name, "pages") for name in ("a.db", "b.db"))
    more = tmp_path / "in" / f"part-{FILES - 1:04d}.parquet"
    held = more.rename(tmp_path / "later.parquet")
    publish(spark, tmp_path, first)
    held.rename(more)
    publish(spark, tmp_path, second)
    at = instant(FILES * 10_000)
    assert as_of(spark, tmp_path, at) == answers(second, at)[0]
    assert answers(first, at)[1] < answers(second, at)[1]


@pytest.mark.slow
def test_open_windows_of_keys_are_those_that_read_windows_finds(spark: SparkSession, tmp_path: Path) -> None:
    """Of sessions, in the table and in the checkpoint."""
    write_source(tmp_path / "in", FILES, 120, seed=9)
    pages, sessions = SQLitePages(tmp_path / "f.db", "pages"), operator("on_close", "session")
    frame, checkpoint = stream(spark, tmp_path / "in"), tmp_path / "checkpoint"
    assert isinstance(sessions, WindowedAggregation)
    writer = sessions.publish(frame, "at", pages)
    use_up(writer.option("checkpointLocation", str(checkpoint)).start)
    rows = read_windows(checkpoint, sessions, frame, "at").toArrow().to_pylist()
    with sessions.reader(pages) as reader:
        found = [row for key in KEYS for row in reader.windows({"k": key}).table.to_pylist()]
    assert len(rows) > len(KEYS)
    assert sorted(map(repr, rows)) == sorted(map(repr, found))


@pytest.mark.slow
def test_open_windows_over_several_streams_are_those_of_a_local_runner(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The frames are given by name, as to `apply`."""
    places = {name: tmp_path / name for name in ("in", "other")}
    for seed, place in enumerate(places.values()):
        write_source(place, FILES, 60, seed=20 + seed)
    grouped = (
        TumblingWindows("10 seconds", grace="2 minutes")
        .group_by("k")
        .cogroup(**{"in": {"n": agg.count()}, "other": {"total": agg.sum("v")}})
    )
    pages = SQLitePages(tmp_path / "f.db", "pages")
    frames = {name: stream(spark, place) for name, place in places.items()}
    writer = grouped.publish(frames, "at", pages, backend="memory")
    use_up(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)
    with grouped.local_runner("at") as runner:
        runner.process({name: pq.read_table(place) for name, place in places.items()})
        rows = runner.runner.open_windows().to_pylist()
    with grouped.reader(pages) as reader:
        found = [row for key in KEYS for row in reader.windows({"k": key}).table.to_pylist()]
    assert len(rows) > len(KEYS)
    assert sorted(map(repr, rows)) == sorted(map(repr, found))


@pytest.mark.slow
def test_a_query_that_starts_from_a_savepoint_publishes_all_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With its first batch, to a table of its own."""
    write_source(tmp_path / "in", FILES, 60, seed=22)
    history, last = tmp_path / "history", tmp_path / "last"
    history.mkdir()
    last.mkdir()
    for number, file in enumerate(sorted((tmp_path / "in").iterdir())):
        pq.write_table(pq.read_table(file), (history if number < FILES - 1 else last) / file.name)
    saved = features().savepoint(
        spark.read.schema(SCHEMA).parquet(str(history)), "at", tmp_path / "saved", instant(0)
    )
    pages, options = SQLitePages(tmp_path / "f.db", "pages"), {"state.savepoint": saved.uri}
    writer = features().publish(stream(spark, last), "at", pages, backend="memory", options=options)
    use_up(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)
    at = instant(FILES * 10_000)
    assert as_of(spark, tmp_path, at) == answers(pages, at)[0]


@dataclass(frozen=True)
class Refusing(SQLitePages):
    """A table that takes batches alone, and not that the query is idle."""

    def write(self, changes: Changes) -> bool:
        if changes.query.endswith("idle"):
            raise SinkError("no right to")
        return super().write(changes)


def confirmed(pages: PageTable) -> dt.datetime:
    """Until when the table is known to be current."""
    with features().reader(pages) as reader:
        return reader.get({"k": KEYS[1]}, instant(600_000)).freshness.confirmed


@pytest.fixture
def idle_often(spark: SparkSession) -> Iterator[None]:
    """Have Spark say often that a query is idle."""
    spark.conf.set(IDLE_MS, "100")
    yield
    spark.conf.unset(IDLE_MS)


@pytest.mark.slow
@pytest.mark.usefixtures("idle_often")
def test_an_idle_query_says_that_its_table_is_current(spark: SparkSession, tmp_path: Path) -> None:
    """Also after a restart without new records, and no longer once it has stopped."""
    write_source(tmp_path / "in", 1, 20, seed=10)
    pages = SQLitePages(tmp_path / "f.db", "pages")
    listeners = len(spark.streams._jsqm.listListeners())
    publish(spark, tmp_path, pages)
    for _ in range(2):
        writer = features().publish(stream(spark, tmp_path / "in"), "at", pages, backend="memory")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        for _ in range(2):
            before = confirmed(pages)
            wait_until(
                lambda before=before: confirmed(pages) > before, "a confirmation", files(tmp_path / "none")
            )
        assert len(spark.streams._jsqm.listListeners()) == listeners + 1
        query.stop()
        wait_until(
            lambda: len(spark.streams._jsqm.listListeners()) == listeners,
            "the end of listening",
            files(tmp_path / "none"),
        )
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()
    assert not (tmp_path / "checkpoint" / "commits" / "2").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("idle_often")
def test_a_query_goes_on_where_it_cannot_say_that_it_is_idle(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so once."""
    write_source(tmp_path / "in", 1, 20, seed=11)
    pages = Refusing(tmp_path / "f.db", "pages")
    writer = features().publish(stream(spark, tmp_path / "in"), "at", pages, backend="memory")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()

        def said() -> list[str]:
            return [record.message for record in caplog.records if "the query is idle" in record.message]

        wait_until(said, "the warning", files(tmp_path / "none"))
        write_source(tmp_path / "more", 1, 20, seed=12)
        for file in (tmp_path / "more").iterdir():
            file.rename(tmp_path / "in" / f"more-{file.name}")
        query.processAllAvailable()
        assert query.isActive
        assert 1 == len(said())
        assert "no right to" in said()[0]
    finally:
        query.stop()


def test_what_cannot_be_published_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything runs: a bounded frame, expressions, a table that is none of pages."""
    write_source(tmp_path / "in", 1, 10, seed=7)
    pages = SQLitePages(tmp_path / "f.db", "pages")
    bounded, unbounded = (
        spark.read.schema(SCHEMA).parquet(str(tmp_path / "in")),
        stream(spark, tmp_path / "in"),
    )
    with pytest.raises(
        DefinitionError, match="publish takes a stream: to publish what a bounded frame leaves"
    ):
        features().publish(bounded, "at", pages)
    with pytest.raises(DefinitionError, match="publish takes a table of pages"):
        features().publish(unbounded, "at", "f.db")  # type: ignore[arg-type]
    by_expression = features().group_by(F.upper("k"))
    with pytest.raises(DefinitionError, match="group_by"):
        by_expression.publish(unbounded, "at", pages)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(DefinitionError, match="publish needs a session of Spark itself"):
        features().publish(unbounded, "at", pages)
    assert not (tmp_path / "f.db").exists()


@pytest.mark.slow
def test_another_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """One that starts anew on a table of the same features."""
    write_source(tmp_path / "in", 1, 10, seed=8)
    pages = SQLitePages(tmp_path / "f.db", "pages")
    publish(spark, tmp_path, pages)
    (tmp_path / "checkpoint").rename(tmp_path / "old")
    with pytest.raises(StreamingQueryException, match="of another query"):
        publish(spark, tmp_path, pages)
