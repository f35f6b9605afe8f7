"""The pytest plugin, in a pytest of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SHELF = """
from state_backends.backends.memory import MemoryBackend

class Shelf(MemoryBackend):
    pass
"""
TESTS = """
import pyarrow as pa
import pytest
from operators import TumblingWindows, aggregates as agg
from operators.testing import assert_rows, expected_rows

WINDOWS = TumblingWindows(10)
COUNT = WINDOWS.group_by("k").aggregate(n=agg.count()).emit("on_update")
BATCH = pa.table({"k": ["a", "b", "a"], "at": [1, 2, 3]})
OPENED = []

def test_rows(runner):
    running = runner(COUNT, event_time="at")
    expected = expected_rows(WINDOWS, [BATCH], "at", {"n": len}, ["k"], "on_update")
    assert_rows(running.process(BATCH), expected[0])
    assert_rows(runner(COUNT, "at").process(BATCH), expected[0])
    OPENED.append(running)

def test_second_runner_goes_on(runner, tmp_path):
    for n in (2, 4):
        running = runner(COUNT, event_time="at", directory=tmp_path)
        assert n == running.process(BATCH)["n"].to_pylist()[0]
        running.close()

def test_backend(backend, runner):
    running = runner(COUNT, event_time="at")
    running.process(BATCH)
    assert backend == running._config.backend

@pytest.mark.parametrize("backend", ["memory"])
def test_own_parameter(backend, runner):
    runner(COUNT, event_time="at").process(BATCH)

def test_runners_are_closed():
    assert [None] * len(OPENED) == [running.store for running in OPENED] != []
"""


def run(folder: Path, *arguments: str) -> str:
    """What pytest prints in a folder with the tests above and the plugin alone."""
    (folder / "shelf.py").write_text(SHELF)
    (folder / "test_operator.py").write_text(TESTS)
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "operators.testing.plugin",
        "-p",
        "no:cacheprovider",
        "-v",
    ]
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=os.environ | alone,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_each_backend_runs_the_tests_and_unknown_ones_fail(tmp_path: Path) -> None:
    """Fixtures run on the built-in backends and on those named; parameters of the same name stay what they are."""
    printed = run(tmp_path, "--state-backends= shelf:Shelf ,memory,shelv")
    ended = re.findall(r"^test_operator\.py::(\S+) (PASSED|FAILED|ERROR)", printed, re.MULTILINE)
    ids = ["memory", "rocksdb", "spark", "shelf:Shelf"]
    expected = [
        (f"{name}[{i}]", "PASSED")
        for name in ("test_rows", "test_second_runner_goes_on", "test_backend")
        for i in ids
    ]
    expected += [("test_own_parameter[memory]", "PASSED"), ("test_runners_are_closed", "PASSED")]

    assert sorted(expected) == sorted(end for end in ended if end[1] == "PASSED"), printed
    assert 3 == sum(end[1] == "ERROR" for end in ended)
    assert "unknown state backend 'shelv'" in printed


@pytest.mark.slow
def test_plugin_imports_no_more_than_it_needs() -> None:
    """Pytest loads it in every run of every project: the rest of the kit waits until a test asks for it."""
    code = "import sys, operators.testing.plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith(("operators.testing", "matplotlib"))}

    assert {"operators.testing", "operators.testing.plugin"} == loaded


def test_kit_exports_what_it_names() -> None:
    """Every name is there, and others are refused as usual."""
    from operators import testing

    assert all(callable(getattr(testing, name)) for name in testing.__all__)
    with pytest.raises(AttributeError, match=r"module 'operators\.testing' has no attribute 'assert_row'"):
        _ = testing.assert_row
