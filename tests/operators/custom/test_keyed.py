"""Operators for one key, a record at a time: order, timers and state, judged by going through the records one by one."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import Declaration, KeyedOperator
from operators.columns.records import FAR_FUTURE, FAR_PAST
from operators.steps.step import Step
from state_backends import resolve
from tests.operators.custom import samples
from tests.operators.custom.samples import own_engine

BACKENDS = ("memory", "rocksdb", "spark")
GRACE = 60
GAP = 25
Record = tuple[str, int, int]


def table(records: list[Record]) -> pa.Table:
    return samples.table(records, pa.int64())


def script(time: int, v: int, context: Any) -> Iterator[dict[str, Any]]:
    """What the operator does with a record, and the judge with its own keys."""
    context.value = None if v % 13 == 0 else [*(context.value or []), v][-3:]
    if v % 7 == 0:
        context.cancel_timer("quiet")
    else:
        context.set_timer(time + GAP, "quiet")
    if v % 5 == 0:
        context.set_timer(time - 3, "past")
    if v % 11 == 0:
        context.set_timer(time + 1_000_000, "far")
    context.count("records")
    yield {"at": time, "what": "record", "seen": context.value}


def alarm(time: int, name: str, context: Any) -> Iterator[dict[str, Any]]:
    """What both do with a timer."""
    yield {"at": time, "what": name, "seen": context.value}
    if name == "quiet" and context.value and context.value[-1] % 2:
        context.set_timer(time + 1, "quiet")
        context.value = [*context.value[:-1], context.value[-1] - 1]
    elif name == "quiet":
        context.value = None
        yield {"at": time, "what": "gone"}


@dataclass(frozen=True, kw_only=True)
class Scripted(KeyedOperator):
    """Follows the script."""

    def schema(self, types):
        results = {"at": "timestamp", "what": "string", "seen": "array<bigint>", "name": "string"}
        return Declaration(["v"], results=results, counts=["records"])

    def process(self, time, record, context):
        return [{**row, "name": context.key["k"]} for row in script(time, record["v"], context)]

    def on_timer(self, time, name, context):
        yield from ({**row, "name": context.key["k"]} for row in alarm(time, name, context))


@dataclass
class Judged:
    """A key as the judge has it."""

    value: Any = None
    timers: dict[str, int] = field(default_factory=dict)

    def set_timer(self, time: int, name: str) -> None:
        self.timers[name] = time

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def count(self, name: str) -> None:
        """The judge counts records itself."""


def judge(records: list[Record]) -> list[tuple[int, tuple[Any, ...]]]:
    """Each row with the time at which it comes: that of the latest record or timer of its key so far."""
    rows = []
    for key in {k for k, _, _ in records}:
        coming = sorted((time, number, v) for number, (k, time, v) in enumerate(records) if k == key)
        state, now = Judged(), FAR_PAST
        while coming or state.timers:
            timer = min(((time, name) for name, time in state.timers.items()), default=None)
            if timer is not None and (not coming or timer[0] < coming[0][0]):
                del state.timers[timer[1]]
                now, made = max(now, timer[0]), alarm(*timer, state)
            else:
                time, _, v = coming.pop(0)
                now, made = max(now, time), script(time, v, state)
            rows += [(now, (key, row["at"], row["what"], row.get("seen"))) for row in made]
    return rows


def plain(rows: pa.Table) -> list[tuple[Any, ...]]:
    at = rows.column("at").cast(pa.int64()).to_pylist()
    assert rows.column("k").equals(rows.column("name"))
    others = [rows.column(name).to_pylist() for name in ("k", "what", "seen")]
    return [
        (k, time // 1_000, what, seen) for k, time, what, seen in zip(others[0], at, *others[1:], strict=True)
    ]


def shuffled(rng: random.Random, number: int) -> list[Record]:
    """Records of four keys out of order, with ties, and some that come too late."""
    return [
        (rng.choice("abcd"), n * 3 + rng.randrange(150) // 5 * 5, rng.randrange(100)) for n in range(number)
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_are_those_of_going_through_one_by_one(backend: str, seed: int) -> None:
    """Whatever the batches, attempts that are given up, restarts and moves to another backend; batch by batch, in order."""
    rng = random.Random(seed)
    records, accepted = shuffled(rng, 250), []
    close, batches, at = FAR_PAST, [], 0
    while at < len(records):
        batch = records[at : at + rng.choice([0, 1, 9, 60])]
        at += len(batch)
        accepted += [record for record in batch if record[1] >= close]
        close = max(t for _, t, _ in records[:at]) - GRACE if at else close
        batches.append((batch, close))
    expected, before = judge(accepted), FAR_PAST
    with Scripted(grace=GRACE).group_by("k").local_runner("t", backend) as runner:
        for batch, close in batches:
            if rng.random() < 0.2:
                runner.abort(table(shuffled(rng, 5)))
            if rng.random() < 0.2:
                runner.restart(rng.choice(BACKENDS))
            rows = plain(runner.process(table(batch)))
            due = [row for now, row in expected if before <= now < close]
            assert {k: [r for r in due if r[0] == k] for k in "abcd"} == {
                k: [r for r in rows if r[0] == k] for k in "abcd"
            }
            before = close
        rest = plain(runner.process(table([]), stream_time=10**9))
        assert sorted(map(repr, rest)) == sorted(repr(row) for now, row in expected if now >= before)
        assert len(records) - len(accepted) == runner.counters.late > 0
        assert {"records": len(accepted)} == runner.counters.custom
        assert {*runner.store.segments()} <= {runner.store.segment_of(FAR_FUTURE)}
        assert {"record", "quiet", "past", "far", "gone"} == {row[2] for _, row in expected}


def test_batches_of_one_record_give_what_one_batch_gives() -> None:
    """Records of one time keep the order in which they arrived."""
    records = [(k, t, v) for t in (10, 10, 12) for k, v in (("a", 3), ("b", 4), ("a", 1), ("a", 2))]
    found = []
    for size in (1, len(records)):
        with Scripted(grace=GRACE).group_by("k").local_runner("t") as runner:
            for at in range(0, len(records), size):
                assert not runner.process(table(records[at : at + size])).num_rows
            rows = plain(runner.process(table([]), stream_time=100))
            found.append([row for row in rows if row[0] == "a" and row[2] == "record"])
    assert found[0] == found[1]
    assert [[3], [3, 1], [3, 1, 2], [1, 2, 3]] == [seen for *_, seen in found[0]][:4]


def test_a_savepoint_goes_on_elsewhere(tmp_path: Path) -> None:
    """State, waiting records and timers move to another backend; what is stored can be read."""
    records = shuffled(random.Random(9), 120)
    grouped = Scripted(grace=GRACE).group_by("k")
    with grouped.local_runner("t") as runner:
        rows = plain(runner.process(table(records[:60])))
        runner.savepoint(tmp_path / "saved")
        schema = grouped.bind(table([]).schema, "t", resolve("memory")).stored_schema()
        stored = pa.concat_tables(
            schema.table(keys, entries.key, entries.columns) for keys, entries in runner.store.scan()
        )
        expected = rows + plain(runner.process(table(records[60:]), stream_time=10**9))
    assert ["k", "time", "kind", "timer", "value"] == stored.column_names
    assert 0 < stored.column("time").null_count < stored.num_rows
    with grouped.local_runner("t", "rocksdb", options={"state.savepoint": tmp_path / "saved"}) as runner:
        assert expected == rows + plain(runner.process(table(records[60:]), stream_time=10**9))


def test_keys_leave_nothing_behind() -> None:
    """Where all values are forgotten and all timers have come, no entry is stored, and none in the calendar."""
    engine, binding = own_engine(Forgetful(grace=GRACE))
    batch = binding.read([table(shuffled(random.Random(2), 80))])
    engine.step(batch, Step(FAR_PAST, FAR_FUTURE))
    assert engine.state.store.is_empty()
    assert 0 == len(engine.state.timers.queue) == len(engine.state.timers.queue.by_page)


@dataclass(frozen=True, kw_only=True)
class Forgetful(KeyedOperator):
    """Has a timer a minute after the last record, and then forgets it."""

    def schema(self, types):
        return Declaration(["v"], results={"n": "bigint"})

    def process(self, time, record, context):
        context.value = (context.value or 0) + 1
        context.set_timer(time + self.ticks("1 minute"))

    def on_timer(self, time, name, context):
        yield {"n": context.value}
        context.value = None


@pytest.mark.slow
def test_the_timer_queue_does_not_grow_with_batches() -> None:
    """A key whose timer is put off with each batch has one entry for its state, and others for records that wait."""
    engine, binding = own_engine(Forgetful())
    for n in range(60):
        engine.step(binding.read([table([("a", n * 10, 1)])]), Step(n * 10, n * 10))
    assert len(engine.state.timers.queue) <= 3
    assert 1 == len(engine.step(binding.read([table([])]), Step(10**6, 10**6)))


@pytest.mark.parametrize("others", [0, 2_000])
def test_a_step_reads_what_is_due(others: int) -> None:
    """Keys whose timers are far are not read when another one's comes."""
    memory = resolve("memory").open(Path())
    backend = Counting(memory)
    engine, binding = own_engine(Forgetful(), backend)
    far = [(f"key {n}", 10_000_000, 1) for n in range(others)]
    engine.step(binding.read([table([("a", 0, 1), *far])]), Step(FAR_PAST, 1))
    backend.write(engine.state.store.drain_changes(), b"1")
    backend.read = 0
    assert [1] == [len(rows.key) for rows in engine.step(binding.read([table([])]), Step(60_001, 60_001))]
    assert backend.read <= 4


