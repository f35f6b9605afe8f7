"""A process that lets others work with a store and be killed, and looks at what each of them leaves.

It forks one process for each kill. So it never opens a store itself: many libraries do not work in a process that was
forked while they were in use. On systems without fork it is not imported.
"""

import json
import os
import random
import resource
import shutil
import signal
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

from serializers import CorruptDataError
from state_backends.contract.lines import Lines, Moment, Place, chosen
from state_backends.contract.states import FAR, Pages, applied, assert_holds, fail
from state_backends.errors import StateError
from state_backends.interface import StateBackend, WriteBatch
from state_backends.registry import load_backend

KILLED = "a process that is killed at any moment leaves the state after some write, whole, or an empty store"
FAILED = "a store that an error interrupts, and that is closed, opens as the state after some write, whole, or empty"
_CYCLE = 8
_RESTORES = 6
_MOST_FILE_BYTES = (4_096, 100_000, 500_000)
_RAISED = {
    "write": (StateError,),
    "snapshot": (StateError, OSError),
    "restore": (StateError, CorruptDataError),
}
FULL = "where a file cannot grow, a call raises StateError, and write and snapshot leave the store as it was"
_LONGEST_SECONDS = 0.02
_SMALL, _LARGE = 2_000, 300_000
"""Bytes of the largest pages: of those that are killed at lines, and of those at moments, whose calls shall last."""
Answer = dict[str, Any]


def batch_of(number: int, step: int, largest: int) -> WriteBatch:
    """Return what a process writes in a step: now and then a whole state, otherwise changes of every kind."""
    rng = random.Random(number * 1_000_003 + step)

    def pages(*keys: bytes) -> dict[bytes, bytes]:
        return {key: b"%d-%d " % (number, step) + rng.randbytes(rng.choice([0, 90, largest])) for key in keys}

    if step % _CYCLE == 0:
        return WriteBatch({n: pages(b"a", b"b", b"c") for n in range(-2, 5)}, {}, FAR + 1)
    late = {n: pages(b"b", b"d") for n in (2, step + 5, step + 6)}
    return WriteBatch({-1: pages(b"e"), **late}, {2: {b"a", b"c"}, 4: {b"a"}}, min(step, 2))


def state_of(number: int, step: int, largest: int) -> Pages:
    """Return the pages after that step."""
    pages: Pages = {}
    for n in range(step - step % _CYCLE, step + 1):
        pages = applied(pages, batch_of(number, n, largest))
    return pages


def name_of(number: int, step: int) -> bytes:
    """Return the version after that step."""
    return b"%d-%d" % (number, step)


def torment(name: str, directory: str, options: Mapping[str, str], how: str, seed: int, kills: int) -> None:
    """Kill or fail processes that work with a store; print what was found wrong, or how many there were, as JSON.

    Args:
        name: the name of the backend, as in the configuration.
        directory: where all stores and copies are.
        options: the options of the backend.
        how: "kill" at lines, "fail" at lines, kill at "moments", or a "full" disk.
        seed: the seed of the moments.
        kills: how many of them.
    """
    largest = _LARGE if how in {"moments", "full"} else _SMALL
    tormentor = _Tormentor(load_backend(name), Path(directory), options, largest)
    try:
        if how == "moments":
            tormentor.kill_at_moments(random.Random(seed), kills)
        elif how == "kill":
            tormentor.kill_at_lines()
        elif how == "full":
            tormentor.fill_the_disk()
        else:
            tormentor.fail_at_lines()
    except AssertionError as broken:
        print(json.dumps({"failure": str(broken)}))
    else:
        print(json.dumps({"rounds": tormentor.rounds}))


@dataclass(slots=True)
class _Left:
    """A store that a process left, and what happened to that process."""

    directory: Path
    story: str


