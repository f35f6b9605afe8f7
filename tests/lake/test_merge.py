"""merge_to on both formats: what tables have is what the rows say, read by another engine."""

import random
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from operators import DefinitionError
from operators.sinks import SinkError, merge_to
from operators.sinks.lake import Batch, write_once
from operators.sinks.lake_tables import lake_table
from tests.lake.conftest import Place

pytestmark = pytest.mark.usefixtures("spark")
NINE = datetime(2026, 1, 5, 9, tzinfo=timezone.utc)
COLUMNS = (
    "user string, window struct<start: timestamp, end: timestamp>, n bigint, x double, tags array<string>, change string, "
    "sequence bigint"
)
SIMPLE = "user string, window struct<start: timestamp, end: timestamp>, n bigint"


def window(days: float, hours: float = 1) -> tuple[datetime, datetime]:
    start = NINE + timedelta(days=days)
    return start, start + timedelta(hours=hours)


def merged(
    table: Place, rows: list[tuple[Any, ...]], batch: int = 0, schema: str = SIMPLE, **options: Any
) -> None:
    """Merge a batch of a frame."""
    spark = SparkSession.active()
    options = {"keys": ["user"], "query": "visits", **options}
    merge_to(table.name, **options)(spark.createDataFrame(rows, schema), batch)


def commits(table: Place) -> int:
    spark = SparkSession.active()
    spark.sql(f"REFRESH TABLE {table.name}")
    if table.format == "delta":
        return spark.sql(f"DESCRIBE HISTORY {table.name}").count() - 1
    return spark.sql(f"SELECT * FROM {table.name}.snapshots").count()


def test_a_table_is_what_the_changes_say(table: Place) -> None:
    """Random batches of updates and retracts, with null keys, null and far windows, and keys that come twice in a batch."""
    rng = random.Random(7)
    expected: dict[Any, Any] = {}
    for batch in range(4):
        rows = []
        for number in range(40):
            user = rng.choice(["ann", "o'b\\`", None, "zoë"])
            start, end = rng.choice([window(day) for day in (-400, 0, 0.9, 1, 2, 37)] + [(None, None)])
            change = rng.choice(["update", "update", "retract"])
            sequence = batch * 100 + number
            tags = rng.choice([None, [], ["a", None]])
            rows.append(
                (user, (start, end), rng.randrange(99), rng.choice([None, 0.5]), tags, change, sequence)
            )
            key = user, start, end
            expected.pop(key, None)
            if change == "update":
                expected[key] = (*rows[-1][2:5], sequence)
        rng.shuffle(rows)
        merged(table, rows, batch, COLUMNS)
    wanted = sorted([(*key, *values) for key, values in expected.items()], key=repr)
    names = ("user", "window_start", "window_end", "n", "x", "tags", "sequence")
    assert plain(wanted) == plain(table.rows(*names))


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with times as their instants: engines name zones differently."""
    return [tuple(v.timestamp() if isinstance(v, datetime) else v for v in row) for row in rows]


def test_a_batch_that_comes_again_changes_nothing(table: Place) -> None:
    """No commit either; other rows of its number, and older ones, are refused."""
    rows = [("ann", window(0), 1), (None, window(1), 2)]
    merged(table, rows)
    before = table.rows(), commits(table)
    merged(table, rows[::-1])
    assert before == (table.rows(), commits(table))
    with pytest.raises(SinkError, match="batch 0 of query 'visits' is in the table already, with other rows"):
        merged(table, rows[:1])
    merged(table, rows, 5)
    with pytest.raises(SinkError, match="batch 4 of query 'visits' comes after batch 5"):
        merged(table, rows, 4)
    merged(table, [("bob", window(0), 3)], 0, query="other")
    assert {("ann", 1), (None, 2), ("bob", 3)} == {*table.rows("user", "n")}


def test_settings_of_the_session_do_not_outlive_a_batch(spark: SparkSession, table: Place) -> None:
    """A later statement of the user's is not taken for the batch; a session that has such settings is refused."""
    merged(table, [("ann", window(0), 1)])
    spark.sql(f"UPDATE {table.name} SET n = 9")
    spark.sql(f"DELETE FROM {table.name} WHERE n = 1")
    assert [("ann", 9)] == table.rows("user", "n")
    key = {"delta": "spark.databricks.delta.write.txnAppId", "iceberg": "spark.wap.id"}[table.format]
    spark.conf.set(key, "theirs")
    try:
        with pytest.raises(SinkError, match=f"the session has {key}"):
            merged(table, [("ann", window(0), 2)], 1)
        assert "theirs" == spark.conf.get(key)
    finally:
        spark.conf.unset(key)


