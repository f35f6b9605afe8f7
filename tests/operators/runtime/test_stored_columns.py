"""State of hopping and sliding windows as it was once stored, with the column `visible_from`, which their panes do not need."""

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from feeds import BACKENDS, GRACE, KINDS, POLICIES, Feed, rows

from operators import SlidingWindows, WindowedAggregation
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.engines.pane_engine import PaneEngine, PanePlan
from operators.kinds.sliding import Sliding
from operators.runtime.binding import Binding
from operators.runtime.local import LocalRunner
from operators.steps.emission import Emission
from operators.steps.panes import PaneSchema
from operators.steps.partials import Partials
from operators.steps.step import Step
from operators.steps.timed_store import Emitted
from state_backends import Entries, StateConfig, WindowStore, resolve
from state_backends.durability.pointer import read_pointer
from state_backends.store.schema import TIME

LAYOUT = {"state.segment": "40 ms"}
ADAPT = {"state.evolution": "adapt"}
PANED = ("tumbling", "hopping", "sliding")
REWRITTEN = "entries have time"


class FormerSchema(PaneSchema):
    """Panes as they were stored: several of one time, if records of it came at several close times."""

    head: ClassVar[tuple[tuple[str, str], ...]] = (("time", TIME), ("visible_from", TIME))


@dataclass(frozen=True, slots=True)
class FormerSliding(Sliding):
    """Sliding windows whose panes are kept for twice as long."""

    def dead_before(self, close_time: int) -> int:
        return close_time - 2 * self.size - 1


@dataclass(frozen=True, slots=True)
class FormerPlan(PanePlan):
    """Windows with panes as they were stored."""

    @property
    def schema(self) -> FormerSchema:
        return FormerSchema(self.operations)

    def engine(self, store: WindowStore) -> PaneEngine:
        return FormerEngine(self, store) if isinstance(self.kind, Sliding) else PaneEngine(self, store)


class FormerEngine(PaneEngine):
    """Gives panes the time from which on windows see them. What comes out is what comes out now."""

    def step(self, batch: Partials, step: Step) -> Sequence[Emitted]:
        key, columns = batch.entries.key, batch.entries.columns
        seen = np.maximum(columns[0], max(step.close_time_start, self.state.close_time))
        return super().step(replace(batch, entries=Entries(key, (columns[0], seen, *columns[2:]))), step)

    def _closed(self, keys: list[bytes], panes: Entries, since: int, close_time: int) -> Emission:
        return super()._closed(keys, self.plan.schema.by_time(panes), since, close_time)


def stored_before(operator: WindowedAggregation, backend: str, directory: Path | None = None) -> LocalRunner:
    """A runner that stores its panes as they were stored."""

    def bind(schema: pa.Schema, config: StateConfig) -> Binding:
        binding = operator.bind(schema, "at", config)
        plan: Any = binding.plan
        kind = FormerSliding(plan.kind.size) if isinstance(plan.kind, Sliding) else plan.kind
        return replace(binding, plan=FormerPlan(kind, plan.on_update, plan.operations))

    return LocalRunner(bind, resolve(backend, LAYOUT), directory)


def columns(runner: LocalRunner) -> list[str]:
    """The columns before the states in what a runner has committed."""
    pointer = read_pointer(runner._journal)
    assert pointer is not None
    assert pointer.progress.schema is not None
    return [name for name, _ in pointer.progress.schema.head]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", PANED)
