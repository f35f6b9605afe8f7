"""An aggregate that was added to a running query, filled from history: as if it had always been there."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeds import BACKENDS, GRACE, KINDS, POLICIES, SCHEMA, Feed, operator
from several_buckets import SEGMENTS, Buckets, feed

from operators import RollingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.runtime.fill import Fill
from state_backends import StateError
from state_backends.durability.folders import Folder
from tests.effort import few

ADAPT = {"state.evolution": "adapt", "state.segment": "40 ms"}
PLAIN = {"state.segment": "40 ms"}
LIFETIMES: dict[str, dict[str, int]] = {"lifetime": {}, "lifetime that ends": {"forget_after": 22}}
FILLED = [*(kind for kind in KINDS if "fold" not in kind), *LIFETIMES]
POOL: dict[str, Any] = {
    "n": agg.count(),
    "total": agg.sum("v"),
    "listed": agg.collect_list("v"),
    "low": agg.min("v"),
    "mean": agg.avg("v"),
    "mean_x": agg.avg("x"),
    "last": agg.last("x"),
    "distinct": agg.count_distinct("v"),
    "top": agg.top_n("v", 2),
    "merging": agg.fold(
        list, lambda s, v: [*s, v], "v", type="array<bigint>", merge=list.__add__, finish=sorted, name="all"
    ),
}
BEFORE, ADDED = ("n", "total", "listed"), ("low", "mean", "mean_x", "last", "distinct", "merging", "top")


def op(kind: str, policy: str, names: Any) -> Any:
    """Windows of a kind with some aggregates."""
    results = {name: POOL[name] for name in names}
    if kind not in LIFETIMES:
        return operator(kind, policy, results)
    emit: Any = "on_arrival" if policy == "on_update" else policy
    finite = {
        name: one.over("short") if name in ("listed", "distinct") else one for name, one in results.items()
    }
    return (
        RollingWindows({"short": 15, "ever": "lifetime"}, grace=10, **LIFETIMES[kind])
        .group_by("k")
        .aggregate(**finite)
        .emit(emit)
    )


def rows(tables: Any) -> list[str]:
    """Rows as text, in order."""
    return sorted(repr(sorted(row.items())) for table in tables for row in table.to_pylist())


def without_the_latest(batches: list[pa.Table]) -> list[pa.Table]:
    """Batches without the records that are older than the longest other lookback when they come: no lifetime counts them."""
    found, edge = [], -(10**6)
    for batch in batches:
        times = batch.column("at").cast(pa.int64())
        found.append(batch.filter(pa.compute.greater_equal(times, edge)))
        edge = max([edge, *(time - GRACE - 15 for time in times.to_pylist())])
    return found


def nothing(table: pa.Table) -> pa.Table:
    """A batch without records."""
    return table.slice(0, 0)


@pytest.mark.parametrize("policy", ["on_close", "on_update"])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("kind", FILLED)
def test_filled_aggregates_are_those_of_one_long_stream(
    kind: str, restarted: bool, policy: str, tmp_path: Path
) -> None:
    """Whether they are added with the history, or had counted for a while."""
    feed, chance = Feed(random.Random(f"{kind} {policy}")), random.Random(kind)
    batches = [feed.table(number, 0) for number in range(9)]
    if kind == "lifetime that ends":
        batches = without_the_latest(batches)
    names = [*BEFORE, *ADDED]
    with op(kind, policy, names).local_runner("at", options=PLAIN) as whole:
        expected = [whole.process(batch) for batch in batches] + [
            whole.process(nothing(batches[0]), FAR_FUTURE)
        ]
    backend, other = chance.sample(BACKENDS, 2)
    with op(kind, policy, BEFORE).local_runner("at", backend, tmp_path / "old", PLAIN) as runner:
        for batch in batches[:3]:
            runner.process(batch)
        running = runner.savepoint(tmp_path / "old savepoint")
    read = 3
    if restarted:
        with op(kind, policy, names).local_runner("at", backend, tmp_path / "old", ADAPT) as runner:
            for batch in batches[3:5]:
                runner.process(batch)
            running = runner.savepoint(tmp_path / "running")
        read = 5
    with op(kind, policy, names).local_runner("at", options=PLAIN) as runner:
        runner.process(pa.concat_tables(batches[:read]))
        filled = runner.savepoint(tmp_path / "filled", running=running)
    options = PLAIN | {"state.savepoint": filled.uri}
    with op(kind, policy, names).local_runner("at", other, tmp_path / "new", options) as runner:
        found = [runner.process(batch) for batch in batches[read:]]
        assert 0 == runner.metrics["since_ms"]
        found.append(runner.process(nothing(batches[0]), FAR_FUTURE))
    assert rows(expected[read:]) == rows(found)


def saved(tmp_path: Path, batches: list[pa.Table], names: Any = ("n",), kind: str = "tumbling") -> Any:
    """The savepoint of a query that has read batches."""
    with op(kind, "on_update", names).local_runner("at", options=PLAIN) as runner:
        for batch in batches:
            runner.process(batch)
        return runner.savepoint(tmp_path)


def three() -> list[pa.Table]:
    """Batches with many records in open windows."""
    feed = Feed(random.Random(8))
    return [feed.table(number, 0) for number in range(3)]


@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session", "lifetime"])
def test_history_of_other_records_is_refused(kind: str, tmp_path: Path) -> None:
    """One that ends too early, lacks a record, or has one that the query has not read: with key and time."""
    batches = three()
    running = saved(tmp_path / "running", batches, kind=kind)
    whole = pa.concat_tables(batches)
    newest = whole.sort_by([("at", "descending")])
    cases = {
        "lacking": (
            newest.slice(1),
            "the history has no records, or other ones,|which the query has not read",
        ),
        "more": (
            pa.concat_tables([whole, newest.slice(0, 1)]),
            "the history has no records, or other ones, of k",
        ),
    }
    for name, (history, said) in cases.items():
        with op(kind, "on_update", ("n", "low")).local_runner("at", options=PLAIN) as runner:
            runner.process(history, max(whole.column("at").to_pylist()))
            with pytest.raises(StateError, match=said):
                runner.savepoint(tmp_path / name, running=running)
    early = whole.filter(
        pa.compute.less(
            whole.column("at"), pa.scalar(min(whole.column("at").to_pylist()), pa.timestamp("ms"))
        )
    )
    with op(kind, "on_update", ("n", "low")).local_runner("at", options=PLAIN) as runner:
        runner.process(early)
        with pytest.raises(StateError, match=r"the history has no records, before the new aggregates"):
            runner.savepoint(tmp_path / "empty", running=running)


def test_history_that_ends_before_the_aggregate_began_is_refused(tmp_path: Path) -> None:
    """Records between the two would be in neither."""
    batches = three()
    saved_first = saved(tmp_path / "first", batches)
    options = ADAPT | {"state.savepoint": saved_first.uri}
    later = Feed(random.Random(9)).table(9, 0)
    with op("tumbling", "on_update", ("n", "low")).local_runner("at", options=options) as runner:
        runner.process(later)
        running = runner.savepoint(tmp_path / "running")
    first = min(moment for batch in batches for moment in batch.column("at").to_pylist())
    with op("tumbling", "on_update", ("n", "low")).local_runner("at", options=PLAIN) as runner:
        table = pa.concat_tables(batches)
        runner.process(
            table.filter(pa.compute.equal(table.column("at"), pa.scalar(first, pa.timestamp("ms"))))
        )
        with pytest.raises(
            StateError, match=r"the history ends at .* before the new aggregates .* begin to count, at"
        ):
            runner.savepoint(tmp_path / "short", running=running)


def test_nothing_to_fill_is_refused(tmp_path: Path) -> None:
    """If all aggregates have counted from the beginning; and a history that is closed further than the query."""
    batches = three()
    running = saved(tmp_path / "running", batches, ("n", "low"))
    with op("tumbling", "on_update", ("n", "low")).local_runner("at", options=PLAIN) as runner:
        runner.process(pa.concat_tables(batches))
        with pytest.raises(StateError, match=r"no aggregate lacks records"):
            runner.savepoint(tmp_path / "same", running=running)
    old = saved(tmp_path / "old", batches)
    with op("tumbling", "on_update", ("n", "low")).local_runner("at", options=PLAIN) as runner:
        runner.process(pa.concat_tables(batches), 10_000)
        with pytest.raises(
            StateError, match=r"the history is closed up to .* and the running query only up to"
        ):
            runner.savepoint(tmp_path / "ahead", running=old)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", few(FILLED, 3))
def test_buckets_that_lag(kind: str, policy: str, tmp_path: Path) -> None:
    """Each of the old query's buckets gets its history as of its own close time, in however many buckets it goes on."""
    # Feeds in which some bucket lags, and no late record joins a session.
    chance = random.Random(f"lag: {kind} {policy}4")
    before, after = (op(kind, policy, names) for names in (BEFORE, [*BEFORE, *ADDED]))
    first, second = feed(chance, [6, 4])
    first = first[:-1]
    if kind == "lifetime that ends":
        closes = [close for _, close in first]
        first = [*zip(without_the_latest([batch for batch, _ in first]), closes, strict=True)]
    alone = Buckets(after, 1, tmp_path / "alone", chance)
    expected = [row for batch, close in [*first, *second] for row in alone.process(batch, close, 0)]
    segments = [PLAIN["state.segment"]] if kind in LIFETIMES else SEGMENTS
    old = Buckets(before, 8, tmp_path / "old", chance, segments)
    emitted = [row for batch, close in first for row in old.process(batch, close, lag=0.9)]
    running = old.savepoint(str(tmp_path / "running"), second[0][1])
    earliest = min(file.close_time for file in running.files)
    assert earliest < running.close_time
    with after.local_runner("at", options=PLAIN) as runner:
        runner.process(pa.concat_tables([batch for batch, _ in first]), earliest + GRACE)
        history = runner.savepoint(tmp_path / "history")
    new = Buckets(after, 3, tmp_path / "new", chance)
    target = Folder(str(tmp_path / "filled"))
    fill = Fill.of(new.binding, running, history, history.origin["highest"])
    found = new.begin(
        fill.write_header(target, [file for n in range(3) for file in fill.files(target, n, 3)])
    )
    found += [
        row for batch, close in second for row in new.process(batch, close, lag=0 if close == 10_000 else 0.5)
    ]
    assert not Counter(found) - Counter(expected)
    assert len(expected) == len(emitted) + len(found)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session"])
