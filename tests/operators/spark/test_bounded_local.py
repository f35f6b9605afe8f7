"""Bounded frames in steps of any length, keys that share a place in the sort order, and entries of several tasks."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given

from operators import Declaration, Operator, OperatorError, WorkerError, testing
from operators.spark.batch.bounded import BoundedRun, InputRows
from operators.steps.step import Step
from state_backends import resolve
from state_backends.backends.memory import MemoryBackend
from tests.effort import examples, few
from tests.operators.spark.bounded_frames import FAR, OPERATORS, SCHEMA, WINDOWS, Frame, frames, plain


@pytest.mark.slow
@pytest.mark.parametrize("name", few(OPERATORS, 4))
@given(frame=frames())
@examples(0.6)
def test_a_frame_in_many_steps_is_one_batch(name: str, frame: Frame) -> None:
    """However many rows a step has, whichever keys share a group, and wherever the rows were accumulated."""
    with OPERATORS[name].local_runner("t") as runner:
        expected = runner.process(frame.table, stream_time=FAR)
    assert plain(expected) == plain(frame.emitted(name))


@pytest.mark.parametrize("name", ["sliding", "hopping by microseconds", "session", "keyed"])
@given(frame=frames())
@examples(0.3)
def test_late_records_are_asked_for_and_there_are_none(name: str, frame: Frame) -> None:
    """With their rows whole on the way, the results are the same."""
    with OPERATORS[name].local_runner("t") as runner:
        expected = runner.process(frame.table, stream_time=FAR)
    emitted = frame.emitted(name, late=True)
    assert 0 == len(emitted) - emitted.column("late").null_count
    assert plain(expected) == plain(emitted.drop_columns(["late"]))


@pytest.mark.parametrize("name", ["sliding", "hopping", "tumbling by microseconds", "session"])
@given(frame=frames())
@examples(0.3)
def test_windows_of_steps_are_those_of_brute_force(name: str, frame: Frame) -> None:
    """Worked out from the raw records, by none of the operators' code."""
    judged = {
        "n": len,
        "total": lambda rows: sum(row["v"] for row in rows),
        "low": lambda rows: min(row["v"] for row in rows),
    }
    expected = testing.expected_rows(WINDOWS[name], [(frame.table, FAR)], "t", judged, ["k"])[0]
    found = frame.emitted(name).select(["k", "window", *judged])
    testing.assert_rows(found, expected, windows=WINDOWS[name])


@dataclass(frozen=True, kw_only=True)
class Hasty(Operator):
    """Calls records late that are not."""

    def declare(self, types):
        return Declaration(results={"n": "bigint"})

    def late_before(self, close_time):
        return close_time + 1_000

    def process_batch(self, context):
        return None


def test_a_late_record_of_a_bounded_frame_fails_the_job() -> None:
    """There can be none: whoever calls one late is wrong."""
    binding = Hasty(tick="1 ms").group_by("k").bind(SCHEMA, "t", resolve("memory"))
    frame = Frame([(0, 2_000 * n, 0, 1) for n in range(30)], 1, {0: 0}, 5, 5)
    run = BoundedRun(binding, InputRows(binding), "hasty", 5)
    with pytest.raises(WorkerError, match=r"operator 'hasty'.* records are late in a bounded frame"):
        list(run(frame.plain(binding).to_batches(max_chunksize=5)))


@pytest.mark.parametrize("kind", ["sliding", "tumbling", "session"])
def test_entries_out_of_order_are_refused(kind: str) -> None:
    """Whoever reads them has to sort them first: the windows would be wrong."""
    binding = OPERATORS[kind].bind(SCHEMA, "t", resolve("memory"))
    rows = Frame([(0, 9_000, 1, 1), (0, 90_000, 2, 1), (1, 0, 3, 1)], 1, {}, 1, 1).table
    entries = binding.read([rows.select(binding.inputs.names)])
    engine = binding.plan.engine(binding.store(MemoryBackend()))
    for wrong in ([1, 0, 2], [2, 0, 1], [0, 2, 1]):
        disordered = replace(
            entries, entries=entries.entries.take(np.array(wrong)), records=entries.records[wrong]
        )
        with pytest.raises(OperatorError, match=r"entry [12] of 3 is out of order"):
            engine.step(disordered, Step(0, 0))
