"""Drivers that are killed between a table's commit of pages and Spark's: answers stay whole, and never go back."""

import datetime as dt
import sys
from pathlib import Path

import pytest

from tests.faults.pages import KEYS, expected, features, table_of
from tests.faults.stops import run_until_it_waits
from tests.operators.sinks.redis_server import redis_server
from tests.operators.spark.frames import BASE_US, write_source

_ROWS = 200
_MORE = 1
"""Batches at the end without any trouble."""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("backend", "kind"), [("memory", "sqlite"), ("rocksdb", "redis"), ("spark", "postgres")]
)
def test_answers_outlive_stops_between_the_two_commits(
    backend: str, kind: str, tmp_path: Path, seed: int, mark: str, request: pytest.FixtureRequest
) -> None:
    """Every second stop kills the driver, the others end the query by an error; each batch that was stopped comes again."""
    kills = request.config.getoption("--sink-kills")
    for name in ("plan", "stopped", "repeated"):
        (tmp_path / name).mkdir()
    for batch in range(2 * kills):
        (tmp_path / "plan" / str(batch)).write_text("wait" if batch % 2 else "raise")
    write_source(tmp_path / "in", 2 * kills + _MORE, _ROWS, seed)
    at = dt.datetime.fromtimestamp(BASE_US // 1_000_000 + 10 * (2 * kills + _MORE), dt.timezone.utc)
    if kind == "redis":
        with redis_server() as place:
            check(tmp_path, [backend, kind, place], mark, kills, at)
        return
    place = request.getfixturevalue("postgres") if kind == "postgres" else str(tmp_path / "pages.db")
    check(tmp_path, [backend, kind, place], mark, kills, at)


def check(folder: Path, arguments: list[str], mark: str, kills: int, at: dt.datetime) -> None:
    """Run drivers until one comes to its end, and compare answers after each."""
    killed, batches = 0, []
    command = [sys.executable, "-m", "tests.faults.pages", str(folder), *arguments]
    with features().reader(table_of(*arguments[1:])) as reader:
        while run_until_it_waits(folder, command, mark):
            killed += 1
            first, again = (reader.get_many([{"k": key} for key in KEYS], at) for _ in range(2))
            assert first.table == again.table
            batches.append(first.freshness.batch)
            assert sum(first.table.column("n_ever").to_pylist()) == _ROWS * (batches[-1] + 1)
        answers = reader.get_many([{"k": key} for key in KEYS], at)
    assert kills == killed
    assert [2 * n + 1 for n in range(kills)] == batches
    assert {str(batch) for batch in range(2 * kills)} == {
        path.name for path in (folder / "repeated").iterdir()
    }
    assert expected(folder / "in", at) == answers.table.to_pylist()
