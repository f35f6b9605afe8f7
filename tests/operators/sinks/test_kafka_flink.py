"""A topic of `KafkaSink` as a table of Flink's `upsert-kafka`."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from examples.kafka.broker import Broker
from examples.kafka.jars import LOGGING, Artifact, MissingError, java_program
from operators.sinks.changes import changes_of
from tests.operators.sinks.kafka_broker import Topics
from tests.operators.sinks.test_kafka import NINE, session_rows

pytestmark = [pytest.mark.connectors, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
_PROGRAM = Path(__file__).parent / "java" / "FlinkTable.java"
_FLINK = "2.2.1"
_ARTIFACTS = [
    *(
        Artifact("org.apache.flink", f"flink-{name}", _FLINK)
        for name in ("clients", "table-planner-loader", "table-runtime", "table-api-java-bridge", "json")
    ),
    Artifact("org.apache.flink", "flink-connector-base", _FLINK),
    Artifact("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2"),
]
_JAVA_17 = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.util", "java.time")]


def test_a_table_of_flink_has_the_rows_of_the_topic(kafka: Broker) -> None:
    """By the page's statement: updated and deleted rows, microseconds of the bounds, and no message that was aborted."""
    topics = Topics(kafka.servers, "flink")
    first = [(f"user-{n}", n, n + 1, n, "update", n) for n in range(40)]
    topics.sink().write(changes_of(session_rows(*first), ["user"], "visits", 0))
    second = [(f"user-{n}", n, n + 1, 100 + n, "update" if n % 3 else "retract", 100 + n) for n in range(20)]
    topics.sink().write(changes_of(session_rows(*second), ["user"], "visits", 1))
    topics.abort(b"aborted")
    wanted = {row[0]: row for row in (*first, *second)}
    assert sorted(
        f"[{user}, {NINE + start}, {NINE + end}]\t{n}"
        for user, start, end, n, change, _ in wanted.values()
        if change == "update"
    ) == sorted(rows(topics))


def rows(topics: Topics) -> list[str]:
    """The rows of the topic as Flink has them, up to its present end."""
    page = (ROOT / "docs" / "kafka.md").read_text()
    statement = re.findall(r"```sql\n(CREATE TABLE visits .*?);\n```", page, re.DOTALL)[0]
    statement = statement.replace("localhost:9092", topics.servers).replace(
        "'visits'", f"'{topics.topic('t')}'"
    )
    bounded = statement.replace(") WITH (", ") WITH ('scan.bounded.mode' = 'latest-offset',")
    assert statement != bounded
    try:
        jars = os.pathsep.join(str(jar) for one in [*_ARTIFACTS, LOGGING] for jar in one.jars())
        java_program("javac")
    except MissingError as error:
        pytest.skip(str(error))
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [java_program(), *_JAVA_17, quiet, "-cp", jars, str(_PROGRAM), bounded]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert 0 == done.returncode, done.stderr[-4_000:]
    return done.stdout.splitlines()