@pytest.mark.parametrize("backend", BACKENDS)
def test_old_state_goes_on(
    backend: str, kind: str, policy: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is rewritten when it is opened, once, whatever the policy is about changes that users make."""
    caplog.set_level(logging.INFO, "operators")
    op = KINDS[kind].group_by("k").aggregate(n=agg.count(), low=agg.min("v"), listed=agg.collect_list("v"))
    op, feed = op.emit(policy), Feed(random.Random(f"{kind} {policy}"))
    with op.local_runner("at") as undisturbed:
        with stored_before(op, backend, tmp_path) as runner:
            for number in range(3):
                batch = feed.table(number, 0)
                assert rows(undisturbed.process(batch)) == rows(runner.process(batch))
            assert ["time", "visible_from"] == columns(runner)
        for number in range(3, 7):
            batch, close = feed.table(number, 0), FAR_FUTURE if number == 6 else None
            with op.local_runner("at", backend, tmp_path, LAYOUT) as runner:
                assert rows(undisturbed.process(batch, close)) == rows(runner.process(batch, close))
                assert ["time"] == columns(runner)
    assert 1 == sum(REWRITTEN in record.message for record in caplog.records)


@pytest.mark.parametrize("grace", [GRACE, 0])
@pytest.mark.parametrize("policy", POLICIES)
def test_old_panes_of_one_time_become_one(policy: str, grace: int, tmp_path: Path) -> None:
    """Records of one time that came before and after a close time were in two panes: their windows come once, whole.

    Also if the grace is less now, so that windows close before the first batch.
    """

    def op(grace: int) -> WindowedAggregation:
        return SlidingWindows(15, grace).aggregate(n=agg.count()).emit(policy)

    def batch(*times: int) -> pa.Table:
        return pa.table({"at": pa.array(times, pa.timestamp("ms"))})

    now, former = tmp_path / "now", tmp_path / "former"
    with (
        op(GRACE).local_runner("at", directory=now, options=LAYOUT) as undisturbed,
        stored_before(op(GRACE), "memory", former) as runner,
    ):
        for times in ((0, 40), (28, 45), (28,), (29,)):  # close times 30, 35, 35, 35
            undisturbed.process(batch(*times))
            runner.process(batch(*times))
        stored = [time for _, entries in runner.store.scan() for time in entries.time.tolist()]
        assert [28, 28, 29, 40, 45] == sorted(stored)[-5:]
    with (
        op(grace).local_runner("at", directory=now, options=LAYOUT) as undisturbed,
        op(grace).local_runner("at", directory=former, options=LAYOUT) as runner,
    ):
        for times, stream_time in ((), 51), ((36,), 56), ((), FAR_FUTURE):
            expected = rows(undisturbed.process(batch(*times), stream_time))
            assert expected == rows(runner.process(batch(*times), stream_time))


@pytest.mark.parametrize("backend", BACKENDS)
def test_old_state_with_other_aggregates(backend: str, tmp_path: Path) -> None:
    """Columns and aggregates change at once."""
    feed, group = Feed(random.Random(3)), KINDS["hopping"].group_by("k").emit("on_update")
    every = group.aggregate(low=agg.min("v"), high=agg.max("v", where="from_1"))
    before = group.aggregate(n=agg.count(), low=agg.min("v"))
    now = group.aggregate(high=agg.max("v"), low=agg.min("v"))
    with every.local_runner("at") as undisturbed:
        with stored_before(before, backend, tmp_path) as runner:
            for number in range(3):
                batch = feed.table(number, 0)
                undisturbed.process(batch)
                runner.process(batch)
        for number in range(3, 6):
            batch = feed.table(number, 1)
            with now.local_runner("at", backend, tmp_path, LAYOUT | ADAPT) as runner:
                expected = rows(undisturbed.process(batch), ["low", "high"])
                assert expected == rows(runner.process(batch), ["low", "high"])


@pytest.mark.parametrize("kind", PANED)
def test_old_savepoint(kind: str, tmp_path: Path) -> None:
    """A savepoint of old state is what a runner of any backend starts from."""
    feed, op = Feed(random.Random(5)), KINDS[kind].group_by("k").aggregate(n=agg.count(), low=agg.min("v"))
    with op.local_runner("at") as undisturbed:
        with stored_before(op, "rocksdb") as runner:
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


def test_old_state_moves_to_another_backend(tmp_path: Path) -> None:
    """It is rewritten as it moves from backend to backend."""
    feed, op = Feed(random.Random(6)), KINDS["hopping"].group_by("k").aggregate(n=agg.count())
    with op.local_runner("at") as undisturbed:
        with stored_before(op, "rocksdb", tmp_path) as runner:
            for number in range(2):
                batch = feed.table(number, 0)
                assert rows(undisturbed.process(batch)) == rows(runner.process(batch))
        with op.local_runner("at", "spark", tmp_path, LAYOUT) as runner:
            for number, backend in enumerate(("memory", "rocksdb", "spark"), 2):
                batch, close = feed.table(number, 0), FAR_FUTURE if number == 4 else None
                assert rows(undisturbed.process(batch, close)) == rows(runner.process(batch, close))
                runner.restart(backend)
