"""One system on one topic: a backlog, a paced stream, and a kill; after each, its rows are those of a run without Kafka."""

import statistics
import time
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.kafka.reading import Reader, delays
from benchmarks.kafka.records import Sender, expected, records
from benchmarks.kafka.systems import Process, Run, System
from examples.kafka.broker import Broker

PARTITIONS = 4
SECONDS = 600.0
"""After which a system that has not come to its end has failed."""
_names = count()


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent.

    Attributes:
        backlog: records that wait in the topic when the system starts.
        keys: different keys.
        per_second, seconds: pace and length of the stream after that.
        after_kill: records that wait when the killed system starts again.
    """

    backlog: int
    keys: int
    per_second: float
    seconds: float
    after_kill: int = 1_000


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured.

    Attributes:
        system, window: of what.
        events_per_second: of the backlog, from when the system runs until its last row is committed.
        messages: that it wrote for the backlog.
        delay_p50, delay_p99: seconds from when a record of the paced stream was sent until a reader saw its row committed.
        local_bytes: of its state, on the disk of the machine that runs it.
        durable_bytes: of that from which another machine restores it.
        restart_seconds: from the new process after SIGKILL to the first committed row of a record that was sent meanwhile.
    """

    system: str
    window: str
    events_per_second: float
    messages: int
    delay_p50: float
    delay_p99: float
    local_bytes: int
    durable_bytes: int
    restart_seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return them by name."""
        return asdict(self)


def measured(system: System, window: str, broker: Broker, folder: Path, load: Load, seed: int = 1) -> Figures:
    """Run a system, and return its figures.

    Raises:
        TimeoutError: its rows are not those that they should be.
    """
    run = _made(window, broker, folder)
    sender = Sender(broker.servers, run.source)
    sent = [*records(0, load.backlog, load.keys, seed)]
    sender.send_all(sent)
    reader = Reader(broker.servers, run.output, PARTITIONS, window, system.read)
    process = Process(system, run)
    try:
        process.wait_until_it_runs()
        began = time.time()
        reader.wait_for(expected(window, sent), SECONDS)
        per_second, messages = load.backlog / (reader.last - began), reader.messages
        local, durable = system.state(run)
        paced = [*records(len(sent), int(load.per_second * load.seconds), load.keys, seed)]
        sender.send_paced(iter(paced), load.per_second, load.seconds)
        sent += paced[: len(sender.sent)]
        reader.wait_for(expected(window, sent), SECONDS)
        after = sorted(delays(reader.seen, sender.sent))
        process.kill()
        first, more = len(sender.sent), [*records(len(sent), load.after_kill, load.keys, seed)]
        sender.send_paced(iter(more), 10_000, SECONDS)
        process = Process(system, run)
        reader.wait_for(expected(window, sent + more), SECONDS)
        meanwhile = delays(reader.seen, sender.sent[first:])
        first_seen = min(
            when / 1_000 + delay for (_, when), delay in zip(sender.sent[first:], meanwhile, strict=True)
        )
    finally:
        process.kill()
        reader.close()
    return Figures(
        system.name,
        window,
        round(per_second),
        messages,
        round(statistics.median(after), 3),
        round(after[int(0.99 * len(after))], 3),
        local,
        durable,
        round(first_seen - process.started, 1),
    )


def _made(window: str, broker: Broker, folder: Path) -> Run:
    """New topics, and a new folder."""
    number = next(_names)
    run = Run(
        broker.servers,
        window,
        f"in-{number}",
        f"out-{number}",
        folder / f"run-{number}",
        broker.folder / "data",
    )
    run.folder.mkdir()
    admin = AdminClient({"bootstrap.servers": broker.servers})
    kept = {"retention.ms": "-1"}
    topics = [NewTopic(name, PARTITIONS, 1, config=kept) for name in (run.source, run.output)]
    for created in admin.create_topics(topics).values():
        created.result()
    return run
