"""What `explain` tells is what happens: the bytes of real pages, the way that windows are computed, how long entries stay."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import (
    AggregateOperation,
    Declaration,
    DefinitionError,
    HoppingWindows,
    KeyedOperator,
    Operator,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.aggregates.distinct import Distinct
from operators.aggregates.fold_operation import MergeableFold
from operators.aggregates.operation import Operation, UfuncOperation
from operators.aggregates.operations import Collect
from operators.aggregates.quantile_sketches import QuantileSketch
from operators.aggregates.sketches import DistinctSketch
from operators.aggregates.strategy import (
    DEDUCT,
    DOUBLING,
    EVENT_TIMES,
    FOLD,
    ONE_ENTRY,
    OVERLAP,
    RANGES,
    TWO_STACKS,
    Strategy,
)
from operators.aggregates.top import Top
from operators.columns.ranges import combine_ranges, overlap_ranges, prefix_difference
from operators.definitions.runnable import RunnableOperator
from operators.engines.sessions import SessionPlan
from operators.explain import Explanation
from operators.kinds.folding import FoldSchema
from tests.effort import few

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("at", pa.timestamp("ms", "UTC")),
        ("i", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.decimal128(12, 2)),
        ("b", pa.bool_()),
        ("gap", pa.duration("ms")),
    ]
)
FAR = 2**59
NUMBERS = {
    "n": agg.count(),
    "total": agg.sum("i"),
    "mean": agg.avg("x"),
    "low": agg.min("x"),
    "spread": agg.stddev("x"),
}
OBJECTS = {
    "n": agg.count(),
    "word": agg.max("s"),
    "paid": agg.sum("d"),
    "words": agg.collect_list("s"),
    "first": agg.first("s"),
}
LAST = agg.fold(0, lambda _, i: i or 0, "i", type="bigint", name="last")
NEWEST = agg.fold(0, lambda a, i: max(a, i or 0), "i", merge=max, type="bigint", name="newest")


def power(name: str, **more: Any) -> AggregateOperation:
    """A custom sum."""
    return AggregateOperation(
        name=name,
        state=(int,),
        create=lambda: (0,),
        accumulate=lambda state, i: (state[0] + i,),
        combine=lambda a, b: (a[0] + b[0],),
        finish=lambda state: state[0],
        type="bigint",
        **more,
    )


@dataclass(frozen=True, kw_only=True)
class Kept(Operator):
    """Stores each record for an hour."""

    grace: str = "1 minute"
    what: str = "i"

    def declare(self, types):
        return Declaration([self.what], {"value": int, "half": float}, {"total": "bigint"}, ["seen"])

    def due(self, entries):
        return entries.time + self.ticks("1 hour")

    def process_batch(self, context):
        value = context.records.values[self.what].filled(0)
        context.put(context.stored(context.records.key, context.records.time, value=value, half=value / 2))

    def fire(self, context):
        return context.rows(context.due.key, total=context.due["value"])


@dataclass(frozen=True, kw_only=True)
class Untimed(Kept):
    """Has no timers, and accepts records that are late for others."""

    due = Operator.due
    fire = Operator.fire

    def late_before(self, close_time):
        return close_time - 10


@dataclass(frozen=True, kw_only=True)
class ByKey(KeyedOperator):
    """Does nothing with a record."""

    def schema(self, types):
        return Declaration(["i"], results={"x": "double"})

    def process(self, time, record, context):
        context.value = record["i"]


def table(times: Any, first: int = 1_000_000) -> pa.Table:
    """Records of one key at these milliseconds, with the values that `explain` assumes."""
    number = np.arange(len(times)) + first
    columns = {
        "k": pa.array(["key"] * len(times)),
        "at": pa.array(np.asarray(times, np.int64), pa.timestamp("ms", "UTC")),
        "i": pa.array(number),
        "x": pa.array(number / 8),
        "s": pa.array([f"{n:016d}" for n in number.tolist()]),
        "d": pa.array([Decimal(n).scaleb(-2) for n in number.tolist()], pa.decimal128(12, 2)),
        "b": pa.array(number % 2 == 0),
        "gap": pa.array(np.full(len(times), 5), pa.duration("ms")),
    }
    return pa.table(columns, schema=SCHEMA)


def explained(operator: RunnableOperator, **more: Any) -> Explanation:
    """The explanation of an operator on those records."""
    return Explanation.of(operator, SCHEMA, "at", **more)


def stored(operator: RunnableOperator, times: Any, **more: Any) -> tuple[int, int, int]:
    """Entries, pages and bytes that a runner has of a key with records at these times."""
    with operator.local_runner("at", **more) as runner:
        runner.process(table(times))
        return runner.metrics["live_panes"], runner.store.usage.pages, runner.metrics["state_bytes"]


HOUR = 3_600_000
TODAY = 1_767_225_600_000
PLACES = np.arange(0, 2 * HOUR, 9_000)
KINDS = {
    "sliding": SlidingWindows("1 hour", grace="10 minutes"),
    "hopping": HoppingWindows("1 hour", "5 minutes", grace="10 minutes"),
    "tumbling": TumblingWindows("1 hour"),
    "session": SessionWindows("1 hour"),
    "session up to a length": SessionWindows("1 hour", max_length="2 hours"),
}


@pytest.mark.parametrize("policy", ["on_close", "on_update"])
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_of_numbers_are_those_of_pages(kind: str, policy: str) -> None:
    """Rows and headers, to the byte."""
    operator = KINDS[kind].group_by("k").aggregate(**NUMBERS).emit(policy)
    entries, pages, size = stored(operator, PLACES)
    assert entries
    assert size == explained(operator).state.key_bytes(entries, pages)


@pytest.mark.parametrize("kind", ["sliding", "session up to a length"])
def test_bytes_of_objects_are_about_those_of_pages(kind: str) -> None:
    """If an entry holds one record with the assumed values."""
    operator = KINDS[kind].group_by("k").aggregate(**OBJECTS)
    entries, pages, size = stored(operator, TODAY + PLACES)
    assert entries > 100
    assert size == pytest.approx(explained(operator).state.key_bytes(entries, pages), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", few(KINDS, 3))
def test_what_a_change_writes_does_not_follow_the_entries_of_the_key(kind: str) -> None:
    """One record of one key in each batch: a pane each for sliding windows, a few or one for the others."""
    state, changed, logged = changes(KINDS[kind])
    least, most = state.changed_bytes
    assert min(changed) == least
    assert max(changed) <= most
    assert max(changed) == (most if kind in ("sliding", "session up to a length") else changed[-1])
    assert max(logged) - state.logged_bytes in range(len("key"), 64)


def changes(windows: Any) -> tuple[Any, list[int], list[int]]:
    """The state of an operator as explained, and what the backend and the changelog get for each of 200 records of a key."""
    operator = windows.group_by("k").aggregate(**NUMBERS)
    changed, logged = [], []
    with operator.local_runner("at") as runner:
        for time in range(0, HOUR // 2, 9_000):
            runner.process(table([time]))
            changed.append(runner.metrics["changed_bytes"])
            logged.append(runner.metrics["logged_bytes"])
    return explained(operator).state, changed, logged


def test_an_entry_of_many_records_is_explained_with_its_growth() -> None:
    """A hundred records in a pane: lists grow, the largest word does not."""
    operator = HoppingWindows("1 hour", "15 minutes").group_by("k").aggregate(**OBJECTS)
    state = explained(operator).state
    entries, pages, size = stored(operator, TODAY + np.arange(100))
    assert (1, 1) == (entries, pages)
    assert state.grows
    assert size == pytest.approx(state.row_bytes + state.entry_bytes(100), rel=0.05)
    assert not explained(HoppingWindows(10, 5).aggregate(word=agg.max("s"))).state.grows


@pytest.mark.parametrize("windows", [KINDS["sliding"], KINDS["hopping"]], ids=["sliding", "hopping"])
def test_bytes_of_folds_are_about_those_of_pages(windows: Any) -> None:
    """A state that begins as a 0 and holds small numbers."""
    operator = windows.group_by("k").aggregate(n=agg.count(), last=LAST)
    with operator.local_runner("at") as runner:
        runner.process(table(PLACES, first=0))
        entries, pages, size = (
            runner.metrics["live_panes"],
            runner.store.usage.pages,
            runner.metrics["state_bytes"],
        )
    assert entries
    assert size == pytest.approx(explained(operator).state.key_bytes(entries, pages), rel=0.1)


ATOMIC = [
    pa.bool_(),
    pa.int8(),
    pa.uint64(),
    pa.float32(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.decimal128(3, 2),
    pa.date32(),
    pa.timestamp("s"),
    pa.timestamp("us", "UTC"),
    pa.duration("us"),
    pa.dictionary(pa.int32(), pa.string()),
]


def test_values_of_every_type_have_a_usual_size() -> None:
    """Larger with more values, for what keeps them all."""
    for type_ in ATOMIC:
        schema = pa.schema([("at", pa.timestamp("ms")), ("v", type_)])
        state = Explanation.of(TumblingWindows(9).aggregate(all=agg.collect_list("v")), schema, "at").state
        assert 0 < state.object_bytes[1] < 50, type_
        assert state.grows, type_


def test_bytes_of_custom_operators() -> None:
    """Exact if all columns are numbers; otherwise without objects, whose size is not known."""
    numbers = Kept().group_by("k")
    entries, pages, size = stored(numbers, PLACES)
    assert size == explained(numbers).state.key_bytes(entries, pages)

    values = ByKey().group_by("k")
    entries, pages, size = stored(values, PLACES)
    assert explained(values).state.object_bytes is None
    assert size > explained(values).state.key_bytes(entries, pages) > 0
    assert "24 for an entry without its objects" in str(explained(values))


@pytest.mark.slow
def test_what_a_key_takes_is_what_it_takes() -> None:
    """For a thousand event times over the time that they are kept, and for a pane in each interval."""
    sliding = KINDS["sliding"].group_by("k").aggregate(**NUMBERS)
    state = explained(sliding).state
    entries, pages, size = stored(sliding, np.linspace(0, state.needed_us // 1_000 - 1, 1_000))
    assert (1_000, state.pages(1_000)) == (entries, pages)
    assert size == state.key_bytes(1_000)

    hopping = KINDS["hopping"].group_by("k").aggregate(**NUMBERS)
    least, most = explained(hopping).state.entries
    seen = set()
    with hopping.local_runner("at") as runner:
        for minute in range(0, 400, 5):
            runner.process(table([minute * 60_000]))
            seen.add(runner.metrics["live_panes"])
    assert (least, most) == (14, 26)
    assert least <= max(seen) <= most
    assert max(seen) >= most - 1


@pytest.mark.parametrize("policy", ["on_close", "on_update"])
@pytest.mark.parametrize(
    ("windows", "result", "since"),
    [
        (SlidingWindows(50, grace=7), agg.count(), 0),
        (SlidingWindows(50, grace=7), LAST, 0),
        (HoppingWindows(60, 25, grace=7, offset=3), agg.count(), 3),
        (HoppingWindows(60, 25, grace=7, offset=3), LAST, 3),
        (TumblingWindows(60, grace=7), agg.count(), 0),
        (SessionWindows(50, grace=7), agg.count(), 0),
        (SessionWindows(50, grace=7, max_length=100), agg.count(), 0),
    ],
)
def test_entries_stay_as_long_as_explained(windows: Any, result: Any, since: int, policy: str) -> None:
    """With segments of a tick, which delay nothing: to the tick."""
    operator = windows.group_by("k").aggregate(x=result).emit(policy)
    options = {"state.segment": "1 ms"}
    needed = explained(operator, options=options).state.needed_us // 1_000
    with operator.local_runner("at", options=options) as runner:
        runner.process(table([since]))
        runner.process(table([]), stream_time=since + needed - 1)
        assert runner.metrics["live_panes"]
        runner.process(table([]), stream_time=since + needed)
        assert not runner.metrics["live_panes"]


WAYS = {
    prefix_difference.__code__: DEDUCT,
    overlap_ranges.__code__: OVERLAP,
    Collect.combine_ranges.__code__: RANGES,
    Distinct.combine_ranges.__code__: RANGES,
    DistinctSketch.combine_ranges.__code__: RANGES,
    Top.combine_ranges.__code__: RANGES,
    QuantileSketch.combine_ranges.__code__: RANGES,
    MergeableFold.combine_ranges.__code__: TWO_STACKS,
    combine_ranges.__code__: DOUBLING,
    FoldSchema.fold.__code__: FOLD,
}


@contextmanager
def watched() -> Iterator[set[Any]]:
    """Collect the code of every Python function that is called in the block."""
    called: set[Any] = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: called.add(frame.f_code) if event == "call" else None)
    try:
        yield called
    finally:
        sys.setprofile(before)


def ran(operator: RunnableOperator) -> set[Any]:
    """The code that runs when windows are made of panes with one record each."""
    with operator.local_runner("at") as runner, watched() as called:
        runner.process(table(range(0, 400, 7)))
        runner.process(table([]), stream_time=FAR)
    return called


def ways(operator: RunnableOperator) -> set[str]:
    """The names of the strategies whose functions run when windows are made of panes with one record each."""
    called = ran(operator)
    return {way.name for code, way in WAYS.items() if code in called}


DEDUCTED = power("deducted", deduct=lambda a, b: (a[0] - b[0],))


@pytest.mark.parametrize(
    ("result", "strategy"),
    [
        (agg.count(), DEDUCT),
        (agg.sum("i"), DEDUCT),
        (agg.sum("x"), DEDUCT),
        (agg.avg("i"), DEDUCT),
        (agg.stddev("x"), DEDUCT),
        (agg.corr("x", "i"), DEDUCT),
        (agg.min("x"), OVERLAP),
        (agg.max("s"), OVERLAP),
        (agg.bool_or("b"), OVERLAP),
        (agg.sum("d"), DOUBLING),
        (agg.top_n("i", 2), RANGES),
        (agg.approx_count_distinct("s"), RANGES),
        (agg.approx_quantiles("x", [0.5]), RANGES),
        (power("combine_ranges")("i"), DOUBLING),
        (agg.count_distinct("i"), RANGES),
        (agg.collect_list("i"), RANGES),
        (NEWEST, TWO_STACKS),
        (LAST, FOLD),
    ],
    ids=lambda value: getattr(value, "_name", None),
)
def test_the_strategy_that_is_named_is_the_one_that_runs(result: Any, strategy: Strategy) -> None:
    """The dearest, where a result is made from several states: the others only count its values."""
    operator = SlidingWindows(100).group_by("k").aggregate(x=result)
    (part,) = explained(operator).aggregates
    assert strategy is part.strategy
    found = ways(operator)
    assert strategy.name in found
    assert found <= {strategy.name, DEDUCT.name}


def test_a_given_deduct_is_used() -> None:
    """The function itself is called for each window."""
    operator = SlidingWindows(100).group_by("k").aggregate(x=DEDUCTED("i"))
    (part,) = explained(operator).aggregates
    assert (DEDUCT, None) == (part.strategy, part.change)
    assert DEDUCTED.deduct.__code__ in ran(operator)


def test_picked_values_follow_from_what_their_operation_promises() -> None:
    """Two blocks if states may overlap, doubling otherwise; and that strategy runs."""
    operator = SlidingWindows(100).group_by("k").aggregate(x=agg.first("i"))
    (part,) = explained(operator).aggregates
    (operation,) = operations_of(operator)
    assert part.strategy is (OVERLAP if operation.idempotent else DOUBLING)
    assert {part.strategy.name} == ways(operator)


def operations_of(operator: RunnableOperator) -> tuple[Operation, ...]:
    """The operations of an operator on those records."""
    return explained(operator).binding.plan.operations


@pytest.mark.parametrize(
    ("windows", "strategy"),
    [(SessionWindows(7), ONE_ENTRY), (SessionWindows(7, max_length=100), EVENT_TIMES)],
)
def test_sessions_join_states_where_records_meet(windows: Any, strategy: Strategy) -> None:
    """Whatever the aggregate could do besides: states of a session are reduced to one, by a reduction of the whole batch."""
    operator = windows.group_by("k").aggregate(x=agg.max("i"), y=agg.sum("d"))
    assert {strategy} == {part.strategy for part in explained(operator).aggregates}
    called = ran(operator)
    assert {SessionPlan.merge.__code__, UfuncOperation.reduce.__code__} <= called


def test_one_fold_makes_all_results_additions() -> None:
    """And a merge for it is what would change that; then there are panes again."""
    operator = SlidingWindows(100).group_by("k").aggregate(n=agg.count(), last=LAST)
    parts = explained(operator).aggregates
    assert [FOLD, FOLD] == [part.strategy for part in parts]
    assert "a merge for fold last(i) would allow panes" == parts[0].change
    assert "rows" == explained(operator).streamed.way
    merged = explained(SlidingWindows(100).group_by("k").aggregate(n=agg.count(), newest=NEWEST))
    assert [DEDUCT, TWO_STACKS] == [part.strategy for part in merged.aggregates]
    assert "adaptive" == merged.streamed.way


def subclasses(kind: type) -> Iterator[type]:
    """All classes below one."""
    for below in kind.__subclasses__():
        yield below
        yield from subclasses(below)


def test_every_way_to_combine_ranges_is_named() -> None:
    """An operation that defines `combine_ranges` anew says by which strategy."""
    shipped = {kind for kind in subclasses(Operation) if kind.__module__.startswith("operators.aggregates")}
    for kind in shipped:
        combining, naming = (
            next(place for place, above in enumerate(kind.__mro__) if name in vars(above))
            for name in ("combine_ranges", "strategy")
        )
        assert naming <= combining, kind


@pytest.mark.parametrize(
    ("operator", "way", "why"),
    [
        (TumblingWindows(9).group_by("k").aggregate(**NUMBERS), "python", 'variance("x")'),
        (TumblingWindows(9).group_by("k").aggregate(n=agg.count(), t=agg.sum("x")), "engine", 'sum("x")'),
        (SessionWindows(9).group_by("k").aggregate(n=agg.count()), "python", "panes of one length only"),
        (SessionWindows(9, max_length=9).aggregate(n=agg.count()), "rows", "one event time"),
        (SlidingWindows(9).group_by("k").aggregate(n=agg.count()), "rows", "one event time"),
        (TumblingWindows(9).aggregate(last=LAST), "rows", "fold last(i) cannot be combined"),
        (Kept().group_by("k"), "rows", "processes single records"),
    ],
)
def test_what_goes_through_the_shuffle_of_a_bounded_frame(operator: Any, way: str, why: str) -> None:
    """And why not less."""
    explanation = explained(operator)
    assert way == explanation.bounded.way
    assert why in explanation.bounded.text


def test_a_time_without_zone_is_not_for_generated_code() -> None:
    """As the engine has it."""
    schema = SCHEMA.set(1, pa.field("at", pa.timestamp("us")))
    operator = TumblingWindows(9).group_by("k").aggregate(n=agg.count())
    explanation = Explanation.of(operator, schema, "at")
    assert "python" == explanation.bounded.way
    assert "event time 'at' has no time zone" in explanation.bounded.text


def test_options_that_are_in_effect() -> None:
    """Those that were given, and what follows where none was."""
    operator = KINDS["sliding"].group_by("k").aggregate(n=agg.count())
    plain = str(explained(operator))
    assert "backend      memory" in plain
    assert "Spark's number of shuffle partitions" in plain
    assert "the default" in plain
    given = explained(
        operator,
        backend="rocksdb",
        options={"state.buckets": 8, "state.segment": "20 minutes", "state.evolution": "adapt"},
    )
    lines = [line.split() for line in str(given).splitlines()[-4:]]
    assert [
        ["backend", "rocksdb"],
        ["buckets", "8,", "each", "with", "a", "task", "and", "a", "state"],
        ["segment", "20", "min"],
        ["state.evolution", "adapt"],
    ] == lines
    with pytest.raises(ValueError, match="unknown option"):
        explained(operator, options={"state.bukkets": 8})


def test_what_custom_operators_declare() -> None:
    """Inputs, state, results, counts, settings, version, and whether there are timers."""
    explanation = str(explained(Kept(what="i").group_by("k")))
    for line in (
        "Kept, a custom operator, version 1, by k: string",
        "reads       i: int64",
        "results     total: int64",
        "counts      seen",
        "late        a record before the close time\n",
        "timers      entries whose timer is before the close time go to `fire`",
        "columns     time: int64, value: int64, half: float64",
        "kept        until the operator takes it out of the store",
    ):
        assert line in explanation
    assert "what = 'i'" in explanation
    untimed = str(explained(Untimed().group_by("k")))
    assert "timers      no timers" in untimed
    assert "a record before the time that `late_before` gives" in untimed
    assert "aggregates" not in explanation


def test_frames_without_spark_are_schemas_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """`explain` prints what `Explanation.of` returns; something else is refused, as are missing columns."""
    operator = KINDS["hopping"].group_by("k").aggregate(n=agg.count())
    assert operator.explain(table([1]), "at") is None
    assert f"{explained(operator)}\n" == capsys.readouterr().out
    with pytest.raises(DefinitionError, match="pyarrow Schema or Table, not dict"):
        operator.explain({}, "at")
    with pytest.raises(DefinitionError, match="event time column 'when' does not exist"):
        operator.explain(SCHEMA, "when")


def test_the_text_of_sliding_windows() -> None:
    """Short lines, aligned."""
    operator = SlidingWindows("1 minute", grace="10 s").group_by("k").aggregate(n=agg.count())
    assert str(explained(operator)) == SLIDING


def test_the_text_of_sessions() -> None:
    """With a gap of each record, emitted on update."""
    operator = SessionWindows(gap_column="gap").group_by("k").aggregate(word=agg.max("s"))
    assert str(explained(operator.emit("on_update"))) == SESSION


def test_the_text_of_a_fold() -> None:
    """Of no key, window by window."""
    assert str(explained(TumblingWindows("1 day").aggregate(last=LAST))) == FOLDED


SLIDING = """\
sliding windows of 1 min, by k: string
  windows      [t - 1 min, t] for each event time t of a key, and [t + 1 ms, t + 1 ms + 1 min] if a record is
               in it
  close time   the highest event time, less 10 s of grace
  late         a record more than 1 min before the close time: all windows that could contain it are closed
  closed       a window whose end is before the close time
  emits        each window once, when it is closed
