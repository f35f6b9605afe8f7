"""The world of workers and of the processes that hold buckets' copies for them, on one machine with several executors."""

import atexit
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from operators import TumblingWindows
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.inputs.blobs import from_blobs, to_blobs
from operators.spark.replicas import where_held
from operators.spark.replicas.bucket_service import BucketService
from operators.spark.replicas.calls import Blobs, Functions, Origin, Request
from operators.spark.replicas.copies import drop_all
from operators.spark.replicas.local_files import UNUSED_S
from operators.spark.stream.job import Job
from serializers import SerializationError
from state_backends import StateError, resolve
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.journal import MemoryJournal
from tests.protocol.executor_judge import ExecutorJudge
from tests.protocol.footprints import Footprint
from tests.protocol.tasks import Baton, Task

Choice = tuple[str, ...]
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64())])
KEYS = ("a", "b", "a"), ("c", "a"), (), ("b", "b", "c")
"""The keys of the records of batches, in turn."""
HOME = Path(tempfile.mkdtemp(prefix="protocol-"))
"""Of this process; the configurations of jobs name it, and so it is the same in all runs."""
_PAUSES = {"400 s": 400.0, "2 h": 7_200.0}


@dataclass(frozen=True, slots=True)
class Executors:
    """What a run may do.

    Attributes:
        batches: that the driver wants.
        executors: on one machine, with the same directory for state.
        workers: of each executor.
        attempts: that a batch has beside its first, as long as that one goes on.
        faults: how many at most.
        allowed: which kinds of faults.
        functions: whether buckets call functions of users.
    """

    batches: int = 6
    executors: int = 2
    workers: int = 2
    attempts: int = 1
    faults: int = 3
    allowed: tuple[str, ...] = ("death", "failure", "freeze", "pause", "restart")
    functions: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Of the workers: a letter each."""
        return tuple(chr(65 + n) for n in range(self.executors * self.workers))

    def world(self) -> "ExecutorWorld":
        """A world in which this can happen."""
        return ExecutorWorld(self)


@dataclass(eq=False)
class Member:
    """A process of an executor: a worker, or one that holds copies.

    Attributes:
        name: a letter for a worker; "P1" and so on for one with copies.
        executor: its number.
        life: of the executor. One that died has a successor of its number.
        alive: whether it lives.
        frozen: whether it stands still.
        copies: what `operators.spark.replicas.copies` keeps in a process.
        resting: what `operators.spark.replicas.where_held` keeps in a process.
        turn: that of the main thread of one that holds copies.
        tasks: all that it began.
        service: of a process with copies.
        done: the steps of its tasks, with what they have seen.
        tokens: how many random tokens it has drawn.
    """

    name: str
    executor: int
    life: int
    alive: bool = True
    frozen: bool = False
    copies: dict[Any, Any] = field(default_factory=dict)
    resting: dict[str, float] = field(default_factory=dict)
    turn: "Turn | None" = None
    tasks: list[Task] = field(default_factory=list)
    service: BucketService | None = None
    done: list[object] = field(default_factory=list)
    tokens: int = 0

    @property
    def key(self) -> str:
        """Of its executor, as `Parent.key`."""
        return f"executor{self.executor}{self.life}"


class CountedJournal(MemoryJournal):
    """A bucket's journal of an attempt; the world counts what is read of it beside the pointer."""

    def __init__(self, world: "ExecutorWorld") -> None:
        super().__init__()
        self._world = world

    def get(self, name: str) -> bytes | None:
        """Return the blob, or None."""
        self._world.reads += name != "pointer"
        return super().get(name)


