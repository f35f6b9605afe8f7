"""Rolling windows over random records: against the brute-force oracle, across restarts, backends and splits into batches."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import AggregateOperation, RollingAggregation, RollingWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.engines.rolling_state import LIFE_PANE_TIME
from operators.errors import DefinitionError
from operators.runtime.local import LocalRunner
from operators.testing import assert_rows, expected_rows, late_rows
from serializers import arrays
from tests.effort import examples, slow_but

pytestmark = pytest.mark.usefixtures("pages_of_few_entries")
Row = tuple[str | None, int | None, int | None]
"""Key, event time, value."""
Step = tuple[list[Row], int | None]
"""A batch and its explicit stream time."""
LOOKBACKS = {"short": 2, "long": 9, "ever": "lifetime"}
CLOSED = ("both", "left", "right", "none")
FAR = 10**9


def present(rows: list[dict[str, Any]]) -> list[int]:
    """The values of rows that have one."""
    return [row["value"] for row in rows if row["value"] is not None]


def at_end(rows: list[dict[str, Any]], *, last: bool) -> Any:
    """The value of the first or last row by time, of several the smallest or largest."""
    if not rows:
        return None
    times = [row["time"] for row in rows]
    edge = max(times) if last else min(times)
    values = present([row for row in rows if row["time"] == edge])
    return (max if last else min)(values, default=None)


def appended(values: list[int | None], value: int | None) -> list[int | None]:
    """A fold whose states cannot be merged, as far as anybody knows."""
    return [*values, value]


def in_order(rows: list[dict[str, Any]]) -> list[int | None]:
    """The values of rows by time, then by value."""
    ranked = sorted(rows, key=lambda row: (row["time"], row["value"] is not None, row["value"] or 0))
    return [row["value"] for row in ranked]


JUDGES: Mapping[str, Callable[[list[dict[str, Any]]], Any]] = {
    "n": len,
    "total": lambda rows: sum(present(rows)) if present(rows) else None,
    "low": lambda rows: min(present(rows), default=None),
    "high": lambda rows: max(present(rows), default=None),
    "mean": lambda rows: sum(present(rows)) / len(present(rows)) if present(rows) else None,
    "first": lambda rows: at_end(rows, last=False),
    "last": lambda rows: at_end(rows, last=True),
    "kinds": lambda rows: len(set(present(rows))),
    "about": lambda rows: len(set(present(rows))),
    "lowest": lambda rows: min(
        ((row["value"], row["number"] % 5) for row in rows if row["value"] is not None), default=[None] * 2
    )[1],
    "best": lambda rows: sorted(present(rows), reverse=True)[:2],
}
AGGREGATES = {
    "n": agg.count(),
    "total": agg.sum("value"),
    "low": agg.min("value"),
    "high": agg.max("value"),
    "mean": agg.avg("value"),
    "first": agg.first("value"),
    "last": agg.last("value"),
    "kinds": agg.count_distinct("value"),
    "about": agg.approx_count_distinct("value"),
    "lowest": agg.min_by("digit", "value"),
    "best": agg.top_n("value", 2),
}


@dataclass(frozen=True)
class Scenario:
    """An operator, how it keeps its state, and the batches that it takes."""

    lookbacks: tuple[str, ...]
    closed: Any
    grace: int
    emit: Any
    segment: str
    steps: Sequence[Step]
    forget: int | None = None

    @property
    def windows(self) -> RollingWindows:
        lookbacks = {name: LOOKBACKS[name] for name in self.lookbacks}
        forget = self.forget if "ever" in lookbacks else None
        return RollingWindows(lookbacks, self.grace, self.closed, forget_after=forget)

    @property
    def operator(self) -> RollingAggregation:
        return self.windows.group_by("key").aggregate(**AGGREGATES).emit(self.emit)

    def runner(self, backend: str = "memory", directory: Path | None = None) -> LocalRunner:
        return self.operator.local_runner("time", backend, directory, {"state.segment": self.segment})

    @property
    def batches(self) -> list[tuple[pa.Table, int | None]]:
        """The batches, with the number of each row; the last one closes everything."""
        first, tables = 0, []
        for records, moment in [*self.steps, ([], FAR)]:
            tables.append((table(records, first), moment))
            first += len(records)
        return tables


def table(records: Sequence[Row], first: int = 0) -> pa.Table:
    """Records as a table, with a nested column that must come through."""
    keys, times, values = zip(*records, strict=True) if records else ((), (), ())
    numbers = range(first, first + len(records))
    return pa.table(
        {
            "number": pa.array(numbers, pa.int64()),
            "key": pa.array(keys, pa.string()),
            "time": pa.array(times, pa.int64()),
            "value": pa.array(values, pa.int64()),
            "digit": pa.array([n % 5 for n in numbers], pa.int64()),
            "tags": pa.array([[str(n)] * (n % 3) if n % 4 else None for n in numbers], pa.list_(pa.string())),
        }
    )


RECORDS = st.tuples(
    st.sampled_from(["a", "b", None]), st.integers(0, 30) | st.none(), st.integers(-9, 9) | st.none()
)


@st.composite
def scenarios(draw: Any) -> Scenario:
    """Any operator over records out of order, with ties, bad times, empty batches and jumps of stream time."""
    steps = draw(
        st.lists(st.tuples(st.lists(RECORDS, max_size=8), st.none() | st.integers(0, 60)), max_size=8)
    )
    lookbacks = tuple(draw(st.lists(st.sampled_from(list(LOOKBACKS)), min_size=1, unique=True)))
    return Scenario(
        lookbacks,
        draw(st.sampled_from(CLOSED)),
        draw(st.sampled_from([0, 3, 12])),
        draw(st.sampled_from(["on_close", "on_arrival"])),
        draw(st.sampled_from(["1 ms", "4 ms", "1 minute"])),
        steps,
        draw(st.sampled_from([None, 1, 4, 12])),
    )


def check(scenario: Scenario, emitted: Sequence[pa.Table]) -> None:
    """Compare the rows of each batch with those of brute force."""
    expected = expected_rows(scenario.windows, scenario.batches, "time", JUDGES, ["key"], scenario.emit)
    for found, wanted in zip(emitted, expected, strict=True):
        assert_rows(found, wanted, keys=["number"])


@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
@examples(2)
@given(scenarios())
def test_rows_are_those_of_the_oracle(backend: str, scenario: Scenario) -> None:
    """Each batch emits exactly the rows of brute force, and counts exactly its late and bad records."""
    with scenario.runner(backend) as runner:
        check(scenario, [runner.process(*batch) for batch in scenario.batches])
        assert runner.counters.late == len(late_rows(scenario.windows, scenario.batches, "time", ["key"]))
        records = [record for records, _ in scenario.steps for record in records]
        assert runner.counters.bad == sum(time is None for _, time, _ in records)
        if "ever" not in scenario.lookbacks or scenario.forget is not None:
            assert runner.store.is_empty()


@pytest.mark.parametrize("backend", slow_but(["rocksdb"], ["memory", "rocksdb"]))
@examples(1)
@given(scenarios(), st.data())
def test_restarts_and_crashes_change_nothing(backend: str, scenario: Scenario, data: st.DataObject) -> None:
    """With the state closed and opened, on another backend, or with attempts given up, the rows are the same."""
    with tempfile.TemporaryDirectory() as folder:
        runner, emitted = scenario.runner(backend, Path(folder)), []
        try:
            for batch in scenario.batches:
                what = data.draw(st.sampled_from(["", "abort", "open", "switch"]))
                if what == "abort":
                    runner.abort(*batch)
                elif what:
                    runner.close()
                    runner = scenario.runner("memory" if what == "switch" else backend, Path(folder))
                emitted.append(runner.process(*batch))
        finally:
            runner.close()
        check(scenario, emitted)


@pytest.mark.slow
@examples(1)
@given(scenarios(), st.integers(1, 9))
def test_batches_do_not_matter_on_close(scenario: Scenario, size: int) -> None:
    """With grace for all records, the rows do not depend on the split into batches."""
    records = [record for records, _ in scenario.steps for record in records]
    whole = replace(scenario, emit="on_close", grace=100, steps=[(records, None)])
    split = replace(whole, steps=[(records[at : at + size], None) for at in range(0, len(records), size)])
    rows = []
    for one in (whole, split):
        with one.runner() as runner:
            found = [row for batch in one.batches for row in runner.process(*batch).to_pylist()]
            rows.append(sorted(found, key=lambda row: row["number"]))
    assert rows[0] == rows[1]


@pytest.mark.slow
@examples(1)
@given(scenarios())
def test_left_windows_of_sliding_windows_are_rolling_rows(scenario: Scenario) -> None:
    """A rolling row of one lookback has what a sliding window of the same size has that ends at its time."""
    records = [record for records, _ in scenario.steps for record in records if record[1] is not None]
    results = {
        "n": agg.count(),
        "total": agg.sum("value"),
        "high": agg.max("value"),
        "mean": agg.avg("value"),
    }
    sliding = SlidingWindows(9).group_by("key").aggregate(**results)
    rolling = RollingWindows(9).group_by("key").aggregate(**results)
    tables = []
    for operator in (sliding, rolling):
        with operator.local_runner("time") as runner:
            runner.process(table(records), stream_time=0)
            tables.append(runner.process(table([]), stream_time=FAR))
    ends = {
        (row["key"], row["window"]["end"].timestamp() * 1_000): {name: row[name] for name in results}
        for row in tables[0].to_pylist()
    }
    assert tables[1].num_rows == len(records)
    for row in tables[1].to_pylist():
        assert ends[row["key"], row["time"]] == {name: row[name] for name in results}


@pytest.mark.slow
@examples(1)
@given(scenarios(), st.data())
def test_labels_have_what_records_of_their_time_have(scenario: Scenario, data: st.DataObject) -> None:
    """As of the time of a record, a label has what comes out beside it, to the last bit, in one batch or in several.

    A label without a time has nulls.
    """
    records = [record for records, _ in scenario.steps for record in records]
    operator = scenario.windows.group_by("key").aggregate(**AGGREGATES, spread=agg.stddev("value"))
    whole = replace(scenario, grace=100, steps=[(records, None)])
    operator = replace(operator, windows=whole.windows)
    options = {"state.segment": scenario.segment}
    with operator.local_runner("time", options=options) as runner:
        beside = [row for batch in whole.batches for row in runner.process(*batch).to_pylist()]
    asked = table(records).select(["number", "key", "time"]).rename_columns(["asked", "key", "when"])
    given, found = table(records), []
    cut = data.draw(st.integers(0, len(records)))
    with operator.local_runner_as_of("when", "time", options=options) as runner:
        found += runner.process(asked.slice(0, cut), given.slice(cut)).to_pylist()
        found += runner.process(asked.slice(cut), given.slice(0, cut)).to_pylist()
        found += runner.process(stream_time=FAR).to_pylist()
    results = [name for name in beside[0] if name not in given.column_names] if beside else []
    expected = {row["number"]: [row[name] for name in results] for row in beside}
    timeless = [number for number, time in enumerate(asked.column("when").to_pylist()) if time is None]
    expected |= {asked.column("asked")[number].as_py(): [None] * len(results) for number in timeless}
    assert len(found) == len(beside) + len(timeless)
    for row in found:
        assert [row[name] for name in results] == expected[row["asked"]]


def test_labels_wait_longer_than_their_lookback() -> None:
    """A label whose windows are long past waits for the grace, alone in its segment."""
    labels = pa.table({"k": ["a", "b", "a"], "asked": [6, 34, 34]})
    records = pa.table({"k": ["a", "a"], "t": [33, 60], "v": [1, 2]})
    operator = RollingWindows(2, grace=30).group_by("k").aggregate(n=agg.count())
    found = []
    with operator.local_runner_as_of("asked", "t", options={"state.segment": "1 minute"}) as runner:
        found += runner.process(labels.slice(0, 2), records.slice(0, 1), stream_time=61).to_pylist()
        found += runner.process(labels.slice(2), records.slice(1), stream_time=62).to_pylist()
        found += runner.process(stream_time=FAR).to_pylist()
    assert sorted((row["k"], row["asked"], row["n"]) for row in found) == [
        ("a", 6, 0),
        ("a", 34, 1),
        ("b", 34, 0),
    ]


@pytest.mark.slow
def test_a_lifetime_moves_with_a_savepoint(tmp_path: Path) -> None:
    """Lifetime panes and waiting rows go on from a savepoint, in segments of another length."""
    windows = RollingWindows({"s": 5, "ever": "lifetime"}, grace=10)
    operator = windows.group_by("key").aggregate(n=agg.count(), first=agg.first("value"))
    batches = [table([("a", 9 * n + m, n), ("b", 9 * n - m, n)]) for n in range(12) for m in (0, 4)]
    with operator.local_runner("time", options={"state.segment": "3 ms"}) as runner:
        whole = [row for batch in batches for row in runner.process(batch).to_pylist()]
        whole += runner.process(table([]), stream_time=FAR).to_pylist()
    with operator.local_runner("time", options={"state.segment": "40 ms"}) as runner:
        moved = [row for batch in batches[:13] for row in runner.process(batch).to_pylist()]
        options = {"state.savepoint": runner.savepoint(tmp_path / "saved").uri, "state.segment": "3 ms"}
    with operator.local_runner("time", "rocksdb", options=options) as runner:
        moved += [row for batch in batches[13:] for row in runner.process(batch).to_pylist()]
        moved += runner.process(table([]), stream_time=FAR).to_pylist()
    assert sorted(map(repr, whole)) == sorted(map(repr, moved))


def test_waiting_rows_of_several_batches_move_with_a_savepoint(tmp_path: Path) -> None:
    """Those of overlapping batches are one entry of a shorter segment: the first and the last are out at their times."""
    operator = RollingWindows(5, grace=100).group_by("key").aggregate(n=agg.count())
    with operator.local_runner("time", options={"state.segment": "100 ms"}) as runner:
        for number, times in enumerate(((2, 58), (51, 53, 70), (55, 99))):
            assert 0 == runner.process(table([("a", time, number) for time in times])).num_rows
        options = {"state.savepoint": runner.savepoint(tmp_path / "saved").uri, "state.segment": "10 ms"}
    with operator.local_runner("time", options=options) as runner:
        emitted = [runner.process(table([]), stream_time=100 + time) for time in (52, 54, 56, 59, 100)]
    ticks = [rows["time"].cast(pa.int64()).to_pylist() for rows in emitted]
    assert [[2, 51], [53], [55], [58], [70, 99]] == ticks


def test_rows_of_several_batches_come_out_in_order_of_time() -> None:
    """Whichever batches brought them."""
    operator = RollingWindows(5, grace=100).group_by("key").aggregate(n=agg.count())
    with operator.local_runner("time") as runner:
        for times in ((8, 2), (5,), (1, 9)):
            runner.process(table([("a", time, 0) for time in times]))
        emitted = runner.process(table([]), stream_time=FAR)
    assert [1, 2, 5, 8, 9] == emitted["time"].cast(pa.int64()).to_pylist()


FOLDS = {
    "kept": agg.fold(list, appended, "value", type="array<bigint>"),
    "some": agg.fold(list, appended, "value", type="array<bigint>", where="even"),
}
FOLDED = {
    "kept": in_order,
    "some": lambda rows: in_order([row for row in rows if row["even"]]),
}


@pytest.mark.slow
@examples(1)
@given(scenarios())
def test_folds_without_merge_keep_the_records(scenario: Scenario) -> None:
    """Each window adds its records in order of time, those of one time in order of their values, null first."""
    finite = replace(scenario, lookbacks=("short", "long"))
    operator = finite.windows.group_by("key").aggregate(**FOLDS).emit(finite.emit)
    batches = [
        (
            each.append_column(
                "even", pa.array([n % 2 == 0 for n in each.column("number").to_pylist()], pa.bool_())
            ),
            moment,
        )
        for each, moment in finite.batches
    ]
    expected = expected_rows(finite.windows, batches, "time", FOLDED, ["key"], finite.emit)
    with operator.local_runner("time", options={"state.segment": finite.segment}) as runner:
        for batch, wanted in zip(batches, expected, strict=True):
            assert_rows(runner.process(*batch), wanted, keys=["number"])


@pytest.mark.slow
def test_what_waits_is_forgotten_with_its_last_row() -> None:
    """Rows leave the state when all of a page's are out, while its panes stay for the longest lookback."""
    operator = RollingWindows("1 day", grace="1 minute").group_by("key").aggregate(n=agg.count())
    with operator.local_runner("time", options={"state.segment": "1 minute"}) as runner:
        for minute in range(20):
            runner.process(table([("a", minute * 60_000 + n, n) for n in range(100)], minute * 100))
        entries = [entry for _, each in runner.store.scan() for entry in each.columns[2].tolist()]
    assert sum(entries) == 200  # of the last minute, and those that the grace holds back
    assert len(entries) == 2_002


