"""The source that starts batches of a quiet stream."""

import time

import pytest

from operators.spark.base.heartbeats import HeartbeatReader


def test_offsets_do_not_go_back_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark asks for the rows between two offsets, and refuses a stream whose offsets go back."""
    reader, clock = HeartbeatReader(1_000), [10.0, 12.0, 5.0, 12.5, 13.0]
    monkeypatch.setattr(time, "time", lambda: clock.pop(0))
    assert [10, 12, 12, 12, 13] == [reader.latestOffset()["beat"] for _ in range(5)]


def test_a_query_that_reads_what_is_there_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last offset is the one of when it was asked, however long it runs."""
    reader, clock = HeartbeatReader(1_000), [10.0, 11.0, 20.0]
    monkeypatch.setattr(time, "time", lambda: clock.pop(0))
    assert {"beat": 10} == reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    assert [11, 11] == [reader.latestOffset()["beat"] for _ in range(2)]
