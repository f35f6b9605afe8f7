"""The comparison with Kafka Streams on few records: its rows and ours are those of a run without Kafka, also after a kill."""

from pathlib import Path

import pytest

from benchmarks.kafka.comparison import Load, measured
from benchmarks.kafka.reading import delays
from benchmarks.kafka.records import LENGTHS_MS, expected, records
from benchmarks.kafka.systems import SYSTEMS
from examples.kafka.broker import Broker
from examples.kafka.jars import MissingError
from tests.conformance.live.peers import why_not

LOAD = Load(backlog=3_000, keys=300, per_second=200, seconds=2, after_kill=100)


@pytest.mark.connectors
@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("window", LENGTHS_MS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_rows_are_equal(name: str, window: str, kafka: Broker, tmp_path: Path) -> None:
    """The rows of a system equal those of a run without Kafka after the backlog, the paced stream and the kill."""
    try:
        found = measured(SYSTEMS[name], window, kafka, tmp_path, LOAD)
    except MissingError as error:
        pytest.skip(str(error))
    assert 0 < found.messages
    assert 0 < found.restart_seconds
    assert 0 < found.delay_p50 <= found.delay_p99
    assert 0 < found.durable_bytes


def test_records_count_in_windows_of_either_kind() -> None:
    """The records of a seed are always the same, and no window loses one."""
    some = [*records(0, 500, 20, seed=1)]
    assert some == [*records(0, 500, 20, seed=1)]
    sessions = expected("session", some)
    assert (500, sum(one.value for one in some)) == tuple(map(sum, zip(*sessions.values(), strict=True)))
    sliding = expected("sliding", some)
    for one in some:
        own = [
            other
            for other in some
            if other.key == one.key and one.at - LENGTHS_MS["sliding"] <= other.at <= one.at
        ]
        row = len(own), sum(other.value for other in own)
        assert row == sliding[one.key, one.at - LENGTHS_MS["sliding"], one.at]


def test_a_delay_ends_with_the_first_row_that_has_the_record() -> None:
    """A row with a newer record of the key has the older ones, and rows of other keys say nothing."""
    seen = {"a": [(1.0, 900), (2.0, 1_500), (3.0, 1_700)], "b": [(9.0, 9_000)]}
    sent = [("a", 900), ("a", 1_400), ("b", 1_450), ("a", 1_600)]
    assert pytest.approx([0.1, 0.6, 7.55, 1.4]) == delays(seen, sent)
