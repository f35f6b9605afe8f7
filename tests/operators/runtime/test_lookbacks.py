"""Lookbacks of rolling windows may change at a restart, as long as the longest one stays."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import RollingWindows
from operators import aggregates as agg
from operators.definitions.rolling import RollingAggregation
from state_backends import StateError


@pytest.mark.parametrize("policy", ["on_close", "on_arrival"])
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_other_lookbacks_after_a_restart(backend: str, policy: Any, tmp_path: Path) -> None:
    """Within the longest, which has to stay, they are exact from the first row on, as if they had always been asked for."""
    before = RollingWindows({"short": 10, "long": 100}, grace=30)
    after = RollingWindows({"one": 1, "half": 50, "long": 100, "most": 99}, grace=30, closed="left")
    results = {"n": agg.count(), "total": agg.sum("v"), "high": agg.max("v"), "all": agg.collect_list("v")}
    asked_before, asked_after = (
        windows.group_by("k").aggregate(**results).emit(policy) for windows in (before, after)
    )
    chance = random.Random(24)
    times = [at + chance.randint(-25, 0) for at in range(0, 2_000, 4)]
    table = pa.table({"k": [f"k{n % 3}" for n in range(500)], "t": times, "v": range(500)})
    parts = [table.slice(at, 50) for at in range(0, 500, 50)]
    last = parts[-1]

    def run(
        operator: RollingAggregation, parts: Sequence[pa.Table], folder: Path, **options: str
    ) -> list[list[dict[str, Any]]]:
        given = {name.replace("_", "."): value for name, value in options.items()}
        with operator.local_runner("t", backend=backend, directory=folder, options=given) as runner:
            return [
                runner.process(part, stream_time=2_400 if part is last else None).to_pylist()
                for part in parts
            ]

    undisturbed = run(asked_after, parts, tmp_path / "undisturbed")
    first = run(asked_before, parts[:5], tmp_path / "changed")
    assert first == run(asked_before, parts, tmp_path / "unchanged")[:5]
    with pytest.raises(
        StateError, match=r"closed was 'both', is 'left': all rows that are not out yet.*to adapt"
    ):
        run(asked_after, parts[5:], tmp_path / "changed")
    changed = run(asked_after, parts[5:], tmp_path / "changed", state_evolution="adapt")
    assert changed == undisturbed[5:]
    assert sum(map(len, changed)) > 200
    longer = RollingWindows({"longer": 101}, grace=30).group_by("k").aggregate(**results).emit(policy)
    with pytest.raises(StateError, match="longest lookback was 100 ms, is 101 ms"):
        run(longer, parts[9:], tmp_path / "changed")
