"""Snapshots on S3, which answers errors: no batch fails of it, and what was restored from there is exact."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.plans import Feed, plans_for
from tests.faults.processes import Driver, assert_exact
from tests.s3_server import S3, running

_FOLDER = "spark.windows.state.snapshots.folder"


@pytest.fixture
def s3() -> Iterator[S3]:
    """A server with one bucket."""
    with running() as server:
        server.bucket("state")
        yield server


def test_storage_that_fails_costs_no_row(tmp_path: Path, driver: Driver, s3: S3, backends: list[str]) -> None:
    """While S3 refuses requests queries go on; without local state they end with its name, and go on when it is back."""
    feed = Feed(tmp_path, files=6, rows=600, seed=9)
    plans = [
        replace(plan, conf={_FOLDER: s3.uri(f"state/{plan.backend}")})
        for plan in plans_for(tmp_path, [name for name in backends if name != "spark"])
    ]
    feed.give(2)
    assert [None for _ in plans] == driver.run(plans)
    s3.switch(fail=0.5)
    feed.give()
    assert [None for _ in plans] == driver.run(plans)
    s3.switch(fail=1.0)
    feed.give()
    assert [None for _ in plans] == driver.run(plans)

    away = [replace(plan, state="another disk") for plan in plans]
    feed.give()
    for plan, error in zip(away, driver.run(away), strict=True):
        print(f"{plan.backend}: {error}")  # noqa: T201 - what the user sees
        assert error is not None
        assert f"cannot look for s3://state/{plan.backend}" in error or "cannot read s3://" in error
        shutil.rmtree(Path(plan.folder, plan.state), ignore_errors=True)
    s3.switch()
    feed.give()
    assert [None for _ in away] == driver.run(away)
    assert_exact(driver.judge(away))
