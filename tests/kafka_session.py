"""Programs whose session has Spark's connector to Kafka: it has to be there when Java starts."""

import os
import subprocess
import sys
from pathlib import Path

from examples.kafka.jars import Artifact

ROOT = Path(__file__).parents[1]


def printed(*artifacts: Artifact, arguments: list[str], folder: Path = ROOT) -> str:
    """Run Python in a process of its own, whose sessions have these jars, and return what it prints.

    Args:
        artifacts: what Maven fetches.
        arguments: of Python.
        folder: in which it runs.
    """
    jars = ",".join(str(jar) for one in artifacts for jar in one.jars())
    more = {"PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **more},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-4_000:]
    print(done.stderr)  # noqa: T201 - for tests that fail
    return done.stdout
