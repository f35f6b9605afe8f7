"""append_to on both formats."""

import pytest
from pyspark.sql import SparkSession

from operators import DefinitionError
from operators.sinks import SinkError, append_to
from operators.sinks.lake import Batch, write_once
from operators.sinks.lake_tables import lake_table
from tests.lake.conftest import Place
from tests.lake.test_merge import NINE, SIMPLE, commits, window

pytestmark = pytest.mark.usefixtures("spark")
ROLLING = "card string, at timestamp, n_1h bigint"


def test_each_batch_is_appended_once(spark: SparkSession, table: Place) -> None:
    """Rows of windows with equal keys stay side by side; a repetition makes no commit, what is none is refused."""
    append = append_to(table.name, query="q")
    rows = spark.createDataFrame(
        [("ann", window(0), 1), ("ann", window(0), 1), (None, (None, None), 2)], SIMPLE
    )
    append(rows, 0)
    append(rows.limit(0), 1)
    append(rows, 2)
    before = commits(table)
    append(rows, 2)
    assert before == commits(table)
    assert [("ann", 1)] * 4 + [(None, 2)] * 2 == table.rows("user", "n")
    with pytest.raises(SinkError, match="batch 2 of query 'q' is in the table already, with other rows"):
        append(rows.limit(1), 2)
    with pytest.raises(SinkError, match="batch 1 of query 'q' comes after batch 2"):
        append(rows, 1)
    with pytest.raises(SinkError, match="has no columns more"):
        append(rows.selectExpr("*", "1 as more"), 3)
    with pytest.raises(DefinitionError, match="the rows have the column 'change'"):
        append(rows.selectExpr("*", "'update' as change"), 3)


def test_a_number_that_is_gone(spark: SparkSession, table: Place) -> None:
    """Iceberg loses it with its snapshots: the batch is refused. Delta keeps it, and says so where its history does not."""
    append = append_to(table.name, query="q")
    rows = spark.createDataFrame([("a", NINE, 1)], ROLLING)
    append(rows, 0)
    if table.format == "iceberg":
        other = spark.createDataFrame([("b", NINE, 1)], ROLLING)
        append_to(table.name, query="other")(other, 0)
        name = table.name.removeprefix("lake.")
        expired = f"table => '{name}', older_than => now(), retain_last => 1"
        spark.sql(f"CALL lake.system.expire_snapshots({expired})").collect()
        with pytest.raises(SinkError, match="that had the batches of query 'q' have expired"):
            append(rows, 0)
        assert 2 == len(table.rows())
        return
    place = lake_table(spark, table.name, None)[0]
    again = f"INSERT INTO {table.name} SELECT * FROM {table.name}"
    note = place.last_note("q")
    assert note is not None
    with place.noted(note):
        spark.sql(again).collect()
    assert 1 == len(table.rows())
    for log in (table.path / "_delta_log").glob("0*1.json"):
        log.write_text(log.read_text().replace("attempt", "nothing"))
        (log.parent / f".{log.name}.crc").unlink(missing_ok=True)
    assert place.last_note("q") is None
    with pytest.raises(SinkError, match="its history does not say"):
        write_once(place, Batch("q", 0, None), lambda: 7, lambda: spark.sql(again).collect(), looks=True)
