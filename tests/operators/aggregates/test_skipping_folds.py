"""Records that functions of aggregates cannot take, and that are left out: judged by the same functions behind a `where`."""

import random
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import (
    DefinitionError,
    HoppingWindows,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.aggregates import AggregateError, AggregateOperation
from tests.effort import few

SCHEMA = pa.schema(
    [
        ("other", pa.string()),
        ("k", pa.string()),
        ("t", pa.int64()),
        ("v", pa.int64()),
        ("asked", pa.bool_()),
        ("fit", pa.bool_()),
        ("fit_and_asked", pa.bool_()),
    ]
)
"""`fit` says what `check` finds out."""


def table(rng: random.Random, number: int, keys: str, time: int = 0) -> pa.Table:
    rows = []
    for n in range(number):
        v, asked = rng.choice([None, *range(60)]), rng.choice([True, False, None])
        fit = v is not None and v % 7 != 0
        named = {"v": v, "asked": asked, "fit": fit, "fit_and_asked": fit and asked is True}
        rows.append({"other": "x", "k": rng.choice(keys), "t": time + n * 3 + rng.randrange(90), **named})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def check(v: int) -> None:
    if v % 7 == 0:
        raise ValueError(f"cannot take {v}")


def added(total: int, v: int) -> int:
    check(v)
    return total + v


def listed(values: list[int], v: int) -> list[int]:
    """Changes the state before it raises."""
    values.append(v)
    check(v)
    return values


def accumulated(state: Any, v: Any) -> Any:
    if (v % 7 == 0).any():
        raise ValueError(f"cannot take {v.tolist()}")
    return state[0] + v, state[1] + 1


MEAN = AggregateOperation(
    name="mean",
    state=(int, int),
    create=lambda: (0, 0),
    accumulate=accumulated,
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    finish=lambda state: np.ma.masked_array(state[0] / np.maximum(state[1], 1), state[1] == 0),
    type="double",
)


def mergeable(fit: str | None, both: str, **skip: str) -> dict[str, agg.Aggregate]:
    return {
        "total": agg.fold(0, added, "v", type="bigint", merge=lambda a, b: a + b, where=fit, **skip),
        "some": agg.fold(list, listed, "v", type="array<bigint>", merge=sorted_pair, where=both, **skip),
        "mean": MEAN("v", where=fit, **skip),
        "n": agg.count(),
        "top": agg.max("v"),
    }


def sorted_pair(a: list[int], b: list[int]) -> list[int]:
    return sorted(a + b)


def unmerged(fit: str | None, both: str, **skip: str) -> dict[str, agg.Aggregate]:
    return {
        "seen": agg.fold(list, listed, "v", type="array<bigint>", where=fit, **skip),
        "some": agg.fold(0, added, "v", type="bigint", where=both, **skip),
        "mean": MEAN("v", where=fit, **skip),
        "n": agg.count(),
    }


KINDS = {
    "tumbling": TumblingWindows(40, grace=30),
    "hopping": HoppingWindows(40, 10, grace=30),
    "sliding": SlidingWindows(40, grace=30),
    "session": SessionWindows(15, grace=30),
    "session with max_length": SessionWindows(15, max_length=50, grace=30),
    "rolling": RollingWindows({"a": 40, "b": 90}, grace=30),
}


def rows_of(found: pa.Table) -> list[str]:
    dropped = [name for name in ("sequence",) if name in found.column_names]
    return sorted(map(repr, found.drop_columns(dropped).to_pylist()))


@pytest.mark.parametrize("keys", ["a", "abcd"])
@pytest.mark.parametrize("emission", ["on_close", "on_update"])
@pytest.mark.parametrize("folds", [mergeable, unmerged])
@pytest.mark.parametrize("kind", few(KINDS, 3))
def test_results_are_those_of_the_same_functions_behind_a_where(
    kind: str, folds: Any, emission: str, keys: str
) -> None:
    """In each kind of window, in any batches, with late records, attempts that are given up, and other backends."""
    if kind.startswith("session") and folds is unmerged:
        pytest.skip("sessions need merge")
    rng = random.Random(f"{kind} {folds.__name__} {emission} {keys}")
    grouped = KINDS[kind].group_by("k")
    skipping = grouped.aggregate(**folds(None, "asked", on_error="skip"))
    judge = grouped.aggregate(**folds("fit", "fit_and_asked"))
    if emission == "on_update":
        if kind == "rolling":
            skipping, judge = skipping.emit("on_arrival"), judge.emit("on_arrival")
        else:
            skipping, judge = skipping.emit("on_update"), judge.emit("on_update")
    failed = 0
    with skipping.local_runner("t", late=True) as runner, judge.local_runner("t") as other:
        for step in range(8):
            batch = table(rng, rng.choice([0, 1, 9, 40]), keys, step * 60)
            if rng.random() < 0.3:
                runner.abort(table(rng, 9, keys, step * 60))
            if rng.random() < 0.3:
                runner.restart(rng.choice(["memory", "rocksdb", "spark"]))
            end = 10**6 if step == 7 else None
            assert rows_of(other.process(batch, end)) == rows_of(runner.process(batch, end))
            expected = [
                {name: row[name] for name in SCHEMA.names}
                for row in batch.to_pylist()
                for unfit in (
                    not row["fit"],
                    not row["fit"] and row["asked"] is True,
                    not row["fit"] and row["v"] is not None,
                )
                if unfit
            ]
            reports = [report for report in runner.late.to_pylist() if report["reason"] != "late"]
            assert sorted(map(repr, expected)) == sorted(repr(report["record"]) for report in reports)
            assert len(expected) == runner.metrics["failed"]
            failed += len(expected)
        assert 0 < failed == runner.counters.failed
        assert other.counters.late == runner.counters.late


def one(v: Any, **more: Any) -> pa.Table:
    row = {"other": "x", "k": "a", "t": 7, "v": v, **more}
    return pa.Table.from_pylist([row], schema=SCHEMA)


def test_a_report_says_which_function_raised_what_where() -> None:
    """The aggregate with its columns, the function, the error and the line; the record with all its columns."""
    folds = {
        "total": agg.fold(0, added, "v", type="bigint", on_error="skip"),
        "m": MEAN("v", on_error="skip"),
    }
    with TumblingWindows(40).group_by("k").aggregate(**folds).local_runner("t", late=True) as runner:
        rows = runner.process(one(14), 1_000).to_pylist()
        first, second = runner.late.to_pylist()
    assert [(0, None)] == [(row["total"], row["m"]) for row in rows]
    assert first["reason"].startswith(
        "fold added(v): add raised ValueError: cannot take 14 (test_skipping_folds.py, line "
    )
    assert second["reason"].startswith(
        "aggregate 'mean': accumulate raised ValueError('cannot take [14]') (test_"
    )
    for report in (first, second):
        assert {
            "other": "x",
            "k": "a",
            "t": 7,
            "v": 14,
            "asked": None,
            "fit": None,
            "fit_and_asked": None,
        } == (report["record"])
        assert (None, None) == (report["window"], report["late_by_ms"])


def test_a_state_that_cannot_be_stored_skips_the_record() -> None:
    """Also values of types with zones and nesting, which are reported as they came."""
    moment = datetime(2026, 1, 5, 9, 0, 0, 123456, tzinfo=timezone.utc)
    schema = pa.schema(
        [
            ("k", pa.int32()),
            pa.field("at", pa.timestamp("us", "Europe/Berlin"), nullable=False),
            ("tags", pa.list_(pa.string())),
        ]
    )
    rows = [{"k": 1, "at": moment, "tags": ["a", "b"]}, {"k": None, "at": moment, "tags": None}]

    def unstorable(*values: Any) -> Any:
        values[-1].clear()  # A null raises.
        return object()

    fold = agg.fold(None, unstorable, "at", "tags", type="string", on_error="skip")
    operator = TumblingWindows(40).group_by("k").aggregate(f=fold, n=agg.count())
    with operator.local_runner("at", late=True) as runner:
        found = runner.process(pa.Table.from_pylist(rows, schema), moment.replace(year=2027)).to_pylist()
        reports = runner.late.to_pylist()
    assert [(None, 1), (None, 1)] == [(row["f"], row["n"]) for row in found]
    assert rows == [report["record"] for report in reports]
    assert "add returned a state that cannot be stored" in reports[0]["reason"]
    assert "'NoneType' object has no attribute 'clear'" in reports[1]["reason"]


def limited(total: int, v: int) -> int:
    if total > 3:
        raise ValueError("enough")
    return total + v


def limited_columns(state: Any, v: Any) -> Any:
    if (state[0] > 3).any():
        raise ValueError("enough")
    return state[0] + v, state[1] + 1


@pytest.mark.parametrize(
    "aggregate",
    [
        agg.fold(0, limited, "v", type="bigint", on_error="skip"),
        AggregateOperation(
            **{
                name: getattr(MEAN, name) for name in ("name", "state", "create", "combine", "finish", "type")
            },
            accumulate=limited_columns,
        )("v", on_error="skip"),
    ],
)
def test_an_error_that_no_record_is_to_blame_for_ends_the_query(aggregate: agg.Aggregate) -> None:
    """What is skipped must not depend on which records came before, or how they were divided into batches."""
    windows = (
        SlidingWindows(40).group_by("k").aggregate(f=aggregate, seen=agg.fold(0, limited, "v", type="bigint"))
    )
    with windows.local_runner("t") as runner, pytest.raises(AggregateError, match="enough"):
        runner.process(pa.concat_tables([one(2), one(2), one(2)]))


def test_the_error_says_what_can_be_skipped() -> None:
    windows = TumblingWindows(40).group_by("k")
    operator = windows.aggregate(f=agg.fold(0, limited, "v", type="bigint", on_error="skip"))
    with (
        operator.local_runner("t") as runner,
        pytest.raises(AggregateError, match="but not to the one that it met"),
    ):
        runner.process(pa.concat_tables([one(4), one(5)]))


def raises_with_reason(error: Exception) -> Any:
    def add(*_: Any) -> Any:
        raise error

    return add


class SilentError(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_texts_of_errors_have_an_end_and_need_not_exist() -> None:
    errors = [ValueError("x" * 10_000), SilentError()]
    folds = {
        f"f{n}": agg.fold(0, raises_with_reason(error), "v", type="bigint", on_error="skip", name=f"f{n}")
        for n, error in enumerate(errors)
    }
    with TumblingWindows(40).group_by("k").aggregate(**folds).local_runner("t", late=True) as runner:
        runner.process(one(1))
        first, second = (report["reason"] for report in runner.late.to_pylist())
    assert len(first) < 1_100
    assert "SilentError: its text cannot be made" in second


@pytest.mark.parametrize("function", ["init", "finish", "add"])
def test_errors_of_the_machine_and_of_other_functions_end_the_query(function: str) -> None:
    def broken(*_: Any) -> Any:
        raise MemoryError("none left")

    given = {"init": 0, "add": added, "type": "bigint", function: broken}
    operator = (
        TumblingWindows(40)
        .group_by("k")
        .aggregate(f=agg.fold(given.pop("init"), given.pop("add"), "v", **given, on_error="skip"))
    )
    with operator.local_runner("t") as runner, pytest.raises(AggregateError, match="none left"):
        runner.process(one(1), 1_000)


def test_functions_that_write_into_their_arguments_are_not_skipped() -> None:
    """It is the function that is wrong, with each record."""

    def writes(state: Any, v: Any) -> Any:
        state[0][:] = v
        return state

    given = {name: getattr(MEAN, name) for name in ("name", "state", "create", "combine", "finish", "type")}
    operator = AggregateOperation(**given, accumulate=writes)("v", on_error="skip")
    with (
        TumblingWindows(40).group_by("k").aggregate(f=operator).local_runner("t") as runner,
        pytest.raises(AggregateError, match="must return new arrays"),
    ):
        runner.process(one(1))


def test_an_operation_that_raises_for_several_records_only_ends_the_query() -> None:
    def few(state: Any, v: Any) -> Any:
        if len(v) > 2:
            raise ValueError("too many")
        return state[0] + v, state[1] + 1

    given = {name: getattr(MEAN, name) for name in ("name", "state", "create", "combine", "finish", "type")}
    operator = AggregateOperation(**given, accumulate=few)("v", on_error="skip")
    with (
        TumblingWindows(40).group_by("k").aggregate(f=operator).local_runner("t") as runner,
        pytest.raises(AggregateError, match="for 3 records at once, but for neither half of them"),
    ):
        runner.process(pa.concat_tables([one(1), one(2), one(3)]))


def test_the_switch_is_checked() -> None:
    for make in (
        lambda: agg.fold(0, added, "v", type="bigint", on_error="keep"),
        lambda: MEAN("v", on_error=""),
    ):
        with pytest.raises(DefinitionError, match=r"on_error of .* expected 'fail' or 'skip'"):
            make()


@pytest.mark.parametrize("merge", [None, lambda a, b: a + b])
@pytest.mark.parametrize("windows", [KINDS["sliding"], KINDS["rolling"]], ids=["sliding", "rolling"])
def test_a_query_that_has_ended_because_of_a_record_goes_on_without_it(
    windows: Any, merge: Any, tmp_path: Path
) -> None:
    """Rolling windows without merge keep records before they add them: some are in the state already."""

    def operator(**skip: str) -> Any:
        return windows.group_by("k").aggregate(f=agg.fold(0, added, "v", type="bigint", merge=merge, **skip))

    def record(time: int, v: int) -> pa.Table:
        return one(v, t=time)

    with operator().local_runner("t", "rocksdb", tmp_path) as runner:
        runner.process(record(10, 1))
        left = [record(20, 14), record(200, 2), record(900, 3)]
        if merge is None and windows is KINDS["rolling"]:
            runner.process(left.pop(0))
        with pytest.raises(AggregateError, match="cannot take 14"):
            runner.process(left[0])
    skipping = operator(on_error="skip")
    with skipping.local_runner("t", "rocksdb", tmp_path) as runner, skipping.local_runner("t") as judge:
        for batch in (record(10, 1), record(20, 14))[: 4 - len(left)]:
            judge.process(batch)
        for batch in left:
            assert rows_of(judge.process(batch)) == rows_of(runner.process(batch))
