"""The page on Kafka runs against a broker, in a session that has Spark's connector."""

from pathlib import Path

import pytest

from examples.kafka.broker import Broker
from examples.kafka.jars import AVRO, CONNECTOR
from tests import kafka_session

ROOT = Path(__file__).parents[2]
_PROGRAM = """
from pathlib import Path
from dataclasses import replace
from tests.docs.blocks import blocks
from tests.docs.test_code import run

names = {"__name__": "__main__"}
for block in blocks(Path(PAGE)):
    assert block.reason is None
    run(replace(block, code=block.code.replace("localhost:9092", SERVERS)), names)
"""


@pytest.mark.connectors
def test_the_page_on_kafka_runs(tmp_path: Path, kafka: Broker) -> None:
    """From top to bottom, as written, but for the broker's address."""
    program = f"PAGE, SERVERS = {str(ROOT / 'docs' / 'kafka.md')!r}, {kafka.servers!r}\n{_PROGRAM}"
    kafka_session.printed(CONNECTOR, AVRO, arguments=["-c", program], folder=tmp_path)
