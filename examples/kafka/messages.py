"""Messages of topics: the departures that the demo produces, and reading what is committed."""

import json
import logging
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

DDL = "origin string, carrier string, departure timestamp, dep_delay int"
"""The body of a departure, as Spark's `from_json` takes it."""
_SECONDS = 60.0
_LOG = logging.getLogger(__name__)


class Departures:
    """A topic of departures: a JSON object for each, with the aircraft as its key.

    Args:
        servers: where the broker is.
        topic: its name.
        partitions: how many it gets.
    """

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
        self._topic = topic
        settings = {"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True}
        self._producer = Producer(settings, logger=_LOG)

    def send(self, flights: pa.Table) -> None:
        """Send flights, and wait until the broker has them all: no partition is ahead of another by more than these."""
        for flight in flights.to_pylist():
            departure = flight["departure"].strftime("%Y-%m-%dT%H:%M:%SZ")
            body = {name: flight[name] for name in ("origin", "carrier", "dep_delay")}
            value = json.dumps({**body, "departure": departure})
            self._producer.produce(self._topic, value, flight["tailnum"])
            self._producer.poll(0)
        self._producer.flush()


def days(flights: pa.Table) -> Iterator[pa.Table]:
    """Yield the flights of each scheduled day."""
    day = pc.floor_temporal(flights.column("scheduled"), unit="day")
    for one in pc.unique(day):
        yield flights.filter(pc.equal(day, one))


def committed(servers: str, topic: str) -> list[Message]:
    """Return all messages of a topic that a reader of what is committed sees, in the order of each partition."""
    config = {"bootstrap.servers": servers, "group.id": "readers", "enable.partition.eof": True}
    consumer = Consumer({**config, "isolation.level": "read_committed", "enable.auto.commit": False})
    count = len(AdminClient({"bootstrap.servers": servers}).list_topics().topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
    found, ended = [], set[int]()
    while len(ended) < count:
        message = consumer.poll(_SECONDS)
        if message is None:
            raise TimeoutError(f"the topic {topic} has no end")
        if message.error():
            ended.add(message.partition() or 0)
        else:
            found.append(message)
    consumer.close()
    return found
