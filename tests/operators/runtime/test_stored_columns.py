"""State of hopping windows as it was once stored, with the column `visible_from`, which their panes do not need."""

import logging
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeds import BACKENDS, KINDS, POLICIES, Feed, rows

from operators import WindowedAggregation
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.kinds.hopping import HoppingPlan
from operators.kinds.panes import VisiblePaneSchema
from operators.runtime.local import LocalRunner
from operators.runtime.program import Program
from state_backends import StateConfig, resolve
from state_backends.durability.pointer import read_pointer

LAYOUT = {"state.segment": "40 ms"}
ADAPT = {"state.evolution": "adapt"}
HOPPING = ("tumbling", "hopping")
REWRITTEN = "entries have time"


@dataclass(frozen=True, slots=True)
class Before(HoppingPlan):
    """Hopping windows with panes as they were stored."""

    @property
    def schema(self) -> VisiblePaneSchema:
        return VisiblePaneSchema(self.operations)


def stored_before(operator: WindowedAggregation, backend: str, directory: Path | None = None) -> LocalRunner:
    """A runner that stores its panes as they were stored."""

    def bind(schema: pa.Schema, config: StateConfig) -> Program:
        program = operator.program(schema, "at", config)
        plan: Any = program.plan
        before = Before(plan.size, plan.advance, plan.offset, plan.on_update, plan.operations)
        return replace(program, plan=before)

    return LocalRunner(bind, resolve(backend, LAYOUT), directory)


def columns(runner: LocalRunner) -> list[str]:
    """The columns before the states in what a runner has committed."""
    pointer = read_pointer(runner._journal)
    assert pointer is not None
    assert pointer.progress.schema is not None
    return [name for name, _ in pointer.progress.schema.head]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", HOPPING)
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


@pytest.mark.parametrize("kind", HOPPING)
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