def test_several_frames(kind: str, policy: str, tmp_path: Path) -> None:
    """Each frame's aggregates are filled from the history of that frame, which need not have records in all windows."""

    def of(a: Any, b: Any, c: Any) -> Any:
        return KINDS[kind].group_by("k").emit(policy).cogroup(a=a, b=b, c=c)

    def by_frame(batch: pa.Table) -> dict[str, pa.Table]:
        number = pa.array([abs(v) % 4 for v in batch.column("v").to_pylist()], pa.int64())
        return {name: batch.filter(pa.compute.equal(number, n)) for n, name in enumerate("abc")}

    n, m, total = {"n": agg.count()}, {"m": agg.count()}, {"total": agg.sum("v")}
    before = of(n, m, total)
    after = of(n | {"low": agg.min("v")}, m | {"top": agg.max("v")}, total | {"last": agg.last("x")})
    chance = random.Random(kind)
    batches = [Feed(chance).table(number, 0) for number in range(9)]
    tables = [by_frame(batch) for batch in batches]
    with after.local_runner("at", options=PLAIN) as whole:
        expected = [whole.process(table) for table in tables]
        expected.append(whole.process({}, FAR_FUTURE))
    with before.local_runner("at", "rocksdb", tmp_path / "old", PLAIN) as runner:
        for table in tables[:5]:
            runner.process(table)
        running = runner.runner.savepoint(tmp_path / "running")
    with after.local_runner("at", options=PLAIN) as runner:
        runner.process(by_frame(pa.concat_tables(batches[:5])))
        filled = runner.runner.savepoint(tmp_path / "filled", running=running)
    with after.local_runner("at", options=PLAIN | {"state.savepoint": filled.uri}) as runner:
        found = [runner.process(table) for table in tables[5:]]
        found.append(runner.process({}, FAR_FUTURE))
    assert rows(expected[5:]) == rows(found)
    lacking = by_frame(pa.concat_tables(batches[:5]))
    newest = lacking["b"].sort_by([("at", "descending")])
    with after.local_runner("at", options=PLAIN) as runner:
        runner.process(lacking | {"b": newest.slice(1)})
        with pytest.raises(StateError, match=r"the history has no records, or other ones,"):
            runner.runner.savepoint(tmp_path / "lacking", running=running)


