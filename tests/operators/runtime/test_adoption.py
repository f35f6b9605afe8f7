"""A state is adopted once: what a batch costs does not depend on how much an operator says of itself."""

import random
from pathlib import Path
from typing import Any

import pytest
from effort import few
from feeds import BACKENDS, KINDS, SCHEMA, Feed, operator, rows

from operators import aggregates as agg
from operators.runtime.binding import Binding
from state_backends import resolve
from state_backends.durability.pointer import read_pointer


@pytest.mark.parametrize("kind", few(KINDS, 4))
@pytest.mark.parametrize("backend", few(BACKENDS, 3))
def test_an_operator_says_once_what_its_state_depends_on(
    backend: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each start, and not for each batch; an attempt that fails changes nothing."""
    calls, identity = [0], Binding.identity

    def counted(binding: Binding) -> dict[str, Any]:
        calls[0] += 1
        return identity(binding)

    monkeypatch.setattr(Binding, "identity", counted)
    op, feed = operator(kind, "on_close", {"n": agg.count(), "mean": agg.avg("x")}), Feed(random.Random(1))
    with op.local_runner("at") as undisturbed:
        for _ in range(2):
            batches = [feed.table(number) for number in range(4)]
            expected = [rows(undisturbed.process(batch)) for batch in batches]
            with op.local_runner("at", backend, tmp_path) as runner:
                found = []
                calls[0] = 0
                for batch in batches:
                    runner.abort(batch)
                    found.append(rows(runner.process(batch)))
                stored = read_pointer(runner._journal)
            assert expected == found
            assert 1 <= calls[0] <= 2
            assert stored is not None
            identity_of = op.bind(SCHEMA, "at", resolve(backend)).identity()
            assert stored.progress.identity == identity_of
