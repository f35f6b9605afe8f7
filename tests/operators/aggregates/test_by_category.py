"""Aggregates for each value of a column: maps that plain Python makes of the records of each window."""

import math
import random
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import Case, Row, finished, plain, stored
from feeds import KINDS, POLICIES, SCHEMA, Feed, operator
from hypothesis import given
from hypothesis import strategies as st

from operators import DefinitionError, RollingWindows, SessionWindows, TumblingWindows
from operators import aggregates as agg
from operators.aggregates import category_states
from operators.aggregates.category_pages import Items, number_categories
from serializers import CorruptDataError
from serializers.errors import NewerFormatError
from tests.effort import examples, slow

ALL = agg.fold(
    list,
    lambda rows, v, x, t: [*rows, [v, x, t]],
    "v",
    "x",
    "gap",
    type=pa.list_(pa.list_(pa.float64())),
    merge=lambda a, b: a + b,
    name="rows",
)
"""The records of a window as they are: what a judge sees, by way of other code."""


def judged(rows: list[list[Any]]) -> dict[str, Any]:
    """What plain Python makes of the records of a window."""
    by_x: dict[float, list[list[Any]]] = {}
    by_gap: dict[int, int] = {}
    for v, x, gap in rows:
        by_x.setdefault(x, []).append([v, x, gap])
        by_gap[int(gap)] = by_gap.get(int(gap), 0) + 1
    most = sorted(by_gap.items(), key=lambda item: (-item[1], item[0]))[:2]
    return {
        "spent": sorted((x, sum(int(v) for v, _, _ in found)) for x, found in by_x.items()),
        "low": sorted((x, min(int(v) for v, _, _ in found)) for x, found in by_x.items()),
        "often": sorted(most),
        "gaps": sorted((x, sorted({int(gap) for *_, gap in found})) for x, found in by_x.items()),
    }