@pytest.mark.slow
def test_a_lifetime_is_one_pane() -> None:
    """What is older than the longest lookback is one pane for each key, however long the stream."""
    operator = RollingWindows({"s": 1_000, "ever": "lifetime"}).group_by("key").aggregate(n=agg.count())
    with operator.local_runner("time", options={"state.segment": "100 ms"}) as runner:
        for number in range(200):
            runner.process(table([("a", number * 1_000, 1), ("b", number * 1_000, 1)]))
        assert runner.metrics["live_panes"] < 12
        row = runner.process(table([]), stream_time=FAR).to_pylist()[-1]
    assert (row["n_s"], row["n_ever"]) == (2, 200)


@pytest.mark.slow
def test_an_aggregate_over_some_lookbacks() -> None:
    """`over` leaves the other lookbacks out, and what keeps each value is not kept for the lifetime."""
    windows = RollingWindows({"s": 2, "m": 5, "ever": "lifetime"})
    operator = windows.group_by("key").aggregate(
        n=agg.count(), listed=agg.collect_list("value").over("s", "m"), total=agg.sum("value").over("ever")
    )
    with operator.local_runner("time", options={"state.segment": "1 ms"}) as runner:
        for time in range(50):
            runner.process(table([("a", time, time)], time))
        (row,) = runner.process(table([]), stream_time=FAR).to_pylist()
        (life,) = (entries for _, entries in runner.store.scan() if entries.time[0] == LIFE_PANE_TIME)
    assert list(row)[6:] == ["n_s", "listed_s", "n_m", "listed_m", "n_ever", "total_ever"]
    assert (row["listed_s"], row["listed_m"]) == ([47, 48, 49], [44, 45, 46, 47, 48, 49])
    assert (row["n_ever"], row["total_ever"]) == (50, sum(range(50)))
    assert [column.tolist() for column in life.columns].count([[]]) == 2  # times and values


