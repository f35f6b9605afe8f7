"""The shipped contract suite on topics of Kafka."""

from typing import Any

import pyarrow as pa
import pytest

from examples.kafka.broker import Broker
from operators.sinks import Sink
from operators.sinks.contract import SinkContract
from tests.operators.sinks.kafka_broker import Topics

pytestmark = pytest.mark.connectors


class TestKafka(SinkContract):
    """Topics that exactly-once readers fold into tables."""

    refused = (pa.duration("us"), pa.time64("us"), pa.list_(pa.duration("us")))

    @pytest.fixture
    def place(self, kafka: Broker, request: pytest.FixtureRequest) -> Topics:
        return Topics(kafka.servers, request.node.name)

    def sink(self, place: Any, table: str) -> Sink:
        return place.sink(table)

    def read(self, place: Any, table: str, schema: pa.Schema) -> pa.Table:
        return place.read(table, schema)
