"""Sliding, hopping and tumbling windows by folds: random records against the oracle, recorded cases, and the way by panes."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Batch, HoppingOracle, Record, Row, SlidingOracle, StreamClock, Window, in_order

from operators import (
    HoppingWindows,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    WindowedAggregation,
)
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.engines.fold_engine import FoldPlan
from operators.kinds.fold_hopping import FoldedHopping
from operators.kinds.fold_sliding import FoldedSliding
from operators.runtime.binding import Binding
from operators.runtime.local import LocalRunner
from operators.steps import page_timers
from state_backends import StateConfig, resolve
from tests.effort import examples, few, slow_but

Step = tuple[list[Record], int | None]
"""A batch and its explicit stream time."""

RECORDED = Path(__file__).parents[2] / "conformance" / "cases"
LONG_AGO = -(10**15)
YEAR = 31_557_600_000
MOST_STEPS = 12
BATCH = 100
"""Values of the n-th batch are n * BATCH and more, so that they tell in which order they were folded in."""


def appended(values: list[int], value: int) -> list[int]:
    """A fold that changes the state that it is given."""
    values.append(value)
    return values


def folds(type_: str = "bigint") -> dict[str, agg.Aggregate]:
    """Folds over values of this type, without merge."""
    return {
        "n": agg.fold(0, lambda n: n + 1, type="bigint"),
        "total": agg.fold(0, lambda total, value: total + value, "value", type=type_),
        "low": agg.fold(None, lambda low, v: v if low is None else min(low, v), "value", type=type_),
        "high": agg.fold(None, lambda high, v: v if high is None else max(high, v), "value", type=type_),
        "listed": agg.fold(list, appended, "value", type=f"array<{type_}>"),
    }


FOLDS = folds()
MERGED = {
    "n": agg.fold(0, lambda n: n + 1, type="bigint", merge=lambda a, b: a + b),
    "total": agg.fold(0, lambda total, v: total + v, "value", type="bigint", merge=lambda a, b: a + b),
    "low": agg.fold(BATCH * BATCH, min, "value", type="bigint", merge=min),
    "high": agg.fold(-1, max, "value", type="bigint", merge=max),
    "listed": agg.fold(list, appended, "value", type="array<bigint>", merge=list.__add__, finish=sorted),
}
BUILT_IN = {
    "n": agg.count(),
    "total": agg.sum("value"),
    "low": agg.min("value"),
    "high": agg.max("value"),
    "listed": agg.collect_list("value"),
}


def by_fold(operator: WindowedAggregation, backend: str = "memory", **given: Any) -> LocalRunner:
    """A runner that folds records into windows, whatever its aggregates could do."""

    def bind(schema: pa.Schema, config: StateConfig) -> Binding:
        binding = operator.bind(schema, "time", config)
        windows, operations = operator.windows, binding.output.operations
        on_update = operator.policy == "on_update"
        if isinstance(windows, SlidingWindows):
            return replace(binding, plan=FoldPlan(FoldedSliding(windows.size_ticks), on_update, operations))
        return replace(binding, plan=FoldPlan(FoldedHopping(windows.times), on_update, operations))

    return LocalRunner(bind, resolve(backend, given.get("options")), given.get("directory"))


@dataclass(frozen=True)
class Scenario:
    """An operator, how it keeps its state, and the batches that it takes; `advance` is None of sliding windows."""

    size: int
    advance: int | None
    offset: int
    grace: int
    emit: str
    backend: str
    options: Mapping[str, str]
    steps: Sequence[Step]

    def operator(self, aggregates: Mapping[str, agg.Aggregate] = FOLDS) -> WindowedAggregation:
        """The operator with these aggregates."""
        if self.advance is None:
            windows = SlidingWindows(size=self.size, grace=self.grace).group_by("key")
        else:
            windows = HoppingWindows(self.size, self.advance, self.grace, self.offset).group_by("key")
        return windows.aggregate(**aggregates).emit(self.emit)

    def runner(self, aggregates: Mapping[str, agg.Aggregate] = FOLDS, **changed: Any) -> LocalRunner:
        """A new runner of the operator by folds."""
        return by_fold(
            self.operator(aggregates), **{"backend": self.backend, "options": self.options, **changed}
        )

    def oracle(self) -> SlidingOracle:
        """The judge of the operator."""
        if self.advance is None:
            return SlidingOracle(self.size, self.emit)
        return HoppingOracle(self.size, self.advance, self.offset, self.emit)

    def emitted(self) -> list[pa.Table]:
        """What the operator emits step by step."""
        with self.runner() as runner:
            return emitted(runner, self.steps)


@st.composite
def scenarios(draw: Callable[..., Any], explicit: bool = False) -> Scenario:
    """Few keys; times with many ties, at the edges of windows, and now and then years apart."""
    size = draw(st.sampled_from([0, 1, 2, 3, 5, 8, 200]))
    keys = st.sampled_from(draw(st.sampled_from([("a",), ("a",), (None, "a"), (None, "", "a", "b")])))
    eras = st.sampled_from(draw(st.sampled_from([(0,)] * 5 + [(0, 0, -3 * YEAR, YEAR, 40 * YEAR)])))
    edges = st.builds(lambda n, off: n * (size + 1) + off, st.integers(-1, 2), st.integers(-1, 1))
    times = st.builds(int.__add__, eras, edges | st.integers(-9, 9))
    values = st.integers(0, 9)
    batches = st.lists(st.tuples(keys, times, values), max_size=draw(st.sampled_from([1, 3, 9])))
    leads = st.integers(-2 * size - 2, size + 2) | (st.nothing() if explicit else st.none())
    highest, steps = 0, []
    for drawn, lead in draw(st.lists(st.tuples(batches, leads), min_size=1, max_size=MOST_STEPS)):
        records = [(key, time, len(steps) * BATCH + value) for key, time, value in drawn]
        highest = max([highest, *(time for _, time, _ in records)])
        steps.append((records, None if lead is None else highest + lead))
    grace = draw(st.sampled_from([0, 0, 1, size, 2 * size + 1, 60, 50 * YEAR]))
    emit = draw(st.sampled_from(["on_close", "on_update"]))
    backend = draw(st.sampled_from(["memory", "rocksdb", "spark"]))
    segment = draw(st.sampled_from(["1 ms", f"{max(1, size)} ms", "7 ms", "1 minute"]))
    advance = draw(st.none() | st.none() | st.just(size) | st.integers(max(1, size // 20), max(1, size)))
    if advance is not None:
        size, advance = max(1, size), max(1, advance)
    offset = draw(st.integers(-2 * size, 2 * size))
    return Scenario(size, advance, offset, grace, emit, backend, {"state.segment": segment}, steps)


def table(records: Sequence[Record], type_: pa.DataType | None = None) -> pa.Table:
    """Records as a table."""
    key, time, value = zip(*records, strict=True) if records else ([], [], [])
    columns = (
        pa.array(key, pa.string()),
        pa.array(time, pa.timestamp("ms")),
        pa.array(value, type_ or pa.int64()),
    )
    return pa.table(columns, ["key", "time", "value"])


def emitted(runner: LocalRunner, steps: Sequence[Step]) -> list[pa.Table]:
    """What a runner emits step by step, and that nothing is left to store at the end."""
    tables = [runner.process(table(records), stream_time) for records, stream_time in steps]
    close_everything(runner)
    return tables


def close_everything(runner: LocalRunner, type_: pa.DataType | None = None) -> None:
    """Move stream time beyond every window; after that nothing is left to store."""
    runner.process(table([], type_), FAR_FUTURE)
    assert runner.store.is_empty()


def rows(emitted: pa.Table) -> list[Row]:
    """Emitted windows as tuples of key, bounds in ms and results, in order of key and bounds."""
    window = emitted.column("window").combine_chunks()
    bounds = [window.field(name).cast(pa.int64()).to_pylist() for name in ("start", "end")]
    results = [emitted.column(name).to_pylist() for name in FOLDS]
    return in_order(zip(emitted.column("key").to_pylist(), *bounds, *results, strict=True))


def folded_rows(windows: Sequence[Window]) -> list[Row]:
    """What is to be emitted: batch after batch, each in order of event time, then of value."""
    expected = []
    for window in windows:
        content = sorted((value // BATCH, time, value) for time, value in window.content)
        found = [value for _, _, value in content]
        results = len(found), sum(found), min(found), max(found), found
        expected.append((window.key, window.start, window.end, *results))
    return in_order(expected)


@examples(5)
@given(scenarios())
def test_rows_are_those_of_the_oracle(scenario: Scenario) -> None:
    """Every batch emits exactly the windows, folded in exactly the order, that follow from all raw records."""
    clock, oracle, late = StreamClock(scenario.grace), scenario.oracle(), 0
    with scenario.runner() as runner:
        for records, stream_time in scenario.steps:
            output = oracle.step(clock.batch(records, stream_time))
            late += len(output.late)
            assert folded_rows(output.windows) == rows(runner.process(table(records), stream_time))
            assert late == runner.counters.late
        close_everything(runner)


@pytest.mark.slow
@given(scenarios(explicit=True))
def test_rows_are_those_of_the_oracle_at_one_close_time_a_batch(scenario: Scenario) -> None:
    """As on Spark, where a watermark of earlier batches is both close times: the oracle's windows."""
    oracle, watermark = scenario.oracle(), LONG_AGO
    with scenario.runner() as runner:
        for records, stream_time in scenario.steps:
            close = watermark - scenario.grace
            output = oracle.step(Batch(records, close, close))
            tables = [runner.process(table([]), watermark), runner.process(table(records), watermark)]
            assert folded_rows(output.windows) == rows(pa.concat_tables(tables))
            watermark = max(watermark, stream_time)
        close_everything(runner)


