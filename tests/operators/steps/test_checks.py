"""What memory knows of pages agrees with them after each batch; a `check` finds each structure that does not."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import LocalRunner, SlidingWindows
from operators import aggregates as agg
from operators.steps.timed_store import TimedStore

pytestmark = pytest.mark.usefixtures("pages_of_few_entries")


@pytest.fixture
def state() -> Iterator[TimedStore]:
    """The state of sliding windows of several segments after some batches, with sums of pages."""
    operator = SlidingWindows(1_000, grace=100).group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))
    with operator.local_runner("at", options={"state.segment": "100 ms"}) as runner:
        for number in range(30):
            at = number * 50 + np.arange(0, 50, 5)
            runner.process(pa.table({"k": np.arange(10) % 3, "at": at, "v": at}))
            _state(runner).check()
        yield _state(runner)


def _state(runner: LocalRunner) -> TimedStore:
    assert runner._operator is not None
    return runner._operator.engine.state


def _alter_sums(state: TimedStore) -> None:
    for rows in (state.sums._pages, state.sums._keys):  # type: ignore[union-attr]
        for held in rows._segments.values():
            for key, row in held.items():
                words = np.frombuffer(row, np.int64).reshape(-1, rows._width) + (
                    [0] + [1] * (rows._width - 1)
                )
                held[key] = words.tobytes()


DAMAGES: dict[str, tuple[Callable[[TimedStore], Any], str]] = {
    "key index": (lambda state: state.store._directory._index._bits.fill(0), "keys of segment"),
    "starts of further pages": (lambda state: state.store._directory._starts.clear(), "further pages of"),
    "key sample": (lambda state: state.store.usage._sample.clear(), "sampled keys of segment"),
    "usage by segment": (lambda state: state.store.usage._segments.popitem(), "pages, entries and bytes"),
    "latest": (lambda state: state.store._latest.update(dict.fromkeys(state.store._latest, -1)), "after -1"),
    "page sums": (_alter_sums, "sums of segment"),
    "timers": (lambda state: state.timers.queue.clear(), "before its timer"),
}


@pytest.mark.slow
@pytest.mark.parametrize("structure", DAMAGES)
def test_a_structure_that_does_not_agree_is_found(state: TimedStore, structure: str) -> None:
    damage, said = DAMAGES[structure]
    damage(state)
    with pytest.raises(AssertionError, match=said):
        state.check()
