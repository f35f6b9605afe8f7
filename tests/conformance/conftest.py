"""`pytest tests/conformance --cases DIR`: which directory of case files to run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.effort import few

RECORDED = Path(__file__).parent / "cases"
_FAST = 4
"""Of so many cases, `make test` plays one by the operator; by brute force it plays all."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=Path, default=RECORDED, help="directory of case files")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the argument `case` once for each case, one with `sliding_case` for those of final sliding windows."""
    for argument in {"case", "sliding_case"} & {*metafunc.fixturenames}:
        directory = metafunc.config.getoption("cases", default=None) or RECORDED
        cases = find_cases(directory)
        if argument == "sliding_case":
            cases = {name: case for name, case in cases.items() if _is_final_sliding(case)}
        fast = _FAST if metafunc.function.__name__ == "test_operator_emits_what_was_recorded" else 1
        metafunc.parametrize(argument, few(cases.values(), fast), ids=cases.keys())


def _is_final_sliding(case: dict[str, Any]) -> bool:
    return case["options"]["window"] == "sliding" and case["options"]["emit"] == "on_close"


def find_cases(directory: Path) -> dict[str, dict[str, Any]]:
    """Return every case below the directory by its file's path without the ending.

    Raises:
        pytest.UsageError: there is none.
    """
    files = sorted(directory.rglob("*.json"))
    if not files:
        raise pytest.UsageError(f"no conformance cases (*.json) below {directory}")
    return {str(file.relative_to(directory).with_suffix("")): json.loads(file.read_text()) for file in files}
