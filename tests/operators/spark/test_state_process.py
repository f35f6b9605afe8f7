"""What begins and ends a process that holds buckets' copies, and what functions of users meet in it."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark import TaskContext

from operators.spark.replicas import starting, where_held
from operators.spark.replicas.copies import drop_copy
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.sockets import living
from tests.operators.spark.bucket_worker import (
    PARENT,
    STARTER,
    batch,
    daemon_with_starter,
    has_copy_of,
    has_ended,
    job,
    state_process,
)
from tests.operators.spark.test_where_held import ROWS, counts, store_id

Started = list["subprocess.Popen[bytes]"]
SOON = (
    "import sys, operators.spark.replicas.state_process as process; process.{0} = 0.5; "
    "process.main(sys.argv[3], sys.argv[1], sys.argv[2])"
)


@pytest.fixture
def folder(tmp_path: Path, processes: Started) -> Path:
    """The folder of a bucket, in which nothing has been done."""
    assert not processes
    return tmp_path


@pytest.fixture(params=["afresh", "forked"])
def bucket(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same folder, where processes for state begin afresh, and where a starter forks them."""
    if request.param == "afresh":
        yield folder
        return
    with daemon_with_starter() as (_, name):
        monkeypatch.setattr(starting, "_starter", name)
        monkeypatch.setenv(STARTER, name)
        yield folder
    assert [] == starting._started


