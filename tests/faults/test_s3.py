"""Snapshots on S3, which answers errors: no batch fails of it, and what was restored from there is exact."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.plans import Feed, plans_for
from tests.faults.processes import Driver, assert_exact
from tests.s3_server import S3, running

pytestmark = pytest.mark.soak

_FOLDER = "spark.windows.state.snapshots.folder"


@pytest.fixture
def s3() -> Iterator[S3]:
    """A server with one bucket."""
    with running() as server:
        server.bucket("state")
        yield server


def test_storage_that_fails_costs_no_row(tmp_path: Path, driver: Driver, s3: S3, backends: list[str]) -> None:
    """While S3 refuses requests queries go on, or end with its name where a worker has to restore, and can be restarted."""
    feed = Feed(tmp_path, files=6, rows=600, seed=9)
    plans = [
        replace(plan, conf={_FOLDER: s3.uri(f"state/{plan.backend}")})
        for plan in plans_for(tmp_path, [name for name in backends if name != "spark"])
    ]
    feed.give(2)
    assert [None for _ in plans] == driver.run(plans)
    for share in (0.5, 1.0):
        s3.switch(fail=share)
        feed.give()
        for error in driver.run(plans):
            assert error is None or _names_the_storage(error)

    away = [replace(plan, state="another disk") for plan in plans]
    feed.give()
    assert all(error is not None and _names_the_storage(error) for error in driver.run(away))
    for plan in plans:
        shutil.rmtree(Path(plan.folder, plan.state), ignore_errors=True)
    s3.switch()
    feed.give()
    assert [None for _ in away] == driver.run(away)
    assert_exact(driver.judge(away))


def _names_the_storage(error: str) -> bool:
    """Whether an error says which file could not be had, and that nothing was lost."""
    return re.search(r"cannot (look for|read) s3://state/.*No state is lost", error) is not None
