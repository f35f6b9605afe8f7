"""What happens to hosts while queries run: crashes, wiped and full disks, hosts that freeze, other clocks, no memory."""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from tests.faults import memory_limit
from tests.faults.cluster import HOSTS, Cluster
from tests.faults.hosts import DISK, Host
from tests.faults.memory_limit import MemoryLimit
from tests.faults.plans import Feed, Plan, in_flight, more_batches
from tests.faults.processes import Driver
from tests.patience import wait_until

ONE, OTHER = HOSTS
_LOST_AFTER_S = 20
"""Of a host that is frozen for longer, Spark takes the executor for lost."""
CONF = {
    "spark.network.timeout": f"{_LOST_AFTER_S}s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.windows.log.level": "info",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.3",
}
STATE = "windows"
"""The folder of all local state on each host's disk."""
_FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
_SAID = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+ \w+ operators", re.MULTILINE)
_CLOCK = "clock-of-this-host"
"""A file of a host's disk that sets the clock of its Python processes. Java's threads would not sleep with another clock."""
PYTHON = f"""#!/bin/sh
[ -r {DISK}/{_CLOCK} ] && . {DISK}/{_CLOCK}
exec {sys.executable} "$@"
"""
"""The Python of all workers: a program that sets the clock."""


def state_of(plan: Plan) -> str:
    """The folder of a scene's local state on each host's disk, where other scenes have theirs beside it."""
    return f"{STATE}/{Path(plan.folder).parent.name}"


def on_hosts(plan: Plan) -> Plan:
    """The plan with its local state on the disk of whichever host works."""
    folder = DISK / state_of(plan) / Path(plan.folder).name
    return replace(plan, conf={**plan.conf, "spark.windows.state.directory": str(folder)})


def with_a_clock(folder: Path) -> list[str]:
    """Return what to put before a driver so that its workers run that Python."""
    python = folder / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return ["env", f"PYSPARK_PYTHON={python}"]


@dataclass
class Scene:
    """Queries that run on two hosts, and what happens to these.

    Attributes:
        errors: of queries that ended and were started again.
    """

    hosts: Cluster
    rooms: dict[str, Host]
    remote: Driver
    plans: list[Plan]
    feed: Feed
    errors: list[str] = field(default_factory=list)

    def batches(self, count: int = 1) -> None:
        """Wait until each query has so many batches more, and one runs."""
        more = more_batches(self.plans, self.feed, count)

        def there() -> bool:
            self.go_on()
            return more() and any(map(in_flight, self.plans))

        wait_until(there, "a batch that runs", self.remote.moved)

    def go_on(self) -> None:
        """Start queries again that have ended."""
        if self.remote.waits():
            self.errors += [error for error in self.remote.answer() if error]
            self.remote.ask("run", self.plans)

    def finish(self) -> None:
        """Have the queries use up what they were given, and end."""
        for plan in self.plans:
            Path(plan.until).touch()
        while any(errors := self.remote.answer()):
            self.errors += [error for error in errors if error]
            self.remote.ask("run", self.plans)

    def only(self, host: str) -> None:
        """Crash the other host in mid-batch, and go on with this one's disk as it is."""
        self.hosts.start_worker(host)
        wait_until(lambda: self.hosts.executors(host), "an executor", self.remote.moved)
        self.hosts.crash(next(other for other in HOSTS if other != host))
        self.batches()

    def both(self) -> None:
        """Have both hosts at work."""
        for host in HOSTS:
            self.hosts.start_worker(host)
        wait_until(lambda: all(map(self.hosts.executors, HOSTS)), "two executors", self.remote.moved)
        self.batches()


def lose(scene: Scene) -> None:
    """A host crashes, and comes back with an empty disk, to which the buckets of the other one move when that one crashes."""
    scene.only(OTHER)
    scene.rooms[ONE].wipe()
    scene.only(ONE)


def move(scene: Scene) -> None:
    """Buckets move to a host, to one that has lost its disk, and back to where their old copies are."""
    scene.only(ONE)
    scene.rooms[OTHER].wipe()
    scene.only(OTHER)
    scene.only(ONE)


def freeze(scene: Scene) -> None:
    """A host stands still until Spark takes it for lost, and then goes on with what it was at."""
    scene.both()
    scene.rooms[ONE].freeze()
    begin = time.monotonic()
    while time.monotonic() < begin + 1.5 * _LOST_AFTER_S:
        scene.batches(0)
        time.sleep(0.1)
    scene.rooms[ONE].thaw()
    scene.batches(2)


def fill_the_disk(scene: Scene) -> None:
    """A host's disk is full for some seconds."""
    scene.both()
    scene.rooms[ONE].fill()
    scene.batches()
    scene.rooms[ONE].make_space()
    scene.batches(2)


def sweep(scene: Scene) -> None:
    """Files that nobody has used for a while are deleted on both hosts, as systemd does in /tmp."""
    scene.both()
    for room in scene.rooms.values():
        room.sweep(3)
    scene.batches(2)


def set_the_clock(scene: Scene) -> None:
    """A host whose clock is ten minutes ahead works, then one whose clock is ten minutes behind."""
    clock = scene.rooms[ONE].disk / _CLOCK
    for minutes in (10, -10):
        scene.only(OTHER)
        clock.write_text(
            f"export LD_PRELOAD={_FAKETIME[0]} FAKETIME={minutes:+d}m FAKETIME_DONT_FAKE_MONOTONIC=1"
        )
        scene.only(ONE)
        assert abs(_ahead(scene.hosts) - timedelta(minutes=minutes)) < timedelta(minutes=5)
        scene.both()
    clock.unlink()
    scene.only(OTHER)


def _ahead(hosts: Cluster) -> timedelta:
    """How far the clock of the Python process that has logged last is ahead, but for the age of its last line."""
    newest = max(hosts.logs(), key=lambda path: path.stat().st_mtime)
    said = _SAID.findall(newest.read_text(errors="replace"))[-1]
    return datetime.fromisoformat(said) - datetime.now()  # noqa: DTZ005 - as logs have it


def run_out_of_memory(scene: Scene) -> None:
    """The container of a host has no more memory for some seconds: the kernel kills its processes, one after the other."""
    scene.both()
    limit = MemoryLimit()
    limit.hold(scene.rooms[ONE].processes())
    try:
        with limit.used_up():
            wait_until(limit.kills, "the kernel", scene.remote.moved)
        scene.batches(2)
        print(f"{limit.kills()} processes were killed")  # noqa: T201
    finally:
        limit.remove()


SCENES: dict[str, Callable[[Scene], None]] = {
    "lose": lose,
    "move": move,
    "freeze": freeze,
    "fill the disk": fill_the_disk,
    "sweep": sweep,
    "set the clock": set_the_clock,
    "run out of memory": run_out_of_memory,
}


def possible() -> list[str]:
    """Return the names of the scenes that can be played here."""
    return [name for name in SCENES if not NEEDS.get(name, str)()]


NEEDS: dict[str, Callable[[], str]] = {
    "set the clock": lambda: "" if _FAKETIME else "a host with another clock needs libfaketime",
    "run out of memory": memory_limit.why_not,
}
"""Why a scene cannot be played here, or nothing."""
