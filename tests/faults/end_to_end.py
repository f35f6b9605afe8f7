"""Kafka in, features to pages and sessions to Delta, on two hosts to which all kinds of things happen.

python -m tests.faults.end_to_end [--minutes 60] [--seed N]

It runs in a process of its own, on the PySpark that Delta has jars for; Maven fetches them. Meanwhile each answer of the pages
is compared with the records that its batch had read; at the end, answers and sessions are compared with brute force.
"""

# ruff: noqa: T201 - a script that prints

import argparse
import datetime as dt
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from operators.sinks import FeatureReader, SinkError
from tests.faults.cluster import HOSTS, Cluster
from tests.faults.hosts import Host, why_not
from tests.faults.kinds import KAFKA, MERGED, PUBLISHED, TOPIC, sessions
from tests.faults.pages import KEYS, expected, features, table_of
from tests.faults.plans import Feed, Plan, committed, in_flight
from tests.faults.processes import ROOT, is_exact
from tests.faults.scenes import CONF, SCENES, Scene, on_hosts, possible, with_a_clock
from tests.operators.spark.frames import BASE_US, some_records

_INSIDE = "LAKE_TESTS"
_ROWS = 200
_PAUSE_S = 0.3


def main() -> int:
    """Run for some minutes; return 1 if an answer or a row was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    given = parser.parse_args()
    if reason := why_not():
        sys.exit(reason)
    if _INSIDE not in os.environ:
        from tests.lake.environment import environment

        command = [sys.executable, "-m", "tests.faults.end_to_end", "--minutes", str(given.minutes)]
        return subprocess.call([*command, "--seed", str(given.seed)], env=environment())
    print(f"seed {given.seed}", flush=True)
    exact = is_exact("end-to-end", lambda folder, mark: run(folder, given.minutes, given.seed, mark))
    return 0 if exact else 1


class Topic(Feed):
    """Records that go into a topic of Kafka, some at a time, as long as a query waits for them.

    Attributes:
        sent: all of them.
    """

    def __init__(self, servers: str, seed: int) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
        self._random = np.random.default_rng(seed)
        self._due = 0.0
        self.sent: list[pa.Table] = []

    def give(self, files: int = 1) -> None:
        """Send some records, each time later ones by ten seconds, out of order and with ties."""
        for _ in range(files):
            table = some_records(self._random, len(self.sent), _ROWS)
            for row in table.to_pylist():
                text = json.dumps({**row, "at": f"{row['at']:%Y-%m-%d %H:%M:%S.%f}"[:-3]})
                self._producer.produce(TOPIC, text.encode(), key=str(row["k"]).encode())
            self._producer.flush()
            self.sent.append(table)

    def give_if_idle(self, plans: Sequence[Plan]) -> None:
        """Send some if a query has nothing to do."""
        if time.monotonic() > self._due and not all(map(in_flight, plans)):
            self.give()
            self._due = time.monotonic() + _PAUSE_S


@dataclass
class Watched(Scene):
    """A scene whose answers are compared with what their batch had read.

    Attributes:
        reader: of the pages.
        published: the query that writes them.
        newest: the batch of the last answer.
        answers: how many there were.
    """

    reader: FeatureReader | None = None
    published: Plan | None = None
    newest: int = -1
    answers: int = 0

    def batches(self, count: int = 1) -> None:
        super().batches(count)
        self.look()

    def look(self) -> None:
        """Ask for all keys: the batch never goes back, and each record that it had read counts once."""
        assert self.reader is not None
        assert self.published is not None
        try:
            answers = self.reader.get_many([{"k": key} for key in KEYS], _last(self.feed))
        except SinkError:
            if self.newest < 0:  # There is no batch yet.
                return
            raise
        batch = answers.freshness.batch
        assert batch >= self.newest, f"answers went back from batch {self.newest} to {batch}"
        offsets = self.published.checkpoint_path / "offsets" / str(batch)
        read = sum(json.loads(offsets.read_text().splitlines()[-1])[TOPIC].values())
        found = sum(answers.table.column("n_ever").to_pylist())
        assert read == found, f"batch {batch} has read {read} records, and the answers have {found}"
        self.newest, self.answers = batch, self.answers + 1


def _last(feed: Feed) -> dt.datetime:
    assert isinstance(feed, Topic)
    return dt.datetime.fromtimestamp(BASE_US // 1_000_000 + 10 * len(feed.sent), dt.timezone.utc)


def run(folder: Path, minutes: float, seed: int, mark: str) -> bool:
    """Play all scenes again and again, and return whether all rows were right."""
    from examples.kafka.broker import running_broker

    end = time.monotonic() + 60 * minutes
    for name in ("kafka", "driver", "records"):
        (folder / name).mkdir()
    rooms = {host: Host(folder / "hosts" / host, folder, mark) for host in HOSTS}
    with running_broker(folder / "kafka") as broker:
        topic, until = Topic(broker.servers, seed), folder / "end"
        topic.give()
        kinds = {PUBLISHED: "memory", MERGED: "rocksdb"}
        source = f"{KAFKA}{broker.servers}"
        plans = [
            on_hosts(Plan(str(folder / f"query-{n}"), source, backend, kind, until=str(until)))
            for n, (kind, backend) in enumerate(kinds.items())
        ]
        for plan in plans:
            Path(plan.folder).mkdir()
        pages = table_of("sqlite", f"{plans[0].folder}/pages.db")
        hosts = Cluster(folder / "cluster", mark, rooms)
        conf = {**CONF, **conf_of_driver(folder)}
        with (
            features().reader(pages) as reader,
            hosts.driver(folder / "driver", conf, with_a_clock(folder / "driver")) as remote,
        ):
            remote.ask("run", plans)
            scene = Watched(hosts, rooms, remote, plans, topic, reader=reader, published=plans[0])
            scene.batches()
            for name in cycle(possible()):
                if time.monotonic() > end:
                    break
                SCENES[name](scene)
                scene.batches(3)
                told = f"{[*map(committed, plans)]} batches, {scene.answers} answers, {len(scene.errors)} restarts"
                print(f"{name}: {told}", flush=True)
            scene.finish()
            scene.look()
            answers = reader.get_many([{"k": key} for key in KEYS], _last(topic)).table.to_pylist()
        for error in sorted({error.partition("\n")[0][:300] for error in scene.errors}):
            print(f"a query was started again after: {error}")
        for number, table in enumerate(topic.sent):
            pq.write_table(table, folder / "records" / f"{number:05}.parquet")
        return judged(folder / "records", Path(plans[1].folder, "sessions"), answers, _last(topic))


def judged(records: Path, table: Path, answers: list[object], at: dt.datetime) -> bool:
    """Compare what came out with brute force, and say what was found."""
    from tests.lake.conftest import read_delta

    wanted = sessions(records)
    found = read_delta(table).select(wanted.column_names).cast(wanted.schema)
    merged = sorted(map(repr, wanted.to_pylist())) == sorted(map(repr, found.to_pylist()))
    answered = expected(records, at) == answers
    count = pq.read_table(records).num_rows
    print(f"{count} records; {found.num_rows} sessions are {'exact' if merged else 'WRONG'}")
    print(f"{len(answers)} answers at the end are {'exact' if answered else 'WRONG'}")
    return merged and answered


def conf_of_driver(folder: Path) -> dict[str, str]:
    """What the session needs for Delta and Kafka, on hosts whose Python finds this PySpark."""
    from examples.kafka.jars import CONNECTOR
    from tests.lake.conftest import conf_of
    from tests.lake.environment import jars, pyspark

    connector = replace(CONNECTOR, version="4.1.1")  # the newest of 4.1 that is served
    conf = {key: value for key, value in conf_of(folder).items() if key != "spark.local.dir"}
    return {
        **conf,
        "spark.jars": ",".join(map(str, [*jars(), *connector.jars()])),
        "spark.sql.shuffle.partitions": "3",
        "spark.executorEnv.PYTHONPATH": f"{pyspark()}{os.pathsep}{ROOT}",
    }


if __name__ == "__main__":
    sys.exit(main())
