"""Real processes and their deaths."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.faults.plans import Plan
from tests.patience import ENVIRONMENT, StillError, files, wait_until
from tests.s3_server import CREDENTIALS
from tests.state_processes import state_processes

ROOT = Path(__file__).parents[2]
_MARK = "FAULTS_MARK"
_DAEMON = "spark.daemon"
"""In the command line of Spark's daemon of workers, of this library's, and of the workers that they fork."""


def start(
    command: Sequence[str], log: Path, mark: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> "subprocess.Popen[str]":
    """Start a process in a group of its own; its output goes to the log, and all that it starts bears the mark."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **ENVIRONMENT, **(env or {}), _MARK: mark},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            text=True,
        )


def kill_marked(mark: str) -> None:
    """SIGKILL every process that bears the mark, whatever has become of those that started it."""
    wanted = f"{_MARK}={mark}".encode()
    while found := [pid for pid in pids() if wanted in _read(pid, "environ").split(b"\0") and alive(pid)]:
        for pid in found:
            kill(pid)
        time.sleep(0.01)


def is_exact(name: str, run: Callable[[Path, str], bool]) -> bool:
    """Return whether a run found all rows right. Its processes end with it; its folder is kept if they were not.

    Args:
        name: how the folder's name begins.
        run: takes the folder and a mark for all processes.
    """
    mark = f"{random.SystemRandom().randrange(2**64):x}"
    folder, exact = Path(tempfile.mkdtemp(prefix=f"{name}-")), False
    try:
        exact = run(folder, mark)
    finally:
        kill_marked(mark)
        if exact:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"all that they wrote is kept in {folder}")  # noqa: T201 - what a program says
    return exact


def kill(pid: int, sort: signal.Signals = signal.SIGKILL) -> bool:
    """SIGKILL a process, or send it another signal; False if it was gone already."""
    try:
        os.kill(pid, sort)
    except ProcessLookupError:
        return False
    return True


def kill_all(pid: int) -> int:
    """SIGKILL the process and all that it started, and return how many there were."""
    return sum(map(kill, descendants(pid)))


def descendants(pid: int) -> list[int]:
    """Return the process and all that it started, directly or not."""
    parents = {member: _parent(member) for member in pids()}
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family


def running(pid: int, name: str) -> list[int]:
    """Return those of the process and its descendants that have the name in their command line."""
    return [member for member in descendants(pid) if name.encode() in _read(member, "cmdline")]


def python_daemons(pid: int) -> list[int]:
    """Return the parents of a Spark process's Python workers."""
    daemons = running(pid, _DAEMON)
    return [daemon for daemon in daemons if _parent(daemon) not in daemons]


def python_workers(pid: int) -> list[int]:
    """Return the Python workers of a Spark process, which run tasks, and the processes that hold state; not the daemon."""
    daemons = running(pid, _DAEMON)
    workers = {worker for worker in daemons if _parent(worker) in daemons}
    return [worker for worker in sorted({*workers, *state_processes(daemons)}) if alive(worker)]


def pids() -> list[int]:
    """Return the numbers of all processes."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def alive(pid: int) -> bool:
    """Whether the process still runs; one that only waits to be buried does not."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] not in (b"Z", b"X")


class DriverGoneError(Exception):
    """A driver ended that should not have."""


class Driver:
    """A process with a Spark session, which runs queries and judges their rows."""

    def __init__(
        self,
        folder: Path,
        mark: str,
        master: str = "local[2,4]",
        conf: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.log = folder / "log"
        self._asked = 0
        self._plans: Sequence[Plan] = ()
        answers = folder / "answers"
        answers.mkdir(parents=True, exist_ok=True)
        for old in answers.iterdir():
            old.unlink()
        command = [sys.executable, "-m", "tests.faults.driver", str(folder), master, json.dumps(conf or {})]
        env = {"SPARK_LOCAL_IP": "127.0.0.1", **CREDENTIALS}
        self.process = start([*wrapper, *command], self.log, mark, env)

    def ask(self, task: str, plans: Sequence[Plan]) -> None:
        """Have the driver do a task, and do not wait."""
        self._asked += 1
        self._plans = plans
        request = {"number": self._asked, "task": task, "plans": [asdict(plan) for plan in plans]}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def waits(self) -> bool:
        """Whether the driver has done its task, or is gone."""
        return self._answer.exists() or self.process.poll() is not None

    def moved(self) -> object:
        """What changes as long as the driver or one of its queries does anything: their files."""
        return files(self.folder, *(Path(plan.folder) for plan in self._plans))()

    def answer(self) -> list[Any]:
        """Return the answer to what was asked last.

        Raises:
            DriverGoneError: the driver ended without one.
        """
        wait_until(self.waits, "the driver's answer", self.moved)
        if not self._answer.exists():
            raise DriverGoneError(f"the driver ended with {self.process.poll()}; {self._last_words()}")
        return json.loads(self._answer.read_text())

    @property
    def _answer(self) -> Path:
        return self.folder / "answers" / str(self._asked)

    def run(self, plans: Sequence[Plan]) -> list[str | None]:
        """Run queries side by side to their ends, and return the error of each, or None."""
        self.ask("run", plans)
        return self.answer()

    def check(self) -> str | None:
        """Return what `check_executors` finds wrong, or None."""
        self.ask("check", [])
        (found,) = self.answer()
        return found

    def judge(self, plans: Sequence[Plan]) -> list[dict[str, Any]]:
        """Return what the rows of each query are worth."""
        self.ask("judge", plans)
        return self.answer()

    def kill(self, sort: str) -> None:
        """SIGKILL the driver with all its workers, or its process group (the workers have their own), or its JVM."""
        if sort == "all":
            kill_all(self.process.pid)
        elif sort == "group":
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            wait_until(
                self._jvm, "a JVM", files(self.folder)
            )  # Of a driver that has just started, there is none.
            for pid in self._jvm():
                kill(pid)
        try:
            wait_until(lambda: self.process.poll() is not None, "the driver's end", files(self.folder))
        except StillError as error:
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            raise RuntimeError(f"{error}, after a kill of {sort}; {self._last_words()}") from error
        finally:
            self.process.kill()

    def _jvm(self) -> list[int]:
        return running(self.process.pid, "SparkSubmit")

    def _last_words(self) -> str:
        """What stands at the end of its log; after SIGUSR1, that is where each of its threads is."""
        return f"its last words were\n{self.log.read_text(errors='replace')[-4_000:]}"

    def stop(self) -> None:
        """End the driver, which does nothing now."""
        kill_all(self.process.pid)
        self.process.wait()


def verdict_of(found: Counter[str], wanted: Counter[str]) -> dict[str, int]:
    """Return what rows are worth beside those that there should be."""
    return {
        "rows": found.total(),
        "missing": (wanted - found).total(),
        "extra": (found - wanted).total(),
    }


def assert_exact(verdicts: Sequence[Mapping[str, Any]]) -> None:
    """Of each query, every row that should be there is there once, and no other."""
    for verdict in verdicts:
        assert (0, 0) == (verdict["missing"], verdict["extra"]), verdict
        assert 0 < verdict["rows"]
