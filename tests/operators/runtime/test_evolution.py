"""State under changed aggregates: what is kept goes on, what is added counts from then on, and all else is refused by name."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import CASES, SQUARES, WEIGHTED, Case, Row, finished, stored
from feeds import BACKENDS, GRACE, KINDS, POLICIES, SCHEMA, Feed, committed, operator, rows
from hypothesis import given
from hypothesis import strategies as st

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.aggregates.empty import empty_state
from operators.columns.records import FAR_FUTURE, FAR_PAST
from operators.runtime.stateful import StatefulOperator
from operators.steps.partials import to_table
from state_backends import StateError, resolve
from state_backends.journal import MemoryJournal
from tests.effort import examples, few

FEW = examples(0.03)
PHASES = 4
ADAPT = {"state.evolution": "adapt"}
LAYOUT = {"state.segment": "40 ms"}


FULL = next(table for table in map(Feed(random.Random(2)).table, range(20)) if table.num_rows > 5)
"""A batch with some rows."""


def merging(**options: Any) -> agg.Aggregate:
    """A fold of values that keeps them all."""
    return agg.fold(
        list,
        lambda values, v: [*values, v],
        "v",
        type="array<bigint>",
        merge=list.__add__,
        finish=sorted,
        name="merging",
        **options,
    )


MORE: dict[str, Case] = {
    "fold with merge": Case(
        merging(),
        pa.int64(),
        st.integers(-5, 5),
        lambda rows: sorted(row.v for row in rows),
    )
}


@pytest.mark.parametrize("name", [*CASES, *MORE])
@FEW
@given(data=st.data())
def test_empty_state_is_neutral(name: str, data: st.DataObject) -> None:
    """Combined with the state of no record from either side, states finish as they do; alone it is what no record gives."""
    case = {**CASES, **MORE}[name]
    case = case.filtered if data.draw(st.booleans()) else case
    operations = case.bound.operations
    empty = [empty_state(operation, case.types) for operation in operations]
    case.check([[]], finished(case.bound, stored(operations, empty)))
    drawn = case.rows(st.integers(-2, 2), least=1, most=6)
    if name in MORE:
        drawn = drawn.map(lambda rows: [replace_null(row) for row in rows])
    # Panes of one key have different times.
    panes = [
        sorted((row._replace(time=row.time + 10 * number) for row in pane), key=lambda row: row.time)
        for number, pane in enumerate(data.draw(st.lists(drawn, min_size=1, max_size=3)))
    ]
    states, several = case.states(panes), np.zeros(len(panes), np.int64)
    nothing = [tuple(column[several] for column in state) for state in stored(operations, empty)]
    for pairs in (zip(nothing, states, strict=True), zip(states, nothing, strict=True)):
        both = [op.combine(*pair) for op, pair in zip(operations, pairs, strict=True)]
        case.check(panes, finished(case.bound, both))
    begun = nothing
    for record in panes[0]:
        added = case.records([record] * len(panes))
        begun = [op.add(state, added) for op, state in zip(operations, begun, strict=True)]
    one_by_one = [
        op.reduce(state, np.arange(len(panes))) for op, state in zip(operations, begun, strict=True)
    ]
    case.check([panes[0]] * len(panes), finished(case.bound, one_by_one))


def replace_null(row: Row) -> Row:
    """The row with a value."""
    return row._replace(v=row.v or 0)


POOL: Mapping[str, Any] = {
    "n": agg.count,
    "low": lambda **where: agg.min("v", **where),
    "high": lambda **where: agg.max("v", **where),
    "total": lambda **where: agg.sum("v", **where),
    "mean": lambda **where: agg.avg("v", **where),
    "mean_x": lambda **where: agg.avg("x", **where),
    "spread": lambda **where: agg.variance("v", **where),
    "listed": lambda **where: agg.collect_list("v", **where),
    "last": lambda **where: agg.last("x", **where),
    "best": lambda **where: agg.max_by("v", "x", **where),
    "top": lambda **where: agg.top_n("v", 2, **where),
    "distinct": lambda **where: agg.count_distinct("v", **where),
    "squares": lambda **where: SQUARES("v", **where),
    "weighted": lambda **where: WEIGHTED("x", "v", **where),
    "merging": merging,
}
"""Aggregates of which no two are made from the same states alone, though some share one."""


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", few(KINDS, 3))
def test_aggregates_come_and_go(kind: str, policy: str, tmp_path: Path) -> None:
    """Whatever is added, dropped, moved and brought back: results are those of records since each was there."""
    chance = random.Random(f"{kind} {policy}")
    feed, began = Feed(chance), dict.fromkeys(chance.sample(sorted(POOL), 4), 0)
    everything = {
        f"{name}_{phase}": make(where=f"from_{phase}")
        for name, make in POOL.items()
        for phase in range(PHASES)
    }
    with operator(kind, policy, everything).local_runner("at") as undisturbed:
        for phase in range(PHASES):
            if phase:
                kept = [name for name in began if chance.random() < 0.6]
                added = chance.sample(sorted({*POOL} - {*began}), chance.randrange(1, 5))
                names = chance.sample([*kept, *added], len(kept) + len(added))
                began = {name: began.get(name, phase) for name in names}
            op = operator(kind, policy, {name: POOL[name]() for name in began})
            backend = chance.choice(BACKENDS)
            last = [(SCHEMA.empty_table(), FAR_FUTURE)] if phase == PHASES - 1 else []
            steps = [(feed.table(2 * phase + n, phase), None) for n in range(2)] + last
            for number, (batch, time) in enumerate(steps):
                # The option is needed once: later starts take the state as it is.
                options = LAYOUT | (ADAPT if phase and not number else {})
                expected = undisturbed.process(batch, time)
                renamed = expected.select(
                    [c for c in expected.column_names if c in ("k", "window", "change", "sequence", "folded")]
                    + [f"{name}_{since}" for name, since in began.items()]
                ).rename_columns({f"{name}_{since}": name for name, since in began.items()})
                with op.local_runner("at", backend, tmp_path / "state", options) as runner:
                    assert rows(renamed) == rows(runner.process(batch, time))


@pytest.mark.parametrize("kind", ["sliding", "session", "sliding by fold"])
def test_changed_aggregates_start_from_a_savepoint(kind: str, tmp_path: Path) -> None:
    """A savepoint is refused or taken over as a directory is; one of an adapted state needs no option any more."""
    names = {0: ["n", "low"], 1: ["low", "high", "mean"], 2: ["low", "high", "mean"]}
    every = {name: POOL[name]() for name in ("n", "low")}
    every |= {name: POOL[name](where="from_1") for name in ("high", "mean")}
    feed = Feed(random.Random(4))
    with operator(kind, "on_update", every).local_runner("at") as undisturbed, ExitStack() as runners:
        savepoint = ""
        for stage, given in names.items():
            op = operator(kind, "on_update", {name: POOL[name]() for name in given})
            options = LAYOUT | {"state.savepoint": savepoint} | (ADAPT if stage == 1 else {})
            runner = runners.enter_context(op.local_runner("at", BACKENDS[stage], options=options))
            if stage == 1:
                refused = runners.enter_context(op.local_runner("at", options={"state.savepoint": savepoint}))
                with pytest.raises(
                    StateError, match=r"is gone.*to adapt.* without spark.windows.state.savepoint"
                ):
                    refused.process(SCHEMA.empty_table())
            for number in range(3):
                batch = feed.table(3 * stage + number, min(stage, 1))
                expected = rows(undisturbed.process(batch), [*given, "folded"])
                assert expected == rows(runner.process(batch))
            savepoint = runner.savepoint(tmp_path / f"{stage}").uri


def test_states_that_are_there_are_used(tmp_path: Path) -> None:
    """An output of another name, or one that is made from what is kept already, knows all records from the first one on."""
    before = pa.table([["a"], [5], [1.5]], ["k", "at", "x"])
    op = KINDS["tumbling"].group_by("k").emit("on_update")
    with op.aggregate(a=agg.sum("x")).local_runner("at", directory=tmp_path) as runner:
        runner.process(before)
    more = {"n": agg.count("x"), "first": agg.min("x"), "b": agg.sum("x"), "mean": agg.avg("x")}
    others = {name: more[name] for name in ("b", "mean", "n")}
    batch = pa.table([["a"], [6], [2.5]], ["k", "at", "x"])
    with op.aggregate(**others).local_runner("at", directory=tmp_path) as runner:
        found = runner.process(batch).to_pylist()[0]
    assert (4.0, 2.0, 2) == (found["b"], found["mean"], found["n"])
    with op.aggregate(**others, low=more["first"]).local_runner("at", "memory", tmp_path, ADAPT) as runner:
        found = runner.process(batch).to_pylist()[0]
    assert (6.5, 6.5 / 3, 3, 2.5) == (found["b"], found["mean"], found["n"], found["low"])


@contextmanager
def changing(tmp_path: Path, before: Mapping[str, Any], kind: str = "tumbling") -> Iterator[Any]:
    """A directory with some state, and what makes a runner on it."""
    op = KINDS[kind].group_by("k")
    with op.aggregate(**before).local_runner("at", directory=tmp_path) as runner:
        runner.process(FULL)
    with ExitStack() as runners:
        yield lambda op, options=ADAPT: runners.enter_context(
            op.local_runner("at", directory=tmp_path, options=options)
        )


def test_changed_aggregates_are_refused_by_name(tmp_path: Path) -> None:
    """Without the option the message says what is new, what is gone, what was where, and the way out; nothing is changed."""
    batch, before = SCHEMA.empty_table(), {"n": agg.count(), "low": agg.min("v")}
    with changing(tmp_path, before) as runner:
        op = KINDS["tumbling"].group_by("k")
        with pytest.raises(
            StateError,
            match=r'total from count\("x"\), sum\("x"\) is new, and would count from now on; '
            r'low from count\("v"\), min\("v"\) is gone, and its .* dropped.* set spark.windows.state.evolution to adapt; '
            r"otherwise go back to the former definition",
        ):
            runner(op.aggregate(n=agg.count(), total=agg.sum("x")), {}).process(batch)
        with pytest.raises(
            StateError, match=r'high from a separate count\("v"\), a separate max\("v"\) is new'
        ):
            runner(op.aggregate(**before, high=agg.max("v")), {}).process(batch)
        assert runner(op.aggregate(**before), {}).process(batch, 10_000).num_rows


REFUSED: Mapping[str, tuple[Any, str]] = {
    "key column": (KINDS["tumbling"].group_by("gap"), r"keys were k: string, are gap: int64"),
    "one key more": (KINDS["tumbling"].group_by("k", "v"), "keys were k: string, are k: string, v: int64"),
    "no key": (KINDS["tumbling"], r"keys were k: string, are none"),
    "size": (TumblingWindows(size=13).group_by("k"), "size was 12 ms, is 13 ms"),
    "offset": (TumblingWindows(size=12, offset=1).group_by("k"), "offset was 0 seconds, is 1 ms"),
    "step": (HoppingWindows(size=12, advance=6).group_by("k"), "advance was 12 ms, is 6 ms"),
    "kind": (
        SlidingWindows(size=12).group_by("k"),
        "another operator: windows were tumbling, are sliding; aggregates were",
    ),
    "session": (SessionWindows(gap=12).group_by("k"), "windows were tumbling, are session; aggregates were"),
    "emission": (
        KINDS["tumbling"].group_by("k").emit("on_update"),
        "emission was 'on_close', is 'on_update'",
    ),
    "tick": (TumblingWindows(size="12 us", tick="1 us").group_by("k"), "tick was 1 ms, is 1 us"),
}


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("what", REFUSED)
def test_other_windows_and_keys_are_refused_whatever_is_wanted(
    what: str, moved: bool, tmp_path: Path
) -> None:
    """A state of other windows, keys or emission is no state of this operator, in a directory or in a savepoint."""
    op, message = REFUSED[what]
    with (
        KINDS["tumbling"].group_by("k").aggregate(n=agg.count()).local_runner("at", directory=tmp_path) as one
    ):
        one.process(FULL)
        one.savepoint(tmp_path / "savepoint")
    options = ADAPT | ({"state.savepoint": str(tmp_path / "savepoint")} if moved else {})
    way_out = (
        "start without spark.windows.state.savepoint" if moved else "start this one with a new checkpoint"
    )
    place = "savepoint" if moved else "checkpoint"
    directory = tmp_path / ("new" if moved else ".")
    with (
        op.aggregate(n=agg.count(), more=agg.max("x")).local_runner(
            "at", "memory", directory, options
        ) as other,
        pytest.raises(StateError, match=f"the {place} holds.*{message}.*former definition, or {way_out}"),
    ):
        other.process(SCHEMA.empty_table())


UNMERGED = agg.fold(0, lambda n, v: n + (v or 0), "v", type="bigint")


@pytest.mark.parametrize("kind", ["sliding", "hopping", "tumbling"])
def test_a_fold_without_merge_neither_follows_panes_nor_goes(kind: str, tmp_path: Path) -> None:
    """Beside it windows are stored, which are not made of panes, nor panes of them: said with its name and the way out."""
    windows, batch = KINDS[kind].group_by("k"), SCHEMA.empty_table()
    plain, folded = windows.aggregate(n=agg.count()), windows.aggregate(n=agg.count(), s=UNMERGED)
    added, gone = tmp_path / "added", tmp_path / "gone"
    for op, folder in ((plain, added), (folded, gone)):
        with op.local_runner("at", directory=folder) as runner:
            runner.process(FULL)
    for options in ({}, ADAPT):
        with (
            folded.local_runner("at", directory=added, options=options) as runner,
            pytest.raises(
                StateError,
                match=r"operator: 's' is a fold without merge .* give it a merge\. Go back to .* with a new checkpoint",
            ),
        ):
            runner.process(batch)
        with (
            plain.local_runner("at", directory=gone, options=options) as runner,
            pytest.raises(
                StateError, match=r"for a fold without merge that is gone.*: keep such a fold\. Go back"
            ),
        ):
            runner.process(batch)
    other = (
        HoppingWindows(16, 4)
        if kind == "hopping"
        else (SlidingWindows if kind == "sliding" else TumblingWindows)(16)
    )
    with (
        other.group_by("k")
        .aggregate(n=agg.count(), s=UNMERGED)
        .local_runner("at", directory=added) as runner,
        pytest.raises(StateError, match=f"windows were {kind}, are {kind} by fold; .*size was"),
    ):
        runner.process(batch)


@pytest.mark.parametrize("kind", ["sliding by fold", "hopping by fold"])
def test_a_fold_without_merge_can_be_added_beside_another(kind: str, tmp_path: Path) -> None:
    """Windows are stored already: it counts from now on, as every added aggregate does."""
    windows = KINDS[kind].group_by("k")
    others = {"n": agg.count(), "s": UNMERGED}
    with windows.aggregate(**others).local_runner("at", directory=tmp_path) as runner:
        emitted = runner.process(FULL)
    more = {**others, "t": agg.fold(0, lambda n, v: n + (v or 0), "v", type="bigint", name="more")}
    with windows.aggregate(**more).local_runner("at", directory=tmp_path, options=ADAPT) as runner:
        after = runner.process(SCHEMA.empty_table(), FAR_FUTURE)
    with windows.aggregate(**others).local_runner("at") as runner:
        assert emitted.equals(runner.process(FULL))
        assert after.drop_columns(["t"]).equals(runner.process(SCHEMA.empty_table(), FAR_FUTURE))
    assert {0} == {*after["t"].to_pylist()}


def test_key_of_another_type_is_refused(tmp_path: Path) -> None:
    """A key column that became wider has other keys."""
    op = KINDS["tumbling"].group_by("k").aggregate(n=agg.count())
    with op.local_runner("at", directory=tmp_path) as runner:
        runner.process(pa.table([pa.array([1], pa.int32()), [5]], ["k", "at"]))
    with (
        op.local_runner("at", "memory", tmp_path, ADAPT) as runner,
        pytest.raises(StateError, match=r"keys were k: int32, are k: int64"),
    ):
        runner.process(pa.table([pa.array([1], pa.int64()), [5]], ["k", "at"]))


@pytest.mark.parametrize("kind", KINDS)
def test_event_time_of_another_clock_is_refused(kind: str, tmp_path: Path) -> None:
    """Instants and local times are the same numbers of another meaning; units and zones do not matter."""
    op = KINDS[kind].group_by("k").aggregate(n=agg.count())

    def batch(type_: pa.DataType) -> pa.Table:
        return pa.table({"k": ["a"], "at": pa.array([5], type_), "gap": [3]})

    with op.local_runner("at", directory=tmp_path) as runner:
        runner.process(batch(pa.timestamp("ms", "UTC")))
        runner.savepoint(tmp_path / "saved")
    if kind != "rolling":  # Its rows have the event time as it is.
        with op.local_runner("at", directory=tmp_path) as runner:
            runner.process(batch(pa.timestamp("us", "Europe/Berlin")))
    options = {"state.savepoint": str(tmp_path / "saved")}
    for folder, more in ((tmp_path, {}), (None, options)):
        with (
            op.local_runner("at", "memory", folder, ADAPT | more) as runner,
            pytest.raises(StateError, match="event time was timestamp, is timestamp_ntz"),
        ):
            runner.process(batch(pa.timestamp("ms")))


@pytest.mark.parametrize("kind", few(KINDS, 3))
@pytest.mark.parametrize("backend", BACKENDS)
def test_moved_and_renamed_aggregates_go_on_without_an_option(
    kind: str, backend: str, tmp_path: Path
) -> None:
    """They are matched by what they compute, whatever their order and names are."""
    feed = Feed(random.Random(7))
    before = {name: POOL[name]() for name in ("n", "low", "mean", "last", "listed", "merging")}
    after = {f"{name}_renamed": before[name] for name in reversed(before)}
    batches = [feed.table(number, 0) for number in range(4)]
    with operator(kind, "on_update", before).local_runner("at") as undisturbed:
        expected = [undisturbed.process(batch) for batch in batches]
    with operator(kind, "on_update", before).local_runner("at", backend, tmp_path, LAYOUT) as runner:
        assert [rows(each) for each in expected[:2]] == [rows(runner.process(batch)) for batch in batches[:2]]
    with operator(kind, "on_update", after).local_runner("at", backend, tmp_path, LAYOUT) as runner:
        found = [runner.process(batch) for batch in batches[2:]]
    names = [name.removesuffix("_renamed") for name in found[0].column_names]
    order = expected[0].column_names
    moved = [table.rename_columns(names).select(order) for table in found]
    assert [rows(each) for each in expected[2:]] == [rows(each) for each in moved]


def test_event_times_of_several_frames_have_a_clock(tmp_path: Path) -> None:
    """Of all frames in one window, and of labels beside their records."""
    both = TumblingWindows(10).group_by("k").cogroup(left={"n": agg.count()}, right={"m": agg.count()})
    beside = RollingWindows({"short": 10}).group_by("k").aggregate(n=agg.count())
    runners: dict[str, Callable[[], Any]] = {
        "cogroup": lambda: both.local_runner("at", "memory", tmp_path / "cogroup", ADAPT),
        "as of": lambda: beside.local_runner_as_of("at", "at", "memory", tmp_path / "as of", ADAPT),
    }
    names = {"cogroup": ("left", "right"), "as of": ("labels", "records")}

    def process(runner: Any, kind: str, type_: pa.DataType) -> None:
        table = pa.table({"k": ["a"], "at": pa.array([5], type_)})
        with runner:
            runner.process(dict.fromkeys(names[kind], table)) if kind == "cogroup" else runner.process(
                table, table
            )

    for kind, runner in runners.items():
        process(runner(), kind, pa.timestamp("ms", "UTC"))
        with pytest.raises(StateError, match="event time was timestamp, is timestamp_ntz"):
            process(runner(), kind, pa.timestamp("ms"))


def test_folds_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    """Two folds of one name are told apart by their results, whatever their order; where that cannot be done, it is refused."""
    one = agg.fold(0, lambda total, v: total + v, "v", type="bigint", merge=int.__add__)
    other = agg.fold(1, lambda product, v: product * v, "v", type="bigint", merge=int.__mul__)
    op = KINDS["tumbling"].group_by("k").emit("on_update")
    batch = pa.table([["a"] * 3, [1] * 3, [2, 3, 4]], ["k", "at", "v"])
    with op.aggregate(sum=one, product=other).local_runner("at", directory=tmp_path) as runner:
        runner.process(batch)
    for changed in ({"product": other, "n": agg.count()}, {"prod": other, "sum": one}):
        with (
            op.aggregate(**changed).local_runner("at", "memory", tmp_path, ADAPT) as runner,
            pytest.raises(
                StateError,
                match=r"fold lambda\(v\) is the text of several aggregates \(.*product, sum\).*: fold\(.*name=",
            ),
        ):
            runner.process(batch)
    moved = op.aggregate(product=other, sum=one)
    with moved.local_runner("at", "memory", tmp_path) as runner:
        found = runner.process(batch).to_pylist()[0]
    assert (18, 24 * 24) == (found["sum"], found["product"])
    both = op.aggregate(n=agg.count(), sum=one, product=other)
    with both.local_runner("at", "memory", tmp_path, ADAPT) as runner:
        found = runner.process(batch).to_pylist()[0]
    assert (3, 27, 24**3) == (found["n"], found["sum"], found["product"])


WIDER = {
    "int32": (pa.int32(), pa.int64(), [2**31 - 1, -5], [2**31 - 1, 2**40]),
    "int8": (pa.int8(), pa.int16(), [127, -128], [200, 1]),
    "float": (pa.float32(), pa.float64(), [0.1, -2.5], [0.1, 1e300]),
    "decimal": (
        pa.decimal128(10, 2),
        pa.decimal128(20, 2),
        [Decimal("99999999.99"), Decimal("-0.01")],
        [Decimal("123456789012345678.90"), Decimal("0.01")],
    ),
}


def measured(type_: pa.DataType) -> dict[str, agg.Aggregate]:
    """What can be made of a column of this type."""
    named = ("sum", "avg", "min", "max", "first", "last", "collect_list", "collect_set", "count_distinct")
    more = () if pa.types.is_decimal(type_) else ("variance",)
    found = {name: getattr(agg, name)("v") for name in (*named, *more)}
    fold = agg.fold(
        list, lambda values, v: [*values, v], "v", type=pa.list_(type_), merge=list.__add__, name="all"
    )
    return found | {
        "top": agg.top_n("v", 2),
        "by": agg.max_by("v", "v"),
        "fold": fold,
        "few": agg.avg("v", where="w"),
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", WIDER)
def test_wider_columns_are_taken_over(kind: str, backend: str, tmp_path: Path) -> None:
    """Results of a column that became wider are those of the wider values from the beginning; not without the option."""
    narrow, wide, early, later = WIDER[kind]

    def batch(values: Sequence[Any], type_: pa.DataType, time: int) -> pa.Table:
        where = pa.array([True, False])
        return pa.table([["a", "a"], [time, time], pa.array(values, type_), where], ["k", "at", "v", "w"])

    narrowly, widely = (
        KINDS["hopping"].group_by("k").aggregate(**measured(type_)).emit("on_update")
        for type_ in (narrow, wide)
    )
    # Four-byte floats as eight-byte ones are what they were, not what they were written as.
    exact = pa.array(early, narrow).cast(wide).to_pylist()
    with widely.local_runner("at") as undisturbed, ExitStack() as opened:
        undisturbed.process(batch(exact, wide, 20))
        with narrowly.local_runner("at", backend, tmp_path) as runner:
            runner.process(batch(early, narrow, 20))
        refused = opened.enter_context(widely.local_runner("at", backend, tmp_path))
        with pytest.raises(StateError, match=r"column 'v' was .*, is .* to adapt"):
            refused.process(batch(later, wide, 21))
        opened.close()
        for options, time in ((ADAPT, 21), ({}, 23)):
            with widely.local_runner("at", backend, tmp_path, options) as runner:
                expected = undisturbed.process(batch(later, wide, time))
                assert rows(expected) == rows(runner.process(batch(later, wide, time)))


def test_mean_begun_later_goes_on_as_its_column_becomes_wider(tmp_path: Path) -> None:
    """Whole sums become those of a mean of bigint, also where the mean was added to a count."""
    op = KINDS["tumbling"].group_by().emit("on_update")
    added = op.aggregate(n=agg.count("v"), mean=agg.avg("v"))
    means = []
    for windows, type_, value in (
        (op.aggregate(n=agg.count("v")), pa.int32(), 1),
        (added, pa.int32(), 4),
        (added, pa.int64(), 2**40),
        (added.aggregate(whole=agg.sum("v")), pa.int64(), 6),
    ):
        with windows.local_runner("at", "memory", tmp_path, ADAPT) as runner:
            means += runner.process(pa.table([[5], pa.array([value], type_)], ["at", "v"])).to_pylist()
    assert [1, 2, 3, 4] == [row["n"] for row in means]
    assert [4, (4 + 2**40) / 2, (10 + 2**40) / 3] == [row["mean"] for row in means[1:]]
    assert 6 == means[-1]["whole"]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (pa.int64(), pa.int32()),
        (pa.int32(), pa.float64()),
        (pa.int32(), pa.uint64()),
        (pa.float64(), pa.float32()),
        (pa.int32(), pa.string()),
        (pa.decimal128(10, 2), pa.decimal128(20, 3)),
        (pa.decimal128(20, 2), pa.decimal128(10, 2)),
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
        (pa.struct([("a", pa.int32())]), pa.int64()),
    ],
    ids=str,
)
def test_columns_of_another_sort_are_refused(before: pa.DataType, now: pa.DataType, tmp_path: Path) -> None:
    """A column that became narrower or something else is refused whatever is wanted, by its name and types."""
    op = KINDS["tumbling"].aggregate(
        all=agg.fold(0, lambda n, _: n + 1, "a: b", type="int", merge=int.__add__)
    )
    names = ["at", "a: b"]
    with op.local_runner("at", directory=tmp_path) as runner:
        runner.process(pa.table([pa.array([5]), pa.nulls(1, before)], names))
    with (
        op.local_runner("at", "memory", tmp_path, ADAPT) as runner,
        pytest.raises(StateError) as refused,
    ):
        runner.process(pa.table([pa.array([5]), pa.nulls(1, now)], names))
    assert f"column 'a: b' was {before}, is {now}: stored states cannot be converted. Cast it back" in str(
        refused.value
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_error_in_the_midst_of_adapting_leaves_the_old_state(backend: str, tmp_path: Path) -> None:
    """Whatever fails while pages are being rewritten, the former operator goes on, and a second attempt succeeds."""
    left = [2]

    def init() -> int:
        left[0] -= 1
        if not left[0]:
            raise RuntimeError("out of order")
        return 0

    feed, base = Feed(random.Random(8)), KINDS["sliding"].group_by("k")
    op = base.aggregate(n=agg.count())
    added = agg.fold(init, lambda n, v: n + v, "v", type="bigint", merge=int.__add__, name="added")
    options = LAYOUT | {"state.snapshots.folder": str(tmp_path / "snapshots")}
    batches = [feed.table(number) for number in range(8)]
    with op.local_runner("at") as undisturbed:
        for number, batch in enumerate(batches):
            expected = rows(undisturbed.process(batch))
            if number == 4:
                changed = op.aggregate(s=added).local_runner("at", backend, tmp_path / "s", options | ADAPT)
                with changed as runner, pytest.raises(Exception, match="out of order"):
                    runner.process(batch)
            windows = op if number < 6 else op.aggregate(s=added)
            given = options | (ADAPT if number == 6 else {})
            with windows.local_runner("at", backend, tmp_path / "s", given) as runner:
                assert expected == rows(runner.process(batch), ["n"])
    assert left[0] < 0


@pytest.mark.parametrize("accumulated", [False, True])
@pytest.mark.parametrize("backends", [("memory", "rocksdb", "memory"), ("spark", "spark", "spark")])
@pytest.mark.parametrize("kind", ["hopping", "session", "sliding"])
def test_copies_follow_the_one_that_adapts(
    kind: str, backends: Sequence[str], accumulated: bool, tmp_path: Path
) -> None:
    """Several copies, as workers have them, over a change and back: whoever takes a batch ends at the same rows."""
    chance = random.Random(f"{kind} {backends}")
    narrow = KINDS[kind].group_by("k").aggregate(n=agg.count(), low=agg.min("v"))
    broad = narrow.aggregate(high=agg.max("v"), mean=agg.avg("v"))
    every = narrow.aggregate(high=agg.max("v", where="from_1"), mean=agg.avg("v", where="from_1"))
    feed, journal, high = Feed(chance), MemoryJournal(), None
    alone = StatefulOperator(
        every.bind(SCHEMA, "at", resolve("memory", LAYOUT)), resolve(), tmp_path / "alone"
    )
    own: dict[str, StatefulOperator] = {}
    known = MemoryJournal()
    for number in range(15):
        phase, names = (0, ["n", "low"]) if number < 4 or number >= 10 else (1, ["n", "low", "high", "mean"])
        if number in {0, 4, 10}:
            binding = (broad if phase else narrow).bind(SCHEMA, "at", resolve("memory", LAYOUT))
            for one in own.values():
                one.close()
            own = {
                name: StatefulOperator(binding, resolve(backend, LAYOUT | ADAPT), tmp_path / name)
                for name, backend in zip("abc", backends, strict=True)
            }
        batch = feed.table(number, phase)
        close = FAR_PAST if high is None else high - GRACE
        close = FAR_FUTURE if number == 14 else close
        times = batch.column("at").cast(pa.int64()).to_pylist()
        high = max([*times, *([] if high is None else [high])], default=None)
        expected = committed(alone, known, close, [batch]).rows
        sent = [batch], []
        if accumulated and len(batch):
            parts = binding.plan.accumulate(binding.inputs.records.read(batch.select(binding.inputs.names)))
            sent = [batch.slice(0, 0)], [to_table(parts, slice(None))]
        copy = own[chance.choice("abc")]
        emitted = committed(copy, journal, close, *sent).rows
        assert rows(expected, names) == rows(emitted, names)
    for one in (*own.values(), alone):
        one.close()
