"""What is said of queries that a topic makes fail, and what comes of records that change, with Spark's connector."""

import json
from typing import Any

import pytest

from examples.kafka.jars import AVRO, CONNECTOR
from tests import kafka_session
from tests.operators.sinks.kafka_broker import broker_or_skip

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program has found; it plays all in one session of Spark."""
    folder = tmp_path_factory.mktemp("kafka")
    (folder / "broker").mkdir()
    with broker_or_skip(folder / "broker") as broker:
        program = "tests.operators.spark.kafka_failures"
        arguments = ["-m", program, broker.servers, str(broker.pid), str(folder)]
        lines = kafka_session.printed(CONNECTOR, AVRO, arguments=arguments).splitlines()
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def test_what_topics_make_fail_is_told(printed: dict[str, Any]) -> None:
    """Each failure has its own sentences, and what does not fail has none."""
    said = printed["said"]
    begins = {
        "missing": "a topic does not exist, or its name has a typo",
        "fine": "nothing",
        "aged": "records of a topic are gone before the query had read them",
        "fine, too": "nothing",
        "anew": "records of a topic are gone before the query had read them",
        "large": "Kafka refused a message that is too large",
        "unreachable": "no broker of Kafka answers",
        "never there": "no broker of Kafka answers, or a topic does not exist",
        "fine, three": "nothing",
        "gone": "no broker of Kafka answers",
    }
    assert begins == {name: (said[name] or "")[: len(begin)] for name, begin in begins.items()}


def test_records_that_change_their_form_are_bad_records(printed: dict[str, Any]) -> None:
    """None is lost: what is not in the windows is among the bad records, whole, for a reader that knows the new form.

    The numbers are 1, 2, "3", 4 and an object. The hasty reader does not ask for `_corrupt_record`: it counts records without
    their number.
    """
    changed = printed["changed"]
    assert ([7, 3], [2, 4]) == (changed["JSON"]["window"], changed["JSON"]["bad"])
    assert [7, 5] == changed["JSON, hasty"]
    assert [3, 1] == changed["JSON, mended"]
    assert ([6, 3], [3]) == (changed["Avro"]["window"], changed["Avro"]["bad"])
    assert [4, 1] == changed["Avro, mended"]


def test_the_lag_is_what_is_left(printed: dict[str, Any]) -> None:
    """With `maxOffsetsPerTrigger`, it is what the topic has after each batch, not 0: 5 records, 2 in a batch."""
    assert [3, 1, 0] == printed["changed"]["JSON"]["lag"]
