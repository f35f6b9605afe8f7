"""Windows of all kinds over random records: against the brute-force oracle, and against themselves."""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import (
    Batch,
    HoppingOracle,
    Record,
    Row,
    SessionOracle,
    SlidingOracle,
    StreamClock,
    exact_rows,
    in_order,
    rounded_rows,
)

from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.runtime.local import LocalRunner
from operators.steps import page_timers
from tests.effort import examples

pytestmark = pytest.mark.usefixtures("pages_of_few_entries")
Step = tuple[list[Record], int | None]
"""A batch and its explicit stream time."""

LONG_AGO = -(10**15)
YEAR = 31_557_600_000
MOST_STEPS = 12
SESSIONS = ("session", "gaps")
PANED = ("sliding", "hopping", "tumbling")
KINDS = (*PANED, *SESSIONS)
INT64 = pa.int64()
EXACT = {
    "n": agg.count(),
    "valid": agg.count("value"),
    "total": agg.sum("value"),
    "low": agg.min("value"),
    "high": agg.max("value"),
    "mean": agg.avg("value"),
    "listed": agg.collect_list("value"),
}
FLOATING = {
    "total": agg.sum("value"),
    "mean": agg.avg("value"),
    "variance": agg.variance("value"),
    "stddev": agg.stddev("value"),
}


@dataclass(frozen=True)
class Scenario:
    """An operator, how it keeps its state, and the batches that it takes.

    Attributes:
        kind: of the windows; "gaps" are sessions whose records have a gap each.
        size: of a window, or a session's gap.
        advance, offset: of hopping and tumbling windows.
        longest: a session's greatest length, or None.
    """

    kind: str
    size: int
    advance: int
    offset: int
    longest: int | None
    grace: int
    emit: str
    backend: str
    options: Mapping[str, str]
    steps: Sequence[Step]

    def runner(
        self, aggregates: Mapping[str, agg.Aggregate] = EXACT, directory: Path | None = None, **changed: Any
    ) -> LocalRunner:
        """A new runner of the operator, with another backend or other options if given."""
        windows = self.windows().group_by("key")
        state = {"backend": self.backend, "options": self.options, **changed}
        return (
            windows.aggregate(**aggregates).emit(self.emit).local_runner("time", directory=directory, **state)
        )

    def windows(self) -> SlidingWindows | HoppingWindows | SessionWindows:
        """The window definition."""
        if self.kind == "sliding":
            return SlidingWindows(size=self.size, grace=self.grace)
        if self.kind == "hopping":
            return HoppingWindows(self.size, self.advance, self.grace, self.offset)
        if self.kind == "tumbling":
            return TumblingWindows(self.size, self.grace, self.offset)
        if self.kind == "gaps":
            return SessionWindows(gap_column="gap", grace=self.grace, max_length=self.longest)
        return SessionWindows(self.size, grace=self.grace, max_length=self.longest)

    def oracle(self) -> SlidingOracle | SessionOracle:
        """The judge of the operator."""
        if self.kind == "sliding":
            return SlidingOracle(self.size, self.emit)
        if self.kind in ("hopping", "tumbling"):
            step = self.advance if self.kind == "hopping" else self.size
            return HoppingOracle(self.size, step, self.offset, self.emit)
        gap = gap_of if self.kind == "gaps" else lambda _: self.size
        return SessionOracle(gap, self.longest, self.emit)

    def emitted(self, steps: Sequence[Step]) -> list[list[Row]]:
        """What the operator emits step by step."""
        with self.runner() as runner:
            emitted = [rows(runner.process(table(records), stream_time)) for records, stream_time in steps]
            close_everything(runner)
        return emitted


