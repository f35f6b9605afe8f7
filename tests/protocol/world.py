"""The world of one run: processes, their clocks, the driver with its batches, and what can happen next."""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from serializers import SerializationError
from state_backends.contract import Pages, applied
from state_backends.durability.durable import Durable
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress
from state_backends.errors import StateError
from state_backends.journal import MemoryJournal
from tests.protocol.footprints import Footprint
from tests.protocol.judge import Failure, Judge
from tests.protocol.state import BACKENDS, batch_of
from tests.protocol.storage import Storage
from tests.protocol.tasks import Baton, SimulatedExecutor, Task

START = 1_000_000_000.0
FAULTS = ("death", "failure", "lost answer", "power", "clock", "return", "read", "freeze", "pause", "restart")
_JUMPS = {"10 s": 10.0, "20 min": 1_200.0, "3 h": 10_800.0, "-1 day": -86_400.0}
Choice = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a run may do.

    Attributes:
        kind: of the copies: "memory" or "files".
        disk: whether the folder is a disk, not an object store.
        batches: that the driver wants.
        processes: that attempts run in.
        attempts: that a batch has beside its first, as long as that one goes on: speculative ones.
        faults: how many at most.
        allowed: which kinds of faults.
        every: batches until a snapshot is due.
        retain: batches that a replaced snapshot is kept for.
        one_host: whether all processes are on one host, and so can see that another has ended.
    """

    kind: str = "memory"
    disk: bool = False
    batches: int = 3
    processes: int = 2
    attempts: int = 1
    faults: int = 1
    allowed: tuple[str, ...] = ("death", "failure", "lost answer", "clock")
    every: int = 1
    retain: int = 1
    one_host: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Of the processes: a letter each."""
        return tuple(chr(65 + n) for n in range(self.processes))

    def world(self) -> "World":
        """A world in which this can happen."""
        return World(self)


@dataclass(eq=False)
class Process:
    """A worker process. One that died has a successor of its name.

    Attributes:
        name: a letter.
        host: where it runs.
        number: its process id; no two ever have the same.
        skew: how far its clock is ahead, in seconds.
        alive: whether it lives.
        copies: the open copies of states, by name of the state.
        tasks: all that it began.
        opened: the copies that it has not closed.
    """

    name: str
    host: str
    number: int = 1
    skew: float = 0.0
    alive: bool = True
    copies: dict[str, Durable] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    opened: list[Durable] = field(default_factory=list)


@dataclass(eq=False)
class Attempt:
    """A task of the driver for a batch.

    Attributes:
        batch: its number.
        line: which line of batches it belongs to; a return to an earlier batch begins another.
        process: that it runs in.
        task: its code.
    """

    batch: int
    line: int
    process: Process
    task: Task