def at_times(*times: int) -> pa.Table:
    """A record of one key at each of these times, whose value is its number from 1 on."""
    count = len(times)
    rows_ = {
        "k": ["a"] * count,
        "at": times,
        "v": [*range(1, count + 1)],
        "x": [1.0] * count,
        "gap": [1] * count,
    }
    rows_ |= {name: [True] * count for name in SCHEMA.names if name.startswith("from_")}
    return pa.table([pa.array(rows_[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def test_records_that_were_too_late_for_a_lifetime_that_ends(tmp_path: Path) -> None:
    """The history has them, the query has left them out: they count in no result."""
    kind, names = "lifetime that ends", ("n", "low")
    running = saved(tmp_path / "running", [at_times(100), at_times(50, 10)], kind=kind)
    with op(kind, "on_update", names).local_runner("at", options=PLAIN) as runner:
        for batch in (at_times(100), at_times(50, 10)):
            runner.process(batch)
        expected = runner.process(at_times(110, 130))
    with op(kind, "on_update", names).local_runner("at", options=PLAIN) as runner:
        runner.process(at_times(100, 50, 10), 0)
        filled = runner.savepoint(tmp_path / "filled", running=running)
    options = PLAIN | {"state.savepoint": filled.uri}
    with op(kind, "on_update", names).local_runner("at", options=options) as runner:
        found = runner.process(at_times(110, 130))
    assert [2, 3] == expected.column("n_ever").to_pylist()
    assert rows([expected]) == rows([found])


def test_history_may_end_where_the_aggregate_began(tmp_path: Path) -> None:
    """Windows that began later have the states that the query has counted itself."""
    first, second = at_times(3, 9), at_times(13, 17, 25, 26)
    old = saved(tmp_path / "old", [first])
    options = ADAPT | {"state.savepoint": old.uri}
    with op("tumbling", "on_update", ("n", "low")).local_runner("at", options=options) as runner:
        runner.process(second)
        running = runner.savepoint(tmp_path / "running")
        assert 12 == runner.metrics["since_ms"]
    with op("tumbling", "on_update", ("n", "low")).local_runner("at", options=PLAIN) as runner:
        runner.process(first)
        filled = runner.savepoint(tmp_path / "filled", running=running)
    options = PLAIN | {"state.savepoint": filled.uri}
    with op("tumbling", "on_update", ("n", "low")).local_runner("at", options=options) as runner:
        runner.process(first.slice(0, 0))
        found = runner.open_windows().to_pylist()
    assert [(2, 1), (2, 3)] == [(row["n"], row["low"]) for row in found]
