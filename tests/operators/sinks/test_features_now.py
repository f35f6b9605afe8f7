"""What a reader answers from published pages is what `apply_as_of` gives a label: exactly, at any moment."""

import datetime as dt
import os
import random
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import DefinitionError, RollingWindows
from operators import aggregates as agg
from operators.definitions.rolling import RollingAggregation
from operators.runtime.page_rows import PAGE_ROWS
from operators.sinks import SinkError, SQLitePages, StaleError
from serializers import CorruptDataError
from tests.key_bytes import holding
from tests.operators.sinks.publishing import SCHEMA, SEGMENT, Publisher, Record, moment, table_of

MINUTE = 60_000
LOOKBACKS: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"1s": "1 second", "5m": "5 minutes"}, {"closed": "both"}),
    ({"1s": "1 second", "5m": "5 minutes"}, {"closed": "left", "grace": "30 seconds"}),
    ({"5m": "5 minutes", "ever": "lifetime"}, {"closed": "right"}),
    ({"5m": "5 minutes", "ever": "lifetime"}, {"closed": "none", "forget_after": "1 minute"}),
    ({"ever": "lifetime"}, {"closed": "both", "grace": "30 seconds"}),
]


def features(lookbacks: dict[str, str], **arguments: Any) -> RollingAggregation:
    """Return features with aggregates of several forms; lists are over lookbacks that end."""
    made = (
        RollingWindows(lookbacks, **arguments)
        .group_by("k")
        .aggregate(
            n=agg.count(),
            s=agg.sum("v"),
            top=agg.max("v").over(*list(lookbacks)[:1]),
            kinds=agg.approx_count_distinct("v"),
            often=agg.count().by("v", most=5),
            decayed=agg.decayed_sum("v", "1 minute").by("v"),
            sketch=agg.hll_sketch_agg("v", 4),
        )
    )
    finite = [name for name, length in lookbacks.items() if length != "lifetime"]
    return made.aggregate(values=agg.collect_list("v").over(*finite)) if finite else made


SIMPLE = RollingWindows({"5m": "5 minutes"}).group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))


def random_batch(rnd: random.Random, now: int) -> list[Record]:
    """Return some records, of keys with many and with few, some of them late."""
    return [
        (
            rnd.choice("aaaabc"),
            max(0, now + rnd.randrange(MINUTE) - rnd.choice([0, 0, 20_000])),
            rnd.randrange(50),
        )
        for _ in range(rnd.choice([0, 5, 200]))
    ]


def as_of(
    features: RollingAggregation, batches: list[tuple[list[Record], int]], at: int
) -> list[dict[str, Any]]:
    """Return what labels of all keys get, after batches with these stream times."""
    labels = pa.table({"k": list("abcx"), "asked": pa.array([moment(at)] * 4, SCHEMA.field("at").type)})
    with features.local_runner_as_of("asked", "at", options=SEGMENT) as runner:
        for records, stream_time in batches:
            runner.process(labels.slice(0, 0), table_of(records), stream_time=moment(stream_time))
        rows = runner.process(labels, table_of([]), stream_time=moment(at + 60 * MINUTE))
    return sorted(rows.drop_columns("asked").to_pylist(), key=lambda row: str(row["k"]))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
