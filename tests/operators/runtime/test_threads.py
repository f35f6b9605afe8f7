"""Operators at work in several threads of a process do not disturb one another: rows are those of each alone."""

import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from operators import (
    Declaration,
    HoppingWindows,
    KeyedOperator,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.inputs.blobs import from_blobs, to_blobs
from operators.spark.inputs.spool import Spool
from operators.spark.replicas.bucket_service import BucketService
from operators.spark.replicas.calls import Blobs, Done, Functions, Origin, Request
from operators.spark.replicas.connection import Connection
from operators.spark.replicas.conversation import Conversation
from operators.spark.replicas.copies import drop_all
from operators.spark.replicas.protocol import Heard
from operators.spark.replicas.where_held import converse
from operators.spark.stream.job import Job
from state_backends import resolve
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.journal import MemoryJournal

THREADS, EACH, BATCHES, ROWS = 4, 2, 3, 120
BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "decimal": (pa.decimal128(30, 3), lambda n: Decimal(n**7) / 1000),
    "date": (pa.date32(), lambda n: date(2000, 1, 1) + timedelta(n)),
    "time": (pa.timestamp("us", "UTC"), lambda n: BEGIN + timedelta(hours=n)),
    "local": (pa.timestamp("us"), lambda n: datetime(1900, 1, 1) + timedelta(days=n, microseconds=n)),
    "interval": (pa.duration("us"), lambda n: timedelta(days=-n, microseconds=n)),
    "text": (pa.string(), lambda n: "x" * (n % 40)),
    "binary": (pa.binary(), lambda n: bytes([n % 256]) * (n % 9)),
    "float": (pa.float64(), lambda n: n / 7),
    "boolean": (pa.bool_(), lambda n: n % 3 == 0),
    "list": (pa.list_(pa.int64()), lambda n: list(range(n % 5))),
    "map": (pa.map_(pa.string(), pa.decimal128(20, 3)), lambda n: [("a", Decimal(n) / 8), ("b", None)]),
    "struct": (
        pa.struct([("at", pa.timestamp("us", "UTC"))]),
        lambda n: {"at": BEGIN + timedelta(seconds=n)},
    ),
}
NESTED = "list", "map", "struct"
"""Types of columns, and a value for each number."""
KINDS = {
    "tumbling": TumblingWindows("5 minutes"),
    "hopping": HoppingWindows("6 minutes", "2 minutes"),
    "sliding": SlidingWindows("4 minutes"),
    "sessions": SessionWindows("2 minutes"),
    "rolling": RollingWindows({"short": "4 minutes"}),
}
ZONE = "Atlantic/Azores"  # where a day, and a week, begins an hour after the records
CALENDARS = {
    "days": TumblingWindows("1 day", zone=ZONE),
    "weeks": HoppingWindows("2 weeks", "1 week", zone=ZONE),
    "to date": RollingWindows({"today": "day to date", "hour": "1 hour"}, zone=ZONE),
}
ALL = [*KINDS, *CALENDARS, "custom"]


def large(state: list[Any], number: int, items: list[int], amount: Decimal) -> list[Any]:
    """Add a number that no 64 bits hold, a map and a decimal."""
    return [*state, 2**64 + number, {"items": items}, amount]


def joined(left: list[Any], right: list[Any]) -> list[Any]:
    """Add the numbers of another state."""
    return [*left, *right]


