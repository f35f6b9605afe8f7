"""Topics as history and as the stream after it, and rows of every kind in topics, with Spark's connector."""

import json
from typing import Any

import pytest

from examples.kafka.broker import Broker
from examples.kafka.jars import CONNECTOR
from operators.errors import DefinitionError
from operators.sinks import SinkError, topic_history_and_stream
from tests import kafka_session
from tests.operators.spark.kafka_history import TOPICS

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module")
def printed(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program has found; it plays all in one session of Spark."""
    folder = str(tmp_path_factory.mktemp("history"))
    arguments = ["-m", "tests.operators.spark.kafka_history", kafka.servers, folder]
    lines = kafka_session.printed(CONNECTOR, arguments=arguments).splitlines()
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def test_a_backlog_is_history_and_a_stream(printed: dict[str, Any]) -> None:
    """No message is missing or twice, and none is late, though partitions run ahead of each other in small batches.

    The history stays what it was when more is written. Messages of aborted transactions are in neither part.
    """
    found = printed["backlog"]
    assert 0 < found["late in small batches"]
    assert [sum(map(sum, TOPICS.values()))] * 2 == found["history"]
    assert 0 == found["late after history"]
    assert found["wanted"] == found["table"]


@pytest.mark.parametrize("kind", ["closed", "late", "rolling"])
def test_rows_of_every_kind_go_to_topics(printed: dict[str, Any], kind: str) -> None:
    """Windows on close, late records and rolling rows: a topic has each row that came out."""
    found = printed["kinds"][kind]
    assert found["emitted"]
    assert found["emitted"] == found["table"]


def test_partitions_that_are_added_are_read_from_their_beginning(printed: dict[str, Any]) -> None:
    """By a running query, which started at the end of the topic."""
    assert [5, 10] == printed["grown"]


def test_what_cannot_be_cut_is_named(kafka: Broker) -> None:
    """Before Spark is asked: a topic that is missing, options that are the function's own, no topic."""
    session: Any = None
    with pytest.raises(SinkError, match=r"there is no topic 'clikcs' at .*: create it, or correct its name"):
        topic_history_and_stream(session, kafka.servers, "clikcs")
    for name in ("startingOffsets", "endingtimestamp", "subscribePattern", "assign"):
        with pytest.raises(DefinitionError, match=f"options has {name}, which topic_history_and_stream sets"):
            topic_history_and_stream(session, kafka.servers, "clicks", options={name: "earliest"})
    with pytest.raises(DefinitionError, match="topics is empty"):
        topic_history_and_stream(session, kafka.servers, [])
