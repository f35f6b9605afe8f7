"""Functions for one key that raise, and are skipped: judged by an operator that looks before it changes anything."""

import random
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import Declaration, DefinitionError, KeyedOperator, OperatorError
from operators.runtime.local import LocalRunner
from state_backends.checkpoints.savepoint import HEADER, write_header
from state_backends.durability.folders import Folder

BACKENDS = ("memory", "rocksdb", "spark")
GRACE = 60
ROWS = {"what": "string", "at": "timestamp", "seen": "array<bigint>"}
Record = tuple[str, int, int]
SCHEMA = pa.schema([("other", pa.string()), ("k", pa.string()), ("t", pa.int64()), ("v", pa.int64())])


def table(records: list[Record]) -> pa.Table:
    rows = [{"other": "x", "k": k, "t": t, "v": v} for k, t, v in records]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def is_wrong(v: int, value: Any) -> bool:
    """Whether a record is one that raises: some do always, some for what the state has."""
    return v % 7 == 0 or (value is not None and len(value["seen"]) == 4 and v % 3 == 0)


def timer_is_wrong(time: int, name: str) -> bool:
    return name == "odd" and time % 2 == 1


@dataclass(frozen=True, kw_only=True)
class Careful(KeyedOperator):
    """Looks first, and tells of what would raise in a row of its own."""

    def schema(self, types):
        return Declaration(["v"], results=ROWS, counts=["calls"])

    def process(self, time, record, context):
        v = record["v"]
        if is_wrong(v, context.value):
            return [{"what": "wrong", "at": time, "seen": [v]}]
        value = context.value or {"seen": [], "sum": 0}
        seen = [*value["seen"], v][-5:]
        context.value = {"seen": seen, "sum": value["sum"] + v}
        context.set_timer(time + v % 50 + 1, "odd" if v % 2 else "even")
        if v % 5 == 0:
            context.cancel_timer("even")
        context.count("calls")
        return [{"what": "record", "at": time, "seen": list(seen)}]

    def on_timer(self, time, name, context):
        if timer_is_wrong(time, name):
            return [{"what": "wrong timer", "at": time}]
        context.count("calls")
        seen = context.value["seen"][1:]
        context.value = {**context.value, "seen": seen} if seen else None
        return [{"what": name, "at": time, "seen": list(seen)}]


@dataclass(frozen=True, kw_only=True)
class Careless(Careful):
    """Does the same, but finds out when it has changed what it has, in place."""

    def process(self, time, record, context):
        wrong, v = is_wrong(record["v"], context.value), record["v"]
        context.value = context.value or {"seen": [], "sum": 0}
        seen = context.value["seen"]
        seen.append(v)
        context.value["sum"] += v
        if len(seen) > 5:
            del seen[0]
        context.set_timer(time + v % 50 + 1, "odd" if v % 2 else "even")
        if v % 5 == 0:
            context.cancel_timer("even")
        context.count("calls")
        yield {"what": "record", "at": time, "seen": seen}
        if wrong:
            raise ValueError(f"cannot take {v}")

    def on_timer(self, time, name, context):
        context.count("calls")
        seen = context.value["seen"]
        del seen[:1]
        yield {"what": name, "at": time, "seen": seen}
        if timer_is_wrong(time, name):
            context.cancel_timer("even")
            raise KeyError(name)
        if not seen:
            context.value = None