@st.composite
def scenarios(
    draw: Callable[..., Any], explicit: bool = False, values: Any = None, kinds: Sequence[str] = KINDS
) -> Scenario:
    """Few keys, null among them; times with many ties, at the edges of windows, and now and then years apart.

    Args:
        draw: given by hypothesis.
        explicit: whether every batch has an explicit stream time, instead of some.
        values: of the records, whole numbers if not given.
        kinds: of windows, to pick from.
    """
    size = draw(st.sampled_from([0, 1, 2, 3, 5, 8, 200]))
    keys = st.sampled_from(draw(st.sampled_from([("a",), ("a",), (None, "a"), (None, "", "a", "b")])))
    eras = st.sampled_from(draw(st.sampled_from([(0,)] * 5 + [(0, 0, -3 * YEAR, YEAR, 40 * YEAR)])))
    edges = st.builds(lambda n, off: n * (size + 1) + off, st.integers(-1, 2), st.integers(-1, 1))
    times = st.builds(int.__add__, eras, edges | st.integers(-9, 9))
    values = st.none() | st.integers(-9, 9) if values is None else values
    batches = st.lists(st.tuples(keys, times, values), max_size=draw(st.sampled_from([1, 3, 9])))
    leads = st.integers(-2 * size - 2, size + 2) | (st.nothing() if explicit else st.none())
    highest, steps = 0, []
    for records, lead in draw(st.lists(st.tuples(batches, leads), min_size=1, max_size=MOST_STEPS)):
        highest = max([highest, *(time for _, time, _ in records)])
        steps.append((records, None if lead is None else highest + lead))
    grace = draw(st.sampled_from([0, 0, 1, size, 2 * size + 1, 60, 50 * YEAR]))
    emit = draw(st.sampled_from(["on_close", "on_update"]))
    backend = draw(st.sampled_from(["memory", *BACKENDS]))
    segment = draw(st.sampled_from(["1 ms", f"{max(1, size)} ms", "7 ms", "1 minute"]))
    kind = draw(st.sampled_from(kinds))
    if kind in ("hopping", "tumbling"):
        size = max(1, size)
    advance, offset = (
        draw(st.integers(max(1, size // 20), max(1, size))),
        draw(st.integers(-2 * size, 2 * size)),
    )
    longest = draw(st.none() | st.sampled_from([0, 1, size, 3 * size])) if kind in SESSIONS else None
    options = {"state.segment": segment}
    return Scenario(kind, size, advance, offset, longest, grace, emit, backend, options, steps)


def gap_of(record: Record) -> int:
    """A gap of each record's own, which follows from its value."""
    return 1 + int(abs(record[2] or 0)) % 8 * 3


def table(records: Sequence[Record], type_: pa.DataType = INT64) -> pa.Table:
    """Records as a table."""
    key, time, value = zip(*records, strict=True) if records else ([], [], [])
    columns = pa.array(key, pa.string()), pa.array(time, pa.timestamp("ms")), pa.array(value, type_)
    gaps = pa.array(list(map(gap_of, records)), pa.int64())
    return pa.table([*columns, gaps], ["key", "time", "value", "gap"])


def rows(emitted: pa.Table) -> list[Row]:
    """Emitted windows as tuples of key, bounds in ms and results, in order of key and bounds."""
    window = emitted.column("window").combine_chunks()
    bounds = [window.field(name).cast(pa.int64()).to_pylist() for name in ("start", "end")]
    results = [
        emitted.column(name).to_pylist() for name in emitted.column_names if name in {**EXACT, **FLOATING}
    ]
    return in_order(zip(emitted.column("key").to_pylist(), *bounds, *results, strict=True))


def close_everything(runner: LocalRunner, type_: pa.DataType = INT64) -> None:
    """Move stream time beyond every window; after that nothing is left to store."""
    runner.process(table([], type_), FAR_FUTURE)
    assert runner.store.is_empty()


@examples(4)
@given(scenarios())
def test_rows_are_those_of_the_oracle(scenario: Scenario) -> None:
    """Every batch emits exactly the windows, with exactly the values, that follow from all raw records."""
    clock, oracle, late = StreamClock(scenario.grace), scenario.oracle(), 0
    with scenario.runner() as runner:
        for records, stream_time in scenario.steps:
            output = oracle.step(clock.batch(records, stream_time))
            late += len(output.late)
            assert exact_rows(output) == rows(runner.process(table(records), stream_time))
            assert late == runner.counters.late
        close_everything(runner)


@pytest.mark.slow
@examples(1.5)
@given(scenarios(explicit=True))
def test_rows_are_those_of_the_oracle_at_one_close_time_a_batch(scenario: Scenario) -> None:
    """As on Spark, where a watermark of earlier batches is both close times: the oracle's windows."""
    oracle, watermark = scenario.oracle(), LONG_AGO
    with scenario.runner() as runner:
        for records, stream_time in scenario.steps:
            close = watermark - scenario.grace
            output = oracle.step(Batch(records, close, close))
            emitted = [runner.process(table([]), watermark), runner.process(table(records), watermark)]
            assert exact_rows(output) == rows(pa.concat_tables(emitted))
            watermark = max(watermark, stream_time)
        close_everything(runner)


@pytest.mark.slow
@examples(2)
@given(scenarios(kinds=PANED))
def test_both_emit_policies_have_the_same_windows(scenario: Scenario) -> None:
    """Each window that comes out on close came out on update, at last with the same values, and the other way round."""
    steps = [*scenario.steps, ([], FAR_FUTURE)]
    updates, final = (
        [row for batch in replace(scenario, emit=emit).emitted(steps) for row in batch]
        for emit in ("on_update", "on_close")
    )

    assert in_order({row[:3]: row for row in updates}.values()) == in_order(final)


@pytest.mark.slow
@given(scenarios(values=st.none() | st.floats(-1e6, 1e6, width=32)))
def test_floating_point_rows_are_those_of_the_oracle(scenario: Scenario) -> None:
    """Sums, means, variances and deviations of fractions agree with exact arithmetic up to rounding."""
    clock, oracle = StreamClock(scenario.grace), scenario.oracle()
    with scenario.runner(FLOATING) as runner:
        for records, stream_time in scenario.steps:
            output = oracle.step(clock.batch(records, stream_time))
            assert rounded_rows(output) == rows(runner.process(table(records, pa.float64()), stream_time))
        close_everything(runner, pa.float64())


@pytest.mark.slow
@examples(0.6)
@given(scenarios(), st.randoms(use_true_random=False))
def test_order_of_rows_within_a_batch_is_of_no_account(scenario: Scenario, random: Any) -> None:
    """A batch's rows, shuffled, give the same windows."""
    shuffled = [
        (random.sample(records, len(records)), stream_time) for records, stream_time in scenario.steps
    ]

    assert scenario.emitted(scenario.steps) == scenario.emitted(shuffled)


@pytest.mark.slow
@given(scenarios(explicit=True, kinds=PANED), st.integers(1, 4))
def test_splitting_a_batch_at_equal_close_times_changes_nothing(scenario: Scenario, length: int) -> None:
    """In parts that see the close times of the whole, the last row of each window is that of the whole."""
    before = LONG_AGO
    with scenario.runner() as whole, scenario.runner() as parted:
        for records, stream_time in scenario.steps:
            parts = [records[at : at + length] for at in range(0, len(records), length)] or [[]]
            emitted = [row for part in parts[:-1] for row in rows(parted.process(table(part), before))]
            before = max(before, stream_time)
            emitted += rows(parted.process(table(parts[-1]), before))
            last = {row[:3]: row for row in emitted}
            assert rows(whole.process(table(records), before)) == in_order(last.values())
            assert scenario.emit == "on_update" or len(last) == len(emitted)
        close_everything(whole)
        close_everything(parted)


@pytest.mark.slow
@given(scenarios(explicit=True, kinds=SESSIONS), st.integers(1, 4))
def test_splitting_a_batch_of_sessions_changes_no_table(scenario: Scenario, length: int) -> None:
    """Updates and retractions of the parts, applied to a table, leave the table that those of the whole leave.

    But for records behind the close time: whether one is late depends on what came before it, in Kafka Streams as here.
    """
    before, table_of = LONG_AGO, ({}, {})
    with scenario.runner() as whole, scenario.runner() as parted:
        for records, stream_time in scenario.steps:
            timely = [record for record in records if record[1] >= before - scenario.grace]
            parts = [timely[at : at + length] for at in range(0, len(timely), length)] or [[]]
            emitted = [row for part in parts[:-1] for row in rows(parted.process(table(part), before))]
            before = max(before, stream_time)
            emitted += rows(parted.process(table(parts[-1]), before))
            upsert(table_of[0], emitted)
            upsert(table_of[1], rows(whole.process(table(timely), before)))
            assert table_of[0] == table_of[1]
        close_everything(whole)
        close_everything(parted)


def upsert(table: dict[Row, Row], emitted: Sequence[Row]) -> None:
    """Apply updates and retractions to a table by key and bounds."""
    for row in emitted:
        if row[3] is None:
            del table[row[:3]]
        else:
            table[row[:3]] = row


@pytest.mark.slow
@examples(0.6)
@given(scenarios(explicit=True))
def test_keys_can_be_dealt_out_to_separate_runners(scenario: Scenario) -> None:
    """Runners for some of the keys each, at the same stream times, emit together what one emits for all."""
    one, other = (
        scenario.emitted(
            [
                ([r for r in records if (r[0] in (None, "a")) == chosen], now)
                for records, now in scenario.steps
            ]
        )
        for chosen in (False, True)
    )

    assert scenario.emitted(scenario.steps) == [in_order(both) for both in map(list.__add__, one, other)]


@pytest.mark.slow
@examples(0.4)
@given(scenarios())
def test_backends_and_segments_change_no_row(scenario: Scenario) -> None:
    """Tables are identical, their order of rows included, on every backend and segment length."""
    tables = []
    for changed in (*({"backend": name} for name in BACKENDS), {"backend": "memory", "options": {}}):
        with scenario.runner(**changed) as runner:
            tables.append(
                [runner.process(table(records), stream_time) for records, stream_time in scenario.steps]
            )
            close_everything(runner)

    assert tables[0] == tables[1]
    assert tables[0] == tables[2]


BACKENDS = ("memory", "rocksdb", "spark")
CRASHES = ("none", "restart", "other runner", "other backend", "changelog refused", "pointer refused")


@examples(0.6)
@given(scenarios(), st.lists(st.booleans(), min_size=MOST_STEPS, max_size=MOST_STEPS), st.booleans())
def test_restarts_change_nothing(scenario: Scenario, restarts: list[bool], large: bool) -> None:
    """A runner without a directory that drops what is in memory between batches goes on where it was.

    Also as with a large state, whose segments are read when they may be due.
    """
    emitted = []
    with pytest.MonkeyPatch.context() as changed, scenario.runner() as runner:
        if large:
            changed.setattr(page_timers, "_FEW_PAGES", -1)
        for (records, stream_time), restart in zip(scenario.steps, restarts, strict=False):
            if restart:
                runner.restart()
            emitted.append(rows(runner.process(table(records), stream_time)))
            runner._operator.engine.state.check()
        close_everything(runner)

    assert scenario.emitted(scenario.steps) == emitted


@pytest.mark.slow
@given(scenarios(), st.lists(st.sampled_from(CRASHES), min_size=MOST_STEPS, max_size=MOST_STEPS))
def test_a_directory_outlives_crashes(scenario: Scenario, crashes: list[str]) -> None:
    """After a restart, in a new runner, on another backend, after a commit that failed: the same rows."""
    emitted, backend = [], scenario.backend
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        directory = Path(name)
        runner = opened.enter_context(scenario.runner(directory=directory))
        for (records, stream_time), crash in zip(scenario.steps, crashes, strict=False):
            if crash == "restart":
                runner.restart()
            if crash.startswith("other"):
                if crash == "other backend":
                    backend = BACKENDS[BACKENDS.index(backend) - 1]
                opened.close()
                runner = opened.enter_context(scenario.runner(directory=directory, backend=backend))
            if crash.endswith("refused"):
                with (
                    refusing(directory / "journal", crash),
                    pytest.raises(sqlite3.IntegrityError, match="refused"),
                ):
                    runner.process(table(records), stream_time)
            emitted.append(rows(runner.process(table(records), stream_time)))
        close_everything(runner)

    assert scenario.emitted(scenario.steps) == emitted


@contextmanager
def refusing(journal: Path, crash: str) -> Iterator[None]:
    """A journal that takes no pointer, or no changelog entry either."""
    refused = (
        "NEW.name = 'pointer'"
        if crash == "pointer refused"
        else "NEW.name LIKE 'log-%' OR NEW.name = 'pointer'"
    )
    with closing(sqlite3.connect(journal)) as other:
        other.execute(
            f"CREATE TRIGGER refusal BEFORE INSERT ON blobs WHEN {refused} BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        yield
        other.execute("DROP TRIGGER refusal")
