"""A query that is started twice on one checkpoint, and a driver that goes on when another one has its query."""

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.plans import Feed, Plan, committed, in_flight, plans_for
from tests.faults.processes import Driver, assert_exact, descendants, kill, python_workers
from tests.patience import TOO_BUSY, wait_until

pytestmark = pytest.mark.soak
_SAID = "Multiple streaming jobs detected", "Race while writing batch"
"""By Spark, as docs/errors.md has it."""


def go_on(driver: Driver, plans: Sequence[Plan], feed: Feed, batches: int) -> None:
    """Feed the queries of a driver until each has committed so many more batches, or they have ended."""
    wanted = [committed(plan) + batches for plan in plans]

    def there() -> bool:
        feed.give_if_idle(plans)
        return driver.waits() or all(
            committed(plan) >= most for plan, most in zip(plans, wanted, strict=True)
        )

    wait_until(there, "batches", driver.moved)


def test_a_query_that_is_started_twice(tmp_path: Path, mark: str, backends: list[str]) -> None:
    """Spark ends the one that comes second to a batch, and says why; whoever goes on, each row comes once."""
    feed, end = Feed(tmp_path, files=60, rows=600, seed=12), tmp_path / "end"
    plans = plans_for(tmp_path, backends, until=str(end))
    drivers = [Driver(tmp_path / f"driver-{number}", mark) for number in range(2)]
    drivers[0].ask("run", plans)
    go_on(drivers[0], plans, feed, 2)
    drivers[1].ask("run", plans)

    def one_has_ended() -> bool:
        feed.give_if_idle(plans)
        return any(driver.waits() for driver in drivers)

    wait_until(one_has_ended, "the end of one", lambda: [driver.moved() for driver in drivers])
    end.touch()
    errors = [error for driver in drivers for error in driver.answer() if error is not None]
    print(*[error.partition("===")[0] for error in errors if error], sep="\n")  # noqa: T201 - what the user sees
    assert any(said in error for said in _SAID for error in errors)
    assert all(any(said in error for said in (*_SAID, TOO_BUSY)) for error in errors)
    drivers[1].stop()
    assert not any(drivers[0].run(plans))
    assert_exact(drivers[0].judge(plans))
    drivers[0].stop()


def test_a_driver_that_stood_still(tmp_path: Path, mark: str, backends: list[str]) -> None:
    """It stops in mid-batch with its workers, and another one goes on with the query: when it wakes up, it changes nothing."""
    feed, end = Feed(tmp_path, files=60, rows=600, seed=13), tmp_path / "end"
    plans = plans_for(tmp_path, backends, until=str(end))
    first = Driver(tmp_path / "first", mark)
    first.ask("run", plans)
    go_on(first, plans, feed, 2)

    def works() -> bool:
        feed.give_if_idle(plans)
        return any(map(in_flight, plans)) and bool(python_workers(first.process.pid))

    wait_until(works, "a batch", first.moved)
    family = descendants(first.process.pid)
    for pid in family:
        kill(pid, signal.SIGSTOP)

    second = Driver(tmp_path / "second", mark)
    second.ask("run", plans)
    go_on(second, plans, feed, 2)
    for pid in family:
        kill(pid, signal.SIGCONT)
    go_on(second, plans, feed, 3)
    end.touch()
    errors = [*first.answer(), *second.answer()]
    print(*[error.partition("===")[0] for error in errors if error], sep="\n")  # noqa: T201 - what the user sees
    assert any(errors)
    first.stop()
    assert not any(second.run(plans))
    assert_exact(second.judge(plans))
    second.stop()