def plain(rows: pa.Table) -> list[tuple[Any, ...]]:
    at = [time // 1_000 for time in rows.column("at").cast(pa.int64()).to_pylist()]
    return list(zip(*(rows.column(name).to_pylist() for name in ("k", "what", "seen")), at, strict=True))


def stored(runner: LocalRunner) -> list[Any]:
    return sorted(
        (keys[key], *rest)
        for keys, entries in runner.store.scan()
        for key, *rest in zip(
            entries.key.tolist(), *(map(repr, column.tolist()) for column in entries.columns), strict=True
        )
    )


def shuffled(rng: random.Random, number: int, keys: str) -> list[Record]:
    return [(rng.choice(keys), n * 3 + rng.randrange(150), rng.randrange(100)) for n in range(number)]


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["a", "abcd"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_all_is_as_without_what_raised(backend: str, keys: str) -> None:
    """Rows, state and counts are those of an operator that looks first, in any batches, after attempts that are given up."""
    rng = random.Random(f"{backend} {keys}")
    records, at, failed = shuffled(rng, 400, keys), 0, 0
    careless, careful = (
        kind(grace=GRACE, **more).group_by("k")
        for kind, more in ((Careless, {"on_error": "skip"}), (Careful, {}))
    )
    with (
        careless.local_runner("t", backend, late=True) as runner,
        careful.local_runner("t") as judge,
    ):
        ends = [None, 10**9]
        while at < len(records) or ends:
            end = ends.pop(0) if at >= len(records) else None
            batch = table(records[at : at + rng.choice([0, 1, 9, 60])])
            at += len(batch)
            if rng.random() < 0.3:
                runner.abort(table(shuffled(rng, 9, keys)), end)
            if rng.random() < 0.2:
                runner.restart(rng.choice(BACKENDS))
            rows, expected = plain(runner.process(batch, end)), plain(judge.process(batch, end))
            wrong = [(k, what, seen, time) for k, what, seen, time in expected if what.startswith("wrong")]
            right = [row for row in expected if row not in wrong]
            assert {key: [r for r in right if r[0] == key] for key in keys} == {
                key: [r for r in rows if r[0] == key] for key in keys
            }
            assert stored(judge) == stored(runner)
            reports = [report for report in runner.late.to_pylist() if report["reason"] != "late"]
            found = [(r["record"]["k"], r["record"]["t"], r["record"]["v"]) for r in reports]
            told = [
                (k, time, seen[0]) if what == "wrong" else (k, None, None) for k, what, seen, time in wrong
            ]
            assert sorted(map(repr, told)) == sorted(map(repr, found))
            assert len(wrong) == runner.metrics["failed"]
            failed += len(wrong)
        assert 50 < failed == runner.counters.failed
        assert runner.counters.custom == judge.counters.custom
        assert runner.counters.late == judge.counters.late > 0


def test_a_report_says_what_where_and_which_record() -> None:
    """The method, its event time, the error and the line; key, event time and declared inputs, other columns are null."""
    with Careless(on_error="skip").group_by("k").local_runner("t", late=True) as runner:
        runner.process(table([("a", 7, 14), ("b", 9, 3)]), 1_000)
        (record, timer) = runner.late.to_pylist()
    assert record["reason"].startswith(
        "Careless.process at event time 7 (1970-01-01T00:00:00.007000+00:00) failed: ValueError: cannot take 14 "
        "(test_skipping.py, line "
    )
    assert {"other": None, "k": "a", "t": 7, "v": 14} == record["record"]
    assert (None, None) == (record["window"], record["late_by_ms"])
    assert timer["reason"].startswith("Careless.on_timer('odd') at event time ")
    assert {"other": None, "k": "b", "t": None, "v": None} == timer["record"]


@dataclass(frozen=True, kw_only=True)
class Typed(KeyedOperator):
    """Fails for each record, or emits what `row` has."""

    inputs: tuple[str, ...]
    row: Any = None
    error: Any = None

    def settings(self):
        return {}

    def schema(self, types):
        return Declaration(self.inputs, results={"n": "bigint", "tags": "array<string>"})

    def process(self, time, record, context):
        if self.error is not None:
            raise self.error
        for nested in record.values():
            if isinstance(nested, list):
                nested.clear()
        return self.row if self.row is not None else 1 / 0


def test_records_are_reported_with_the_values_that_came() -> None:
    """Of each type, with and without zone, null and not, and as they were before the function changed them."""
    moment = datetime(2026, 1, 5, 9, 0, 0, 123456, tzinfo=timezone.utc)
    types = {
        "k": pa.int32(),
        "at": pa.timestamp("us", "Europe/Berlin"),
        "ntz": pa.timestamp("us"),
        "day": pa.date32(),
        "price": pa.decimal128(9, 2),
        "tags": pa.list_(pa.string()),
        "raw": pa.binary(),
        "x": pa.float32(),
    }
    schema = pa.schema([pa.field(name, type_, nullable=name != "k") for name, type_ in types.items()])
    values = {"ntz": moment.replace(tzinfo=None), "tags": ["a"], "raw": b"\0", "x": 0.5}
    days = {"day": moment.date(), "price": None}
    rows = pa.Table.from_pylist([{"k": 1, "at": moment, **values, **days}, {"k": 2, "at": moment}], schema)
    inputs = tuple(name for name in types if name not in ("k", "at"))
    with Typed(inputs=inputs, on_error="skip").group_by("k").local_runner("at", late=True) as runner:
        assert 0 == runner.process(rows, moment.replace(year=2027)).num_rows
        found = runner.late.column("record").combine_chunks()
    expected = rows.to_pylist()
    for record in expected:  # It is known to a tick, which is a millisecond.
        record["at"] = record["at"].replace(microsecond=123000)
    assert expected == found.to_pylist()
    with Typed(inputs=("at",), on_error="skip").group_by("k").local_runner("at", late=True) as runner:
        runner.process(rows, moment.replace(year=2027))
        assert [moment, moment] == [r["record"]["at"] for r in runner.late.to_pylist()]


class SilentError(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"row": [{"n": "x"}]}, "TypeError: Typed: result 'n' does not have the declared type int64"),
        ({"row": {"n": 1}}, "return [row], or yield row"),
        ({"row": [{"m": 1}]}, "unknown result columns: m"),
        ({"row": [{"n": 1}, 5]}, "a row must be a mapping"),
        ({"error": SilentError()}, "SilentError: its text cannot be made"),
        ({"error": ValueError("x" * 10_000)}, "xxx"),
        ({"error": RecursionError("deep")}, "RecursionError: deep"),
    ],
)
def test_whatever_is_wrong_with_a_record_skips_it(given: dict[str, Any], said: str) -> None:
    """Also rows that are none, and results of other types than declared; texts have an end."""
    with Typed(inputs=(), on_error="skip", **given).group_by("k").local_runner("t", late=True) as runner:
        assert 0 == runner.process(table([("a", 7, 1)]), 1_000).num_rows
        (report,) = runner.late.to_pylist()
    assert said in report["reason"]
    assert len(report["reason"]) < 1_100


