"""An executor that is lost in the middle of a MERGE, and two drivers with one checkpoint."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.processes import ROOT, descendants, kill, kill_marked, start
from tests.faults.test_sinks import expected, lines
from tests.lake.conftest import FORMATS, place_of
from tests.lake.lost_executor import PARTS, ROWS
from tests.operators.spark.frames import write_source
from tests.patience import ENVIRONMENT, files, wait_until


@pytest.mark.kill
def test_an_executor_that_is_lost_in_mid_merge(tmp_path: Path) -> None:
    """All rows of the batch are computed anew, none alone, and written."""
    command = [sys.executable, "-m", "tests.lake.lost_executor", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr[-4_000:]
    for format_, found in zip(FORMATS, json.loads((tmp_path / "found.json").read_text()), strict=True):
        assert found["anew"][-1] >= PARTS, found
        assert {0} >= {*found["anew"][:-1]}
        assert [found["batch"]] == found["there"]
        rows = place_of(tmp_path, format_, "lost").table().to_pylist()
        assert [*range(ROWS)] == sorted(row["id"] for row in rows)
        assert {found["batch"]} == {row["batch"] for row in rows}
        assert PARTS == len({row["scan"] for row in rows})


@pytest.mark.kill
def test_two_drivers_with_one_checkpoint(tmp_path: Path) -> None:
    """One stands still between its two tables while the other goes on: it then ends by an error, and the tables stay exact."""
    for name in ("plan", "stopped", "repeated"):
        (tmp_path / name).mkdir()
    write_source(tmp_path / "in", 3, 60, 12, disorder_ms=7_000)
    command, mark = [sys.executable, "-m", "tests.lake.kills", str(tmp_path)], f"lake-{tmp_path.name}"
    logs = [tmp_path / "logs" / str(number) for number in range(2)]
    moved = files(tmp_path)
    try:
        first = start(command, logs[0], mark)
        second_batch = tmp_path / "delta/sessions/_delta_log" / f"{2:020}.json"
        wait_until(
            lambda: second_batch.exists() or first.poll() is not None, "the first driver's batch", moved
        )
        family = descendants(first.pid)
        for pid in family:
            kill(pid, signal.SIGSTOP)
        second = start(command, logs[1], mark)
        wait_until(lambda: second.poll() is not None, "the second driver", moved)
        assert 0 == second.returncode, logs[1].read_text(errors="replace")[-4_000:]
        for pid in family:
            kill(pid, signal.SIGCONT)
        wait_until(lambda: first.poll() is not None, "the first driver's end", moved)
        assert 0 != first.returncode
    finally:
        kill_marked(mark)
    wanted = expected(tmp_path / "in")
    for format_ in FORMATS:
        table = place_of(tmp_path, format_, "sessions").table().select(wanted.schema.names)
        assert lines(wanted) == lines(table.cast(wanted.schema))
