"""Several frames in one window, each with aggregates of its own."""

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import (
    AggregateOperation,
    DefinitionError,
    HoppingWindows,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from tests.effort import examples

CLICKS = pa.schema(
    [("user", pa.string()), ("at", pa.timestamp("ms")), ("page", pa.string()), ("new", pa.bool_())]
)
ORDERS = pa.schema(
    [("user", pa.string()), ("at", pa.timestamp("ms")), ("amount", pa.int64()), ("page", pa.int64())]
)
FRAMES = {
    "clicks": {"clicks": agg.count(), "fresh": agg.count(where="new"), "last_page": agg.max("page")},
    "orders": {"orders": agg.count(), "revenue": agg.sum("amount"), "pages": agg.collect_list("page")},
}
WINDOWS = {
    "sliding": SlidingWindows(size=5, grace=3),
    "hopping": HoppingWindows(6, 4, grace=3),
    "tumbling": TumblingWindows(4),
    "session": SessionWindows(2, grace=3),
}
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-12, 12), st.integers(0, 5)), max_size=12)
Rows = list[tuple[str, int, int]]


def clicks(rows: Rows) -> pa.Table:
    """Clicks as a table."""
    columns = [
        [r[0] for r in rows],
        [r[1] for r in rows],
        [f"/{r[2]}" for r in rows],
        [r[2] > 2 for r in rows],
    ]
    return pa.table([pa.array(c, t) for c, t in zip(columns, CLICKS.types, strict=True)], schema=CLICKS)


def orders(rows: Rows) -> pa.Table:
    """Orders as a table."""
    columns = [[r[0] for r in rows], [r[1] for r in rows], [r[2] * 10 for r in rows], [r[2] for r in rows]]
    return pa.table([pa.array(c, t) for c, t in zip(columns, ORDERS.types, strict=True)], schema=ORDERS)


def alone(kind: str, tables: list[pa.Table], results: dict[str, Any], windows: set[Any]) -> dict[Any, Any]:
    """One frame's results by window, found by running over its own rows in the windows that the frames have together."""
    found = {}
    with WINDOWS[kind].group_by("user").aggregate(**results).local_runner("at") as runner:
        for table in [*tables, tables[0].slice(0, 0)]:
            for row in runner.process(table, FAR_FUTURE if table.num_rows == 0 else None).to_pylist():
                found[row["user"], row["window"]["start"], row["window"]["end"]] = row
    return {window: found.get(window) for window in windows}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hopping", "tumbling"])
@examples(0.4)
@given(ROWS, ROWS)
def test_each_frame_has_the_results_that_it_has_alone(kind: str, left: Rows, right: Rows) -> None:
    """In windows that do not depend on the records, a frame's results are those of that frame by itself."""
    operator = WINDOWS[kind].group_by("user").cogroup(**FRAMES)
    with operator.local_runner("at") as runner:
        rows = runner.process({"clicks": clicks(left), "orders": orders(right)}, FAR_FUTURE).to_pylist()
    windows = {(row["user"], row["window"]["start"], row["window"]["end"]): row for row in rows}
    assert len(rows) == len(windows)
    nothing = {"clicks": 0, "fresh": 0, "last_page": None, "orders": 0, "revenue": None, "pages": []}
    for name, table in (("clicks", clicks(left)), ("orders", orders(right))):
        for window, row in alone(kind, [table], FRAMES[name], set(windows)).items():
            for result in FRAMES[name]:
                assert (row or nothing)[result] == windows[window][result]


def test_records_of_all_frames_make_the_windows() -> None:
    """A session goes on with the records of any frame; each result counts its own frame's."""
    operator = SessionWindows(5, grace=100).group_by("user").cogroup(**FRAMES).emit("on_update")
    with operator.local_runner("at") as runner:
        runner.process({"clicks": clicks([("a", 0, 1), ("a", 9, 3)]), "orders": orders([])})
        rows = runner.process({"orders": orders([("a", 4, 2)])}).to_pylist()
    found = [(row["change"], row["clicks"], row["fresh"], row["orders"], row["revenue"]) for row in rows]
    assert [("retract", None, None, None, None)] * 2 + [("update", 2, 1, 1, 20)] == found


def test_every_kind_of_aggregate_reads_its_own_frame() -> None:
    """Aggregates of two columns, of filters, in NumPy and in plain Python count the rows of their frame only."""
    halves = AggregateOperation(
        name="halves",
        state=(int, int),
        create=lambda: (0, 0),
        accumulate=lambda state, a, b: (state[0] + a, state[1] + b),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        finish=lambda state: state[0] // 2 + state[1],
        type="bigint",
    )
    results = {
        "slope": agg.regr_slope("amount", "page"),
        "best": agg.max_by("page", "amount"),
        "top": agg.top_n("page", 1, by="amount"),
        "halves": halves("amount", "page"),
        "folded": agg.fold(0, lambda total, a, b: total + a + b, "amount", "page", type="bigint"),
        "any": agg.first("amount"),
    }
    operator = TumblingWindows(100).group_by("user").cogroup(clicks={"clicks": agg.count()}, orders=results)
    given = {"clicks": clicks([("a", 0, 1), ("a", 9, 3)]), "orders": orders([("a", 2, 1), ("a", 3, 4)])}
    with operator.local_runner("at") as runner:
        (row,) = runner.process(given, FAR_FUTURE).to_pylist()
    del row["user"], row["window"]
    wanted = {"clicks": 2, "slope": 10.0, "best": 4, "top": [4], "halves": 30, "folded": 55, "any": 10}
    assert wanted == row


