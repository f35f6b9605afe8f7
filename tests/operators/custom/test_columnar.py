"""Operators on columns: what they get and give, judged by brute force; timers, and late records."""

import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import NEVER, Declaration, Operator
from operators.columns.records import FAR_FUTURE, FAR_PAST
from operators.custom.contract import CallContext
from operators.errors import OperatorError
from operators.steps.step import Step
from state_backends import resolve
from tests.operators.custom.samples import Doing, Echo, Record, own_engine, plain, stepped, table

BACKENDS = ("memory", "rocksdb", "spark")
GRACE = 60


@dataclass(frozen=True, kw_only=True)
class LastSum(Operator):
    """The sum of a key's last n values, at each record that no other can come before."""

    n: int

    def declare(self, types):
        state = {"value": float, "closed": int}
        return Declaration(["v"], state, {"at": "timestamp", "total": "double"}, ["made"])

    def due(self, entries):
        return np.where(entries["closed"] == 0, entries.time, NEVER)

    def process_batch(self, context):
        records = context.records
        context.add(
            context.stored(records.key, records.time, value=records.values["v"].filled(0.0), closed=0)
        )

    def fire(self, context):
        old = context.read(end=context.close_time - 1)
        key = np.concatenate([old.key, context.due.key])
        time = np.concatenate([old.time, context.due.time])
        value = np.concatenate([old["value"], context.due["value"]])
        new = np.repeat([False, True], [len(old), len(context.due)])
        order = np.lexsort((new, time, key))
        key, time, value, new = key[order], time[order], value[order], new[order]
        at = np.arange(len(key))
        begin = np.maximum(np.searchsorted(key, key), at - self.n + 1)
        sums = np.concatenate([[0.0], np.cumsum(value)])
        kept = at >= np.searchsorted(key, key, "right") - self.n
        context.delete(old)
        context.add(context.stored(key[kept], time[kept], value=value[kept], closed=1))
        context.count("made", new.sum())
        return context.rows(key[new], at=time[new], total=(sums[1:] - sums[begin])[new])