aggregates
  n            int64, by deducting: O(1)
  (deducting)  a window is the difference of two running totals. This is exact, also for doubles, which are
               divided into whole numbers (doubling is used if values are not finite, or too different in
               size)
state
  an entry     a pane for each distinct event time of a key
  a page       up to 32 entries of a key, in a segment of 1 min
  columns      time: int64
               count(): int64
  bytes        24 for an entry, 24 for the header of a page
  kept         until stream time is 1 min 10 s 2 ms past its event time; up to one segment longer, since whole
               segments are dropped
  a key        24,768 bytes for 1,000 panes in 32 pages
  a change     of one entry of a key writes 48 to 840 bytes to the backend, and about 48 and the key to the
               changelog, however many entries there are
on Spark
  bounded      input rows with the columns k, at; a pane is one event time, so that partial aggregation would
               save little
  stream       each task aggregates its rows partially if this makes its first rows much fewer; otherwise it
               sends input rows with the columns k, at. One blob for each bucket
options
  backend      memory
  buckets      Spark's number of shuffle partitions, each with a task and a state
  segment      1 min, the default"""
SESSION = """\
sessions with gaps of each record, by k: string
  windows     [first event, last event + the gap in column 'gap'], both ends inclusive
  close time  the highest event time, without grace
  late        a record whose session, including all that it joins, is closed
  closed      a window whose end is before the close time
  emits       after each batch, the windows that it changed, and retractions of those that no longer exist;
              for a bounded frame, each window once
