"""The demo with Kafka on some days of January, and what it says where something is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from examples.flights_data import departed
from examples.kafka.__main__ import main
from examples.kafka.jars import CONNECTOR, MissingError
from examples.kafka.messages import days

ROOT = Path(__file__).parents[2]


@pytest.mark.connectors
def test_all_checks_hold(tmp_path: Path) -> None:
    """What comes out, in the topic and in answers, is what a bounded run gives, though the broker is killed twice."""
    try:
        CONNECTOR.jars()
    except MissingError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "examples.kafka"]
    done = subprocess.run(
        [*command, "--days", "5", "--broker-kills", "2", "--out", "run"],  # relative, as its default is
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert 0 == done.returncode, said
    assert "5 of 5 checks hold" in said
    assert 5 == said.count("  ok    "), said
    assert "4,303 departures are worked off" in said
    assert 2 == said.count("The broker is killed")
    assert "times while the stream ran" in said


def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Maven and without its jars, the demo says what to install, and starts nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert 2 == main(["--out", str(tmp_path / "run")])
    assert "apt-get install maven" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


def test_days_are_whole(flights: pa.Table) -> None:
    """Every flight is in the day of its schedule, in order."""
    january = departed(flights).slice(0, 20_000)
    made = [*days(january)]
    assert pa.concat_tables(made).equals(january)
    assert [1] == [*{len(pc.unique(pc.day(day.column("scheduled")))) for day in made}]
    assert 24 == len(made)
