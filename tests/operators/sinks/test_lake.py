"""Tables of Delta and Iceberg: the tests of tests/lake, each file in a process that has the Spark for which both have jars."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples.kafka.jars import MissingError
from tests.lake import environment

pytestmark = [pytest.mark.connectors, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
LONG = {"test_contract.py", "test_drivers.py"}
"""Files of several minutes, which `make soak` runs."""
FILES = [
    pytest.param(path.name, marks=[pytest.mark.soak] if path.name in LONG else [])
    for path in sorted((ROOT / "tests/lake").glob("test_*.py"))
]


@pytest.mark.parametrize("file", FILES)
def test_on_a_spark_with_jars(file: str, request: pytest.FixtureRequest) -> None:
    """All tests of a file pass."""
    try:
        environment.jars()
        environment.pyiceberg()
        variables = environment.environment()
    except MissingError as error:
        pytest.skip(str(error))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-q",
        "--durations",
        "5",
        f"tests/lake/{file}",
    ]
    command += ["--sink-kills", str(request.config.getoption("--sink-kills"))]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    print(done.stdout[-20_000:])  # noqa: T201 - pytest shows it of a test that fails
    assert 0 == done.returncode, done.stderr[-5_000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