def table(number: int, seed: int) -> pa.Table:
    """The records of a batch, which differ from seed to seed."""
    rows = range(number * ROWS, (number + 1) * ROWS)
    columns: dict[str, Any] = {
        "k": pa.array([Decimal((row * 7 + seed) % 9) for row in rows], pa.decimal128(10, 2)),
        "at": pa.array(
            [BEGIN + timedelta(seconds=5 * row + 300 * (row // 50)) for row in rows],
            pa.timestamp("us", "UTC"),
        ),
        "number": pa.array(rows, pa.int64()),
    }
    for name, (type_, value) in VALUES.items():
        columns[name] = pa.array([value(row + seed) for row in rows], type_)
    return pa.table(columns)


@dataclass(frozen=True, kw_only=True)
class Kept(KeyedOperator):
    """Emits the last values of a key with each record."""

    def schema(self, types: Any) -> Declaration:
        return Declaration([*VALUES, "number"], results={"kept": "string"})

    def process(self, time: int, record: dict[str, Any], context: Any) -> Any:
        context.value = [*(context.value or []), 2**64 + time, *(record[name] for name in VALUES)][-12:]
        yield {"kept": str(context.value)}


def newer() -> dict[str, Any]:
    """Aggregates whose states are maps, lists, weights and sketches."""
    return {
        "sums": agg.sum("decimal").by("text"),
        "counts": agg.count().by("date"),
        "counted": agg.histogram("interval"),
        "faded": agg.decayed_sum("float", "1 day"),
        "newest": agg.last_n("local", 3),
        "top": agg.max_by("date", "number", 3),
        "union": agg.collect_union("list"),
        "hll": agg.hll_sketch_agg("text"),
        "kll": agg.kll_sketch_agg_double("float"),
    }


def operator(kind: str) -> Any:
    """An operator that stores values of all types."""
    if kind == "custom":
        return Kept().group_by("k")
    if kind in CALENDARS:
        made = CALENDARS[kind].group_by("k").aggregate(**newer())
        return made if isinstance(made.windows, RollingWindows) else made.emit("on_update")
    lists = {name: agg.collect_list(name) for name in VALUES if name not in NESTED}
    folded = agg.fold(list, large, "number", "list", "decimal", type="string", merge=joined, finish=str)
    others = {
        "mean": agg.avg("decimal"),
        "spread": agg.variance("float"),
        "mode_of": agg.mode("text"),
        "quantiles": agg.approx_quantiles("float", [0.1, 0.5]),
        "kinds": agg.approx_count_distinct("decimal"),
        "frequent": agg.approx_top_k("binary", 3),
        "latest": agg.max_by("date", "number"),
    }
    return KINDS[kind].group_by("k").aggregate(**lists, **others, folded=folded)


def rows_of(kind: str, backend: str, folder: Path, seed: int) -> Iterator[list[dict[str, Any]]]:
    """The rows of each batch. After each, the operator is closed, and the next one reads what it has committed."""
    options: dict[str, object] = {}
    if backend != "spark":  # Spark stores it.
        options = {"state.snapshots.batches": 2, "state.snapshots.folder": str(folder / "snapshots")}
    for number in range(BATCHES):
        with operator(kind).local_runner("at", backend, folder / "state", options) as runner:
            yield runner.process(table(number, seed)).to_pylist()


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
@pytest.mark.usefixtures("switching")
def test_threads_do_not_disturb_one_another(backend: str, tmp_path: Path) -> None:
    """Operators of all kinds, over values of all types: several of each kind at once, and all rows are those of one alone."""
    jobs = [(kind, seed) for seed in range(EACH) for kind in ALL]

    def work(kind: str, seed: int, run: str) -> list[list[dict[str, Any]]]:
        return [*rows_of(kind, backend, tmp_path / run / f"{kind}-{seed}", seed)]

    alone = [work(*job, "alone") for job in jobs]
    with ThreadPoolExecutor(THREADS) as pool:
        together = [*pool.map(lambda job: work(*job, "together"), jobs)]
    assert alone == together
    assert all(map(any, together))


@dataclass
class Bucket:
    """A bucket of a stream, whose tasks ask a process for state.

    Attributes:
        job: of the operator.
        name: of the bucket's state.
        journal: what tasks have committed.
    """

    job: Job
    name: str
    journal: MemoryJournal

    def batch(
        self, service: BucketService, origin: Origin, number: int, rows: pa.Table
    ) -> list[dict[str, Any]]:
        """What the service answers to a batch, which is committed."""
        pointer = read_pointer(self.journal) or replace(Pointer.fresh(), store_id=self.name)
        blobs = Blobs([*to_blobs(rows)])
        watermark = number * ROWS * 5_000 + round(BEGIN.timestamp() * 1_000)
        request = Request(pointer, 0, number, Call(watermark, number), blobs)
        functions = Functions(origin, "warning", cloudpickle.dumps(self.job))
        talk = Conversation(functions, self.journal, request, Spool(self.job.config.directory))
        one, other = socket.socketpair(socket.AF_UNIX)
        service.take(Connection(other, 60))
        with Connection(one, 60) as process:
            heard, answer = converse(talk, process)
        assert Heard.DONE is heard
        assert isinstance(answer, Done)
        outcome = answer.write_to(self.journal)
        return [row for table in from_blobs(outcome.blobs) for row in table.to_pylist()]


@contextmanager
def at_work() -> Iterator[BucketService]:
    """A service whose main thread works for tasks, and closes all copies after each third of them."""
    service, ends = BucketService(), Event()

    def main() -> None:
        worked = 0
        while not ends.is_set():
            worked += service.serve_next(0.1)
            if worked >= 3:
                worked = 0
                drop_all()
        drop_all()

    thread = Thread(target=main)
    thread.start()
    try:
        yield service
    finally:
        ends.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
@pytest.mark.usefixtures("switching")
def test_a_process_for_state_works_for_several_tasks(backend: str, tmp_path: Path) -> None:
    """Each bucket gets the rows that it gets alone, whatever other buckets and operators are worked on in between.

    Snapshots are uploaded meanwhile. After each third batch, copies are made anew of them and the log.
    """
    options = {"state.directory": str(tmp_path / "state")}
    if backend != "spark":
        options |= {"state.snapshots.batches": "1", "state.snapshots.folder": str(tmp_path / "snapshots")}
    config = resolve(backend, options)
    bindings = {kind: operator(kind).bind(table(0, 0).schema, "at", config) for kind in ALL}

    def work(kind: str, seed: int, service: BucketService, run: str) -> list[list[dict[str, Any]]]:
        job = Job(bindings[kind], config, (0,), WatermarkRule())
        names = job.binding.inputs.names
        bucket = Bucket(job, f"{run}{seed:07x}{ALL.index(kind):08x}", MemoryJournal())
        batches = [table(number, seed).select(names) for number in range(BATCHES)]
        return [bucket.batch(service, Origin(run, kind), number, rows) for number, rows in enumerate(batches)]

    jobs = [(kind, seed) for seed in range(EACH) for kind in ALL]
    found = []
    for run, threads in (("a", 1), ("b", THREADS)):
        with at_work() as service, ThreadPoolExecutor(threads) as pool:
            found.append([*pool.map(lambda each: work(*each, service, run), jobs)])  # noqa: B023 - called here
    alone, together = found
    assert alone == together
    assert all(map(any, together))
    manifests = [*(tmp_path / "snapshots").glob("*/*.json")]
    assert (backend != "spark") == bool(manifests)
