"""What is said of queries that a topic makes fail, with a broker and Spark's connector."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.kafka.jars import CONNECTOR
from tests.operators.sinks.kafka_broker import broker_or_skip

ROOT = Path(__file__).parents[3]


@pytest.mark.connectors
def test_what_topics_make_fail_is_told(tmp_path: Path) -> None:
    """Each failure has its own sentences, and what does not fail has none."""
    (tmp_path / "broker").mkdir()
    with broker_or_skip(tmp_path / "broker") as broker:
        jars = ",".join(map(str, CONNECTOR.jars()))
        done = subprocess.run(
            [sys.executable, "-m", "tests.operators.spark.kafka_failures", broker.servers, str(tmp_path)],
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert 0 == done.returncode, done.stderr[-4_000:]
    said = json.loads(done.stdout.splitlines()[-1])
    begins = {
        "missing": "a topic does not exist, or its name has a typo",
        "fine": "nothing",
        "aged": "records of a topic are gone before the query had read them",
        "fine, too": "nothing",
        "anew": "records of a topic are gone before the query had read them",
        "large": "Kafka refused a message that is too large",
        "unreachable": "no broker of Kafka answers",
    }
    assert begins == {name: (said[name] or "")[: len(begin)] for name, begin in begins.items()}, done.stderr
