"""Benchmarks that take an hour as a whole run before they are needed: a small case of those that no other test calls."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
CASES = {
    "state": [
        "state/test_changes.py::test_change_of_one_percent[rocksdb-10000]",
        "state/test_changes.py::test_snapshot[memory-10000]",
        "state/test_changes.py::test_restart[rocksdb-10000]",
    ],
    "operators": [
        "operators/test_idle_keys.py::test_batches_beside_idle_keys[memory-10000]",
        "operators/test_kinds.py::test_on_close[rocksdb-hopping]",
        "operators/test_categories.py::test_categories[sum, category a key, then maps-3]",
        "operators/test_categories.py::test_categories_beside_records[sum, category a key, then maps-3]",
    ],
    "micro": ["micro/test_kernel.py", "micro/test_pages.py"],
    "peers": [
        f"peers/test_agreement.py::test_results_agree[{peer}-{work}]"
        for peer in ("duckdb", "polars")
        for work in ("sliding-10-10", "tumbling-10", "hopping-10", "session-10")
    ],
}


@pytest.mark.parametrize("of", CASES)
def test_a_small_case_runs(of: str, tmp_path: Path) -> None:
    for package in ("duckdb", "polars", "pytest_benchmark"):
        pytest.importorskip(package, reason=f"{package} is missing: make .venv/.installed-bench")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'of'}",
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, *(f"benchmarks/{case}" for case in CASES[of])],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout[-4_000:] + done.stderr[-2_000:]