@contextmanager
def begun(constant: str, parent: Parent, first: str = "") -> Iterator["subprocess.Popen[bytes]"]:
    """A process for state of which one time is half a second, and what it runs first. It is killed in the end."""
    code, name = first + SOON.format(constant), os.urandom(8).hex()
    command = [sys.executable, "-c", code, str(parent.number), parent.began, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_process_that_nobody_asks_ends() -> None:
    """The worker that started it may have been killed before it told others."""
    with begun("_UNKNOWN_S", Parent.of(os.getpid())) as process:
        assert 0 == process.wait(60)


UNENDING = {
    "a thread of a function": "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); ",
    "an upload": "import time; from operators.spark.replicas import state_process; "
    "state_process.drop_all = lambda: time.sleep(600); ",
}
"""What would keep a process from ending."""


@pytest.mark.slow
def test_a_thread_of_a_function_keeps_no_process() -> None:
    """Such a thread would be waited for at the end of a program."""
    code = UNENDING["a thread of a function"]
    with begun("_UNKNOWN_S", Parent.of(os.getpid()), code) as process:
        assert 0 == process.wait(60)


@pytest.mark.slow
@pytest.mark.parametrize("what", UNENDING)
def test_a_process_that_waits_for_its_end_ends_with_its_parent(what: str) -> None:
    """However long it would take to complete what it does."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as executor:
        with begun("_UNKNOWN_S", Parent.of(executor.pid), UNENDING[what]) as process:
            assert process.stdout is not None
            name = process.stdout.readline().decode().strip()
            while living(name):
                time.sleep(0.05)
            executor.kill()
            assert has_ended(process.pid)
        executor.kill()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["killed", "killed and not waited for", "another process has its number"])
def test_a_process_ends_with_its_parent(end: str) -> None:
    """However that ends: what has ended, and nobody has waited for, has ended, too."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as executor:
        parent = Parent.of(executor.pid)
        if end == "another process has its number":
            parent = Parent(parent.number, "1")
        with begun("_LOOK_S", parent) as process:
            assert process.stdout is not None
            # Without a parent from the start, it may end before it has told its name.
            assert process.stdout.readline() or not end.startswith("killed")
            if end.startswith("killed"):
                executor.kill()
            if end == "killed":
                executor.wait()
            assert has_ended(process.pid)
        executor.kill()


def no_room(*_: object, **__: object) -> None:
    """What the system does when its table of processes is full."""
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@pytest.mark.slow
@pytest.mark.parametrize("why", ["no interpreter", "no library", "no room in the table of processes"])
def test_where_no_process_can_be_started(
    folder: Path, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker has the copy, somebody is told, and none is tried to start for a while."""
    with monkeypatch.context() as broken:
        if why == "no interpreter":
            broken.setattr(sys, "executable", str(folder / "python"))
        elif why != "no library":
            broken.setattr(subprocess, "Popen", no_room)
        else:
            broken.setattr(sys, "path", [])
        assert [] == batch(folder, "memory", "run", 0)
    assert ROWS == counts(batch(folder, "memory", "run", 1))
    config = job(folder, "memory").config
    assert has_copy_of(config, store_id(folder))
    assert 1 == caplog.text.count(
        "no process for state can be started: for 300 s, this worker keeps the state itself"
    )
    where_held._resting.clear()
    assert ROWS == counts(batch(folder, "memory", "run", 2))
    assert not has_copy_of(config, store_id(folder))


@pytest.mark.slow
def test_a_function_that_ends_its_process_ends_the_worker_alone(bucket: Path) -> None:
    """As with any function in a worker of Spark."""
    assert [] == batch(bucket, "memory", "run", 0)
    holder = state_process()
    (bucket / "fate").write_text("0 exits")
    with pytest.raises(SystemExit):
        batch(bucket, "memory", "run", 1)
    (bucket / "fate").unlink()
    assert ROWS == counts(batch(bucket, "memory", "run", 1))
    assert holder == state_process()


@pytest.mark.slow
def test_a_function_that_forks_is_answered_for_once(bucket: Path) -> None:
    """The new process ends when its function returns."""
    assert [] == batch(bucket, "memory", "run", 0)
    (bucket / "fate").write_text("0 forks")
    assert ROWS == counts(batch(bucket, "memory", "run", 1))
    (bucket / "fate").unlink()
    assert ROWS == counts(batch(bucket, "memory", "run", 2))


@pytest.mark.slow
def test_a_process_that_a_function_leaves_takes_nobody_s_place(bucket: Path) -> None:
    """When the process for state dies, nobody waits for the one that was forked from it: another is started at once."""
    assert [] == batch(bucket, "memory", "run", 0)
    (bucket / "fate").write_text("0 leaves")
    assert ROWS == counts(batch(bucket, "memory", "run", 1))
    (bucket / "fate").unlink()
    left, holder = int((bucket / "left").read_text()), state_process()
    assert holder is not None
    try:
        os.kill(holder, signal.SIGKILL)
        assert has_ended(holder)
        assert state_process() is None
        assert ROWS == counts(batch(bucket, "memory", "run", 2))
        assert not has_copy_of(job(bucket, "memory").config, store_id(bucket))
        assert Path(f"/proc/{left}").exists()
    finally:
        os.kill(left, signal.SIGKILL)


@pytest.mark.slow
def test_a_function_that_starts_threads(bucket: Path) -> None:
    """They run in the process that has the copy, and one that does not end is no matter."""
    assert [] == batch(bucket, "memory", "run", 0)
    holder = state_process()
    (bucket / "fate").write_text("0 threads")
    assert ROWS == counts(batch(bucket, "memory", "run", 1))
    assert ROWS == counts(batch(bucket, "memory", "run", 2))
    assert holder == state_process()
    assert not has_copy_of(job(bucket, "memory").config, store_id(bucket))


@pytest.mark.slow
def test_a_function_that_needs_the_task_is_called_in_it(
    bucket: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only Spark's workers have a TaskContext: this one works itself, and says that it does."""
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    TaskContext._getOrCreate()._partitionId = 3
    assert [] == batch(bucket, "memory", "run", 0)
    (bucket / "fate").write_text("0 asks")
    for number in (1, 2):
        assert ROWS == counts(batch(bucket, "memory", "run", number))
        assert has_copy_of(job(bucket, "memory").config, store_id(bucket))
    assert 1 == caplog.text.count("functions of the operator fail in the process that has copies of buckets")
    assert "'NoneType' object has no attribute 'partitionId'" in caplog.text
    drop_copy(job(bucket, "memory").config, store_id(bucket))


LIMITED = """
import resource, sys
from pathlib import Path
from tests.operators.spark.bucket_worker import batch, have_parent
have_parent()
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(batch(folder, "memory", "run", 0))
(folder / "fate").write_text("0 grows")
try:
    batch(folder, "memory", "run", 1)
except Exception as error:
    print(error)
(folder / "fate").unlink()
print(batch(folder, "memory", "run", 1))
sys.stdout.flush()
input()
"""


@pytest.mark.slow
def test_the_limit_of_the_workers_memory_holds(bucket: Path) -> None:
    """spark.executor.pyspark.memory is a limit of each process. What is more than that is an error of the batch, by name."""
    limit, environment = 6 << 30, {**os.environ, PARENT: str(os.getpid())}
    command, pipe = [sys.executable, "-c", LIMITED, str(bucket), str(limit)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as limited:
        assert limited.stdout is not None
        first, error, second = (limited.stdout.readline() for _ in range(3))
        holder = state_process()
        assert holder is not None
        assert bool(starting._starter) == (os.getpgid(holder) != os.getpgid(limited.pid))
        limits = Path(f"/proc/{holder}/limits").read_text()
        os.kill(holder, signal.SIGKILL)  # Else the next test finds it free.
        limited.kill()
    assert ("[]\n", True) == (first, "MemoryError" in error)
    assert 2 == second.count("'start'")
    assert re.search(rf"Max address space +{limit} +{limit} ", limits)


@pytest.mark.slow
def test_functions_meet_the_environment_of_the_worker(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables, its working directory, and where it looks for modules."""
    monkeypatch.setenv("MET", "here")
    monkeypatch.chdir(bucket)
    (bucket / "modules").mkdir()
    monkeypatch.syspath_prepend(bucket / "modules")
    (bucket / "fate").write_text(f"{os.getpid()} tells")
    assert [] == batch(bucket, "memory", "run", 0)
    told = (bucket / "told").read_text().splitlines()
    assert ["here", str(bucket), "True"] == told
    drop_copy(job(bucket, "memory").config, store_id(bucket))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["afresh", "forked"])
def test_tasks_at_once_start_one_process(
    folder: Path, how: str, monkeypatch: pytest.MonkeyPatch, processes: Started
) -> None:
    """Whoever comes first starts it; the others wait for it, and ask the same one."""
    folders = [folder / name for name in "abcd"]
    for one in folders:
        one.mkdir()
    with daemon_with_starter() as (_, name), ThreadPoolExecutor(4) as pool:
        monkeypatch.setattr(starting, "_starter", name if how == "forked" else "")
        work = [pool.submit(batch, one, "memory", "run", 0) for one in folders]
        assert [[]] * 4 == [one.result() for one in work]
        assert (how == "afresh") == len(processes)
        holder = state_process()
        assert [] == [one for one in folders if has_copy_of(job(one, "memory").config, store_id(one))]
        assert ROWS == counts(batch(folders[0], "memory", "run", 1))
        assert holder == state_process()
    assert holder is not None


@pytest.mark.slow
def test_processes_are_waited_for(processes: Started) -> None:
    """Those that have ended do not stay in the system's table of processes."""
    parent, name = Parent.of(os.getpid()), os.urandom(8).hex()
    starting.start(parent, name)
    (first,) = processes
    with suppress(ProcessLookupError):
        os.kill(first.pid, signal.SIGKILL)
    while first.poll() is None:
        time.sleep(0.01)
    starting.start(parent, name)
    assert [first.pid] != [one.pid for one in processes]
    assert 1 == len(processes)