@pytest.mark.parametrize(("lookbacks", "arguments"), LOOKBACKS)
def test_answers_are_those_of_apply_as_of(
    lookbacks: dict[str, str], arguments: dict[str, Any], backend: str, tmp_path: Path
) -> None:
    """At random moments from the close time on, also after a quiet week, and with batches that come again."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - to repeat the test
    rnd, defined = random.Random(seed), features(lookbacks, **arguments)
    pages = SQLitePages(tmp_path / "f.db", 'pages "now"')
    batches: list[tuple[list[Record], int]] = []
    now, grace = 0, defined.windows.grace_ticks
    with Publisher(defined, pages, backend) as publisher, defined.reader(pages) as reader:
        for _ in range(4):
            records = random_batch(rnd, now)
            now += rnd.choice([1_000, 30_000, 100_000, 7 * 24 * 60 * MINUTE if rnd.random() < 0.2 else 1])
            batches.append((records, now))
            publisher.step(records, stream_time=moment(now))
            if rnd.random() < 0.5:
                publisher.write()
            for offset in (rnd.choice([0, 1]), rnd.randrange(400_000)):
                at = now - grace + offset
                if at < 0:
                    continue
                found = reader.get_many([{"k": k} for k in "abcx"], moment(at))
                assert as_of(defined, batches, at) == found.table.to_pylist()
                assert publisher.batch == found.freshness.batch
                one = reader.get({"k": "a"}, moment(at))
                assert found.table.to_pylist()[0] == {"k": "a", **one}


@pytest.mark.slow
def test_answers_are_those_of_brute_force(tmp_path: Path) -> None:
    """Of a key with several pages in a segment, at the end of a segment, and at a record's own instant."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    records = [("a", n * 100, n) for n in range(3_000)]
    with Publisher(SIMPLE, pages) as publisher, SIMPLE.reader(pages) as reader:
        publisher.step(records[:2_000])
        publisher.step(records[2_000:])
        for at in (299_900, 299_999, 300_000, 300_001, 359_999, 360_000, 480_123):
            inside = [v for _, ms, v in records if at - 5 * MINUTE <= ms <= at]
            wanted = {"n_5m": len(inside), "s_5m": sum(inside)}
            assert wanted == dict(reader.get({"k": "a"}, moment(at)))
        assert {"n_5m": 0, "s_5m": None} == dict(reader.get({"k": "a"}, moment(100 * MINUTE)))


@pytest.mark.parametrize(
    ("type_", "keys"),
    [
        (pa.int32(), [1, 2, None]),
        (pa.int64(), [1, 2**40]),
        (pa.string(), ["é", "x" * 5_000, "x" * 5_001]),
        (pa.binary(), [b"\xff\0", b""]),
        (pa.float64(), [0.5, float("nan")]),
    ],
)
def test_keys_of_any_type_are_found(type_: pa.DataType, keys: list[Any], tmp_path: Path) -> None:
    """Long ones, too, which are hashed in the table; null is a key."""
    schema = SCHEMA.set(0, pa.field("k", type_))
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(SIMPLE, pages, schema=schema) as publisher, SIMPLE.reader(pages) as reader:
        publisher.step([(key, n, n) for n, key in enumerate(keys)])
        for n, key in enumerate(keys):
            assert {"n_5m": 1, "s_5m": n} == dict(reader.get({"k": key}, moment(100)))


def test_forgotten_keys_are_gone_from_the_table(tmp_path: Path) -> None:
    """With the batch that forgets them."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(SIMPLE, pages) as publisher, SIMPLE.reader(pages) as reader:
        publisher.step([("a", n, 1) for n in range(100)] + [("b", 5, 1)])
        publisher.step([], stream_time=moment(99), forget=[{"k": "a"}])
        assert [0, 1] == [reader.get({"k": k}, moment(100))["n_5m"] for k in "ab"]


@pytest.mark.slow
def test_forgotten_keys_leave_no_bytes_in_the_file(tmp_path: Path) -> None:
    """Though a service stays connected: neither keys nor the values that lists keep."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    defined = RollingWindows({"5m": "5 minutes"}).group_by("k").aggregate(values=agg.collect_list("k"))
    with Publisher(defined, pages) as publisher, defined.reader(pages) as reader:
        publisher.step([(f"SECRET-{n % 50:04d}", n, 1) for n in range(400)])
        for n in range(5):
            publisher.step([(f"SECRET-{n:04d}", 400 + n, 1)])
        assert 9 == len(reader.get({"k": "SECRET-0001"}, moment(500))["values_5m"])
        assert holding(tmp_path, "SECRET-0001")
        gone = [f"SECRET-{n:04d}" for n in range(49)]
        publisher.step([], stream_time=moment(499), forget=[{"k": key} for key in gone])
        assert [] == reader.get({"k": "SECRET-0001"}, moment(500))["values_5m"]
        assert [] == [key for key in gone if holding(tmp_path, key)]
        assert holding(tmp_path, "SECRET-0049")


def test_before_a_bucket_has_worked_there_are_no_pages(tmp_path: Path) -> None:
    """As after first batches without a record: keys hold what the aggregates are of nothing."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(SIMPLE, pages) as publisher, SIMPLE.reader(pages) as reader:
        publisher.publish.write(PAGE_ROWS.empty_table(), 0, "one")
        answer = reader.get({"k": "a"}, moment(100))
        assert {"n_5m": 0, "s_5m": None} == dict(answer)
        assert (0, None) == (answer.freshness.batch, answer.freshness.stream_time)
        publisher.process([("a", 5, 7)])
        publisher.publish.write(publisher.changed, 1, "one")
        assert {"n_5m": 1, "s_5m": 7} == dict(reader.get({"k": "a"}, moment(100)))


@pytest.mark.slow
def test_expired_segments_leave_the_table(tmp_path: Path) -> None:
    """Rows are those of pages that are stored."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(SIMPLE, pages) as publisher:
        for minute in range(60):
            publisher.step([("a", minute * MINUTE, 1)])
        with closing(sqlite3.connect(pages.path)) as db:
            stored = db.execute("SELECT count(*) FROM pages WHERE key <> x''").fetchone()
        assert publisher.runner.store.usage.pages == stored[0] <= 8


