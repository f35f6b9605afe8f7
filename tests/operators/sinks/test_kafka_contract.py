"""The shipped contract suite on topics of Kafka."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from operators.sinks import Sink
from operators.sinks.contract import SinkContract
from tests.operators.sinks.kafka_broker import Topics, broker_or_skip

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of this module's."""
    with broker_or_skip(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker.servers


class TestKafka(SinkContract):
    """Topics that exactly-once readers fold into tables."""

    refused = (pa.duration("us"), pa.time64("us"), pa.list_(pa.duration("us")))

    @pytest.fixture
    def place(self, servers: str, request: pytest.FixtureRequest) -> Topics:
        return Topics(servers, request.node.name)

    def sink(self, place: Any, table: str) -> Sink:
        return place.sink(table)

    def read(self, place: Any, table: str, schema: pa.Schema) -> pa.Table:
        return place.read(table, schema)