def test_days_are_those_of_utc(spark: SparkSession, table: Place) -> None:
    """In a session of Melbourne, too: a window that comes again is found, and the column of days is the same."""
    merged(table, [("ann", window(0.6), 1)])
    spark.conf.set("spark.sql.session.timeZone", "Australia/Melbourne")
    try:
        merged(table, [("ann", window(0.6), 2), ("ann", window(0.7), 3)], 1)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [2, 3] == sorted(n for (n,) in table.rows("n"))
    if table.format == "delta":
        assert {"2026-01-05", "2026-01-06"} == {str(day) for (day,) in table.rows("window_day")}


def test_files_of_other_days_are_not_read(table: Place) -> None:
    """A MERGE's condition has the days, so that a damaged file of another day does no harm."""
    merged(table, [("ann", window(0), 1)])
    damaged = [path for path in table.path.rglob("*.parquet") if "checkpoint" not in path.name]
    for path in damaged:
        path.write_bytes(b"damaged")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    merged(table, [("ann", window(3), 2)], 1)
    with pytest.raises(SinkError, match="batch 2 of query 'visits' was not written by merge_to"):
        merged(table, [("ann", window(0), 2)], 2)


@pytest.mark.parametrize("type_", ["timestamp_ntz", "timestamp"])
def test_kinds_of_times_and_keys(spark: SparkSession, table: Place, type_: str) -> None:
    """Times without a zone, floats with two zeros, decimals, dates and binary."""
    schema = "k struct<f: double, d: decimal(9,2), t: date, b: binary>, at timestamp, n int"
    rows = spark.createDataFrame(
        [((-0.0, None, None, b"\\x00"), NINE, 1), ((0.0, None, None, b"a"), NINE, 2)], schema
    )
    merge = merge_to(table.name, keys=["f", "d", "t", "b"], query="q")
    frame = rows.selectExpr(
        "k.*", f"named_struct('start', cast(at as {type_}), 'end', cast(at as {type_})) as window", "n"
    )
    merge(frame, 0)
    merge(frame.selectExpr("-f as f", "d", "t", "b", "window", "n + 10 as n"), 1)
    assert [11, 12] == sorted(n for (n,) in table.rows("n"))


def test_two_writers_and_a_compaction(spark: SparkSession, table: Place) -> None:
    """Who loses merges again, from the look: all rows of both are there, each batch once."""
    merged(table, [("ann", window(0), 0)])
    failed = list[Exception]()

    def write(name: str) -> None:
        own = spark.newSession()
        try:
            for batch in range(2):
                rows = own.createDataFrame([("both", window(0), batch), (name, window(0), batch)], SIMPLE)
                merge_to(table.name, keys=["user"], query=name)(rows, batch)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            failed.append(error)

    def compact() -> None:
        own = spark.newSession()
        statement = (
            f"OPTIMIZE {table.name}"
            if table.format == "delta"
            else f"CALL lake.system.rewrite_data_files(table => '{table.name.removeprefix('lake.')}', options => "
            "map('min-input-files', '1', 'rewrite-all', 'true'))"
        )
        try:
            own.sql(statement).collect()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            if (
                "onflict" not in str(error)
                and "oncurrent" not in str(error)
                and "Cannot commit" not in str(error)
            ):
                failed.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    threads.append(threading.Thread(target=compact))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == failed
    assert [("ann", 0), ("both", 1), ("one", 1), ("two", 1)] == table.rows("user", "n")
    spark.sql(f"REFRESH TABLE {table.name}")
    for name in ("one", "two"):
        assert 1 == lake_table(spark, table.name, None)[0].notes(name)[0].batch


def test_a_commit_that_reports_an_error_is_found(spark: SparkSession, table: Place) -> None:
    """The batch is there: it is not written again."""
    merged(table, [("ann", window(0), 1)])
    place = lake_table(spark, table.name, None)[0]

    def write() -> list[Any]:
        spark.sql(f"UPDATE {table.name} SET n = n + 1")
        raise OSError("the reply was lost")

    assert write_once(place, Batch("visits", 1, "id"), lambda: 0, write)
    assert not write_once(place, Batch("visits", 1, "id"), lambda: 0, write)
    assert [("ann", 2)] == table.rows("user", "n")
    with pytest.raises(
        SinkError, match="batch 1 of query 'visits' is in the table already, from another checkpoint"
    ):
        write_once(place, Batch("visits", 1, "another"), lambda: 0, write)


