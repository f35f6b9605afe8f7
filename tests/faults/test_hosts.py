"""Two hosts with disks of their own: crashes, wiped and full disks, hosts that freeze, other clocks, buckets that move."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from tests.faults.cluster import HOSTS, Cluster
from tests.faults.hosts import Host
from tests.faults.plans import ALL_KINDS, BACKENDS, Feed, Plan, committed, plans_for
from tests.faults.processes import Driver, assert_exact
from tests.faults.scenes import CONF, NEEDS, SCENES, Scene, on_hosts, possible, state_of, with_a_clock

ALL = "all in turn"
ENDING = {"fill the disk", ALL}
"""What may end a query, by an error that says why."""
_MOST_FILES, _MOST_BYTES = 600, 64 << 20
"""What a host may have of local state at the end: some copies of three buckets of each query."""
_MOST_STORED = 2_500
"""Files that a query may have in its checkpoint and its snapshots: Spark keeps those of a hundred batches, for each bucket."""
_MANY_BATCHES = 500
_GROUPS = range(0, len(ALL_KINDS), len(BACKENDS))
"""The first of the kinds of queries that run side by side, one on each backend."""
_FETCHED = re.compile("a local copy was (brought up)|was (restored) from the snapshot")


@pytest.fixture(scope="module")
def remote(hosts: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver whose tasks run on the hosts."""
    folder = tmp_path_factory.mktemp("remote")
    with hosts.driver(folder, CONF, with_a_clock(folder)) as started:
        yield started


def play(name: str, scene: Scene) -> None:
    """Play a scene, or all that can be played here, again and again until each query has had many batches."""
    if name != ALL:
        SCENES[name](scene)
        return
    for each in cycle(possible()):
        if min(map(committed, scene.plans)) >= _MANY_BATCHES:
            return
        SCENES[each](scene)
        scene.batches(10)
        print(f"{each}: {[*map(committed, scene.plans)]} batches", flush=True)  # noqa: T201


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
    play(name, scene)
    scene.finish()
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
    most = max(count for count, _ in told["files and bytes of checkpoint and snapshots"])
    assert_exact(verdicts)
    assert name in ENDING or not scene.errors
    assert all("No space left on device" in error for error in scene.errors)
    assert most <= _MOST_STORED
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


@pytest.mark.soak
def test_what_many_batches_leave(
    tmp_path: Path, hosts: Cluster, rooms: dict[str, Host], remote: Driver
) -> None:
    """After 500 batches with all that happens to hosts, there is as little on their disks and in the checkpoint as before."""
    feed = Feed(tmp_path, files=5 * _MANY_BATCHES, rows=60, seed=12)
    plans = plans_for(tmp_path, BACKENDS, until=str(tmp_path / "end"))
    played(ALL, [*map(on_hosts, plans)], hosts, rooms, remote, feed)