aggregates
  word        string, by joining: O(1)
  (joining)   a session is one entry: states are combined when records and sessions meet
state
  an entry    an open session of a key
  a page      up to 32 entries of a key, in a segment of 1 h
  columns     end: int64, start: int64, at: int64, waits_until: int64
              max("s"): object
  bytes       32 for an entry and about 17 for its objects (texts of 16 characters, whole numbers of 7
              digits), 32 for the header of a page
  kept        until stream time is its gap and grace past its last record; up to one segment longer, since
              whole segments are dropped
  a key       83 bytes for each session
  a change    of one entry of a key writes 83 bytes to the backend, and about 83 and the key to the changelog,
              however many entries there are
on Spark
  bounded     Python workers compute max("s"), and send one row for each key and pane; not in generated code:
              Spark groups by panes of one length only: tumbling and hopping windows without a zone
  stream      each task aggregates its rows partially if this makes its first rows much fewer; otherwise it
              sends input rows with the columns k, at, gap, s. One blob for each bucket
options
  backend     memory
  buckets     Spark's number of shuffle partitions, each with a task and a state
  segment     1 h, the default"""
FOLDED = """\
tumbling windows of 1 d, window by window, all records as one group
  windows     [start, start + 1 d), a start every 1 d since the epoch
  close time  the highest event time, without grace
  late        a record whose last window is closed
  closed      a window whose end (exclusive) is at or before the close time
  emits       each window once, when it is closed
aggregates
  last        int64, by adding: one addition per record and window; a merge for fold last(i) would allow panes
  (adding)    a state cannot be combined, so that there are no panes: each record is added to the state of
              each window that contains it (KIP-450)
state
  an entry    a window with a record in it
  a page      up to 32 entries of a key, in a segment of 1 d
  columns     end: int64
              fold last(i): object
  bytes       24 for an entry and about 3 for its objects (the initial state of a custom function), 24 for the
              header of a page
  kept        until stream time is 1 d past its start; up to one segment longer, since whole segments are
              dropped
  a key       53 to 106 bytes with records all the time: 1 to 2 windows
  a change    of one entry of a key writes 53 to 947 bytes to the backend, and about 53 and the key to the
              changelog, however many entries there are
on Spark
  bounded     input rows with the columns at, i; fold last(i) cannot be combined, so that there is no partial
              aggregation
  stream      input rows with the columns at, i, one blob for each bucket; fold last(i) cannot be combined, so
              that there is no partial aggregation
options
  backend     memory
  buckets     Spark's number of shuffle partitions, each with a task and a state
  segment     1 d, the default"""
