"""What docs/kafka.md says of old events holds of a broker."""

import time
from typing import cast

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from examples.kafka.broker import Broker
from examples.kafka.messages import committed

OLD_SECONDS = 8 * 86_400
_SECONDS = 120


@pytest.mark.connectors
def test_a_broker_deletes_old_events(kafka: Broker) -> None:
    """Events of last week are gone from a topic as it is by default; with the page's setting, it keeps them."""
    arrival = NewTopic("by-arrival", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    at = int((time.time() - OLD_SECONDS) * 1_000)
    at_broker = {"bootstrap.servers": kafka.servers}
    with AdminClient(at_broker) as admin, Producer(at_broker) as producer:
        for created in admin.create_topics([NewTopic("by-event", 1, 1), arrival]).values():
            created.result()
        for topic in ("by-event", "by-arrival") * 10:
            producer.produce(topic, "event", timestamp=at)
        assert 0 == producer.flush()
        end = time.monotonic() + _SECONDS
        while first_offset(admin, "by-event") < 10:
            assert time.monotonic() < end
            time.sleep(0.1)
    assert [] == committed(kafka.servers, "by-event")
    assert 10 == len(committed(kafka.servers, "by-arrival"))


def first_offset(admin: AdminClient, topic: str) -> int:
    """The first offset that the topic still has."""
    place, earliest = TopicPartition(topic, 0), OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    return cast("int", admin.list_offsets({place: earliest})[place].result().offset)
