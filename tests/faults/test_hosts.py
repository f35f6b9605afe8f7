"""Two hosts with disks of their own: crashes, wiped and full disks, hosts that freeze, other clocks, buckets that move."""

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.faults import memory_limit
from tests.faults.cluster import HOSTS, Cluster
from tests.faults.hosts import DISK, Host
from tests.faults.memory_limit import MemoryLimit
from tests.faults.plans import ALL_KINDS, BACKENDS, Feed, Plan, committed, in_flight, plans_for
from tests.faults.processes import Driver, assert_exact
from tests.patience import wait_until

ONE, OTHER = HOSTS
STATE = "windows"
"""The folder of all local state on each host's disk."""
_LOST_AFTER_S = 20
"""Of a host that is frozen for longer, Spark takes the executor for lost."""
_CONF = {
    "spark.network.timeout": f"{_LOST_AFTER_S}s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.windows.log.level": "info",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.3",
}
_MOST_FILES, _MOST_BYTES = 600, 64 << 20
"""What a host may have of local state at the end: some copies of three buckets of each query."""
_GROUPS = range(0, len(ALL_KINDS), len(BACKENDS))
"""The first of the kinds of queries that run side by side, one on each backend."""
_FETCHED = re.compile("a local copy was (brought up)|was (restored) from the snapshot")
_FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
_SAID = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+ \w+ operators", re.MULTILINE)
_CLOCK = "clock-of-this-host"
"""A file of a host's disk that sets the clock of its Python processes. Java's threads would not sleep with another clock."""
_PYTHON = f"""#!/bin/sh
[ -r {DISK}/{_CLOCK} ] && . {DISK}/{_CLOCK}
exec {sys.executable} "$@"
"""


@pytest.fixture(scope="module")
def remote(hosts: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver whose tasks run on the hosts."""
    folder = tmp_path_factory.mktemp("remote")
    python = folder / "python"
    python.write_text(_PYTHON)
    python.chmod(0o755)
    with hosts.driver(folder, _CONF, ["env", f"PYSPARK_PYTHON={python}"]) as started:
        yield started


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
        done = [committed(plan) for plan in self.plans]

        def there() -> bool:
            self.go_on()
            self.feed.give_if_idle(self.plans)
            more = [committed(plan) - then for plan, then in zip(self.plans, done, strict=True)]
            return min(more) >= count and any(map(in_flight, self.plans))

        wait_until(there, "a batch that runs", self.remote.moved)

    def go_on(self) -> None:
        """Start queries again that have ended."""
        if self.remote.waits():
            self.errors += [error for error in self.remote.answer() if error]
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
        limit.lower()
        while not limit.kills():
            scene.batches(0)
        limit.lift()
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
NEEDS: dict[str, Callable[[], str]] = {
    "set the clock": lambda: "" if _FAKETIME else "a host with another clock needs libfaketime",
    "run out of memory": memory_limit.why_not,
}
"""Why a scene cannot be played here, or nothing."""
ENDING = {"fill the disk"}
"""What may end a query, by an error that says why."""


def played(
    name: str, plans: list[Plan], hosts: Cluster, rooms: dict[str, Host], remote: Driver, feed: Feed
) -> None:
    """Run queries through a scene until they have used up what they were given: every row is there once, and little is left."""
    for host in HOSTS:
        hosts.start_worker(host)
    before, began = fetched(hosts), time.monotonic()
    remote.ask("run", plans)
    scene = Scene(hosts, rooms, remote, plans, feed)
    scene.batches()
    SCENES[name](scene)
    for plan in plans:
        Path(plan.until).touch()
    while any(errors := remote.answer()):
        scene.errors += [error for error in errors if error]
        remote.ask("run", plans)
    verdicts = remote.judge(plans)
    told = {
        "seconds": round(time.monotonic() - began),
        "rows": {
            f"{plan.kind} on {plan.backend}": one["rows"] for plan, one in zip(plans, verdicts, strict=True)
        },
        "batches": [committed(plan) for plan in plans],
        "copies": dict(fetched(hosts) - before),
        "errors": scene.errors,
        "files and bytes on hosts": [room.used(state_of(plans[0])) for room in rooms.values()],
        "files and bytes of checkpoint and snapshots": [
            used(plan.checkpoint_path, Path(plan.folder, "snapshots")) for plan in plans
        ],
    }
    print(f"\n{name}: {told}", flush=True)  # noqa: T201
    assert_exact(verdicts)
    assert name in ENDING or not scene.errors
    assert all("No space left on device" in error for error in scene.errors)
    for room in rooms.values():
        files, size = room.used(state_of(plans[0]))
        assert files <= _MOST_FILES
        assert size <= _MOST_BYTES


def fetched(hosts: Cluster) -> Counter[str]:
    """How often copies of buckets were brought up to date so far, and how often they were restored."""
    found = (_FETCHED.finditer(log) for log in hosts.logs().values())
    return Counter(one[1] or one[2] for ones in found for one in ones)


def used(*folders: Path) -> tuple[int, int]:
    """How many files there are below folders, and their bytes."""
    found = [path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()]
    return len(found), sum(found)


def state_of(plan: Plan) -> str:
    """The folder of a scene's local state on each host's disk, where other scenes have theirs beside it."""
    return f"{STATE}/{Path(plan.folder).parent.name}"


def on_hosts(plan: Plan) -> Plan:
    """The plan with its local state on the disk of whichever host works."""
    folder = DISK / state_of(plan) / Path(plan.folder).name
    return replace(plan, conf={**plan.conf, "spark.windows.state.directory": str(folder)})


@pytest.mark.slow
def test_buckets_move_to_another_host_and_back(
    tmp_path: Path, hosts: Cluster, rooms: dict[str, Host], remote: Driver
) -> None:
    """A host crashes in mid-batch and loses its disk, then the other one crashes: no row is missing or twice, no query ends."""
    feed = Feed(tmp_path, files=60, rows=300, seed=11)
    plans = plans_for(tmp_path, ["memory", "rocksdb"], until=str(tmp_path / "end"))
    played("lose", [*map(on_hosts, plans)], hosts, rooms, remote, feed)


@pytest.mark.soak
@pytest.mark.parametrize("first", _GROUPS)
@pytest.mark.parametrize("name", [name for name in SCENES if name != "lose"])
def test_scenes(
    tmp_path: Path, hosts: Cluster, rooms: dict[str, Host], remote: Driver, name: str, first: int
) -> None:
    """All kinds of queries, on all backends side by side, through all that happens to hosts."""
    if reason := NEEDS.get(name, str)():
        pytest.skip(reason)
    feed = Feed(tmp_path, files=400, rows=600, seed=first)
    kinds = [*ALL_KINDS, *ALL_KINDS][first : first + len(BACKENDS)]
    plans = plans_for(tmp_path, BACKENDS, until=str(tmp_path / "end"), kinds=kinds)
    played(name, [*map(on_hosts, plans)], hosts, rooms, remote, feed)