def test_operations_of_users() -> None:
    """A custom aggregate and a fold with a merge are combined over all lookbacks; of nothing they are their initial state."""
    span = AggregateOperation(
        name="span",
        state=(int, int),
        create=lambda: (10**6, -(10**6)),
        accumulate=lambda state, value: (np.minimum(state[0], value), np.maximum(state[1], value)),
        combine=lambda left, right: (np.minimum(left[0], right[0]), np.maximum(left[1], right[1])),
        finish=lambda state: state[1] - state[0],
        type="bigint",
    )
    product = agg.fold(1, mul, "value", type="bigint", merge=mul)
    windows = RollingWindows({"s": 2, "ever": "lifetime"}, closed="left")
    operator = windows.group_by("key").aggregate(span=span("value"), product=product)
    rows = []
    with operator.local_runner("time", options={"state.segment": "1 ms"}) as runner:
        for record in (("a", 1, 5), ("a", 2, 9), ("a", 9, 1)):
            rows += runner.process(table([record])).to_pylist()
        rows += runner.process(table([]), stream_time=FAR).to_pylist()
    found = [(row["span_s"], row["product_s"], row["span_ever"], row["product_ever"]) for row in rows]
    nothing = -2 * 10**6
    assert found == [(nothing, 1, nothing, 1), (0, 5, 0, 5), (nothing, 1, 4, 45)]


