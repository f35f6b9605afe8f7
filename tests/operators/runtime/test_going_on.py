"""State of panes under the runner that comes next: after each batch another one, of another backend, or from a savepoint."""

import random
from pathlib import Path

import pytest
from feeds import BACKENDS, KINDS, POLICIES, Feed, rows

from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE

LAYOUT = {"state.segment": "40 ms"}
PANED = ("tumbling", "hopping", "sliding")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", PANED)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_runner_for_each_batch(backend: str, kind: str, policy: str, tmp_path: Path) -> None:
    """All rows are those of one runner."""
    op = KINDS[kind].group_by("k").aggregate(n=agg.count(), low=agg.min("v"), listed=agg.collect_list("v"))
    op, feed = op.emit(policy), Feed(random.Random(f"{kind} {policy}"))
    with op.local_runner("at") as undisturbed:
        for number in range(7):
            batch, close = feed.table(number, 0), FAR_FUTURE if number == 6 else None
            with op.local_runner("at", backend, tmp_path, LAYOUT) as runner:
                assert rows(undisturbed.process(batch, close)) == rows(runner.process(batch, close))


@pytest.mark.parametrize("kind", PANED)
def test_a_savepoint(kind: str, tmp_path: Path) -> None:
    """A savepoint of one backend is what a runner of another one starts from."""
    feed, op = Feed(random.Random(5)), KINDS[kind].group_by("k").aggregate(n=agg.count(), low=agg.min("v"))
    with op.local_runner("at") as undisturbed:
        with op.local_runner("at", "rocksdb", tmp_path / "first", LAYOUT) as runner:
            for number in range(3):
                batch = feed.table(number, 0)
                undisturbed.process(batch)
                runner.process(batch)
            savepoint = runner.savepoint(tmp_path / "savepoint")
        options = LAYOUT | {"state.savepoint": savepoint.uri}
        with op.local_runner("at", "memory", options=options) as runner:
            for number in range(3, 6):
                batch, close = feed.table(number, 0), FAR_FUTURE if number == 5 else None
                assert rows(undisturbed.process(batch, close)) == rows(runner.process(batch, close))


def test_another_backend_for_each_batch(tmp_path: Path) -> None:
    """The same state goes from backend to backend."""
    feed, op = Feed(random.Random(6)), KINDS["hopping"].group_by("k").aggregate(n=agg.count())
    with (
        op.local_runner("at") as undisturbed,
        op.local_runner("at", "spark", tmp_path, LAYOUT) as runner,
    ):
        for number, backend in enumerate(("memory", "rocksdb", "spark", "memory")):
            batch, close = feed.table(number, 0), FAR_FUTURE if number == 3 else None
            assert rows(undisturbed.process(batch, close)) == rows(runner.process(batch, close))
            runner.restart(backend)
