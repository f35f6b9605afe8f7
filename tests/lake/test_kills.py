"""A driver that is killed between the tables' commits and Spark's: both tables end as those of an undisturbed query."""

import sys
from pathlib import Path

import pytest

from tests.faults.processes import kill_marked
from tests.faults.stops import run_until_it_waits
from tests.faults.test_sinks import expected, lines
from tests.lake.conftest import FORMATS, place_of
from tests.operators.spark.frames import write_source

_ROWS = 60
_SEED = 11


@pytest.mark.kill
def test_tables_outlive_kills_between_the_two_commits(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each batch after which the driver was killed comes again, and makes no commit."""
    kills = request.config.getoption("--sink-kills")
    for name in ("plan", "stopped", "repeated"):
        (tmp_path / name).mkdir()
    for batch in range(kills):
        (tmp_path / "plan" / str(batch)).write_text("wait")
    write_source(tmp_path / "in", kills + 1, _ROWS, _SEED, disorder_ms=7_000)
    command = [sys.executable, "-m", "tests.lake.kills", str(tmp_path)]
    mark, killed = f"lake-{tmp_path.name}", 0
    try:
        while run_until_it_waits(tmp_path, command, mark):
            killed += 1
    finally:
        kill_marked(mark)
    assert kills == killed
    wanted = expected(tmp_path / "in")
    assert wanted.num_rows
    for format_ in FORMATS:
        found = (
            place_of(tmp_path, format_, "sessions").table().select(wanted.schema.names).cast(wanted.schema)
        )
        assert lines(wanted) == lines(found)
    names = {path.name for path in (tmp_path / "repeated").iterdir()}
    assert {f"{batch}-{format_}" for batch in range(kills) for format_ in FORMATS} == names