@pytest.mark.slow
@examples(1.5)
@given(scenarios())
def test_built_in_aggregates_are_the_same_by_folds_as_by_panes(scenario: Scenario) -> None:
    """Any operation can be folded, record by record, and comes to what combining panes comes to."""
    panes = scenario.operator(BUILT_IN).local_runner("time", scenario.backend, options=scenario.options)
    with scenario.runner(BUILT_IN) as folds, panes:
        both = [map(rows, emitted(runner, scenario.steps)) for runner in (folds, panes)]

    assert list(both[1]) == list(both[0])


@pytest.mark.slow
@examples(1.5)
@given(scenarios())
def test_folds_with_merge_go_by_panes_to_the_same_rows(scenario: Scenario) -> None:
    """What can be merged is added once and merged for each window; of equal event times batches may change places."""
    clock, oracle = StreamClock(scenario.grace), scenario.oracle()
    operator = scenario.operator(MERGED)
    with operator.local_runner("time", scenario.backend, options=scenario.options) as runner:
        for records, stream_time in scenario.steps:
            windows = oracle.step(clock.batch(records, stream_time)).windows
            expected = [(*row[:-1], sorted(row[-1])) for row in folded_rows(windows)]
            assert expected == rows(runner.process(table(records), stream_time))
        close_everything(runner)