@pytest.fixture
def published(tmp_path: Path) -> SQLitePages:
    """A table with one batch, whose close time is 10 minutes."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(SIMPLE, pages) as publisher:
        publisher.step([("a", 10 * MINUTE, 7)])
    return pages


def test_other_moments_are_refused(published: SQLitePages) -> None:
    """One before the close time, whose windows have lost records."""
    with SIMPLE.reader(published) as reader:
        assert 1 == reader.get({"k": "a"}, moment(10 * MINUTE))["n_5m"]
        with pytest.raises(
            SinkError,
            match=r"at is 2026-01-01T00:09:59.999000.00:00, and .* for moments from 2026-01-01T00:10:00",
        ):
            reader.get({"k": "a"}, moment(10 * MINUTE - 1))
        with pytest.raises(DefinitionError, match=r"at must be a datetime or whole ticks, not 'now'"):
            reader.get({"k": "a"}, "now")  # type: ignore[arg-type]


def test_other_features_are_refused(published: SQLitePages) -> None:
    """With what differs; shorter lookbacks over the same state are answered."""
    longer = RollingWindows({"1h": "1 hour"}).group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))
    with (
        longer.reader(published) as reader,
        pytest.raises(SinkError, match=r"other features: .*was 5 minutes, is 1 hour"),
    ):
        reader.get({"k": "a"})
    ends = (
        RollingWindows({"5m": "5 minutes"}, closed="left")
        .group_by("k")
        .aggregate(n=agg.count(), s=agg.sum("v"))
    )
    with ends.reader(published) as reader:
        assert 0 == reader.get({"k": "a"}, moment(10 * MINUTE))["n_5m"]


def test_two_definitions_live_side_by_side(published: SQLitePages) -> None:
    """Each reader finds its own."""
    longer = RollingWindows({"1h": "1 hour"}).group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))
    with Publisher(longer, published, query="two") as publisher:
        publisher.step([("a", n * MINUTE, n) for n in range(10)])
    with SIMPLE.reader(published) as old, longer.reader(published) as new:
        assert 1 == old.get({"k": "a"}, moment(10 * MINUTE))["n_5m"]
        assert 10 == new.get({"k": "a"}, moment(10 * MINUTE))["n_1h"]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"k": 5}, "key column 'k' is of type int64, but the operator's is string: cast it"),
        ({"card": "a"}, "the keys lack the key column 'k'"),
        ({"k": "a", "v": 1}, "the keys have a column 'v'"),
    ],
)
def test_other_keys_are_refused(key: dict[str, Any], message: str, published: SQLitePages) -> None:
    with SIMPLE.reader(published) as reader, pytest.raises(DefinitionError, match=message):
        reader.get(key, moment(10 * MINUTE))


def test_a_table_that_nothing_was_published_to_says_so(tmp_path: Path) -> None:
    """Also if there is no file; once there is, the same reader answers."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with SIMPLE.reader(pages) as reader:
        for _ in range(2):
            with pytest.raises(
                SinkError, match=r"nothing was published to SQLitePages.*start the query that does"
            ):
                reader.get({"k": "a"})
        with Publisher(SIMPLE, pages) as publisher:
            publisher.step([("a", 0, 1)])
        assert 1 == reader.get({"k": "a"}, moment(1))["n_5m"]


def test_stale_answers_are_refused_where_it_is_asked_for(published: SQLitePages) -> None:
    """By the batch, and by the age of the last one."""
    with SIMPLE.reader(published) as reader:
        at = moment(10 * MINUTE)
        fresh = reader.get({"k": "a"}, at, min_batch=0, max_age="1 hour").freshness
        assert (0, at) == (fresh.batch, fresh.stream_time)
        assert dt.timedelta(0) <= fresh.age < dt.timedelta(hours=1)
        with pytest.raises(StaleError, match=r"the table has batch 0, and min_batch is 1: ask again later"):
            reader.get({"k": "a"}, at, min_batch=1)
        with pytest.raises(StaleError, match=r"has written batch 0, .* seconds ago, and max_age is '1 us'"):
            reader.get({"k": "a"}, at, max_age="1 us")