def test_event_times_can_have_names_of_their_own() -> None:
    """Each frame may call its event time what it likes."""
    operator = TumblingWindows(10).group_by("user").cogroup(**FRAMES)
    renamed = orders([("a", 4, 2)]).rename_columns(["user", "ordered", "amount", "page"])
    with operator.local_runner({"clicks": "at", "orders": "ordered"}) as runner:
        rows = runner.process({"clicks": clicks([("a", 3, 1)]), "orders": renamed}, FAR_FUTURE).to_pylist()
    assert [(1, 1)] == [(row["clicks"], row["orders"]) for row in rows]


def test_late_records_of_any_frame_are_counted() -> None:
    """There is one stream time for all frames, that of the slowest one."""
    operator = TumblingWindows(10).group_by("user").cogroup(**FRAMES)
    with operator.local_runner("at") as runner:
        runner.process({"clicks": clicks([("a", 100, 1)]), "orders": orders([])})
        runner.process({"orders": orders([("a", 99, 1), ("a", 120, 1)])})
        runner.process({"orders": orders([("a", 5, 2), ("a", 95, 1)])})
        assert (5, 2) == (runner.counters.rows, runner.counters.late)


GROUPED = TumblingWindows(10).group_by("user")
ONE = {"n": agg.count()}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GROUPED.aggregate(n=agg.count()).cogroup(a=ONE, b=ONE), "leave .aggregate out"),
        (lambda: GROUPED.cogroup(a=ONE), "at least two frames"),
        (lambda: GROUPED.cogroup(a=ONE, b={}), "each with at least one aggregate"),
        (lambda: GROUPED.cogroup(a=ONE, b=ONE), "output column 'n' occurs twice"),
        (lambda: GROUPED.cogroup(a=ONE, b={"user": agg.count()}), "output column 'user' occurs twice"),
        (lambda: GROUPED.cogroup(a=ONE, b={"m": "count"}), "is not an aggregate"),
        (lambda: GROUPED.cogroup(**{"a.b": ONE, "c": {"m": agg.count()}}), "frame name 'a.b'"),
    ],
)  # fmt: skip
def test_wrong_definitions_are_refused(make: Any, message: str) -> None:
    """What cannot be meant is refused when it is written."""
    with pytest.raises(DefinitionError, match=message):
        make()


def named(*names: str) -> pa.Table:
    """A table of one row of zeros with these columns."""
    return pa.table([pa.array([0])] * len(names), names)


@pytest.mark.parametrize(
    "key", ["event time", "Event Time", "clicks.v", "Clicks.V", "orders.*", "orders.ok", "v", "records.v"]
)
def test_keys_with_names_of_columns_of_the_united_frames(key: str) -> None:
    """Are refused where another column would have the name; others are keys like any."""
    operator = (
        TumblingWindows(10)
        .group_by(key)
        .cogroup(clicks={"total": agg.sum("v")}, orders={"more": agg.sum("v", where="ok")})
    )
    labelled = RollingWindows(10).group_by(key).aggregate(total=agg.sum("v"))
    if key in {"v", "records.v"}:
        table = named("t", "v", *{key} - {"v"}).append_column("ok", pa.array([True]))
        with operator.local_runner("t") as runner:
            rows = runner.process({"clicks": table, "orders": table}, FAR_FUTURE).to_pylist()
        assert [(0, 0, 0)] == [(row[key], row["total"], row["more"]) for row in rows]
    else:
        with pytest.raises(DefinitionError, match=f"the frames have a column '{re.escape(key)}' in common"):
            operator.local_runner("t")
    table = named("t", "v", *{key} - {"v"})
    with labelled.local_runner_as_of("t", "t") as runner:
        if key in {"event time", "Event Time", "records.v"}:
            with pytest.raises(DefinitionError, match=f"the frames have a column '{key}' in common"):
                runner.process(table, table)
        else:
            assert [0] == runner.process(table, table, FAR_FUTURE).column("total").to_pylist()


def test_columns_named_as_all_columns() -> None:
    """A column "*" cannot be told from the mark of a frame's rows."""
    operator = GROUPED.cogroup(a={"n": agg.sum("*")}, b={"m": agg.count()})
    with pytest.raises(DefinitionError, match=r"frame a: a column named '\*' cannot be read"):
        operator.local_runner("t")
    rolling = RollingWindows(10).group_by("k").aggregate(n=agg.count())
    with rolling.local_runner_as_of("t", "t") as runner:
        with pytest.raises(DefinitionError, match=r"frame labels: a column named '\*' cannot be read"):
            runner.process(named("k", "t", "*"), named("k", "t"))
        assert 1 == runner.process(named("k", "t"), named("k", "t", "*"), FAR_FUTURE).num_rows


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"clicks": clicks([])}, "expected the frames clicks, orders, got clicks"),
        (
            {"clicks": clicks([]), "orders": orders([]), "x": orders([])},
            "got clicks, orders, x",
        ),
        (
            {"clicks": clicks([]).drop_columns("user"), "orders": orders([])},
            "frame clicks: column 'user' does not exist; it has the columns at, page, new",
        ),
        (
            {"clicks": clicks([]), "orders": orders([]).drop_columns("amount")},
            "frame orders: column 'amount' does not exist",
        ),
        (
            {"clicks": clicks([]), "orders": orders([]).set_column(0, "user", pa.array([], pa.int64()))},
            "column 'user' is of type string in clicks, but int64 in orders: cast one of them",
        ),
    ],
)
def test_wrong_frames_are_refused(tables: dict[str, pa.Table], message: str) -> None:
    """A missing frame or column, or a key of two types, is told by name."""
    with (
        GROUPED.cogroup(**FRAMES).local_runner("at") as runner,
        pytest.raises(DefinitionError, match=message),
    ):
        runner.process(tables)
