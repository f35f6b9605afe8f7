"""Drivers that are killed between the sink's commit of a batch and Spark's: the table ends as that of an undisturbed query."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.kafka.broker import Broker
from examples.kafka.messages import committed
from operators.columns.records import FAR_FUTURE
from operators.sinks import read_table
from operators.sinks.changes import changes_of
from tests.faults.stops import run_until_it_waits
from tests.operators.sinks.reading import from_json, read_postgres
from tests.operators.spark.frames import operator, write_source

_ROWS = 200
_MORE = 1
"""Batches at the end without any trouble."""


@pytest.mark.slow
def test_a_table_outlives_stops_between_the_two_commits(
    tmp_path: Path, postgres: str, seed: int, mark: str, request: pytest.FixtureRequest
) -> None:
    """Every second stop kills the driver, the others end the query by an error; each batch that was stopped comes again."""
    kills = request.config.getoption("--sink-kills")
    wanted = stopped(tmp_path, postgres, seed, mark, kills)
    assert lines(wanted) == lines(read_postgres(postgres, "sessions", wanted.schema))


@pytest.mark.connectors
def test_a_topic_outlives_stops_between_the_two_commits(
    tmp_path: Path, kafka: Broker, seed: int, mark: str, request: pytest.FixtureRequest
) -> None:
    """The same on Kafka: the topic is the table, and a reader of what is committed sees the messages of each batch once."""
    kills = request.config.getoption("--sink-kills")
    wanted = stopped(tmp_path, f"kafka:{kafka.servers}", seed, mark, kills)
    table = read_table(kafka.servers, "sessions").values()
    columns = [from_json([json.loads(row)[f.name] for row in table], f.type) for f in wanted.schema]
    assert lines(wanted) == lines(pa.table(columns, wanted.schema.names))
    seen = [(one.key(), dict(one.headers())["batch"]) for one in committed(kafka.servers, "sessions")]
    assert len(seen) == len({*seen})


def stopped(folder: Path, place: str, seed: int, mark: str, kills: int) -> pa.Table:
    """Run a query that is stopped twice for each kill, and return the rows that it has to have written."""
    for name in ("plan", "stopped", "repeated"):
        (folder / name).mkdir()
    for batch in range(2 * kills):
        (folder / "plan" / str(batch)).write_text("wait" if batch % 2 else "raise")
    write_source(folder / "in", 2 * kills + _MORE, _ROWS, seed, disorder_ms=7_000)
    killed = 0
    command = [sys.executable, "-m", "tests.faults.upserts", str(folder), place]
    while run_until_it_waits(folder, command, mark):
        killed += 1
    assert kills == killed
    assert {str(batch) for batch in range(2 * kills)} == {
        path.name for path in (folder / "repeated").iterdir()
    }
    return expected(folder / "in")


def expected(folder: Path) -> pa.Table:
    """All sessions of the records, as columns of a table."""
    records = pa.concat_tables([pq.read_table(path) for path in sorted(folder.iterdir())])
    with operator(kind="session").local_runner("at") as runner:
        return changes_of(runner.process(records, FAR_FUTURE), ["k"], "undisturbed", 0).upserts


def lines(table: pa.Table) -> list[str]:
    """The rows of a table in a fixed order."""
    return sorted(map(repr, table.to_pylist()))