class Counting:
    """A backend that counts the pages that it is asked for."""

    def __init__(self, backend):
        self._backend = backend
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def get_many(self, segment, keys):
        self.read += len(keys)
        return self._backend.get_many(segment, keys)


@dataclass(frozen=True, kw_only=True)
class Order(KeyedOperator):
    """An order: a key that lives from its one record to a timer."""

    def schema(self, types):
        return Declaration(["v"], results={"v": "bigint"})

    def process(self, time, record, context):
        context.value = record["v"]
        context.set_timer(time + 5)

    def on_timer(self, time, name, context):
        row, context.value = {"v": context.value}, None
        return [row]


@pytest.mark.slow
def test_keys_that_have_gone_take_no_memory() -> None:
    """Keys that come and go for long, in a segment that stays: what tells where keys have pages does not grow with them."""
    rows = 0
    with Order().group_by("k").local_runner("at") as runner:
        for batch in range(24):
            keys = [f"{batch} {number}" for number in range(1_000)]
            records = pa.table({"k": keys, "at": [3 * batch] * 1_000, "v": range(1_000)})
            rows += runner.process(records).num_rows
            assert runner.metrics["live_keys"] <= 3_000
            assert len(runner.store._directory) <= (1 << 14) + 3_000
    assert rows == 22_000