class Turn:
    """The main thread of a process: tasks of which each stands for a request wait for it."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._held = False

    def done(self) -> bool:
        """Whether one that waits can go on."""
        return not self._held

    def __enter__(self) -> None:
        task = self._baton.running
        while self._held and task is not None:
            task.stop(("wait", "turn"), changes=False, waits_for=self)
        self._held = True

    def __exit__(self, *error: object) -> None:
        self._held = False


@dataclass(eq=False)
class Attempt:
    """A task of the driver for a batch of a line: a restart of the query begins another line."""

    batch: int
    line: int
    process: Member
    task: Task


class End:
    """One end of a connection.

    Args:
        world: of the run.
        owner: the process.
    """

    def __init__(self, world: "ExecutorWorld", owner: Member) -> None:
        self._world = world
        self.owner = owner
        self.peer: End | None = None
        self.served = ""
        """The task of the process with copies: all that is done with the connection touches its name."""
        self.inbox: deque[bytes] = deque()
        self.closed = self.sends = False
        self.received = 0

    def __repr__(self) -> str:
        """The same in each run: what a task has seen is compared."""
        return f"End({self.owner.name})"

    def done(self) -> bool:
        """Whether what waits for a message goes on: one is there, or none will come, or nothing is heard for too long."""
        return bool(self.inbox) or self.ended() or self.is_silent()

    def ended(self) -> bool:
        """Whether the other process has closed the connection, or is dead."""
        return self.peer is None or self.peer.closed or not self.peer.owner.alive

    def is_silent(self) -> bool:
        """Whether neither messages nor signs of life come."""
        peer = self.peer
        if peer is None or peer.owner.frozen:
            return peer is not None
        service = peer.owner.service
        if service is None or not peer.received or peer.sends:
            return False
        return peer not in service._accepted

    @classmethod
    def to(cls, path: Path, patience_s: float) -> "End":
        """As `Connection.to`."""
        del patience_s
        return _world().connect(path.name)

    def send(self, message: bytes) -> None:
        """As `Connection.send`."""
        self.sends = True
        try:
            self._world.call(("send", str(len(message))), lambda: self._put(message))
        finally:
            self.sends = False

    def _put(self, message: bytes) -> None:
        self._world.baton.touched.use(self.served)
        if self.peer is None or self.has_ended():
            raise BrokenPipeError("the other process has ended")
        self.peer.inbox.append(message)

    def receive(self) -> bytes:
        """As `Connection.receive`."""
        self._world.wait(("receive",), self)
        self._world.baton.touched.use(self.served)
        self.received += 1
        if self.inbox:
            message = self.inbox.popleft()
            self._world.hears(message)
            return message
        if self.has_ended():
            raise EOFError("the connection was closed")
        self._world.baton.touched.read(f"pace of {self.peer.owner.name}")
        self._world.judge.gives_up(self.owner, self.peer.owner)
        raise TimeoutError("no sign of life")

    def has_ended(self) -> bool:
        """As `Connection.has_ended`."""
        if self.peer is not None:
            self._world.baton.touched.read(f"life of {self.peer.owner.name}")
        return self.ended()

    def sign(self) -> None:
        """As `Connection.sign`: `is_silent` knows."""

    def close(self) -> None:
        """As `Connection.close`."""
        self._world.baton.touched.use(self.served)
        self.closed = True

    def __enter__(self) -> "End":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_now: list["ExecutorWorld"] = []
"""The world of this moment."""


def _world() -> "ExecutorWorld":
    return _now[-1]


def plus(code: int, state: int) -> int:
    """Count a record, by the number of the code."""
    return state + code


atexit.register(shutil.rmtree, HOME, ignore_errors=True)


@cache
def job_of(code: int, functions: bool) -> tuple[Job, bytes]:
    """What buckets do in a run whose functions, if it has any, have this number; and what the driver sends."""
    config = resolve("memory", {"state.directory": str(HOME / "state"), "state.snapshots.batches": 2})
    op = TumblingWindows("1 hour").group_by("k")
    counted = agg.fold(int, partial(plus, code), type="bigint", name="counted") if functions else agg.count()
    op = op.aggregate(n=counted).emit("on_update")
    job = Job(op.bind(SCHEMA, "at", config), config, (0,), WatermarkRule())
    return job, cloudpickle.dumps(job)  # type: ignore[no-untyped-call]


class ExecutorWorld:
    """One run.

    Args:
        scenario: what may happen.
    """

    def __init__(self, scenario: Executors) -> None:
        self.scenario = scenario
        self.baton = Baton()
        self.baton.passed = self._passed
        self._clear()
        self.elapsed = 0.0
        self.line = self.lives = self.reads = self.started = 0
        self.origin, self.code = "run 0", 1
        self.members: list[Member] = []
        for number, name in enumerate(scenario.names):
            self.members.append(self._worker(name, number // scenario.workers, 0))
        self.sockets: dict[str, Member] = {}
        self.committed: list[dict[str, Any]] = [{}]
        self.attempts: list[Attempt] = []
        self.last: Task | None = None
        self._did: tuple[str, tuple[str, ...]] = ("", ())
        """The step that goes on: what was chosen, and the call."""
        self.struck: list[str] = []
        self.log: list[tuple[str, str]] = []
        self.judge = ExecutorJudge(self)

    def installed(self) -> AbstractContextManager[None]:
        """Have the product's modules use this world, as long as this lasts."""
        from tests.protocol.executor_install import installed

        return installed(self)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Be the world that connections belong to."""
        _now.append(self)
        try:
            yield
        finally:
            _now.pop()

    def close(self) -> None:
        """End all tasks."""
        for member in self.members:
            self._die(member)
        self._clear()

    @staticmethod
    def _clear() -> None:
        for path in HOME.iterdir():
            shutil.rmtree(path)

    # What the product asks.

    def member(self) -> Member:
        """The process that runs."""
        return self.baton.running.process if self.baton.running else self.judge.member

    def call(self, pending: tuple[str, ...], act: Callable[[], Any]) -> Any:
        """A call to the outside."""
        return self.baton.call(pending, act, changes=True)

    def wait(self, pending: tuple[str, ...], until: Any) -> None:
        """Wait for something of another task."""
        task = self.baton.running
        if task is None:
            self._let_others_work(until)
            return
        task.stop(pending, changes=False, waits_for=until)
        if task.fails is not None:
            task.fails = None
            raise ConnectionResetError("the connection is lost")

    def hears(self, message: bytes) -> None:
        """The task that runs has a message."""
        if self.baton.running is not None:
            self.baton.running.seen.update(message)

    def _let_others_work(self, until: Any) -> None:
        """The judge waits: the others go on."""
        while not until.done():
            ready = [t for one in self.members if not one.frozen for t in one.tasks if t.can_go_on]
            if not ready:
                raise AssertionError("the judge waits for ever")
            ready[0].resume()

    def connect(self, name: str) -> End:
        """A connection to the process of this name."""

        def act() -> End:
            if not self.living(name):
                raise ConnectionRefusedError(name)
            member = self.sockets[name]
            self.baton.touched.use(f"calls of {member.name}")
            mine, theirs = End(self, self.member()), End(self, member)
            mine.peer, theirs.peer = theirs, mine
            task = self._spawn(member, partial(self._serve, member, theirs), "serves")
            mine.served = theirs.served = task.name
            return mine

        return self.call(("connect", self._called(name)), act)

    @staticmethod
    def _serve(member: Member, task: End) -> None:
        """As the two threads of a process with copies: accept a connection, and work for whoever comes next."""
        assert member.service is not None
        assert member.turn is not None
        member.service.take(task)  # type: ignore[arg-type]
        with member.turn:
            member.service.serve_next(0.0)

    def living(self, name: str) -> str:
        """As `sockets.living`."""
        self.baton.touched.read("sockets")
        member = self.sockets.get(name)
        if member is not None:
            self.baton.touched.read(f"life of {member.name}")
        found = member.name if member is not None and member.alive else ""
        self.baton.heard(found)
        return found

    @staticmethod
    def socket_of(name: str) -> Path:
        """As `sockets.socket_of`."""
        return HOME / name

    def start(self, parent: Any, name: str) -> None:
        """As `starting.start`."""
        del parent
        caller = self.member()

        def act() -> None:
            if self.living(name):
                return
            self.baton.touched.use("sockets")
            member = Member(f"P{self.started}", caller.executor, caller.life)
            self.started += 1
            member.turn, member.service = Turn(self.baton), BucketService()
            self.members.append(member)
            self.sockets[name] = member
            self.tell(member.name, "starts")

        self.call(("start",), act)

    def sleep(self, seconds: float) -> None:
        """As `time.sleep`: others go on."""
        self.call(("sleep",), lambda: None)
        self.baton.touched.use("clock")
        self.elapsed += seconds

    def monotonic(self) -> float:
        """As `time.monotonic`."""
        self.baton.touched.read("clock")
        self.baton.heard(self.elapsed)
        return self.elapsed

    def token(self, size: int) -> bytes:
        """Random bytes that are the same in each run of the same choices."""
        member = self.member()
        member.tokens += 1
        told = f"{member.name} {member.life} {member.tokens}".encode()
        return blake2b(told, digest_size=size).digest()

    # What can happen.

    def options(self) -> list[Choice]:
        """What can happen next; the first is what happens in a quiet run. None when all is done."""
        going = [one for one in self.members if one.alive and not one.frozen]
        ready = [task for one in going for task in one.tasks if task.can_go_on]
        ready.sort(key=lambda task: task is not self.last)
        found: list[Choice] = [("run", task.name) for task in ready]
        batch = len(self.committed)
        if batch <= self.scenario.batches:
            found += self._starts(batch)
        frozen = [one for one in self.members if one.alive and one.frozen]
        found += [("thaw", one.name) for one in frozen]
        return found + self.late_faults(ready) if found else []

    def late_faults(self, ready: Sequence[Task] = ()) -> list[Choice]:
        """The faults that may come now, of calls or when none is left."""
        if len(self.struck) >= self.scenario.faults:
            return []
        return [choice for choice in self._faults(ready) if choice[0] in self.scenario.allowed]

    def unbegun(self) -> list[tuple[str, Footprint]]:
        """Attempts that might have begun at the end, had another one not come before."""
        found = []
        for worker in (one for one in self.members if one.service is None):
            touched = Footprint()
            touched.clear()
            self._begins(touched, worker)
            found.append((f"begin {worker.name}", touched))
        return found

    @staticmethod
    def _begins(touched: Footprint, worker: Member) -> None:
        touched.use(_place(worker), "begin")
        touched.read("journal", "line")

    def _starts(self, batch: int) -> list[Choice]:
        going = [one for one in self.attempts if not one.task.done]
        of_batch = [one for one in going if (one.batch, one.line) == (batch, self.line)]
        if len(of_batch) > self.scenario.attempts:
            return []
        busy = {one.process.name for one in going}
        workers = [one for one in self.members if one.service is None and not one.frozen]
        return [("begin", str(batch), one.name) for one in workers if one.name not in busy]

    def _faults(self, ready: Sequence[Task]) -> list[Choice]:
        outside = [
            task for task in ready if task.pending[0] not in ("begin", "commit", "wait", "choose", "sleep")
        ]
        living = [one for one in self.members if one.alive]
        active = [one for one in living if any(not task.done for task in one.tasks)]
        found: list[Choice] = [("death", one.name) for one in active]
        found += [("death", f"executor {number}") for number in range(self.scenario.executors)]
        found += [("failure", task.name) for task in outside]
        found += [("freeze", one.name) for one in active if not one.frozen]
        found += [("pause", name) for name in _PAUSES]
        found += [("restart", "new run"), ("restart", "same name")]
        return found

    def do(self, choice: Choice) -> None:
        """Let one thing happen.

        Raises:
            Failure: the judge found something.
        """
        what, *names = choice
        self.baton.touched.clear()
        if what in ("death", "failure", "freeze", "pause", "restart"):
            self.struck.append(what)
            self.tell("fault", " ".join(choice))
        if what in ("run", "failure"):
            task = next(t for one in self.members for t in one.tasks if t.name == names[0])
            self._told(task, what)
            self.last = task
            self.baton.touched.use(_place(task.process), task.name)
            self._did = what, task.pending
            task.resume("before" if what == "failure" else None)
            task.process.done.append((task.name, *self._did, task.seen.digest()))
            batches = [(one.batch, one.line) for one in self.attempts if one.task is task and task.done]
            if (len(self.committed), self.line) in batches:
                self.baton.touched.change("begin")
        elif what == "begin":
            self._begin(int(names[0]), self._named(names[1]))
        elif what == "thaw":
            member = self._named(names[0])
            self.baton.touched.use(_place(member), f"pace of {member.name}", "begin")
            member.frozen = False
            self.tell(names[0], "goes on")
        else:
            self._strike(what, names[0])
        if self.baton.crashed is not None:
            raise self.baton.crashed
        if self.judge.found is not None:
            raise self.judge.found

    def _told(self, task: Task, what: str) -> None:
        suffix = "" if what == "run" else "  ! failure"
        self.tell(task.process.name, f"{task.name}: {' '.join(task.pending)}{suffix}")

    def _passed(self, task: Task) -> None:
        """A task has done a step, and goes on with the next one."""
        task.process.done.append((task.name, *self._did, task.seen.digest()))
        self._did = "run", task.pending
        self._told(task, "run")

    def _strike(self, what: str, name: str) -> None:
        """Let a fault happen that is not that of a call."""
        if what == "death" and name.startswith("executor"):
            self._executor_dies(int(name.split()[1]))
        elif what == "death":
            self._dies(self._named(name))
        elif what == "freeze":
            member = self._named(name)
            self.baton.touched.use(_place(member), f"pace of {member.name}", "begin")
            member.frozen = True
        elif what == "pause":
            self.baton.touched.everything()
            self.pause(_PAUSES[name])
        elif what == "restart":
            self.baton.touched.use("line", "begin", "journal")
            self.line += 1
            self.code += self.scenario.functions
            if name == "new run":
                self.origin = f"run {self.line}"

    def pause(self, seconds: float) -> None:
        """Let time pass; processes without work end, as `state_process` has it."""
        self.elapsed += seconds
        for member in [*self.members]:
            service = member.service
            busy = member.frozen or any(not task.done for task in member.tasks)
            if member.alive and not busy and service is not None and service.idle_s() > UNUSED_S:
                self.act_in(member, drop_all)
                self._die(member)

    def act_in(self, member: Member, act: Callable[[], Any]) -> Any:
        """Call a function as a process, without a stop."""
        found: list[Any] = []
        task = Task(self.baton, f"{member.name} acts", member, lambda: found.append(act()))
        while not task.done:
            task.resume()
        return found[0] if found else None

    def _executor_dies(self, number: int) -> None:
        self.lives += 1
        for member in [one for one in self.members if one.executor == number and one.alive]:
            self._die(member)
            if member.service is None:
                at = self.members.index(member)
                self.members[at] = self._worker(member.name, number, self.lives)

    def _dies(self, member: Member) -> None:
        self._die(member)
        if member.service is None:
            self.members[self.members.index(member)] = self._worker(member.name, member.executor, member.life)

    def _die(self, member: Member) -> None:
        self.baton.touched.use(_place(member), f"life of {member.name}", "begin", "claims")
        member.alive = False
        for task in member.tasks:
            task.end()
        for copy in member.copies.values():
            copy.lock.release()
        member.copies.clear()
        self.baton.crashed = None

    @staticmethod
    def _worker(name: str, executor: int, life: int) -> Member:
        return Member(name, executor, life)

    def _begin(self, batch: int, process: Member) -> None:
        self._begins(self.baton.touched, process)
        task = self._spawn(process, self.attempt(batch, process), f"batch {batch}")
        self.attempts.append(Attempt(batch, self.line, process, task))
        self.tell(process.name, f"{task.name}: begins")
        self.last = task

    def attempt(self, batch: int, process: Member) -> Callable[[], None]:
        """An attempt of a batch in a process, as a function."""
        journal = CountedJournal(self)
        journal._blobs = dict(self.committed[batch - 1])
        line, code, origin = self.line, self.code, Origin(self.origin, f"code {self.code}")

        def act() -> None:
            job, pickled = job_of(code, self.scenario.functions)
            pointer = read_pointer(journal) or Pointer.fresh()
            request = Request(pointer, 0, batch, Call(1, batch), Blobs(blobs_of(batch)), begins=batch == 1)
            functions = Functions(origin, "warning", pickled)
            try:
                outcome = where_held.run_where_held(job, functions, journal, request, 0)
            except (StateError, SerializationError, OSError) as error:
                self.tell(process.name, f"batch {batch} fails: {error}")
                self.judge.attempt_fails(batch, error)
                return
            rows = [row for table in from_blobs(outcome.blobs) for row in table.to_pylist()]
            found = {row["k"]: row["n"] for row in rows}
            self.judge.worked(batch, line, code, found, len(rows))
            self.baton.call(("commit", str(batch)), lambda: self._commit(batch, line, code, journal))

        return act

    def _commit(self, batch: int, line: int, code: int, journal: MemoryJournal) -> None:
        """The driver takes the first attempt of the batch that it waits for."""
        self.baton.touched.read("journal", "line")
        if (batch, line) == (len(self.committed), self.line):
            self.baton.touched.change("journal")
            self.committed.append(journal._blobs)
            self.judge.committed(batch, code)

    def state(self) -> bytes:
        """All that the rest of the run depends on, as a hash: of each process what it did and heard, in its order."""
        found = blake2b(digest_size=16)
        listening = sorted((name, member.name) for name, member in self.sockets.items())
        told = [
            [self.judge.sums(), self.line, self.code, self.origin, self.elapsed, sorted(self.struck)],
            [listening, [sorted(blobs) for blobs in self.committed[-1:]]],
            [
                (
                    one.name,
                    one.life,
                    one.alive,
                    one.frozen,
                    one.done,
                    sorted(one.resting.items()),
                    [_stop(task) for task in one.tasks if not task.done],
                )
                for one in self.members
            ],
        ]
        found.update(repr(told).encode())
        return found.digest()

    def tell(self, column: str, text: str) -> None:
        """Add a line to the drawing."""
        self.log.append((column, text))

    def _called(self, socket: str) -> str:
        member = self.sockets.get(socket)
        return "nobody" if member is None else member.name

    def _named(self, name: str) -> Member:
        return next(one for one in self.members if one.name == name and one.alive)

    def _spawn(self, process: Member, act: Callable[[], None], what: str) -> Task:
        name = f"{process.name}.{process.life}.{len(process.tasks)} {what}"
        process.tasks.append(Task(self.baton, name, process, act))
        self.baton.touched.change(name)
        return process.tasks[-1]


def _place(member: Member) -> str:
    """What the tasks of one process share."""
    return f"process {member.name}"


def _stop(task: Task) -> object:
    """Where a task stands."""
    return task.name, task.pending, task.waits_for is None or task.waits_for.done()


@cache
def blobs_of(batch: int) -> list[bytes]:
    """The records of a batch, as tasks send them."""
    keys = KEYS[batch % len(KEYS)]
    job, _ = job_of(1, functions=True)
    table = pa.table({"k": list(keys), "at": [1_000 + batch] * len(keys)}, SCHEMA)
    return [*to_blobs(table.rename_columns(list(job.binding.inputs.names)))] if keys else []
