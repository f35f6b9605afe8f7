"""A local runner over some hundred batches: what it holds levels off."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from state_backends import load_backend
from tests.effort import soak
from tests.faults.levels import of_folder, of_processes, verdicts
from tests.faults.processes import ROOT

_MB = 1e6


@pytest.mark.slow
@pytest.mark.parametrize("backend", [soak("memory"), "rocksdb", soak("spark")])
def test_memory_files_and_threads_level_off(tmp_path: Path, backend: str) -> None:
    """A process of its own has as many open files and threads at the end as before, and its memory does not grow."""
    target = tmp_path / "levels.json"
    command = [sys.executable, "-m", "tests.faults.long", "--local", "--batches", "300", "--every", "5"]
    command += ["--backend", backend, "--json", str(target)]
    subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    found = json.loads(target.read_text())["verdicts"]
    print(found)  # noqa: T201 - the levels
    assert all(found[name]["bounded"] for name in ("memory_mb", "files", "threads"))


def test_what_grows_is_told() -> None:
    """A measure that rises is not bounded; one that goes up and down is."""
    samples = [{"batch": n, "memory_mb": 100.0 + n % 3, "files": 20.0 + n} for n in range(90)]
    assert {"memory_mb": True, "files": False} == {
        name: found["bounded"] for name, found in verdicts(samples).items()
    }


def test_what_is_held_is_seen(tmp_path: Path) -> None:
    """Of this process, and of a folder."""
    before = of_processes([os.getpid()])
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(1_000))
        file.flush()
        assert before["files"] + 1 == of_processes([os.getpid()])["files"]
    assert (1_000, 1) == of_folder(tmp_path)
    assert before["memory"] > _MB
    assert before["threads"] >= 1


def test_rocksdbs_own_logs_have_a_limit(tmp_path: Path) -> None:
    """The options that RocksDB says it runs with: else its log and its list of files grow as long as it is open."""
    load_backend("rocksdb").open(tmp_path / "state", {}).close()
    options = max((tmp_path / "state").glob("OPTIONS-*")).read_text()
    assert "max_log_file_size=262144\n" in options
    assert "max_manifest_file_size=262144\n" in options
