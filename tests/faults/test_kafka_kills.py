"""Processes that write batches to a topic and are killed at any time: readers of what is committed see each message once."""

import multiprocessing
import os
import random
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from examples.kafka.broker import Broker
from examples.kafka.messages import committed
from operators.sinks import KafkaSink
from operators.sinks.contract.base import changes, row
from tests.operators.sinks.kafka_broker import Topics

pytestmark = [pytest.mark.connectors, pytest.mark.slow]
_ROWS = 300
_SPAWN = multiprocessing.get_context("spawn")


def write_batches(sink: KafkaSink, folder: Path, last: int | None) -> None:
    """Write batches as a query does, which notes each one after the sink and repeats the one that it has not noted.

    Args:
        sink: where they go.
        folder: the query's checkpoint: it has the number of the next batch.
        last: how many batches are written before this process kills itself between the two commits; None for ever.
    """
    noted = folder / "next"
    for done in count():
        batch = int(noted.read_text()) if noted.exists() else 0
        if not sink.write(changes(batch, [row(f"key-{n}", n=batch) for n in range(_ROWS)])):
            (folder / f"repeated-{batch}-{os.getpid()}").touch()
        if done == last:
            os.kill(os.getpid(), signal.SIGKILL)
        (folder / "new").write_text(str(batch + 1))
        (folder / "new").replace(noted)


def test_each_message_is_written_once(
    kafka: Broker, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    """Of the kills, every second one is between the commit of the sink and that of the query, the others come at random."""
    rng, kills = random.Random(seed), request.config.getoption("--sink-kills")
    topics, between = Topics(kafka.servers, f"kills-{seed}"), 0
    for number in range(2 * kills):
        last = None if number % 2 else rng.randrange(3)
        process = _SPAWN.Process(target=write_batches, args=(topics.sink(), tmp_path, last), daemon=True)
        process.start()
        if last is None:
            time.sleep(rng.uniform(0.8, 3))
            process.kill()
        process.join()
        assert -signal.SIGKILL == process.exitcode
        between += last is not None
    last_batch = topics.sink().last_batch("one")
    assert last_batch is not None
    seen = [
        (one.key(), int(dict(one.headers())["batch"])) for one in committed(kafka.servers, topics.topic("t"))
    ]
    assert len({*seen}) == len(seen) == _ROWS * (last_batch.number + 1)
    assert {*range(last_batch.number + 1)} == {batch for _, batch in seen}
    assert {last_batch.number} == {one["n"] for one in topics.rows()}
    assert kills == between <= len([*tmp_path.glob("repeated-*")]) + 1