@pytest.mark.parametrize("error", [OperatorError("enough"), MemoryError("none left")])
def test_some_errors_end_the_query_all_the_same(error: Exception) -> None:
    """Those of the machine, and an OperatorError, by which an operator says so."""
    with (
        Typed(inputs=(), on_error="skip", error=error).group_by("k").local_runner("t") as runner,
        pytest.raises(OperatorError, match=str(error)),
    ):
        runner.process(table([("a", 7, 1)]), 1_000)


def test_functions_that_depend_on_more_than_their_arguments_are_found_out() -> None:
    """The state before a record cannot be made again if the same call raises the second time."""
    calls = []

    @dataclass(frozen=True, kw_only=True)
    class Moody(Typed):
        def process(self, time, record, context):
            calls.append(time)
            if len(calls) > 1:
                raise ValueError("not again")

    with (
        Moody(inputs=(), on_error="skip").group_by("k").local_runner("t") as runner,
        pytest.raises(
            OperatorError, match=r"event time 7 .*not again.*functions must depend on their arguments"
        ),
    ):
        runner.process(table([("a", 7, 1), ("a", 8, 1)]), 1_000)


def test_the_switch_is_checked_and_may_change_over_the_same_state(tmp_path: Path) -> None:
    """A query that ended because of a record goes on without it."""
    with (
        Careless(on_error="keep").group_by("k").local_runner("t") as runner,
        pytest.raises(DefinitionError, match="on_error of Careless is 'keep': expected 'fail' or 'skip'"),
    ):
        runner.process(table([]))
    with Careless(grace=GRACE).group_by("k").local_runner("t", "rocksdb", tmp_path) as runner:
        runner.process(table([("a", 7, 14), ("a", 8, 4)]))
        with pytest.raises(OperatorError, match="cannot take 14"):
            runner.process(table([("a", 500, 1)]))
    skipping = Careless(grace=GRACE, on_error="skip").group_by("k")
    with skipping.local_runner("t", "rocksdb", tmp_path, late=True) as runner:
        rows = plain(runner.process(table([("a", 500, 1)])))
        assert [("a", "record", [4], 8)] == rows[:1]
        assert 1 == runner.metrics["failed"] == runner.late.num_rows


@pytest.mark.parametrize("late", [True, False])
def test_what_fails_at_the_start_from_a_savepoint_is_reported_with_the_first_batch(
    tmp_path: Path, late: bool
) -> None:
    """Of several buckets, some may lag behind the latest: what waits in them is due when the savepoint is read."""
    skipping = Careless(grace=GRACE, on_error="skip").group_by("k")
    with skipping.local_runner("t") as runner:
        runner.process(table([("a", 7, 14), ("a", 90, 7), ("a", 91, 4)]))
        assert 1 == runner.metrics["failed"]
        saved = runner.savepoint(tmp_path / "saved")
    folder = Folder(saved.uri)
    (tmp_path / "saved" / HEADER).unlink()
    write_header(folder, saved.identity, saved.schema, 1_000, saved.files, saved.origin)
    options = {"state.savepoint": saved.uri}
    with skipping.local_runner("t", options=options, late=late) as runner:
        rows = plain(runner.process(table([("b", 3_000, 2), ("b", 1_100, 7)])))
        assert ("a", "record", [4], 91) == rows[0]
        assert 2 == runner.metrics["failed"] == runner.counters.failed
        if late:
            found = [report["record"]["t"] for report in runner.late.to_pylist()]
            assert [90, 1_100] == found
        runner.process(table([]))
        assert 0 == runner.metrics["failed"]