@pytest.mark.slow
@examples(0.6)
@given(scenarios(), st.randoms(use_true_random=False))
def test_order_of_rows_within_a_batch_is_of_no_account(scenario: Scenario, random: Any) -> None:
    """A batch's rows, shuffled, are folded in the same order."""
    steps = [(random.sample(records, len(records)), time) for records, time in scenario.steps]
    shuffled = replace(scenario, steps=steps)

    assert list(map(rows, scenario.emitted())) == list(map(rows, shuffled.emitted()))


@pytest.mark.slow
@examples(0.4)
@given(scenarios())
def test_backends_and_segments_change_no_row(scenario: Scenario) -> None:
    """Tables are identical, their order of rows included, on every backend and segment length."""
    changes = ({"backend": "memory"}, {"backend": "rocksdb"}, {"backend": "memory", "options": {}})
    tables = [replace(scenario, **changed).emitted() for changed in changes]

    assert tables[0] == tables[1]
    assert tables[0] == tables[2]


@pytest.mark.slow
@examples(0.6)
@given(
    scenarios(),
    st.lists(st.sampled_from(["no", "restart", "other"]), min_size=12, max_size=12),
    st.booleans(),
)
def test_a_directory_outlives_restarts(scenario: Scenario, restarts: list[str], large: bool) -> None:
    """After a restart, or in a new runner on another backend: the same rows, also as with a large state."""
    tables, backend = [], scenario.backend
    with (
        pytest.MonkeyPatch.context() as changed,
        tempfile.TemporaryDirectory() as directory,
        ExitStack() as opened,
    ):
        if large:
            changed.setattr(page_timers, "_FEW_PAGES", -1)
        runner = opened.enter_context(scenario.runner(directory=directory))
        for (records, stream_time), restart in zip(scenario.steps, restarts, strict=False):
            if restart == "restart":
                runner.restart()
            if restart == "other":
                backend = {"memory": "rocksdb", "rocksdb": "spark", "spark": "memory"}[backend]
                opened.close()
                runner = opened.enter_context(scenario.runner(directory=directory, backend=backend))
            tables.append(runner.process(table(records), stream_time))
        close_everything(runner)

    assert list(map(rows, scenario.emitted())) == list(map(rows, tables))


