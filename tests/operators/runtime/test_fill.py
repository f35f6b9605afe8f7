"""An aggregate that was added to a running query, filled from history: as if it had always been there."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeds import BACKENDS, KINDS, Feed, operator

from operators import RollingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from state_backends import StateError

ADAPT = {"state.evolution": "adapt", "state.segment": "40 ms"}
PLAIN = {"state.segment": "40 ms"}
FILLED = [*(kind for kind in KINDS if "fold" not in kind), "lifetime"]
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
    if kind != "lifetime":
        return operator(kind, policy, results)
    emit: Any = "on_arrival" if policy == "on_update" else policy
    finite = {
        name: one.over("short") if name in ("listed", "distinct") else one for name, one in results.items()
    }
    return (
        RollingWindows({"short": 15, "ever": "lifetime"}, grace=10)
        .group_by("k")
        .aggregate(**finite)
        .emit(emit)
    )


def rows(tables: Any) -> list[str]:
    """Rows as text, in order."""
    return sorted(repr(sorted(row.items())) for table in tables for row in table.to_pylist())


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
