"""The command that measures answers runs, on few keys."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.operators.sinks.postgres_server import programs

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_each_part_has_a_figure(tmp_path: Path) -> None:
    """Of a file, and of raw rows where there is a server."""
    parts = "answers clients commit" + (" raw" if programs() else "")
    options = "--keys 200 --busy 300 --many 20 --questions 5 --clients 2 --seconds 0.5 --tables sqlite --only"
    command = [sys.executable, "-m", "benchmarks.serving", *options.split(), *parts.split()]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out.json")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr[-4_000:]
    found = json.loads((tmp_path / "out.json").read_text())["figures"]
    expected = [
        "what publishing adds to a batch",
        *["get"] * 2,
        "get_many",
        "get of clients",
        "get during a large batch",
        *["a SELECT over raw rows"] * (2 if programs() else 0),
    ]
    assert expected == [row["what"] for row in found]
    assert all(row["rounds"] <= 2 and row["bytes"] > 0 for row in found if row["what"] == "get")
