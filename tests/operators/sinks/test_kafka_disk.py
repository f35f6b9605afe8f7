"""A broker whose disk is full: it ends, the batch waits for it, and nothing is lost once there is space again."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from examples.kafka.messages import committed
from operators.sinks import SinkError
from operators.sinks.contract.base import changes, row
from tests.faults.disk import kept_disk, why_not
from tests.operators.sinks.kafka_broker import Topics, broker_or_skip

MEGABYTES = 64
KEYS = 20_000


@pytest.mark.connectors
@pytest.mark.slow
def test_a_full_disk_of_the_broker_loses_nothing(tmp_path: Path) -> None:
    """A batch that does not fit is written once, whole, after somebody has made space; until then, an error names the cause."""
    if why_not():
        pytest.skip(why_not())
    (tmp_path / "small").mkdir()
    with kept_disk(tmp_path / "small", MEGABYTES) as disk:
        settings = {"log.dirs": disk.root / "data", "log.segment.bytes": 1 << 20}
        with broker_or_skip(tmp_path, settings=settings) as broker:
            topics = Topics(broker.servers, "full")
            sink = topics.sink()
            sink.write(changes(0, [row("a", n=0)]))
            disk.fill()
            with ThreadPoolExecutor(1) as pool:
                written = pool.submit(sink.write, changes(1, [row(f"key-{n}", n=1) for n in range(KEYS)]))
                broker.wait()
                assert "No space left on device" in (broker.folder / "log").read_text()
                with pytest.raises(
                    SinkError, match=r"Are the brokers running.* A broker whose disk is full ends"
                ):
                    topics.sink(timeout=1).write(replace(changes(0, [row("b")]), query="other"))
                disk.make_space()
                broker.start()
                assert written.result()
            found = [dict(one.headers())["batch"] for one in committed(broker.servers, topics.topic("t"))]
            assert [b"0", *[b"1"] * KEYS] == sorted(found)
            assert 1 + KEYS == len(topics.rows())