def judge(records: list[Record], n: int) -> list[tuple[str, int, float]]:
    """The same by looking at all records of a key."""
    by_key = defaultdict(list)
    for key, time, value in sorted(records, key=lambda record: record[1]):
        by_key[key].append((time, value))
    return [
        (key, time, sum(value for _, value in values[max(0, at - n + 1) : at + 1]))
        for key, values in by_key.items()
        for at, (time, _) in enumerate(values)
    ]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_are_those_of_brute_force(backend: str, seed: int) -> None:
    """Whatever the batches, segments, attempts that are given up, restarts and moves; late records count, and count no more."""
    rng = random.Random(seed)
    records = [
        (rng.choice("abcde"), n * 3 + rng.randrange(200) // 5 * 5, float(rng.randrange(9)))
        for n in range(400)
    ]
    accepted, rows, close, at = [], [], FAR_PAST, 0
    grouped = LastSum(n=4, grace=GRACE).group_by("k")
    with grouped.local_runner(
        "t", backend, options={"state.segment": rng.choice(["7 ms", "100 ms", "1 minute"])}
    ) as runner:
        while at < len(records):
            batch = records[at : at + rng.choice([0, 1, 30, 90])]
            at += len(batch)
            if rng.random() < 0.3:
                runner.abort(table(records[: rng.randrange(9)]))
            if rng.random() < 0.3:
                runner.restart(rng.choice(BACKENDS))
            found = plain(runner.process(table(batch)))
            assert all(time >= close for _, time, _ in found)
            accepted += [record for record in batch if record[1] >= close]
            close = max((time for _, time, _ in records[:at]), default=FAR_PAST) - GRACE
            assert all(time < close for _, time, _ in found)
            rows += found
        rows += plain(runner.process(table([]), stream_time=10**9))
        counters = runner.counters
    expected = judge(accepted, 4)
    assert sorted(expected) == sorted(rows)
    assert (len(records) - len(accepted), {"made": len(rows)}) == (counters.late, counters.custom)
    assert counters.late > 0


@pytest.mark.slow
def test_timers_that_timers_set_fire_in_the_same_step() -> None:
    """A bounded frame, one wide step, and many narrow ones give the same rows, over several segments."""
    records = [("a", 0, 3.0), ("b", 5, 1.0), ("a", 595_000, 90.0)]
    whole = stepped(Echo(step=100), [(records, FAR_PAST, FAR_FUTURE)])[0]
    assert [("a", 0, 2), ("a", 100, 1), ("a", 200, 0)] == whole[:3]
    assert 94 == len(whole)
    steps = [(records, FAR_PAST, 0), *(([], close, close) for close in (101, 201, 250, 900_000, FAR_FUTURE))]
    rows = stepped(Echo(step=100), steps)
    assert [0, 3, 1, 0] == [len(some) for some in rows[:4]]
    assert whole == sorted(chain(*rows))


def test_timers_that_never_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a bounded frame; and anywhere, if a timer is no later than the one that has come."""
    with pytest.raises(
        OperatorError, match=r"Echo.fire wrote an entry with timer 7, which is not later than 7"
    ):
        stepped(Echo(step=0), [([("a", 7, 2.0)], FAR_PAST, 8)])
    monkeypatch.setattr("operators.custom.plan._MOST_CALLS", 50)
    with pytest.raises(OperatorError, match="more than 50 times after the last record of a bounded frame"):
        stepped(Echo(step=1), [([("a", 7, 1e9)], FAR_PAST, FAR_FUTURE)])


@dataclass(frozen=True, kw_only=True)
class Latest(Operator):
    """Keeps each key's last value; a timer emits it 10 ticks after its event time."""

    def declare(self, types):
        return Declaration(["v"], {"value": float, "at": int}, {"at": "timestamp", "value": "double"})

    def due(self, entries):
        return entries["at"] + 10

    def process_batch(self, context):
        records = context.records
        last = np.flatnonzero(np.diff(records.key, append=-1))
        key, time, value = records.key[last], records.time[last], records.values["v"].values[last]
        context.put(context.stored(key, 0, value=value, at=time))

    def fire(self, context):
        assert len(context.keys) == len(set(context.due.key.tolist()))
        return context.rows(context.due.key, at=context.due["at"], value=context.due["value"])


def test_a_batch_has_two_close_times() -> None:
    """What the one at its start has passed fires on the state as it was, before the batch's records are taken."""
    batch = [("a", 30, 3.0), ("a", 20, 2.0), ("b", 19, 9.0)]
    early, late = ([("a", 0, 1.0)], FAR_PAST, 5), (batch, 20, 41)
    assert [[], [("a", 0, 1.0), ("a", 30, 3.0)]] == stepped(Latest(), [early, late])
    assert [[], [("a", 30, 3.0), ("b", 19, 9.0)]] == stepped(Latest(), [early, (batch, 5, 41)])


def test_fire_gets_the_keys_that_are_due() -> None:
    """Not those whose page the calendar has too early, as their timer was put off."""
    engine, binding = own_engine(Latest())
    for batch, close in (([("a", 0, 1.0), ("b", 0, 1.0)], 0), ([("a", 500, 2.0)], 1)):
        assert [] == engine.step(binding.read([table(batch)]), Step(close, close))
    [rows] = engine.step(binding.read([table([])]), Step(100, 100))
    assert [("b", 0, 1.0)] == plain(binding.output.table([rows]), "value")
    [rows] = engine.step(binding.read([table([])]), Step(1_000, 1_000))
    assert [("a", 500, 2.0)] == plain(binding.output.table([rows]), "value")
    assert engine.state.store.is_empty()


def test_the_timer_queue_does_not_grow_with_batches() -> None:
    """A page whose timer is put off with each batch stays at one entry, which is early."""
    engine, binding = own_engine(Latest())
    for n in range(100):
        engine.step(binding.read([table([("a", 100_000 + n, 1.0)])]), Step(n, n))
    assert 1 == len(engine.state.timers.queue)
    [rows] = engine.step(binding.read([table([])]), Step(200_000, 200_000))
    assert [("a", 100_099, 1.0)] == plain(binding.output.table([rows]), "value")
    assert 0 == len(engine.state.timers.queue) == len(engine.state.timers.queue.by_page)


def test_the_operator_says_what_is_late() -> None:
    """Records before `late_before` are counted, and not seen."""

    class Patient(Latest):
        def late_before(self, close_time: int) -> int:
            return close_time - 100

    engine, binding = own_engine(Patient())
    step = Step(200, 200)
    engine.step(binding.read([table([("a", 99, 1.0), ("b", 100, 2.0), ("c", 250, 3.0)])]), step)
    assert (3, 1, 1) == (step.counters.rows, step.counters.late, step.counters.windows)


def test_columns_are_taken_in_many_forms() -> None:
    """Lists, arrays of NumPy and Arrow, one value for all; lists as values; entries out of order are put in order."""
    found: dict[str, Any] = {}

    class Forms(Doing):
        def process_batch(self, context: CallContext):
            key = [1, 0, 1]
            entries = context.stored(
                key, [5, 6, 4], i=pa.array([1, 2, 3]), f=np.array([1, 2, 3]), o=[[1], [2], [3]]
            )
            context.put(entries.take(np.array([2, 0, 1])))
            context.add(context.stored(key, 9, i=True, f=2, o={"x": (1,)}))
            context.add(context.stored(key, 10, i=[0, 1, 2], f=[1, 2.5, 3], o=np.arange(3)))
            found["entries"], found["keys"] = context.read(), context.key_columns()
            context.delete(context.read(9))
            found["left"] = len(context.read())
            masked = np.ma.masked_equal([4, 5, 6], 5)
            return context.rows(key, at=7, n=masked, s=pa.array(["x", None, "y"]))

    engine, binding = own_engine(Forms())
    rows = binding.output.table(
        engine.step(binding.read([table([("a", 1, 1.0), ("b", 1, 1.0)])]), Step(0, 0))
    )
    entries = found["entries"]
    assert [6, 9, 10, 4, 5, 9, 9, 10, 10] == entries.time.tolist()
    assert [2, 1, 1, 3, 1, 1, 1, 0, 2] == entries["i"].tolist()
    assert [2.0, 2.0, 2.5, 3.0, 1.0, 2.0, 2.0, 1.0, 3.0] == entries["f"].tolist()
    same = {"x": [1]}
    assert [[2], same, 1, [3], [1], same, same, 0, 2] == entries["o"].tolist()
    assert {"k": ["a", "b"]} == {name: column.to_pylist() for name, column in found["keys"].items()}
    assert 3 == found["left"]
    assert [("b", 7, 4), ("a", 7, None), ("b", 7, 6)] == plain(rows, "n")
    assert ["x", None, "y"] == rows.column("s").to_pylist()


def test_a_frame_that_is_all_there_is_kept_in_few_segments() -> None:
    """However long it spans: each segment of the store costs time."""
    bounded = LastSum(n=3).group_by("k").bounded()
    binding = bounded.bind(table([]).schema, "t", resolve("memory"))
    engine = binding.plan.engine(binding.store(resolve("memory").open(Path())))
    records = [("a", minute * 60_000, 1.0) for minute in range(-5, 500_000, 1_000)]
    engine.step(binding.read([table(records)]), Step(FAR_PAST, FAR_PAST))
    assert 2 == len(engine.state.store.segments())
    found = binding.output.table(engine.step(binding.read([table([])]), Step(FAR_FUTURE, FAR_FUTURE)))
    assert sorted(judge(records, 3)) == sorted(plain(found))


@dataclass(frozen=True, kw_only=True)
class Roots(Operator):
    """Reports values below 0, and in `fire` those of which a timer finds that they are above 50."""

    def declare(self, types):
        return Declaration(["v"], {"value": int}, {"at": "timestamp", "value": "bigint"})

    def due(self, entries):
        return entries.time

    def process_batch(self, context):
        records = context.records
        value = records.values["v"].filled(0)
        for row in np.flatnonzero(value < 0).tolist():
            context.report_failed("below 0", int(records.key[row]), int(records.time[row]), [int(value[row])])
        fine = value >= 0
        context.add(context.stored(records.key[fine], records.time[fine], value=value[fine]))

    def fire(self, context):
        large = context.due["value"] > 50
        for row in np.flatnonzero(large).tolist():
            context.report_failed("above 50", int(context.due.key[row]))
        due = context.due.take(~large)
        return context.rows(due.key, at=due.time, value=due["value"])


@pytest.mark.parametrize("late", [True, False])
def test_an_operator_reports_what_it_cannot_process(late: bool) -> None:
    """From records and from timers: key, time and inputs as far as they are known; other columns are null."""
    schema = pa.schema(
        [
            pa.field("other", pa.string(), nullable=False),
            pa.field("k", pa.string(), nullable=False),
            pa.field("t", pa.int64(), nullable=False),
            pa.field("v", pa.int64(), nullable=False),
        ]
    )
    rows = [("x", "a", 7, -1), ("y", "b", 8, 60), ("z", "b", 9, 5), ("x", "a", 8, -3)]
    batch = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    with Roots().group_by("k").local_runner("t", late=late) as runner:
        assert [5] == runner.process(batch, 1_000).column("value").to_pylist()
        assert 3 == runner.metrics["failed"] == runner.counters.failed
        if late:
            assert [
                ("below 0", {"other": None, "k": "a", "t": 7, "v": -1}),
                ("below 0", {"other": None, "k": "a", "t": 8, "v": -3}),
                ("above 50", {"other": None, "k": "b", "t": None, "v": None}),
            ] == [(report["reason"], report["record"]) for report in runner.late.to_pylist()]
