"""Topics of a broker, for the tests of a sink: each test has names of its own."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from examples.kafka.broker import Broker, running_broker
from examples.kafka.jars import MissingError
from operators.sinks import KafkaSink, read_table
from tests.operators.sinks.reading import from_json

PARTITIONS = 3
_OFTEN = {"log.retention.check.interval.ms": 500}
"""How often a broker looks for old records; every five minutes by default."""


@contextmanager
def broker_or_skip(
    folder: Path, proxy: str | None = None, settings: Mapping[str, object] | None = None
) -> Iterator[Broker]:
    """Run a broker; skip the test where it cannot be had."""
    try:
        with running_broker(folder, {**_OFTEN, **(settings or {})}, proxy) as broker:
            yield broker
    except MissingError as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Topics:
    """The topics of one test."""

    servers: str
    name: str

    def topic(self, table: str) -> str:
        return f"{self.name}-{table}"

    def sink(self, table: str = "t", **options: Any) -> KafkaSink:
        config = {"transaction.timeout.ms": 3000, **options.pop("config", {})}
        return KafkaSink(
            self.servers, self.topic(table), config=config, **{"partitions": PARTITIONS, **options}
        )

    def rows(self, table: str = "t") -> list[dict[str, Any]]:
        """The rows of the table that a topic stands for, as its readers see them."""
        return [json.loads(value) for value in read_table(self.servers, self.topic(table)).values()]

    def read(self, table: str, schema: pa.Schema) -> pa.Table:
        rows = self.rows(table)
        return pa.table([from_json([row.get(f.name) for row in rows], f.type) for f in schema], schema.names)

    def abort(self, key: bytes, table: str = "t") -> None:
        """Write a message to each partition, and abort them."""
        with Producer({"bootstrap.servers": self.servers, "transactional.id": self.name}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(self.topic(table), b"aborted", key, partition)
            producer.flush()
            producer.abort_transaction()
