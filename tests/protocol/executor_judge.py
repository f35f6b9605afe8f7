"""The judge of executors: what must hold whichever process works on a bucket."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from state_backends.durability.pointer import Pointer
from tests.protocol.judge import Failure

if TYPE_CHECKING:
    from tests.protocol.executor_world import ExecutorWorld, Member

_MOST_STEPS = 3_000
_REST_S = 300.0
"""How long a process that stood still is not asked again."""
_FURTHER = 6
"""Batches after a run, in a quiet world."""
_MOST_ENTRIES = 8
"""Blobs that a journal may have which has a snapshot with every second batch."""


class ExecutorJudge:
    """Looks at one run.

    Args:
        world: of the run.
    """

    def __init__(self, world: "ExecutorWorld") -> None:
        from tests.protocol.executor_world import Member

        self._world = world
        self.member = Member("judge", 1_000, 0)
        self.found: Failure | None = None
        self._sums: list[Counter[str]] = [Counter()]
        """After each committed batch, by key."""
        self._given_up: dict[tuple[str, str], float] = {}

    def _report(self, what: str) -> None:
        self.found = self.found or Failure(what)

    def worked(self, batch: int, line: int, code: int, found: dict[str, Any], rows: int) -> None:
        """An attempt has these rows."""
        self._world.baton.touched.read("line", "journal")
        if line != self._world.line and batch > len(self._sums):
            return
        expected = self._after(batch, code)
        expected = {key: expected[key] for key in _keys(batch)}
        if found != expected or rows != len(expected):
            self._report(f"batch {batch} with code {code} gives {found}, not {expected}")

    def _after(self, batch: int, code: int) -> Counter[str]:
        sums = Counter(self._sums[batch - 1])
        for key in _keys(batch):
            sums[key] += code
        return sums

    def committed(self, batch: int, code: int) -> None:
        """The driver has taken a batch that functions of this number have worked on."""
        self._sums.append(self._after(batch, code))
        blobs = self._world.committed[batch]
        if len(blobs) > _MOST_ENTRIES:
            self._report(f"the journal of batch {batch} has {len(blobs)} blobs: {sorted(blobs)}")

    def sums(self) -> list[list[tuple[str, int]]]:
        """What the committed batches come to, by key."""
        return [sorted(sums.items()) for sums in self._sums]

    def attempt_fails(self, batch: int, error: Exception) -> None:
        """An attempt ended with an error of the product's own, which takes two processes that die of it."""
        if self._world.struck.count("death") < 2:
            self._report(f"batch {batch} fails without a cause: {error}")

    def gives_up(self, waiting: "Member", silent: "Member") -> None:
        """A process waits no longer for another one."""
        if not silent.frozen:
            self._report(f"{waiting.name} gives {silent.name} up, which works")
        pair, now = (waiting.name, silent.name), self._world.elapsed
        if waiting.service is None and now - self._given_up.get(pair, -_REST_S) < _REST_S:
            self._report(f"{waiting.name} waits for {silent.name} again, which stood still before")
        self._given_up[pair] = now

    def goes_on(self, step: int) -> None:
        """The run has not ended after so many steps."""
        if step >= _MOST_STEPS:
            raise Failure(f"no end after {step} steps")

    def ends(self) -> None:
        """The run is over: all tasks have ended."""
        world = self._world
        stuck = [t.name for one in world.members if one.alive for t in one.tasks if not t.done]
        if stuck:
            raise Failure(f"waits for ever: {stuck}")
        if len(world.committed) <= world.scenario.batches:
            raise Failure(f"batch {len(world.committed)} was never committed")
        world.pause(400.0)  # Whoever stood still, or failed by chance, is asked again.
        for executor in range(world.scenario.executors):
            self._goes_on(executor)
        if self.found is not None:
            raise self.found

    def _goes_on(self, executor: int) -> None:
        """Quiet batches: from the second one on, the process that has the copy works on it, and reads no changelog."""
        world = self._world
        workers = [one for one in world.members if one.executor == executor and one.service is None]
        for further in range(_FURTHER):
            process = workers[further % len(workers)]
            read = world.reads
            world._begin(len(world.committed), process)
            self._play()
            if further > 1 and world.reads > read:
                self._report(f"executor {executor} restores in a quiet batch")
        store_id = Pointer.decode(world.committed[-1]["pointer"]).store_id
        holders = [one for one in workers if one.alive and any(name == store_id for name, _ in one.copies)]
        if holders:
            self._report(f"workers have copies of their own: {[one.name for one in holders]}")
        processes = [one for one in world.members if one.alive and one.service is not None]
        if len(processes) > world.scenario.executors:
            self._report(f"{len(processes)} processes for state")

    def _play(self) -> None:
        """All go on until nothing is left to do."""
        world = self._world
        while ready := [t for one in world.members if one.alive for t in one.tasks if t.can_go_on]:
            world.do(("run", ready[0].name))


def _keys(batch: int) -> tuple[str, ...]:
    from tests.protocol.executor_world import KEYS

    return KEYS[batch % len(KEYS)]