class World:
    """One run.

    Args:
        scenario: what may happen.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.baton = Baton()
        self.baton.passed = lambda task: self._told(task, "run")
        self.storage = Storage(self.baton, self, disk=scenario.disk)
        self.uri = "/simulated" if scenario.disk else "s3://simulated"
        self.policy = SnapshotPolicy(self.uri, bytes=1 << 40, batches=scenario.every, retain=scenario.retain)
        self.home = tempfile.TemporaryDirectory(prefix="protocol-", dir=_memory())
        self.processes = [
            Process(name, "host" if scenario.one_host else f"host-{n}", n + 1)
            for n, name in enumerate(scenario.names)
        ]
        self.opened: list[Durable] = []
        """All copies that there were."""
        self.readers: list[Process] = []
        """Processes that read the state of a committed batch while the query goes on."""
        self.ended: set[tuple[str, int]] = set()
        self.committed: list[dict[str, Any]] = [{}]
        self.numbers = scenario.processes
        """Processes that there were."""
        self.line = 0
        self.elapsed = 0.0
        self.latest = 0
        """The highest batch that was ever begun."""
        self.attempts: list[Attempt] = []
        self.last: Task | None = None
        self.struck: list[str] = []
        self.log: list[tuple[str, str]] = []
        self.judge = Judge(self)

    def installed(self) -> AbstractContextManager[None]:
        """Have the product's modules use this world, as long as this lasts."""
        from tests.protocol.install import installed

        return installed(self)

    @property
    def everyone(self) -> list[Process]:
        """All processes that have tasks."""
        return [*self.processes, *self.readers]

    def close(self) -> None:
        """End all tasks, and let go of what ended processes would no longer hold."""
        for process in self.everyone:
            self._die(process, restart=False)
        for copy in self.opened:
            held, copy._uploads.scratch._lock = copy._uploads.scratch._lock, None
            if held is not None:
                os.close(held)
        self.home.cleanup()

    # What the product asks.

    def process(self) -> Process:
        """The process that runs."""
        return self.baton.running.process if self.baton.running else self.judge.process

    def now(self) -> float:
        """The time by the clock of the process that runs."""
        process = self.process()
        self.baton.touched.read("clock", f"clock {process.name}")
        found = START + self.elapsed + process.skew
        self.baton.heard(found)
        return found

    def storage_time(self) -> float:
        """The time by the clock of the storage."""
        self.baton.touched.read("clock")
        return START + self.elapsed

    def token(self, size: int) -> bytes:
        """Random bytes: never the same, and the same in each run in which the task does the same."""
        drawing = self.baton.running or self.judge
        drawing.tokens += 1
        return blake2b(f"{drawing.name} {drawing.tokens}".encode(), digest_size=size).digest()

    def executor(self) -> SimulatedExecutor:
        """A thread of the process that runs."""
        process = self.process()

        def spawn(act: Callable[[], None], what: str) -> Task | None:
            return None if process is self.judge.process else self._spawn(process, act, what)

        return SimulatedExecutor(self.baton, spawn)

    def kill(self, number: int, signal: int) -> None:
        """As `os.kill` with signal 0 on the host of the process that runs."""
        assert signal == 0
        self.baton.touched.read(f"life of {number}")
        host = self.process().host
        lives = any(one.alive and one.host == host and one.number == number for one in self.processes)
        self.baton.heard(lives)
        if not lives:
            raise ProcessLookupError(number)

    def manifests(self, *, changes: bool) -> None:
        """Tasks of one process share the manifests that it knows."""
        name = f"manifests {_place(self.process())}"
        self.baton.touched.read(name)
        if changes:
            self.baton.touched.change(name)

    def beginning(self, number: int) -> str | None:
        """When a process began."""
        return f"boot-{number}"

    def changed(self, path: str) -> None:
        """A file was written, moved or removed."""
        self.judge.look(path)
        if self.process() in self.readers:
            self.judge.reader_writes(path)

    # What can happen.

    def options(self) -> list[Choice]:
        """What can happen next; the first is what happens in a quiet run. None when all is done."""
        ready = [task for process in self.everyone for task in process.tasks if task.can_go_on]
        ready.sort(key=lambda task: task is not self.last)
        found: list[Choice] = [("run", task.name) for task in ready]
        batch = len(self.committed)
        if batch <= self.scenario.batches:
            found += self._starts(batch)
        return found + self.late_faults(ready) if found else []

    def late_faults(self, ready: Sequence[Task] = ()) -> list[Choice]:
        """The faults that may come now, of calls or when none is left."""
        if len(self.struck) >= self.scenario.faults:
            return []
        return [choice for choice in self._faults(ready) if choice[0] in self.scenario.allowed]

    def unbegun(self) -> list[tuple[str, Footprint]]:
        """Attempts that might have begun at the end, had another one not come before."""
        found = []
        for process in self.processes:
            touched = Footprint()
            touched.clear()
            touched.use(f"idle {process.name}", "begin")
            touched.read("journal", "latest", _place(process))
            found.append((f"begin {process.name}", touched))
        return found

    def _starts(self, batch: int) -> list[Choice]:
        going = [one for one in self.attempts if not one.task.done]
        of_batch = [one for one in going if (one.batch, one.line) == (batch, self.line)]
        if len(of_batch) > self.scenario.attempts:
            return []
        busy = {id(one.process) for one in going}
        idle = [one for one in self.processes if id(one) not in busy]
        # Those that have done nothing yet differ only by their names.
        fresh = [one for one in idle if not one.tasks and not one.skew]
        return [("begin", str(batch), one.name) for one in idle if one not in fresh[1:]]

    def _faults(self, ready: Sequence[Task]) -> list[Choice]:
        outside = [task for task in ready if task.pending[0] not in ("begin", "commit", "wait")]
        found: list[Choice] = [("death", one.name) for one in self.processes if one.tasks]
        found += [("failure", task.name) for task in outside]
        found += [("lost answer", task.name) for task in outside if task.changes]
        if self.scenario.disk:
            found += [("power", "names"), ("power", "bytes")]
        found += [("clock", one.name, jump) for one in self.processes for jump in _JUMPS]
        found += [("clock", "all", jump) for jump, seconds in _JUMPS.items() if seconds > 0]
        least = max(self.latest - self.scenario.retain, 0)
        found += [("return", str(batch)) for batch in range(least, len(self.committed) - 1)]
        found += [("read", str(batch)) for batch in range(max(least, 1), len(self.committed))]
        return found

    def do(self, choice: Choice) -> None:
        """Let one thing happen.

        Raises:
            Failure: the judge found something.
        """
        what, *names = choice
        self.baton.touched.clear()
        if what in FAULTS:
            self.struck.append(what)
            self.tell("fault", " ".join(choice))
        if what in ("run", "failure", "lost answer"):
            task = self._task(names[0])
            self._told(task, what)
            self.last = task
            self.baton.touched.read(_place(task.process), task.name)
            task.resume({"failure": "before", "lost answer": "after"}.get(what))
            if task.done:
                self._frees(task)
        elif what == "begin":
            self._begin(int(names[0]), self._process(names[1]))
        else:
            self._strike(what, names)
        if self.baton.crashed is not None:
            raise self.baton.crashed
        if self.judge.found is not None:
            raise self.judge.found

    def _strike(self, what: str, names: list[str]) -> None:
        """Let a fault happen that is not that of a call."""
        touched = self.baton.touched
        if what == "death":
            process = self._process(names[0])
            touched.use(_place(process), f"idle {process.name}", "begin", f"life of {process.number}")
            self._die(process)
        elif what == "power":
            touched.everything()
            for process in list(self.processes):
                self._die(process)
            self.storage.lose_power(names[0] == "bytes")
            self.judge.look_at_all()
        elif what == "clock" and names[0] == "all":
            touched.use("clock")
            self.elapsed += _JUMPS[names[1]]
        elif what == "clock":
            touched.use(f"clock {names[0]}", "begin")
            self._process(names[0]).skew += _JUMPS[names[1]]
        elif what == "return":
            touched.everything()
            del self.committed[int(names[0]) + 1 :]
            self.line += 1
            self.judge.returned()
        elif what == "read":
            self._read(int(names[0]))

    def state(self) -> bytes:
        """All that the rest of the run depends on, as a hash."""
        found = blake2b(digest_size=16)
        told = [
            self.storage.state(),
            [self.judge.digests, self.line, self.latest, self.elapsed, sorted(self.struck)],
            [
                (
                    one.name,
                    one.number,
                    one.skew,
                    [(name, _known(copy)) for name, copy in sorted(one.copies.items())],
                    [sorted(copy._uploads._manifests) for copy in one.opened],
                    sorted(map(_memory_of, one.tasks)),
                )
                for one in self.everyone
            ],
        ]
        found.update(repr(told).encode())
        return found.digest()

    def tell(self, column: str, text: str) -> None:
        """Add a line to the drawing."""
        self.log.append((column, text))

    def _told(self, task: Task, what: str) -> None:
        words = [part.removeprefix(self.uri).removeprefix("simulated") for part in task.pending]
        suffix = "" if what == "run" else f"  ! {what}"
        self.tell(task.process.name, f"{task.name}: {' '.join(words)}{suffix}")

    def _task(self, name: str) -> Task:
        return next(task for one in self.everyone for task in one.tasks if task.name == name)

    def _process(self, name: str) -> Process:
        return next(one for one in self.processes if one.name == name)

    def _spawn(self, process: Process, act: Callable[[], None], what: str) -> Task:
        name = f"{process.name}{process.number}.{len(process.tasks)} {what}"
        self.baton.touched.change(name)
        process.tasks.append(Task(self.baton, name, process, act))
        return process.tasks[-1]

    def _die(self, process: Process, *, restart: bool = True) -> None:
        process.alive = False
        for task in process.tasks:
            task.end()
        self.baton.crashed = None
        if restart:
            self.numbers += 1
            number = self.numbers
            at = self.processes.index(process)
            self.processes[at] = Process(process.name, process.host, number, process.skew)

    def _frees(self, task: Task) -> None:
        """A task has ended: if it was an attempt, others may begin."""
        for one in self.attempts:
            if one.task is task:
                self.baton.touched.change(f"idle {one.process.name}")
                if (one.batch, one.line) == (len(self.committed), self.line):
                    self.baton.touched.change("begin")

    def _begin(self, batch: int, process: Process) -> None:
        self.baton.touched.use(f"idle {process.name}", "begin")
        self.baton.touched.read("journal", "latest", _place(process))
        if batch > self.latest:
            self.baton.touched.change("latest")
        journal = MemoryJournal()
        journal._blobs = dict(self.committed[batch - 1])
        line, self.latest = self.line, max(self.latest, batch)
        before = self.judge.pages[batch - 1]

        def act() -> None:
            self._attempt(batch, line, process, journal, before)

        task = self._spawn(process, act, f"batch {batch}")
        task.seen.update("".join(self.judge.digests[:batch]).encode())
        self.attempts.append(Attempt(batch, line, process, task))
        self.tell(process.name, f"{task.name}: begins")
        self.last = task

    def _attempt(
        self, batch: int, line: int, process: Process, journal: MemoryJournal, before: Pages
    ) -> None:
        pointer = read_pointer(journal) or Pointer.fresh()
        copy = process.copies.pop(pointer.store_id, None) or self.copy(process)
        self.baton.heard(_known(copy)[:2])
        try:
            done = copy.align(journal, pointer)
            self.judge.begins(copy, batch, before)
            changes = batch_of(batch, copy.backend, self.token(4))
            copy.commit(journal, done.pointer, changes, Progress(), batch)
        except (StateError, SerializationError, OSError) as error:
            self.tell(process.name, f"batch {batch} fails: {error}")
            self.judge.attempt_fails(batch, line, error)
            copy.close()
            process.opened.remove(copy)
            return
        self.baton.call(
            ("commit", str(batch)), lambda: self._commit(batch, line, journal, applied(before, changes))
        )
        process.copies[pointer.store_id] = copy

    def _read(self, batch: int) -> None:
        """Read the state after a batch, as `open_bucket` does it."""
        reader = Process("R", "elsewhere", 2_000)
        self.baton.touched.use(_place(reader))
        self.baton.touched.read("journal", "latest")
        self.readers.append(reader)
        journal, pages = self.judge.journal(batch), self.judge.pages[batch]

        def act() -> None:
            scratch, kind = Path(self.home.name, "R"), self.scenario.kind
            copy = Durable(
                BACKENDS[kind].open(scratch, {}), kind, scratch, SnapshotPolicy(None, retain=2**62)
            )
            self.opened.append(copy)
            try:
                copy.align(journal, read_pointer(journal))
            except (StateError, SerializationError, OSError) as error:
                self.tell("R", f"reading batch {batch} fails: {error}")
                self.judge.reading_fails(batch, error)
            else:
                self.judge.begins(copy, batch + 1, pages)
            copy.close()

        self._spawn(reader, act, f"reads {batch}")

    def copy(self, process: Process) -> Durable:
        """A new copy in a process."""
        scratch = Path(self.home.name, f"{process.name}{process.number}")
        kind = self.scenario.kind
        copy = Durable(BACKENDS[kind].open(scratch, {}), kind, scratch, self.policy)
        self.opened.append(copy)
        process.opened.append(copy)
        return copy

    def _commit(self, batch: int, line: int, journal: MemoryJournal, pages: Pages) -> None:
        """The driver takes the first attempt of the batch that it waits for."""
        self.baton.touched.read("journal")
        if (batch, line) == (len(self.committed), self.line):
            self.baton.touched.change("journal")
            self.committed.append(journal._blobs)
            self.judge.committed(batch, pages)


def _place(process: Process) -> str:
    """What tasks of one process share."""
    return f"process {process.name}{process.number}"


def _memory_of(task: Task) -> tuple[object, ...]:
    """What a task has seen; of one that has ended only what its process still knows counts."""
    if task.done:
        return task.name, True
    return task.name, False, task.seen.digest(), task.pending, task.future and task.future.state


def _known(copy: Durable) -> tuple[object, ...]:
    """What an open copy knows. The version says which pages, the name of a snapshot which files."""
    uploads, schedule = copy._uploads, copy._schedule
    told = schedule._warned, schedule._late, schedule._looked
    writing = [(future.state, repr(future.error)) for future in uploads._writing.values()]
    return copy.backend.version, (told, sorted(uploads._writing)), writing, sorted(uploads._manifests)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - named in a unique folder below it


__all__ = ["FAULTS", "Choice", "Failure", "Process", "Scenario", "World"]
