"""Queries that write nothing for so long that the brokers forget their producer: a week, by default."""

import time
from pathlib import Path

import pytest

from operators.sinks import SinkError
from operators.sinks.contract.base import changes, row
from tests.operators.sinks.kafka_broker import Topics, broker_or_skip

pytestmark = [pytest.mark.connectors, pytest.mark.slow]
_SOON = {
    "transactional.id.expiration.ms": 1_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
    "producer.id.expiration.ms": 1_000,
    "producer.id.expiration.check.interval.ms": 200,
}
_IDLE_SECONDS = 3.0


def test_a_forgotten_producer_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next batch is written once, by a new producer; a driver that another one has replaced does not come back this way."""
    with broker_or_skip(tmp_path, settings=_SOON) as broker:
        topics = Topics(broker.servers, "idle")
        older, newer = topics.sink(), topics.sink()
        older.write(changes(0, [row("a", n=0)]))
        time.sleep(_IDLE_SECONDS)
        assert older.write(changes(1, [row("a", n=1)]))
        assert "batch 1 is tried again after" in caplog.text
        assert newer.write(changes(2, [row("a", n=2)]))
        time.sleep(_IDLE_SECONDS)
        with pytest.raises(SinkError, match="another process writes"):
            older.write(changes(3, [row("a", n=3)]))
        assert [2] == [one["n"] for one in topics.rows()]
