"""Definitions and backends change over a bucket that has little or nothing stored: nothing is lost, and nothing fails."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from feeds import BACKENDS, GRACE, POLICIES, SCHEMA, Feed, operator, rows

from operators import RollingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from tests.effort import slow

ADAPT = {"state.evolution": "adapt", "state.segment": "40 ms"}
POOL: Mapping[str, Any] = {
    "n": agg.count(),
    "low": agg.min("v"),
    "mean": agg.avg("x"),
    "top": agg.top_n("v", 2),
}
FOREVER = RollingWindows({"s": 15, "ever": "lifetime"}, grace=GRACE)
FORGETTING = RollingWindows({"s": 15, "ever": "lifetime"}, grace=GRACE, forget_after=500)
EMPTY = SCHEMA.empty_table()


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lifetime_gets_an_end_where_nothing_is_stored(backend: str, before: int, tmp_path: Path) -> None:
    """A bucket without a page is rewritten like any other, at the first start and at each later one."""
    first = FOREVER.group_by("k").emit("on_arrival").aggregate(n=agg.count())
    later = FORGETTING.group_by("k").emit("on_arrival").aggregate(n=agg.count(), low=agg.min("v"))
    with first.local_runner("at", backend, tmp_path, ADAPT) as runner:
        for _ in range(1 + before):
            runner.process(EMPTY)
    found = 0
    for batch in (EMPTY, EMPTY, *map(Feed(random.Random(1)).table, range(5))):
        with later.local_runner("at", backend, tmp_path, ADAPT) as runner:
            found += runner.process(batch).num_rows
    assert found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session", "rolling", "lifetimes"])
@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 4))])
def test_any_changes_of_sparse_buckets(kind: str, seed: int, tmp_path: Path) -> None:
    """Whatever the backend, and however it changes, rows are those of the backend `memory` under the same changes."""
    chance = random.Random(f"{kind} {seed}")
    feed, policy = Feed(chance), chance.choice(POLICIES)
    folders = {name: tmp_path / name for name in (*BACKENDS, "changing")}
    for number in range(8):
        names = chance.sample([*POOL], chance.randrange(1, 4))
        op = defined(kind, policy, {name: POOL[name] for name in names}, chance)
        options = ADAPT | {"state.snapshots.batches": chance.choice([1, 3, 100])}
        batch = chance.choice([EMPTY, EMPTY, feed.table(number)])
        time = chance.choice([None, None, 15 * number, 15 * number + 500])
        found = {}
        for name, folder in folders.items():
            backend = chance.choice(BACKENDS) if name == "changing" else name
            with op.local_runner("at", backend, folder, options) as runner:
                if chance.random() < 0.2:
                    runner.abort(feed.table(number))
                found[name] = rows(runner.process(batch, FAR_FUTURE if number == 7 else time))
        assert all(found["memory"] == each for each in found.values()), found


def defined(kind: str, policy: str, aggregates: Mapping[str, agg.Aggregate], chance: random.Random) -> Any:
    """Windows of the kind; a lifetime ends after a pause, or not."""
    if kind != "lifetimes":
        return operator(kind, policy, aggregates)
    emit: Any = "on_arrival" if policy == "on_update" else policy
    return chance.choice([FOREVER, FORGETTING]).group_by("k").aggregate(**aggregates).emit(emit)
