"""The digests by which two checkouts are compared: the same code always gives the same ones, a fault gives others."""

import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from operators.engines import pane_engine
from operators.steps.lateness import find_late
from tests.digest import PARTS, cases, differences, line, seen

FEW = [
    case
    for case in cases()
    if case.kind in ("sliding", "session of folds")
    and (case.aggregates, case.backend, case.page) == ("numbers", "memory", None)
]
ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_same_code_has_the_same_digests_and_a_fault_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in lateness is seen in all parts, in the windows that it concerns and nowhere else."""
    before = [line(case, seen(case)) for case in FEW]
    assert [] == differences(before, [line(case, seen(case)) for case in FEW])
    monkeypatch.setattr(pane_engine, "find_late", lambda time, plan, step: find_late(time - 3, plan, step))
    found = differences(before, [line(case, seen(case)) for case in FEW])
    concerned, parts = zip(*(text.rsplit(": ", 1) for text in found), strict=True)
    assert [case.name for case in FEW if case.kind == "sliding"] == [*concerned]
    assert {*PARTS} == {part for text in parts for part in text.split(", ")}
    assert [f"{FEW[0].name}: the other checkout does not have it"] == differences(before[1:], before[:1])


@pytest.mark.soak
def test_stores_agree_and_so_do_processes(tmp_path: Path) -> None:
    """Rows and late rows do not depend on the store, and digests do not depend on the process, whose hashes differ."""
    lines = []
    for inputs, stores in groupby(cases(), lambda case: case.inputs):
        outcomes = []
        for case in stores:
            values = [*seen(case)]
            lines.append(line(case, values))
            outcomes.append([(part, sorted(map(repr, value))) for part, value in values if part in PARTS[:2]])
        assert outcomes == [outcomes[0]] * 4, inputs
    assert len(lines) > 200
    (tmp_path / "before").write_text("\n".join(lines))
    command = [sys.executable, "-m", "tests.digest", "--compare", str(tmp_path / "before")]
    done = subprocess.run(  # noqa: PLW1510 - its return code is compared
        command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "5"}, capture_output=True, text=True
    )
    assert (0, f"{len(lines)} cases, 0 differ") == (done.returncode, done.stdout.strip()), done.stderr