RESULTS = {
    "all": ALL,
    "spent": agg.sum("v").by("x"),
    "low": agg.min("v").by("x"),
    "often": agg.count().by("gap", most=2),
    "gaps": agg.collect_set("gap").by("x"),
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", slow("rocksdb")])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_each_kind(kind: str, policy: str, backend: str) -> None:
    """In random batches, each window has what its records come to; a window that is taken back has nothing."""
    feed = Feed(random.Random(f"{kind} {policy} {backend}"), keys=3)
    seen = 0
    with operator(kind, policy, RESULTS).local_runner("at", backend) as runner:
        for table, stream_time in feed.steps(20):
            for row in runner.process(table, stream_time).to_pylist():
                if row.get("change") == "retract":
                    assert row["spent"] is None
                    continue
                seen += 1
                expected = judged(row["all"])
                assert expected == {name: row[name] for name in expected}
    assert seen > 20


RECORDS = pa.table(
    {
        "k": ["a"] * 7,
        "at": pa.array([0, 1, 2, 3, 1_000, 2_000, 9_000], pa.timestamp("ms", "UTC")),
        "c": ["food", "fuel", "food", None, "food", "fun", "fuel"],
        "v": [1.0, None, 2.0, 50.0, 4.0, None, 8.0],
        "ok": [True, True, False, True, True, None, True],
    }
)


def rolled(**aggregates: Any) -> list[dict[str, Any]]:
    """The rows of rolling windows over two seconds and a lifetime, which exclude the records themselves."""
    windows = RollingWindows({"2s": "2 seconds", "ever": "lifetime"}, closed="left").group_by("k")
    with windows.aggregate(**aggregates).local_runner("at") as runner:
        return runner.process(RECORDS, stream_time=10**9).to_pylist()


def test_a_category_is_there_exactly_if_a_record_has_it() -> None:
    """Also where its value is null; an empty window is an empty map, and a null is no category."""
    rows = rolled(s=agg.sum("v").by("c"), n=agg.count("v").by("c"), some=agg.count().by("c", 1))
    assert [
        [],
        [("food", 1.0)],
        [("food", 1.0), ("fuel", None)],
        [("food", 3.0), ("fuel", None)],
        [("food", 3.0), ("fuel", None)],
        [("food", 7.0), ("fuel", None)],
        [],
    ] == [row["s_2s"] for row in rows]
    assert [("food", 7.0), ("fuel", None), ("fun", None)] == rows[-1]["s_ever"]
    assert [("food", 3), ("fuel", 0), ("fun", 0)] == rows[-1]["n_ever"]
    assert [("food", 3)] == rows[-1]["some_ever"]


def test_where_and_lookbacks() -> None:
    """Only records that count make categories, wherever `where` is said, and `over` limits lookbacks."""
    rows = rolled(
        inner=agg.sum("v", where="ok").by("c").over("ever"),
        two=agg.sum("v", where="ok").by("c").by("k").over("ever"),
    )
    assert [("food", 5.0), ("fuel", None)] == rows[-1]["inner_ever"]
    assert [("a", [("food", 5.0), ("fuel", None)])] == rows[-1]["two_ever"]
    assert "inner_2s" not in rows[-1]


def test_decay_ends_with_its_window() -> None:
    """Each category weighs at the end of its window, for several lookbacks, which are slices of one column."""
    rows = rolled(d=agg.decayed_sum("v", "1 second").by("c"))
    ends = [0, 1, 2, 3, 1_000, 2_000, 9_000]
    records = RECORDS.to_pylist()
    for row, end in zip(rows, ends, strict=True):
        for name, length in (("2s", 2_000), ("ever", 10**9)):
            found: dict[str, Any] = {}
            for time, record in zip(ends, records, strict=True):
                if end - length <= time < end and record["c"] is not None:
                    weighed = None if record["v"] is None else record["v"] * 0.5 ** ((end - time) / 1_000)
                    values = [v for v in (found.get(record["c"]), weighed) if v is not None]
                    found[record["c"]] = sum(values) if values else None
            assert dict(row[f"d_{name}"]) == {
                c: None if v is None else pytest.approx(v) for c, v in found.items()
            }


def test_labels_and_records_have_the_same() -> None:
    """What `apply_as_of` gives a label is what stands beside a record of its time."""
    operator = (
        RollingWindows({"2s": "2 seconds", "ever": "lifetime"})
        .group_by("k")
        .aggregate(
            s=agg.sum("v").by("c"), l=agg.last_n("v", 2).by("c"), d=agg.decayed_avg("v", "1 s").by("c")
        )
    )
    with operator.local_runner("at") as runner:
        beside = runner.process(RECORDS, stream_time=10**9).to_pylist()
    labels = RECORDS.select(["k", "at"]).rename_columns(["k", "asked"])
    with operator.local_runner_as_of("asked", "at") as runner:
        found = runner.process(labels, RECORDS, 10**9).to_pylist()
    names = [f"{name}_{over}" for name in "sld" for over in ("2s", "ever")]
    assert 7 == len(found)
    assert [[row[name] for name in names] for row in beside] == [
        [row[name] for name in names] for row in found
    ]


def test_most_shortens_results_and_not_states() -> None:
    """What is rare in each pane may be the most frequent in a window: no pane loses it."""
    table = pa.table(
        {
            "k": ["a"] * 9,
            "at": pa.array([0, 0, 0, 1, 1, 1, 2, 2, 2]),
            "c": ["x", "x", "rare", "y", "y", "rare", "z", "z", "rare"],
        }
    )
    windows = SessionWindows(gap=1, grace=10).group_by("k").aggregate(n=agg.count().by("c", most=1))
    with windows.emit("on_update").local_runner("at") as runner:
        for at in (0, 6, 3):  # the last one joins the sessions of the others
            last = runner.process(table.slice(at, 3)).to_pylist()
    assert [[("rare", 3)]] == [row["n"] for row in last if row["change"] == "update"]


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_a_column_that_becomes_wider(backend: str, tmp_path: Any) -> None:
    """Sums of whole numbers of 32 bits go on as those of 64, beside states of words and of objects."""

    def aggregates() -> dict[str, Any]:
        return {"s": agg.sum("v").by("c"), "l": agg.max("t").by("c"), "b": agg.avg("w").by("c")}

    op = TumblingWindows(size=1_000).group_by("k").aggregate(**aggregates()).emit("on_update")

    def table(at: int, c: str, v: int, type_: pa.DataType) -> pa.Table:
        row = {"k": ["a"], "at": [at], "c": [c], "v": pa.array([v], type_), "w": [v / 2], "t": [c * 2]}
        return pa.table(row)

    with op.local_runner("at", backend) as runner:
        runner.process(table(1, "x", 2**31 - 1, pa.int32()))
        runner.process(table(2, "y", 7, pa.int32()))
        saved = runner.savepoint(tmp_path / "saved")
    options = {"state.savepoint": saved.uri, "state.evolution": "adapt"}
    with op.local_runner("at", backend, options=options) as runner:
        (row,) = runner.process(table(2, "x", 2**60, pa.int64())).to_pylist()
    assert [("x", 2**60 + 2**31 - 1), ("y", 7)] == row["s"]
    assert [("x", "xx"), ("y", "yy")] == row["l"]
    assert [("x", (2**60 + 2**31 - 1) / 4), ("y", 3.5)] == row["b"]


def test_an_aggregate_that_is_added_later(tmp_path: Any) -> None:
    """It counts from then on, and the one that was there goes on."""
    op = TumblingWindows(size=1_000).group_by("k").aggregate(s=agg.sum("v").by("c")).emit("on_update")
    first = pa.table({"k": ["a", "a"], "at": [1, 2], "c": ["x", "y"], "v": [1, 2]})
    with op.local_runner("at") as runner:
        runner.process(first)
        saved = runner.savepoint(tmp_path / "saved")
    options = {"state.savepoint": saved.uri, "state.evolution": "adapt"}
    with op.aggregate(n=agg.count().by("c")).local_runner("at", options=options) as runner:
        (row,) = runner.process(first.slice(1)).to_pylist()
    assert ([("x", 1), ("y", 4)], [("y", 1)]) == (row["s"], row["n"])


def test_frames_that_are_grouped_together() -> None:
    """Each frame has categories of its own."""
    op = (
        TumblingWindows(size=10)
        .group_by("k")
        .cogroup(a={"n": agg.count().by("c")}, b={"m": agg.sum("v").by("c")})
    )
    a = pa.table({"k": ["a", "a"], "at": [1, 2], "c": ["x", "y"]})
    b = pa.table({"k": ["a"], "at": [3], "c": [7], "v": [5]})
    with op.local_runner("at") as runner:
        (row,) = runner.process({"a": a, "b": b}, 100).to_pylist()
    assert ([("x", 1), ("y", 1)], [(7, 5)]) == (row["n"], row["m"])


def test_a_fold_without_merge_keeps_its_records() -> None:
    """So that its states can be combined for each category."""
    words = agg.fold(list, lambda seen, v: [*seen, v], "v", type="array<bigint>")
    op = TumblingWindows(size=10).group_by("k").aggregate(w=words.by("c"))
    table = pa.table({"k": ["a"] * 3, "at": [3, 1, 2], "c": ["x", "x", "y"], "v": [1, 2, 3]})
    with op.local_runner("at") as runner:
        (row,) = runner.process(table, 100).to_pylist()
    assert [("x", [2, 1]), ("y", [3])] == row["w"]


def test_records_that_a_fold_leaves_out_have_no_category() -> None:
    """They are as records that do not count."""
    inverse = agg.fold(
        0.0, lambda t, v: t + 1 / v, "v", type="double", merge=lambda a, b: a + b, on_error="skip"
    )
    op = TumblingWindows(size=10).group_by("k").aggregate(w=inverse.by("c"))
    table = pa.table({"k": ["a"] * 3, "at": [3, 1, 2], "c": ["x", "x", "y"], "v": [2, 0, 0]})
    with op.local_runner("at") as runner:
        (row,) = runner.process(table, 100).to_pylist()
    assert [("x", 0.5)] == row["w"]


VALUES = st.none() | st.integers(-9, 9)


@examples(0.3)
@given(st.data())
def test_windows_of_many_panes(data: st.DataObject) -> None:
    """Any ranges of panes, with any `most`: as sliding windows and lookbacks ask for them."""
    most = data.draw(st.integers(1, 4))
    names = st.none() | st.sampled_from(["a", "b", "c", "dddddddd", "eeeeeeeee"])
    case = Case(agg.sum("v").by("w", most), pa.int64(), VALUES, len, other=(pa.string(), names))
    panes = data.draw(st.lists(case.rows(st.just(0), least=1, most=4), min_size=1, max_size=12))
    lo = data.draw(st.lists(st.integers(0, len(panes) - 1), min_size=1, max_size=8))
    hi = [data.draw(st.integers(a + 1, len(panes))) for a in lo]
    (operation,) = case.bound.operations
    (state,) = stored([operation], case.states(panes))
    found = case.bound.finish([operation.combine_ranges(state, np.array(lo), np.array(hi))]).to_pylist()
    for a, b, result in zip(lo, hi, found, strict=True):
        rows = [row for pane in panes[a:b] for row in pane if row.w is not None]
        counts = {w: sum(row.w == w for row in rows) for w in {row.w for row in rows}}
        kept = sorted(counts, key=lambda w: (-counts[w], w))[:most]
        expected = []
        for w in sorted(kept):
            values = [row.v for row in rows if row.w == w and row.v is not None]
            expected.append((w, sum(values) if values else None))
        assert expected == result


@pytest.mark.parametrize("categories", [1, 3, 40])
def test_ranges_of_categories_are_found_in_either_way(
    categories: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of all items by categories finds what a search for each category does."""
    random = np.random.default_rng(categories)
    number = random.integers(0, categories, 500)
    items = Items(np.arange(500), number, np.arange(categories), np.zeros((500, 1), np.int64))
    order = np.argsort(number, kind="stable")
    begin = random.integers(0, 400, 90)
    end = begin + random.integers(0, 100, 90)
    both = []
    for places in (1 << 23, 0):
        monkeypatch.setattr(category_states, "_MOST_PLACES", places)
        both.append(category_states.category_ranges(items, order, begin, end))
    for of_table, of_search in zip(*both, strict=True):
        assert of_search.tolist() == of_table.tolist()
    for window, n, first, last in zip(*map(np.ndarray.tolist, both[0]), strict=True):
        inside = np.flatnonzero(number[begin[window] : end[window]] == n) + begin[window]
        assert inside.tolist() == order[first:last].tolist()


def test_zeros_and_nan() -> None:
    """-0.0 is 0.0; all NaN, of whatever bits, are one category, the last."""
    odd = np.array([0x7FF8000000000001], np.int64).view(np.float64)[0]
    rows = [Row(n, n, w) for n, w in enumerate([0.0, -0.0, math.nan, -math.nan, odd, math.inf])]
    case = Case(agg.sum("v").by("w"), pa.int64(), VALUES, len, other=(pa.float64(), st.none()))
    for states in (
        case.states([rows]),
        [case.bound.operations[0].reduce(case.states([[r] for r in rows])[0], np.array([0]))],
    ):
        (found,) = finished(case.bound, stored(case.bound.operations, states)).to_pylist()
        assert [(0.0, 1), (math.inf, 5), ("NaN", 9)] == [(plain(key), value) for key, value in found]
        assert 1.0 == math.copysign(1.0, found[0][0])


@pytest.mark.parametrize(
    "values",
    [
        np.array([3, -1, 3], np.int64),
        np.array([1.5, math.nan, -0.0]),
        np.array(["b", "", "aaaaaaaa", "aaaaaaaab"], object),
        np.array([b"\0", b"", b"\0\0"], object),
    ],
    ids=lambda values: str(values.dtype),
)
def test_bytes_come_back_and_damage_is_told(values: Any) -> None:
    """What was written is read; what is cut off, longer, or of another version is refused."""
    distinct, number = number_categories(values)
    row = np.array([0, 0, 2, 2][: len(values)])
    order = np.lexsort((number, row))
    items = Items(row[order], number[order], distinct, np.arange(2 * len(values)).reshape(-1, 2))
    stored_ = items.write(4)
    assert b"" == stored_[1] == stored_[3]
    back = Items.read(stored_, 2, [0, 1])
    for one, other in ((items.row, back.row), (items.number, back.number), (items.words, back.words)):
        assert one.tolist() == other.tolist()
    assert repr(distinct.tolist()) == repr(back.distinct.tolist())
    for wrong in (stored_[0][:-8], stored_[0] + bytes(8), stored_[0][:-1], bytes(8)):
        with pytest.raises(CorruptDataError, match="a state by category has a form"):
            Items.read([wrong], 2, [0, 1])
    with pytest.raises(CorruptDataError, match="another number of words"):
        Items.read(stored_, 5, [0, 1, 2, 3, 4])
    with pytest.raises(NewerFormatError, match="a state by category has format version 2"):
        Items.read([b"\2" + stored_[0][1:]], 2, [0, 1])


@pytest.mark.parametrize("most", [0, -1, 2.5, True, None])
def test_most_is_a_number(most: Any) -> None:
    with pytest.raises(DefinitionError, match=r"sum\(v\)\.by\(c\): most must be a whole number of 1 or more"):
        agg.sum("v").by("c", most)


def test_what_is_no_category() -> None:
    """Types without an order are refused by name."""
    with pytest.raises(
        DefinitionError, match=r"sum\(v\)\.by\(c\): column 'c' is of type list.*, not an atomic"
    ):
        agg.sum("v").by("c").bind({"v": pa.int64(), "c": pa.list_(pa.int64())})
    with pytest.raises(DefinitionError, match=r"column 'c' does not exist"):
        agg.sum("v").by("c").bind({"v": pa.int64()})


def test_states_are_shared() -> None:
    """Those of one category and the same needs are one, whatever `most` is."""
    types = {"v": pa.float64(), "c": pa.string()}
    one, other = (a.by("c", n).bind(types) for a, n in ((agg.sum("v"), 3), (agg.avg("v"), 1000)))
    assert one.operations == other.operations
    assert ["By(c; CountRows(); CountValid(v); SumFloat(v))"] == [op.describe() for op in one.operations]


def test_a_lifetime_needs_a_bound() -> None:
    """Categories may be over a lifetime; what keeps each record may not."""
    op = RollingWindows({"ever": "lifetime"}).group_by("k")
    with pytest.raises(DefinitionError, match="keeps each value"):
        op.aggregate(l=agg.collect_list("v").by("c")).local_runner("at").process(RECORDS)
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    table = pa.table({"k": ["a", "a"], "at": [now, now + timedelta(days=900)], "c": ["x", "x"], "v": [1, 2]})
    with op.aggregate(s=agg.sum("v").by("c")).local_runner("at") as runner:
        assert [[("x", 1)], [("x", 3)]] == [
            row["s_ever"] for row in runner.process(table, stream_time=now + timedelta(days=901)).to_pylist()
        ]


def test_a_batch_without_records() -> None:
    op = TumblingWindows(size=10).group_by("k").aggregate(s=agg.sum("v").by("x"))
    with op.local_runner("at") as runner:
        assert 0 == runner.process(SCHEMA.empty_table(), 100).num_rows