def test_new_columns_are_added_where_asked(table: Place) -> None:
    """Else they are refused."""
    merged(table, [("ann", window(0), 1)])
    more = SIMPLE + ", m map<string, int>"
    with pytest.raises(SinkError, match=r"has no columns m; .* or pass add_columns=True"):
        merged(table, [("ann", window(0), 2, {"a": 1})], 1, more)
    merged(table, [("bob", window(0), 2, {"a": 1})], 1, more, add_columns=True)
    merged(table, [("ann", window(0), 3)], 2)
    found = {(user, n, tuple(m or ())) for user, n, m in table.rows("user", "n", "m")}
    assert {("ann", 3, ()), ("bob", 2, (("a", 1),))} == found


def test_what_is_refused(table: Place) -> None:
    """Ties that differ, unknown words, other keys, missing keys; nothing is written."""
    schema = SIMPLE + ", change string"
    with pytest.raises(SinkError, match="a batch has two different rows of the key user ann, window_start"):
        merged(table, [("ann", window(0), 1), ("ann", window(0), 2)])
    with pytest.raises(
        SinkError, match="column 'change' has other values than 'update' and 'retract' in 1 rows"
    ):
        merged(table, [("ann", window(0), 1, "update"), ("ann", window(0), 2, "deleted")], 0, schema)
    with pytest.raises(DefinitionError, match=r"key column 'usr' does not exist; .* did you mean 'user'"):
        merged(table, [("ann", window(0), 1)], keys=["usr"])
    merged(table, [("ann", window(0), 1), ("ann", window(0), 1), ("ann", window(1), 1)])
    with pytest.raises(SinkError, match=r"has the key \(user, window_start, window_end\), not \(user, n, "):
        merged(table, [("ann", window(0), 1)], 1, keys=["user", "n"])
    assert 2 == len(table.rows())


def test_partitions_are_those_that_are_asked_for(table: Place) -> None:
    """Of a table that the first batch creates, also where it has no rows."""
    merged(table, [], partition_by=["user"])
    merged(table, [("ann", window(0), 1)], 1)
    assert any("user=ann" in str(path) for path in table.path.rglob("*.parquet"))
    assert {"user", "window_start", "window_end", "n"} == {*table.table().column_names}


@pytest.fixture
def queried(spark: SparkSession, tmp_path: Path) -> Any:
    """Runs a query over files of numbers to the end, from a checkpoint of this name, and returns the error that ends it."""

    def run(function: Any, checkpoint: str = "one") -> str | None:
        frame: DataFrame = (
            spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        )
        rows = frame.selectExpr("concat('u', id % 3) as user", "id as n")
        writer = rows.writeStream.foreachBatch(function).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).start()
        try:
            query.awaitTermination()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return str(error)
        return None

    for number in range(3):
        spark.range(number * 3, number * 3 + 3, 1, 1).write.mode("append").parquet(str(tmp_path / "in"))
    return run


def test_a_query_that_stops_between_the_commits(table: Place, queried: Any) -> None:
    """Its last batch comes again, and changes nothing; a new checkpoint of the same name is refused."""
    merge = merge_to(table.name, keys=["user"], query="named")

    def stops(rows: DataFrame, batch: int) -> None:
        merge(rows, batch)
        if batch == 1:
            raise OSError("stopped")

    assert "stopped" in (queried(stops) or "")
    before = commits(table)
    assert queried(merge) is None
    assert before + 1 == commits(table)
    assert [("u0", 6), ("u1", 7), ("u2", 8)] == table.rows("user", "n")
    assert "batch 0 of query 'named' comes after batch 2" in (queried(merge, "another") or "")


def test_a_table_of_another_format_is_refused(spark: SparkSession, table: Place) -> None:
    """And one that does not notice what others write."""
    merged(table, [("ann", window(0), 1)])
    if table.format == "iceberg":
        with pytest.raises(SinkError, match="is of iceberg, not of delta"):
            merged(table, [("ann", window(0), 1)], 1, format="delta")
        spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.merge.isolation-level' = 'snapshot')")
        with pytest.raises(SinkError, match=r"write\.merge.isolation-level = snapshot"):
            merged(table, [("ann", window(0), 1)], 1)
