"""Tasks: product code on threads, of which one runs at a time and stops at each call to the outside."""

import threading
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from tests.protocol.footprints import Footprint

SIMULATED = "simulated"
"""The name of threads on which tasks run."""


class Killed(BaseException):
    """The process died at this call."""


class SimulatedError(OSError):
    """A call that the scheduler made fail."""


class _Thread:
    """A thread that runs one function after another: new threads are slow."""

    idle: list["_Thread"] = []  # noqa: RUF012 - shared by all runs

    def __init__(self) -> None:
        self.go = threading.Lock()
        self.go.acquire()
        self.work: Callable[[], None] = lambda: None
        threading.Thread(target=self._run, daemon=True, name=SIMULATED).start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            self.work()


class Task:
    """Code of one process, stopped before a call.

    Attributes:
        name: for drawings, unique in a run.
        process: that it belongs to.
        pending: the call that it stops at, as words.
        changes: whether that call changes something outside.
        waits_for: what must be done before it can go on, or None.
        done: whether it has ended.
        future: of its result, if an executor has begun it.
        tokens: how many random tokens it has drawn.
    """

    def __init__(self, baton: "Baton", name: str, process: Any, act: Callable[[], None]) -> None:
        self.baton = baton
        self.name = name
        self.process = process
        self.pending: tuple[str, ...] = ("begin", name)
        self.changes = False
        self.waits_for: SimulatedFuture | None = None
        self.done = False
        self.fails: str | None = None
        self.future: SimulatedFuture | None = None
        self.tokens = 0
        self.seen = blake2b(name.encode(), digest_size=8)
        self._act = act
        self._thread: _Thread | None = None

    @property
    def can_go_on(self) -> bool:
        """Whether it is stopped at a call that nothing holds up."""
        return not self.done and (self.waits_for is None or self.waits_for.done())

    def resume(self, fails: str | None = None) -> None:
        """Let it do its call, and go on to the next one.

        Args:
            fails: "before" or "after": the call raises an error, without or with its effect.
        """
        self.fails = fails
        if isinstance(self.waits_for, SimulatedFuture):
            self.baton.touched.read(self.waits_for.name)
        if self._thread is None:
            self._thread = _Thread.idle.pop() if _Thread.idle else _Thread()
            self._thread.work = self._run
        before, self.baton.running = self.baton.running, self
        self._thread.go.release()
        self.baton.back.acquire()
        self.baton.running = before

    def end(self) -> None:
        """Unwind it: its process is dead."""
        if self._thread is None:
            self.done = True
        while not self.done:
            self.resume()

    def _run(self) -> None:
        try:
            if self.process.alive:
                self._act()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - of the simulator or the product: the judge shows it
            self.baton.crashed = error
        finally:
            self.done = True
            _Thread.idle.append(self._thread)
            self.baton.back.release()

    def stop(
        self, pending: tuple[str, ...], *, changes: bool, waits_for: "SimulatedFuture | None" = None
    ) -> None:
        """Give the baton back until the scheduler lets this task go on."""
        self.pending, self.changes, self.waits_for = pending, changes, waits_for
        if self.process.alive and not self.baton.is_next(self):
            self.baton.back.release()
            self._thread.go.acquire()
        self.waits_for = None
        if not self.process.alive:
            raise Killed


class Baton:
    """Who runs: one task, or the scheduler."""

    def __init__(self) -> None:
        self.back = threading.Lock()
        self.back.acquire()
        self.running: Task | None = None
        self.ahead: list[tuple[str, ...]] = []
        """Choices that are known to follow, the next one at the end: a task does its own without giving the baton back."""
        self.passed: Callable[[Task], None] = lambda _: None
        """Is told that a task has done a step, and does the next one."""
        self.touched = Footprint()
        """What the step that goes on has read and changed."""
        self.crashed: BaseException | None = None

    def is_next(self, task: Task) -> bool:
        """Whether a task that has done a step is known to do the next one, too."""
        if not self.ahead or self.ahead[-1] != ("run", task.name):
            return False
        self.ahead.pop()
        self.passed(task)
        return True

    def heard(self, what: object) -> None:
        """The task that runs, if one does, knows this from now on."""
        if self.running is not None:
            self.running.seen.update(repr(what).encode())

    def call(self, pending: tuple[str, ...], act: Callable[[], Any], *, changes: bool = False) -> Any:
        """Do a call to the outside, with a stop before it if a task makes it."""
        task = self.running
        if task is None:
            return act()
        task.stop(pending, changes=changes)
        fails, task.fails = task.fails, None
        result = None
        try:
            if fails == "before":
                raise SimulatedError(5, "the call fails")
            result = act()
            if fails == "after":
                raise SimulatedError(5, "no answer came")
        finally:
            task.seen.update(repr((pending, fails, result)).encode())
        return result


class SimulatedFuture:
    """What an executor's task will return."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self.name = ""
        self.state = "waits"
        self.value: Any = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        found = self.state in ("done", "cancelled")
        self._baton.touched.read(self.name)
        self._baton.heard(found)
        return found

    def turns(self, state: str) -> None:
        """It is in another state."""
        self._baton.touched.use(self.name)
        self.state = state

    def result(self) -> Any:
        self._baton.touched.read(self.name)
        if self.state not in ("done", "cancelled"):
            task = self._baton.running
            if task is None:
                raise AssertionError("the judge waits for a task")
            task.stop(("wait",), changes=False, waits_for=self)
        if self.error is not None:
            raise self.error
        return self.value

    def exception(self) -> BaseException | None:
        try:
            self.result()
        except Exception as error:  # noqa: BLE001 - returned
            return error
        return None


class SimulatedExecutor:
    """An executor of one thread, whose functions are tasks of the process that made it; one after the other.

    Args:
        baton: of the run.
        spawn: makes a task of the process, with the name of what it does.
    """

    def __init__(self, baton: Baton, spawn: Callable[[Callable[[], None], str], Task | None]) -> None:
        self._baton = baton
        self._spawn = spawn
        self._futures: list[tuple[SimulatedFuture, Task | None]] = []

    def submit(self, act: Callable[[], Any]) -> SimulatedFuture:
        future = SimulatedFuture(self._baton)

        def run() -> None:
            self._baton.touched.read(future.name)
            if future.state == "cancelled":
                return
            future.turns("runs")
            try:
                future.value = act()
            except Exception as error:  # noqa: BLE001 - as the real one
                future.error = error
            future.turns("done")

        before = self._futures[-1][0] if self._futures else None
        task = self._spawn(run, act.__name__)
        if task is None:
            run()
        else:
            task.waits_for, task.future, future.name = before, future, f"future {task.name}"
        self._futures.append((future, task))
        return future

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        assert wait
        assert cancel_futures
        for future, _ in self._futures:
            self._baton.touched.read(future.name)
            if future.state == "waits":
                future.turns("cancelled")
        for future, _ in self._futures:
            if future.state == "runs":
                future.exception()


class InlineExecutor:
    """An executor whose functions run at once, in their order."""

    def __init__(self, workers: int) -> None:
        del workers

    def __enter__(self) -> "InlineExecutor":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def map(self, act: Callable[[Any], Any], items: Any) -> list[Any]:
        return [act(item) for item in items]