def test_encoded_columns_come_out_as_their_values() -> None:
    """Dictionaries of numbers and of texts are stored, and come out, as what they stand for."""
    rows = table([("a", 1, 5), ("a", 2, 5), (None, 3, None)])
    coded = rows
    for name in ("key", "value"):
        place = rows.column_names.index(name)
        coded = coded.set_column(place, name, rows.column(name).dictionary_encode())
    operator = RollingWindows(5, grace=2).group_by("key").aggregate(n=agg.count(), total=agg.sum("value"))
    found = []
    for batch in (rows, coded):
        with operator.local_runner("time") as runner:
            batches = [runner.process(batch), runner.process(batch.slice(0, 0), stream_time=FAR)]
            found.append([row for out in batches for row in out.to_pylist()])
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_rows_of_any_type_wait() -> None:
    """Columns that no aggregate reads come through the store as they are, whatever their type."""
    rows = pa.table(
        {
            "at": pa.array([datetime(2024, 1, 1, 12, 0, 0, n) for n in (7, 3, 3)], pa.timestamp("us", "UTC")),
            "nested": pa.array(
                [{"m": [("k", [1.5, None])]}, None, {"m": None}],
                pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.float64())))]),
            ),
            "price": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(9, 2)),
        }
    )
    operator = RollingWindows("1 hour", grace="1 minute").aggregate(n=agg.count())
    with operator.local_runner("at", backend="rocksdb") as runner:
        assert runner.process(rows).num_rows == 0
        out = runner.process(rows.slice(0, 0), stream_time=datetime(2025, 1, 1, tzinfo=timezone.utc))
    assert out.select(rows.column_names).to_pylist() == [rows.to_pylist()[n] for n in (0, 1, 2)]
    assert out.schema.field("nested").type == rows.schema.field("nested").type