def test_a_damaged_page_is_named(published: SQLitePages) -> None:
    with closing(sqlite3.connect(published.path)) as db, db:
        db.execute(
            "UPDATE pages SET page = CAST(substr(page, 1, length(page) - 1) || x'FF' AS BLOB) WHERE key <> x''"
        )
    with (
        SIMPLE.reader(published) as reader,
        pytest.raises(CorruptDataError, match=r"the page of key b.*, bucket 0, segment"),
    ):
        reader.get({"k": "a"}, moment(10 * MINUTE))


def test_a_hole_is_never_written_over(published: SQLitePages) -> None:
    """A table that lacks a batch gets all pages, or nothing; a reader that has seen the former edition goes on."""
    with Publisher(SIMPLE, published, query="one") as publisher, SIMPLE.reader(published) as reader:
        publisher.step([("a", 10 * MINUTE, 7)])  # the batch that is in the table already
        publisher.process([("a", 11 * MINUTE, 8)])
        before = reader.get({"k": "a"}, moment(12 * MINUTE))
        publisher.process([("a", 12 * MINUTE, 9)])
        with pytest.raises(
            SinkError, match=r"lacks the batches before batch 2 of query one: start the query with a new"
        ):
            publisher.write()
        assert before == reader.get({"k": "a"}, moment(12 * MINUTE))
        publisher.write(whole=True)
        answer = reader.get({"k": "a"}, moment(12 * MINUTE))
        assert ({"n_5m": 3, "s_5m": 24}, 2) == (dict(answer), answer.freshness.batch)
        with closing(sqlite3.connect(published.path)) as db:
            assert 2 == db.execute("SELECT count(DISTINCT edition) FROM pages").fetchone()[0]


def test_pages_of_another_query_are_not_mixed(published: SQLitePages) -> None:
    with (
        Publisher(SIMPLE, published, query="two") as publisher,
        pytest.raises(SinkError, match=r"of another query, one"),
    ):
        publisher.step([("a", 0, 1)])


def test_an_earlier_batch_is_refused(published: SQLitePages) -> None:
    """As of a checkpoint that was restored: the table is ahead of it."""
    with Publisher(SIMPLE, published) as publisher:
        publisher.step([("a", 10 * MINUTE, 7)])
        publisher.step([("a", 11 * MINUTE, 8)])
    with (
        Publisher(SIMPLE, published) as publisher,
        pytest.raises(SinkError, match=r"batch 0 .* comes after batch 1"),
    ):
        publisher.step([("a", 0, 1)])


@pytest.mark.slow
def test_a_reader_needs_neither_spark_nor_java(published: SQLitePages) -> None:
    """Nothing of them is imported for an answer."""
    code = f"""
import datetime as dt, sys
from operators import RollingWindows, aggregates as agg
from operators.sinks import SQLitePages
features = RollingWindows({{"5m": "5 minutes"}}).group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))
with features.reader(SQLitePages({str(published.path)!r}, "pages")) as reader:
    print(reader.get({{"k": "a"}}, dt.datetime.fromisoformat("{moment(10 * MINUTE).isoformat()}"))["n_5m"])
print([name for name in sys.modules if name.partition(".")[0] in ("pyspark", "py4j")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ["1", "[]"] == done.stdout.split("\n")[:2]


def test_readers_of_several_threads_and_forks_share_one(published: SQLitePages) -> None:
    """A forked process opens its own connection."""
    with SIMPLE.reader(published) as reader:

        def ask(_: int) -> int:
            return int(reader.get({"k": "a"}, moment(10 * MINUTE))["n_5m"])

        with ThreadPoolExecutor(4) as threads:
            assert {1} == {*threads.map(ask, range(40))}
        child = os.fork()
        if child == 0:
            os._exit(0 if ask(0) == 1 else 1)
        assert 0 == os.waitpid(child, 0)[1]
        assert 1 == ask(0)


def test_only_tables_of_pages_are_taken() -> None:
    with pytest.raises(DefinitionError, match=r"reader takes a table of pages, such as SQLitePages"):
        SIMPLE.reader("features.db")  # type: ignore[arg-type]
