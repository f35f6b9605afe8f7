"""Queries that are killed again and again: their workers in mid-task, and their driver, with what befalls local state."""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.faults.local_state import COPIED, DELETED, KEPT, PUT_BACK, strike
from tests.faults.plans import Feed, Plan, committed, in_flight
from tests.faults.processes import (
    Driver,
    DriverGoneError,
    alive,
    descendants,
    kill,
    kill_all,
    python_daemons,
    python_workers,
)
from tests.patience import StillError, wait_until

_TRIES = 5


class Torment:
    """Queries side by side in one driver, the kills they have seen, and the choices that are left to the seed."""

    def __init__(self, folder: Path, plans: Sequence[Plan], feed: Feed, seed: int, mark: str) -> None:
        self.kills: Counter[str] = Counter()
        self.local: Counter[str] = Counter()
        self.starts = 0
        self.errors: list[str] = []
        self._folder = folder
        self._end = folder / "end"
        self._plans = [replace(plan, until=str(self._end)) for plan in plans]
        self._feed = feed
        self._chance = random.Random(seed)
        self._mark = mark
        self._driver: Driver | None = None

    @property
    def batches(self) -> list[int]:
        """How many batches each query has committed."""
        return [committed(plan) for plan in self._plans]

    def kill_workers(self) -> str:
        """Kill Python workers in mid-batch, wait until all queries have gone on, and say what was killed."""
        pid = self._mid_batch(workers=True)
        time.sleep(self._chance.uniform(0, 0.4))
        workers = python_workers(pid)
        sort = self._chance.choices(("one worker", "all workers", "daemon"), (5, 3, 2))[0]
        if sort == "one worker" and workers:
            kill(self._chance.choice(workers))
        elif sort == "all workers":
            for worker in workers:
                kill(worker)
        else:
            for daemon in python_daemons(pid):
                kill_all(daemon)
        self.kills[sort] += 1
        self._go_on()
        return sort

    def kill_workers_in_a_task(self) -> None:
        """Kill workers until one of them has died in a task; by chance they die between tasks."""
        while not self.lost_tasks():
            self.kill_workers()

    def kill_driver(self) -> str:
        """Kill the driver in mid-batch, do something to local state, start it again, and say what was done."""
        pid = self._mid_batch(workers=False)
        time.sleep(self._chance.uniform(0, 0.8))
        sort = self._chance.choices(("all", "group", "jvm"), (3, 2, 1))[0]
        assert self._driver is not None
        family = descendants(pid)
        self._driver.kill(sort)
        self.kills[f"driver {sort}"] += 1
        befallen = self._strike_local_state(family)
        self.local[befallen] += 1
        self._go_on()
        return f"driver {sort}, local state {befallen}"

    def finish(self) -> list[dict[str, Any]]:
        """Let the queries come to their ends, and return what the rows of each are worth."""
        self._end.touch()
        for _ in range(_TRIES):
            if not self._errors():
                verdicts = self._driver_now().judge(self._plans)
                self._driver_now().stop()
                return verdicts
        raise RuntimeError(f"the queries cannot be restarted: {self.errors[-1]}")

    def lost_tasks(self) -> int:
        """How many task attempts failed, as Spark's log has it."""
        log = self._folder / "log"
        return log.read_text(errors="replace").count("Lost task") if log.exists() else 0

    def _errors(self) -> list[str]:
        """Wait until the queries end, and return the errors that ended them, or the driver."""
        try:
            found = [error for error in self._driver_now().answer() if error]
        except DriverGoneError as error:
            found = [str(error)]
        self.errors += found
        if found and self._driver is not None and self._driver.process.poll() is None:
            self._ask()
        return found

    def _driver_now(self) -> Driver:
        """The driver, started anew if it is gone."""
        if self._driver is None or self._driver.process.poll() is not None:
            self._driver = Driver(self._folder, self._mark)
            self._ask()
        return self._driver

    def _ask(self) -> None:
        assert self._driver is not None
        self._driver.ask("run", self._plans)
        self.starts += 1

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds; meanwhile keep the queries running and fed.

        A kill too many makes Spark end a query with an error; then all are started again, some times.
        """
        most = len(self.errors) + _TRIES

        def there() -> bool:
            if self._driver_now().waits():
                self._errors()
            if len(self.errors) > most:
                raise StillError(f"{what}: the queries end with errors again and again")
            self._feed.give_if_idle(self._plans)
            return condition()

        try:
            wait_until(there, what, lambda: self._driver_now().moved())
        except StillError as error:
            raise RuntimeError(f"{what} does not come; errors so far: {self.errors[-1:]}") from error

    def _mid_batch(self, *, workers: bool) -> int:
        """Wait until a query chosen by chance is in mid-batch, and return the driver's process."""
        plan = self._chance.choice(self._plans)

        def there() -> bool:
            return in_flight(plan) and (not workers or bool(python_workers(self._driver_now().process.pid)))

        self._wait(there, f"a batch of {plan.folder}")
        return self._driver_now().process.pid

    def _go_on(self) -> None:
        """Wait until each query has committed another batch."""
        before = self.batches
        self._wait(
            lambda: all(now > then for now, then in zip(self.batches, before, strict=True)),
            f"another batch of each query in {self._folder}",
        )

    def _strike_local_state(self, family: list[int]) -> str:
        """Delete it, set a copy of it aside, or put the copy of an earlier batch in its place, and say which."""
        choice = self._chance.choice((DELETED, PUT_BACK, COPIED, KEPT))
        # The first ones in a fixed order, so that few kills too see the worst.
        choice = dict(enumerate((COPIED, PUT_BACK, DELETED))).get(self.local.total(), choice)
        if choice in (PUT_BACK, COPIED):
            # Workers may outlive their driver for a moment; what they still write is no copy of anything.
            wait_until(
                lambda: not any(map(alive, family)),
                "the end of the workers",
                lambda: list(map(alive, family)),
            )
        for plan in self._plans:
            strike(choice, Path(plan.folder, plan.state), Path(plan.folder, "aside"))
        return choice


def victims(workers: int, drivers: int, seed: int) -> list[str]:
    """Return whom to kill in turn: so many of each, in an order of the seed's."""
    order = ["workers"] * workers + ["driver"] * drivers
    random.Random(seed).shuffle(order)
    return order