def test_waiting_rows_are_joined_with_rows_of_columns_that_are_never_null() -> None:
    """Rows from the store may have nulls, as far as their schema says; those of a batch need not."""
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    types = {
        "key": pa.string(),
        "time": pa.int64(),
        "nested": pa.list_(pa.field("item", inner, nullable=False)),
    }
    fields = [pa.field(name, type_, nullable=False) for name, type_ in types.items()]
    schema = pa.schema(fields, {"made": "by the test"})
    operator = RollingWindows(10).group_by("key").aggregate(n=agg.count())
    found = []
    with operator.local_runner("time") as runner:
        for times in ([0], [5, 30], []):
            records = [{"key": "a", "time": time, "nested": [{"a": time}]} for time in times]
            found += runner.process(pa.Table.from_pylist(records, schema), None if times else FAR).to_pylist()
    assert [(0, 1), (5, 2), (30, 1)] == [(row["time"], row["n"]) for row in found]
    assert all(row["nested"] == [{"a": row["time"]}] for row in found)


@pytest.mark.slow
def test_more_text_than_an_array_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, keys and results come out in order, in pieces that fit, also from a savepoint; by a limit of a few bytes."""
    rng = np.random.default_rng(7)
    records = [(f"{n % 5} is a long key", int(t), n) for n, t in enumerate(rng.integers(0, 60, 300))]
    whole = table(records)
    texts = pa.array([f"{n}" * 9 for n in range(300)])
    whole = whole.append_column("text", texts).append_column("texts", whole.column("tags"))
    aggregates = {"n": agg.count(), "last": agg.max("text"), "listed": agg.collect_list("text")}
    operator = RollingWindows({"s": 5, "m": 50}, grace=10).group_by("key").aggregate(**aggregates)
    windows = TumblingWindows(7, grace=10).group_by("key").aggregate(**aggregates)

    def rows(folder: Path) -> list[list[pa.Table]]:
        found = []
        for one in (operator, windows):
            first, second = (folder / f"{one.windows.grace_ticks}-{len(found)}-{name}" for name in "ab")
            with one.local_runner("time", late=True) as runner:
                out = [runner.process(whole.slice(0, 150)), runner.process(whole.slice(150, 100), 65)]
                out.append(runner.late)
                runner.savepoint(first)
            with one.local_runner("time", options={"state.savepoint": str(first)}) as runner:
                out.append(runner.process(whole.slice(250, 50)))
                runner.savepoint(second)
                out.append(runner.process(whole.slice(0, 0), FAR))
            found.append(out)
        return found

    expected = rows(tmp_path / "whole")
    monkeypatch.setattr(arrays, "PIECE_BYTES", 100)
    found = rows(tmp_path / "pieces")
    plain = [[[part.to_pylist() for part in out] for out in each] for each in (expected, found)]
    assert plain[0] == plain[1]
    assert all(t.num_rows for out in expected for t in (out[0], out[2], out[4]))
    assert max(t.column("text").num_chunks for t in found[0] if "text" in t.column_names) > 9


ENDING = {"s": 5, "ever": "lifetime"}


def ending(forget: int | None, emit: Any = "on_close") -> RollingAggregation:
    """Counts over a lifetime that may end."""
    windows = RollingWindows(ENDING, forget_after=forget)
    return windows.group_by("key").aggregate(n=agg.count()).emit(emit)


def counts(rows: pa.Table) -> list[tuple[str, int, int]]:
    """Key, time and count over the lifetime of rows."""
    ticks = rows["time"].cast(pa.int64()).to_pylist()
    return sorted(zip(rows["key"].to_pylist(), ticks, rows["n_ever"].to_pylist(), strict=True))


def test_a_lifetime_ends_with_a_pause() -> None:
    """A pause of just `forget_after` is none; a longer one begins a lifetime, also within one batch.

    forget_after     |---------|
    a       0         10        20              36
    count   1         2         3               1
    """
    with ending(10).local_runner("time") as runner:
        rows = runner.process(table([("a", time, 0) for time in (0, 10, 20, 36)]), stream_time=FAR)
    assert counts(rows) == [("a", 0, 1), ("a", 10, 2), ("a", 20, 3), ("a", 36, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_state_of_idle_keys_goes(backend: str) -> None:
    """New keys come and go for ever, one stays: state stays as small as it was, and the one that stays is whole."""
    options, sizes = {"state.segment": "10 ms"}, []
    with ending(80, "on_arrival").local_runner("time", backend, options=options) as runner:
        for n in range(60):
            rows = runner.process(
                table([("stays", 10 * n, 0), *((f"{n}-{m}", 10 * n, 0) for m in range(20))])
            )
            assert n + 1 in rows["n_ever"].to_pylist()
            sizes.append(runner.metrics["live_keys"])
    assert max(sizes) <= 20 * 12 + 1
    assert max(sizes[20:]) == max(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("emit", ["on_close", "on_arrival"])
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_a_running_query_gets_and_loses_an_end(backend: str, emit: Any, tmp_path: Path) -> None:
    """Keys whose last record is not known count as of the restart; then they go. Without an end again, all stay."""
    options = {"state.segment": "10 ms"}

    def run(forget: int | None, records: list[Row], moment: int) -> tuple[list[tuple[str, int, int]], int]:
        with ending(forget, emit).local_runner("time", backend, tmp_path, options) as runner:
            rows = counts(runner.process(table(records), stream_time=moment))
            return rows, runner.metrics["live_keys"]

    run(None, [("a", 0, 0), ("b", 0, 0)], 100)
    assert run(80, [("a", 100, 0)], 120) == ([("a", 100, 2)], 2)  # Not known, and so no pause.
    assert run(80, [("a", 181, 0)], 200) == ([("a", 181, 1)], 2)
    assert run(80, [], 220)[1] == 1  # "b" was idle since the restart.
    assert run(None, [("b", 300, 0)], 310) == ([("b", 300, 1)], 2)
    assert run(None, [("a", 10_000, 0)], 10_001)[0] == [("a", 10_000, 2)]
    again = (
        2 if emit == "on_close" else 3
    )  # On close, it is stored when the lifetime had its last record before 10,000.
    assert run(80, [("a", 10_020, 0)], 10_021)[0] == [("a", 10_020, again)]


def test_an_end_needs_a_lifetime() -> None:
    """Other lookbacks have one."""
    with pytest.raises(DefinitionError, match="no lookback is 'lifetime'"):
        RollingWindows({"s": 5}, forget_after="1 day")
    for wrong in (0, -1, "soon"):
        with pytest.raises(DefinitionError, match="forget_after"):
            RollingWindows(ENDING, forget_after=wrong)


def test_a_pause_within_a_page_is_seen() -> None:
    """A page that all other lookbacks contain whole or not at all is not summed: a lifetime may begin within it."""
    options, found = {"state.segment": "1 minute"}, []
    with ending(10, "on_arrival").local_runner("time", options=options) as runner:
        for time in (0, 50, *range(58, 150, 8)):
            found += counts(runner.process(table([("a", time, 0)])))
    assert [n for _, _, n in found] == [1, *range(1, 14)]


@pytest.mark.slow
@pytest.mark.parametrize("emit", ["on_close", "on_arrival"])
def test_what_is_not_combined_yet_continues_a_lifetime(emit: Any) -> None:
    """A key is not idle while it has a pane of its own behind what is combined, however far the close time has come.

    segments  |-------------------|-------------------|-------------------|
    records        0         4        8             14             20   25
                   combined: 4    |   8 is within the pause of 4, and 14 of it, when the close time is far beyond 4
    """
    for shift in range(10):
        times = [shift + time for time in (0, 4, 8, 14, 20, 25)]
        batches = [(table([("a", time, 0)], n), time) for n, time in enumerate(times)]
        batches.append((table([]), FAR))
        windows = RollingWindows(ENDING, forget_after=6)
        expected = expected_rows(windows, batches, "time", {"n": len}, ["key"], emit)
        with ending(6, emit).local_runner("time", options={"state.segment": "10 ms"}) as runner:
            for batch, rows in zip(batches, expected, strict=True):
                assert counts(runner.process(*batch)) == sorted(
                    (row["key"], row["time"], row["n_ever"]) for row in rows
                )


def test_a_late_record_older_than_the_other_lookbacks_continues_no_lifetime() -> None:
    """Its place may be in what is combined already. A younger late record continues it."""
    for late, expected in ((14, 1), (15, 2)):
        with ending(10, "on_arrival").local_runner("time", options={"state.segment": "1 ms"}) as runner:
            runner.process(table([("a", 0, 0)]), stream_time=20)
            assert counts(runner.process(table([("a", late, 0), ("a", 20, 0)]))) == [("a", 20, expected)]