class _Tormentor:
    """The rounds: in each the store that was left last is looked at, prepared and worked with until something happens."""

    def __init__(
        self, backend: type[StateBackend], root: Path, options: Mapping[str, str], largest: int
    ) -> None:
        self.rounds = 0
        self._largest = largest
        self._backend = backend
        self._root = root
        self._options = options
        self._left: _Left | None = None
        self._promise = KILLED

    def kill_at_lines(self) -> None:
        """Kill at each line of each call, once for each."""
        for call in ("write", "clear", "snapshot", "restore", "close", "open"):
            places = self._places(call)
            for at in chosen(places):
                where = f"killed in {call}{_at(at)}"
                self._round(where, call, partial(self._work, call, Lines(at, _kill)))
        self._looked_at_last()

    def fail_at_lines(self) -> None:
        """Raise an error at each line of each call, once for each."""
        self._promise = FAILED
        for call in ("write", "clear", "snapshot", "restore"):
            places = self._places(call)
            answer = _forked(partial(self._fail, call, places))
            self.rounds = answer["rounds"]

    def kill_at_moments(self, rng: random.Random, kills: int) -> None:
        """Kill while writes, drops, snapshots, restores and clears follow one another at full speed."""
        for _ in range(kills):
            seconds = rng.uniform(0.0001, _LONGEST_SECONDS)
            self._round("killed at a moment", "", partial(self._work_until, seconds))
        self._looked_at_last()

    def fill_the_disk(self) -> None:
        """Let no file become larger than this or that, and end the process, or fail its call, where one would."""
        for call in filter(self._has, ("write", "snapshot", "restore")):
            for most, ends in product(_MOST_FILE_BYTES, (True, False)):
                what = "killed" if ends else "failed"
                story = f"{what} in {call}, files of {most:,} bytes at most"
                self._round(story, call, partial(self._work_in_little_space, call, most, ends))
        self._looked_at_last()

    def _has(self, call: str) -> bool:
        return self._backend.snapshots or call not in {"snapshot", "restore"}

    def _places(self, call: str) -> list[Place]:
        """The lines that a call runs; none if the backend does not have it."""
        if not self._has(call):
            return []
        lines = Lines()

        def work() -> Answer:
            self._work(call, lines)
            return {"seen": lines.seen}

        answer = self._round(f"ended after {call}", call, work)
        return [(file, line) for file, line in answer["seen"]]

    def _round(self, story: str, call: str, work: Callable[[], Answer | None]) -> Answer:
        """Fork a process that looks at what the one before it left, and works until it is killed."""
        self.rounds += 1
        before = self._left
        self._left = _Left(self._directory(call), f"{story}, round {self.rounds}")

        def round_() -> Answer | None:
            self._look_at(before)
            return work()

        return _forked(round_)

    def _directory(self, call: str) -> Path:
        return self._root / (f"new-{self.rounds}" if call == "open" else "store")

    def _looked_at_last(self) -> None:
        _forked(lambda: self._look_at(self._left))

    def _look_at(self, left: _Left | None) -> None:
        """Open what was left, compare it with the state of its version, and write the next round's first state."""
        if left is None:
            return
        promise = f"{self._promise} ({left.story})"
        try:
            self._compare(left.directory, promise)
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - any error breaks the promise
            where = traceback.format_tb(error.__traceback__)[-1].strip()
            fail(promise, f"it raised {error!r}\n  {where}")

    def _compare(self, directory: Path, promise: str) -> None:
        with closing(self._backend.open(directory, self._options)) as backend:
            assert_holds(backend, self._known(backend.version, promise), backend.version, promise)
            self._write(backend, 0)
            first = state_of(self.rounds, 0, self._largest)
            assert_holds(backend, first, name_of(self.rounds, 0), f"{promise}, and can be written")

    def _known(self, version: bytes | None, promise: str) -> Pages:
        if version is None:
            return {}
        number, _, step = version.partition(b"-")
        if not (number.isdigit() and step.isdigit() and int(number) <= self.rounds):
            fail(promise, f"its version is {version!r}, which no write gave")
        return state_of(int(number), int(step), self._largest)

    def _write(self, backend: StateBackend, step: int) -> None:
        backend.write(batch_of(self.rounds, step, self._largest), name_of(self.rounds, step))

    def _prepared(self) -> StateBackend:
        """The store with the first state of this round; it was written before the store was opened, if it outlives that."""
        backend = self._backend.open(self._root / "store", self._options)
        if backend.version != name_of(self.rounds, 0):
            self._write(backend, 0)
        return backend

    def _work(self, call: str, lines: Lines) -> None:
        """Make one call, watched."""
        act = self._call(call)
        with lines.watched():
            act()

    def _call(self, call: str) -> Callable[[], object]:
        """A call to a new store, or to one that is prepared for it."""
        if call == "open":
            return lambda: self._backend.open(self._directory(call), self._options)
        return self._call_to(self._prepared(), call)

    def _call_to(self, backend: StateBackend, call: str) -> Callable[[], object]:
        copy = self._root / f"copy-{self.rounds}"
        if call == "restore":
            backend.snapshot(copy)
        if call in {"restore", "close"}:
            self._write(backend, 1)
        return {
            "write": lambda: self._write(backend, 1),
            "clear": backend.clear,
            "snapshot": lambda: backend.snapshot(copy),
            "restore": lambda: backend.restore(copy),
            "close": backend.close,
        }[call]

    def _fail(self, call: str, places: list[Place]) -> Answer:
        """Raise at each line, in this process."""
        for at in chosen(places):
            self.rounds += 1
            self._look_at(self._left)
            self._left = _Left(self._directory(call), f"MemoryError in {call}{_at(at)}, round {self.rounds}")
            backend = self._prepared()
            self._interrupt(self._call_to(backend, call), at)
            self._close(backend, self._left.story)
        self._look_at(self._left)
        return {"rounds": self.rounds}

    def _work_in_little_space(self, call: str, most: int, ends: bool) -> None:
        """Make one call while no file may grow beyond so many bytes: that ends the process, or the call."""
        backend = self._prepared()
        act = self._call_to(backend, call)
        before, promise = backend.version, f"{FULL} ({call}, files of {most:,} bytes at most)"
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if ends else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        try:
            act()
        except _RAISED[call]:
            if call != "restore":
                assert_holds(backend, self._known(before, promise), before, promise)
        except Exception as error:  # noqa: BLE001 - any other error breaks the promise
            fail(promise, f"it raised {error!r}")
        self._close(backend, promise)

    def _interrupt(self, act: Callable[[], object], at: Moment) -> None:
        lines = Lines(at, _raise)
        try:
            with lines.watched():
                act()
        except Exception:  # noqa: BLE001, S110 - a backend may raise its own error in place of ours
            pass

    def _close(self, backend: StateBackend, story: str) -> None:
        try:
            backend.close()
        except StateError:
            pass
        except Exception as error:  # noqa: BLE001 - any other error breaks the promise
            fail(
                f"close raises nothing but StateError, also after an error ({story})", f"it raised {error!r}"
            )

    def _work_until(self, seconds: float) -> None:
        """Write, take snapshots and clear until the clock kills this process; in every other round, restore snapshots first."""
        backend = self._prepared()
        copies = self._copies(backend) if backend.snapshots and self.rounds % 2 else []
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        for copy in copies:
            backend.restore(copy)
        for step in count(2 if copies else 1):
            self._write(backend, step)
            if step % _CYCLE == _CYCLE - 1:
                self._pause(backend, step)

    def _copies(self, backend: StateBackend) -> list[Path]:
        """Snapshots of the state after step 1."""
        self._write(backend, 1)
        place = self._root / "copies"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        first, *others = [place / f"{number}" for number in range(_RESTORES)]
        backend.snapshot(first)
        for other in others:
            shutil.copytree(first, other)
        return [first, *others]

    def _pause(self, backend: StateBackend, step: int) -> None:
        if backend.snapshots:
            backend.snapshot(self._root / f"copy-{self.rounds}-after-{step}")
        if step % (2 * _CYCLE) == _CYCLE - 1:
            backend.clear()


def _at(moment: Moment) -> str:
    (file, line), _ = moment
    return f" at {Path(file).name}:{line}" if line else f" before {file}"


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise MemoryError("raised by the contract suite")


def _forked(work: Callable[[], Answer | None]) -> Answer:
    """Let a process of its own work, and return its answer: nothing if it was killed.

    Raises:
        AssertionError: what the process found wrong.
    """
    answers, answering = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(work, answering)
    os.close(answering)
    with os.fdopen(answers) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    answer: Answer = json.loads(text) if text else {}
    if "failure" in answer:
        raise AssertionError(answer["failure"])
    return answer


def _answer(work: Callable[[], Answer | None], answering: int) -> None:
    """Work, write the answer, and end this process without what a process does at its end."""
    try:
        answer = work() or {}
    except AssertionError as broken:
        answer = {"failure": str(broken)}
    except BaseException:  # noqa: BLE001 - reported by the process that reads it
        answer = {"failure": f"an error in the midst of the test:\n{traceback.format_exc()}"}
    try:
        with os.fdopen(answering, "w") as stream:
            stream.write(json.dumps(answer))
    finally:
        os._exit(0)
