"""A topic of `KafkaSink` as a table of Kafka Streams."""

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.kafka.systems import STREAMS
from examples.kafka.broker import Broker
from examples.kafka.jars import LOGGING, MissingError, java_program
from examples.kafka.messages import committed
from operators.sinks import read_table
from operators.sinks.contract.base import changes, row
from tests.operators.sinks.kafka_broker import PARTITIONS, Topics

pytestmark = [pytest.mark.connectors, pytest.mark.slow]
_PROGRAM = Path(__file__).parent / "java" / "TableReader.java"
_LAST = 12


def test_a_ktable_has_the_rows_of_the_topic(kafka: Broker, tmp_path: Path) -> None:
    """Updated and deleted rows, those of a second query, and without a message that was aborted."""
    topics = Topics(kafka.servers, "ktable")
    first = topics.sink()
    for batch in range(5):
        rows = [row(f"key-{n}", n=batch) for n in range(batch, 40)]
        first.write(changes(batch, rows, [row(f"key-{n}") for n in range(batch)]))
    topics.abort(next(iter(read_table(topics.servers, topics.topic("t")))))
    last = [row(f"last-{n}", n=n) for n in range(_LAST)]
    topics.sink().write(changes(0, [row("key-7", n=70), *last], query="two"))
    ends = {one.partition(): one.key() for one in committed(topics.servers, topics.topic("t"))}
    assert PARTITIONS == sum(b"last-" in (key or b"") for key in ends.values())
    wanted = {
        key.decode(): value.decode() for key, value in read_table(topics.servers, topics.topic("t")).items()
    }
    assert 36 + _LAST == len(wanted)
    assert wanted == dict(line.split("\t") for line in ktable(topics, tmp_path))


def ktable(topics: Topics, folder: Path) -> list[str]:
    """Return the rows of the topic as Kafka Streams has them, once it has read the last ones of each partition."""
    try:
        jars = os.pathsep.join(map(str, STREAMS.jars() + LOGGING.jars()))
        java_program("javac")
    except MissingError as error:
        pytest.skip(str(error))
    command = [java_program(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars, str(_PROGRAM)]
    given = [topics.servers, topics.topic("t"), str(folder), str(_LAST), '{"k":"last-']
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=False, timeout=300)
    assert 0 == done.returncode, done.stderr[-4_000:]
    return done.stdout.splitlines()
