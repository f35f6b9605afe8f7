"""Task attempts that fail after the operator has written its local copy, and are run again."""

from pathlib import Path

import pytest

from tests.effort import soak
from tests.faults.plans import BACKENDS, Feed, plans_for
from tests.faults.processes import Driver, assert_exact

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("backends", [soak(BACKENDS, id="all"), pytest.param(["rocksdb"], id="rocksdb")])
def test_failed_attempts_leave_no_trace(tmp_path: Path, driver: Driver, backends: list[str]) -> None:
    """A later step fails on first attempts, early or when all is done: the attempt that follows gives the rows, once."""
    Feed(tmp_path, files=5, rows=600, seed=3).give(5)
    plans = plans_for(tmp_path, backends, trouble="FailFirst")
    assert not any(driver.run(plans))
    assert_exact(driver.judge(plans))
    for plan in plans:
        notes = [note.name.split("-") for note in Path(plan.folder, "troubles").iterdir()]
        failed = {(batch, part) for what, batch, part, _ in notes if what in ("early", "late")}
        repeated = {(batch, part) for what, batch, part, attempt in notes if (what, attempt) == ("done", "1")}
        assert {"early", "late", "done"} == {what for what, *_ in notes}
        assert len(failed) >= 6
        assert failed <= repeated