def recorded() -> dict[str, dict[str, Any]]:
    """The recorded cases of windows that need no merge, by name."""
    cases = {file.stem: json.loads(file.read_text()) for file in sorted(RECORDED.rglob("*.json"))}
    return {name: case for name, case in cases.items() if case["options"]["window"] != "session"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", slow_but(["rocksdb"], ["memory", "rocksdb", "spark"]))
@pytest.mark.parametrize("case", few(recorded().values(), 5), ids=recorded().keys())
def test_folds_emit_what_was_recorded(case: dict[str, Any], backend: str) -> None:
    """Folds of a user's own emit Kafka Streams' rows, and ours where our rules differ."""
    options, late, found = case["options"], [], []
    fractions = any(isinstance(value, float) for _, _, value in case["records"])
    column = pa.float64() if fractions else pa.int64()
    with by_fold(recorded_operator(options, "double" if fractions else "bigint"), backend) as runner:
        for number, record in enumerate(case["records"]):
            late_before = runner.counters.late
            found.append(recorded_rows(runner.process(table([record], column))))
            late += [number] * (runner.counters.late - late_before)
        close_everything(runner, column)

    assert [sorted(expected) for expected in case["emitted"]] == found
    assert case["late"] == late


def recorded_operator(options: dict[str, Any], type_: str) -> WindowedAggregation:
    """The operator of a recorded case, its aggregate a fold."""
    names = {"count": "n", "sum": "total", "min": "low", "max": "high", "collect": "listed"}
    size, grace = options["size"], options["grace"]
    if options["window"] == "sliding":
        windows = SlidingWindows(size=size, grace=grace)
    else:
        windows = HoppingWindows(size, options.get("advance", size), grace)
    result = folds(type_)[names[options["aggregate"]]]
    return windows.group_by("key").aggregate(result=result).emit(options["emit"])


def recorded_rows(emitted: pa.Table) -> list[list[Any]]:
    """Emitted rows in the form of the cases."""
    window = emitted.column("window").combine_chunks()
    bounds = [window.field(name).cast(pa.int64()).to_pylist() for name in ("start", "end")]
    results = [sorted(v) if isinstance(v, list) else v for v in emitted.column("result").to_pylist()]
    return sorted(map(list, zip(emitted.column("key").to_pylist(), *bounds, results, strict=True)))


ROWS_IN_TIME = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.integers(0, 9)), max_size=8)
ANY_ORDER = {
    "n": MERGED["n"],
    "listed": agg.fold(list, appended, "value", type="array<bigint>", merge=list.__add__, finish=sorted),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "windows",
    [
        RollingWindows({"s": 7, "ever": "lifetime"}, grace=5),
        TumblingWindows(10, grace=5),
        HoppingWindows(12, 4, grace=5),
        SlidingWindows(6, grace=5),
        SessionWindows(3, grace=5),
    ],
    ids=lambda windows: type(windows).__name__,
)
@examples(0.4)
@given(batches=st.lists(ROWS_IN_TIME, min_size=1, max_size=5))
def test_the_length_of_segments_does_not_change_what_merges_give(
    windows: Any, batches: list[list[tuple[str, int, int]]]
) -> None:
    """States are merged in other orders: a merge that does not depend on order gives the same rows, also of late records."""
    found = []
    for segment in ("1 ms", "9 ms", "1 minute"):
        operator = windows.group_by("key").aggregate(**ANY_ORDER)
        with operator.local_runner("time", options={"state.segment": segment}) as runner:
            rows = []
            for records, moment in [*((records, None) for records in batches), ([], FAR_FUTURE)]:
                keys, times, values = zip(*records, strict=True) if records else ((), (), ())
                columns = {"key": pa.array(keys, pa.string()), "time": times, "value": values}
                types = pa.schema([("key", pa.string()), ("time", pa.int64()), ("value", pa.int64())])
                rows += runner.process(pa.table(columns, types), moment).to_pylist()
        found.append(sorted(map(repr, rows)))
    assert found[0] == found[1] == found[2]
