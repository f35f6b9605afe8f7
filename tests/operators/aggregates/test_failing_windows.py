"""The error of a function that is not about a record names the window: its key and its bounds."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.aggregates import AggregateError, AggregateOperation
from operators.errors import WorkerError
from operators.runtime.stateful import StatefulOperator
from operators.sinks import SQLitePages
from operators.spark.batch.bounded import FirstStage, FirstStageRows
from operators.spark.inputs.packing import Pack
from state_backends import resolve
from tests.operators.sinks.publishing import Publisher

START = datetime(2026, 1, 5, 9, tzinfo=timezone.utc)
POISON, ROWS = 13, 40
POISONED_AT = START + timedelta(minutes=POISON)
GRACE = {"grace": "1 hour"}
KINDS: dict[str, Any] = {
    "tumbling": TumblingWindows("10 minutes", **GRACE),
    "hopping": HoppingWindows("30 minutes", "10 minutes", **GRACE),
    "sliding": SlidingWindows("10 minutes", **GRACE),
    "session": SessionWindows("5 minutes", **GRACE),
    "limited session": SessionWindows("5 minutes", max_length="20 minutes", **GRACE),
    "rolling": RollingWindows({"short": "10 minutes", "ever": "lifetime"}, **GRACE),
    "forgetting": RollingWindows({"short": "10 minutes", "ever": "lifetime"}, forget_after="1 day", **GRACE),
}
ROLES = ("merge", "finish", "combine", "deduct", "results")


def records(keys: list[Any]) -> pa.Table:
    """Records of several keys, a minute apart, each of value 1 but for one."""
    at = [START + timedelta(minutes=n) for n in range(ROWS)]
    values = [1] * ROWS
    values[POISON] = 1_000
    return pa.table(
        {
            "card": pa.array([keys[n % len(keys)] for n in range(ROWS)], pa.string()),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "amount": pa.array(values, pa.int64()),
        }
    )


def checked(total: int) -> int:
    """The total, unless the one record is in it."""
    if total > 500:
        raise ArithmeticError("too much")
    return total


def all_checked(totals: Any) -> Any:
    """The same for columns."""
    if (np.asarray(totals) > 500).any():
        raise ArithmeticError("too much")
    return totals


def aggregate(role: str) -> Any:
    """A sum that fails in one of its functions."""
    if role in ("merge", "finish"):
        failing: dict[str, Callable[..., int]] = {
            "merge": lambda a, b: checked(a) + checked(b),
            "finish": checked,
        }
        functions = {"merge": lambda a, b: a + b, role: failing[role]}
        return agg.fold(0, lambda total, v: total + v, "amount", type="bigint", **functions)
    columns: dict[str, Callable[..., Any]] = {
        "combine": lambda a, b: (all_checked(a[0]) + all_checked(b[0]),),
        "results": lambda s: all_checked(s[0]),
        "deduct": lambda a, b: (all_checked(a[0] - b[0]),),
    }
    good: dict[str, Callable[..., Any]] = {
        "combine": lambda a, b: (a[0] + b[0],),
        "results": lambda s: s[0],
        "deduct": lambda a, b: (a[0] - b[0],),
    }
    chosen = {**good, role: columns[role]}
    return AggregateOperation(
        "total",
        (int,),
        lambda: (0,),
        lambda state, v: (state[0] + v,),
        chosen["combine"],
        chosen["results"],
        "bigint",
        deduct=chosen["deduct"] if role == "deduct" else None,
    )("amount")


def error_of(operator: Any, table: pa.Table, batches: int) -> str:
    """What is raised for the table, in batches that interleave; nothing if the function never gets the record."""
    with operator.local_runner("at") as runner:
        try:
            for first in range(batches):
                runner.process(table.take(list(range(first, ROWS, batches))))
            runner.process(table.slice(0, 0), stream_time=START + timedelta(days=2))
        except AggregateError as error:
            return str(error)
    return ""


def times(text: str) -> list[datetime]:
    """The times that an error names."""
    return [datetime.fromisoformat(found) for found in re.findall(r"2026-01-\d\dT[\d:]+\+00:00", text)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("keys", [["a"], ["b", "a", None], ["b", None, "a"]], ids=["one", "several", "null"])
@pytest.mark.parametrize("batches", [1, 3])
def test_the_window_is_named(kind: str, role: str, keys: list[Any], batches: int) -> None:
    """It has the key of the record that makes the function fail, and its time is in it, if it fails for one window alone."""
    poisoned = keys[POISON % len(keys)]
    operator = KINDS[kind].group_by("card").aggregate(total=aggregate(role))
    said = error_of(operator, records(keys), batches)
    if not said:  # Tumbling windows are their panes, and what one batch has of these or of a session is added, not merged.
        assert role in ("merge", "combine", "deduct")
        assert (
            kind in ("tumbling", "session") or "session" in kind or (role == "deduct" and kind == "hopping")
        )
        return
    assert "ArithmeticError" in said
    text, _, window = said.rpartition(". The window: ")
    assert text, said
    assert window.startswith(f"card={poisoned!r}"), said
    named = times(window)
    if window == f"card={poisoned!r}":
        assert kind in ("rolling", "forgetting"), said  # the pane of a lifetime
    elif " from " in f" {window}" and "records from" not in window:
        assert named[0] <= POISONED_AT <= named[1], said
    elif "records from" in window:  # a pane of several minutes, or of the record itself
        assert named[0] <= POISONED_AT, said
    else:
        assert POISONED_AT <= named[0], said
        assert re.search("lookback (short|ever)$", window), said


def test_without_keys_the_bounds_are_named() -> None:
    """Of all records as one group."""
    operator = KINDS["tumbling"].group_by().aggregate(total=aggregate("finish"))
    said = error_of(operator, records(["a", "b"]), 1)
    assert said.endswith(". The window: from 2026-01-05T09:10:00+00:00 to 2026-01-05T09:20:00+00:00")


def test_a_window_is_looked_for_only_after_a_failure() -> None:
    """One call of `finish` for each window; where it fails, the halves of all windows take at most one more each."""
    calls: list[int] = []

    def finish(total: int) -> int:
        calls.append(total)
        return checked(total)

    total = agg.fold(0, lambda s, v: s + v, "amount", type="bigint", merge=lambda a, b: a + b, finish=finish)
    operator = SlidingWindows("1 minute").group_by("card").aggregate(total=total)
    table = records(["a", "b"])
    good = table.set_column(2, "amount", pa.array([1] * ROWS, pa.int64()))
    with operator.local_runner("at") as runner:
        windows = len(runner.process(good)) + len(
            runner.process(good.slice(0, 0), stream_time=START + timedelta(days=2))
        )
    assert len(calls) >= windows > 10
    usual = len(calls)
    calls.clear()
    error_of(operator, table, 1)
    assert len(calls) <= 2 * usual + 10


def bound(operator: Any) -> Any:
    """Its binding."""
    return operator.bind(records(["a"]).schema, "at", resolve("memory"))


def open_ones(operator: Any, folder: Path) -> None:
    """What a stopped query holds."""
    with operator.local_runner("at", directory=folder) as runner:
        runner.process(records(["a", "b"]))
        runner.open_windows()


def lagging(operator: Any, folder: Path) -> None:
    """A start from a savepoint with a bucket that is behind."""
    with operator.local_runner("at", directory=folder / "state") as runner:
        runner.process(records(["a", "b"]))
        saved = runner.savepoint(folder / "saved")
    ahead = replace(saved, close_time=saved.close_time + 86_400_000)
    StatefulOperator(bound(operator), resolve("memory"), folder / "new").start_from(ahead, 0, 1)


def entries(operator: Any, tasks: int) -> list[pa.RecordBatch]:
    """What so many tasks of a bounded frame make of the records before the shuffle."""
    binding, table = bound(operator), records(["a", "b"])
    rows = table.select(binding.inputs.names)
    parts = [rows.take(list(range(first, ROWS, tasks))) for first in range(tasks)]
    return [batch for part in parts for batch in FirstStage(binding, "windows", 100)(part.to_batches())]


def joined(operator: Any, folder: Path) -> None:
    """The entries of tasks of a record each, behind the shuffle."""
    del folder
    FirstStageRows(bound(operator)).read(pa.Table.from_batches(entries(operator, ROWS)))


def summed(operator: Any, folder: Path) -> None:
    """A task of a bounded frame, before the shuffle."""
    del folder
    entries(operator, 1)


def packed(operator: Any, folder: Path) -> None:
    """A task of a stream, before the shuffle."""
    del folder
    binding = bound(operator)
    list(Pack(binding, (0, 1))(records(["a", "b"]).select(binding.inputs.names).to_batches()))


def answered(operator: Any, folder: Path) -> None:
    """A reader of published pages."""
    pages = SQLitePages(folder / "pages.db", "pages")
    table = records(["a", "b"])
    publisher = Publisher(operator, pages, schema=table.schema)
    with publisher, operator.reader(pages) as reader:
        publisher.changed = publisher.runner.process(table)
        publisher.batch = 0
        publisher.write()
        reader.get({"card": "b"}, at=START + timedelta(hours=1))


@pytest.mark.parametrize(
    ("place", "kind", "failing"),
    [
        (open_ones, "tumbling", "finish"),
        (open_ones, "session", "finish"),
        (lagging, "tumbling", "finish"),
        (lagging, "hopping", "combine"),
        (joined, "tumbling", "combine"),
        (summed, "tumbling", "combine"),
        (packed, "tumbling", "combine"),
        (answered, "rolling", "finish"),
    ],
)
def test_wherever_it_fails(place: Callable[..., None], kind: str, failing: str, tmp_path: Path) -> None:
    """Not only in the steps of a stream."""
    operator = KINDS[kind].group_by("card").aggregate(total=aggregate(failing))
    with pytest.raises(
        (AggregateError, WorkerError), match=r"ArithmeticError.*\. The window: card='[ab]', "
    ) as caught:
        place(operator, tmp_path)
    assert 1 == str(caught.value).count("The window: ")
