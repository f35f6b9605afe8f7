"""Checkpoints of which Spark's own state files are damaged while the query is stopped."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.damage import HOW, SUFFIXES, damage
from tests.faults.plans import Feed, Plan, plans_for
from tests.faults.processes import Driver, assert_exact

pytestmark = pytest.mark.soak

_ROUNDS = 1
"""In each, files of all sorts are damaged. `python -m tests.faults.everybyte_spark` damages all bytes."""


def test_a_damaged_checkpoint_gives_an_error_or_the_right_rows(
    tmp_path: Path, driver: Driver, backends: list[str], seed: int
) -> None:
    """Whatever is damaged, no row is wrong, and with the checkpoint as it was the query ends with all of them."""
    chance = random.Random(seed)
    feed = Feed(tmp_path, files=6, rows=600, seed=9)
    feed.give(5)
    plans = plans_for(tmp_path, backends)
    assert not any(driver.run(plans))
    feed.give()
    for plan in plans:
        for folder in ("out", "checkpoint"):
            shutil.copytree(Path(plan.folder, folder), Path(plan.folder, "good", folder))
    for number in range(_ROUNDS):
        again = [put_back(plan, f"{number}") for plan in plans]
        done = [
            damage(plan.checkpoint_path, SUFFIXES[(number + place) % 3], chance.choice(HOW), chance)
            for place, plan in enumerate(again)
        ]
        errors = driver.run(again)
        verdicts = driver.judge(again)
        for what, error, verdict in zip(done, errors, verdicts, strict=True):
            print(f"{what}: {verdict}, {error}")  # noqa: T201 - what a failure came after
            assert verdict["extra"] == 0
            assert error is not None or verdict["missing"] == 0
    last = [put_back(plan, "last") for plan in plans]
    assert not any(driver.run(last))
    assert_exact(driver.judge(last))


def put_back(plan: Plan, name: str) -> Plan:
    """Put the good output back, and the checkpoint under another name, as local state: Spark and workers keep them open."""
    good = Path(plan.folder, "good")
    shutil.rmtree(Path(plan.folder, "out"))
    shutil.copytree(good / "out", Path(plan.folder, "out"))
    again = replace(plan, checkpoint=f"checkpoint-{name}", state=f"state-{name}")
    shutil.copytree(good / "checkpoint", again.checkpoint_path)
    return again
