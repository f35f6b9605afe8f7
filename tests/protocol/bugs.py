"""Bugs that are planted one at a time, each in a process of its own: what the search is good for.

A bug is a change of the product's text as it is imported; no file is changed. A seed that finds it stands with it.
"""

import importlib.abc
import importlib.machinery
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tests.mutations import Mutation, file_of


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug, and the seed of a random run that finds it.

    Attributes:
        mutation: of the product's text.
        seed: of a run that finds it.
        kind: of worlds in which it is found, as of `runs.SCENARIOS`.
    """

    mutation: Mutation
    seed: int
    kind: str


def _bug(seed: int, breaks: str, old: str, new: str, kind: str = "folder") -> Bug:
    return Bug(Mutation(breaks, old, new), seed, kind)


BUGS = (
    _bug(
        3,
        "the first entries of the changelog go while no snapshot has them",
        "min(pointer.number - fewest, needed) + 1",
        "min(pointer.number - fewest, needed + 1) + 1",
    ),
    _bug(
        0,
        "entries of the changelog that nobody needs stay",
        "    for number in range(pointer.oldest, oldest):\n",
        "    for number in range(pointer.oldest + 1, oldest):\n",
    ),
    _bug(
        0,
        "deletes are not replayed",
        "backend.write(batch, entry.after)",
        "backend.write(WriteBatch(batch.puts, {}, batch.drop_segments_below), entry.after)",
    ),
    _bug(
        6,
        "the changes that lead away from another attempt's version are accepted",
        "return chain([first], found) if first.before == version else None",
        "return chain([first], found)",
    ),
    _bug(
        3,
        "a copy counts by its number, whichever attempt wrote it",
        "if backend.version == pointer.version or (",
        "if (backend.version or b'')[:8] == pointer.version[:8] or (",
    ),
    _bug(
        3,
        "two attempts write the same version",
        "return _VERSION.pack(number, os.urandom(8))",
        'return _VERSION.pack(number, b"attempts")',
    ),
    _bug(
        22,
        "two attempts write the same snapshot",
        'name = f"{pointer.number}-{os.urandom(8).hex()}"',
        'name = f"{pointer.number}-{bytes(8).hex()}"',
    ),
    _bug(
        0,
        "the snapshot before the newest is not kept",
        "kept = before[:1] if snapshot.name else ()",
        "kept = before[:0]",
    ),
    _bug(
        1,
        "snapshots are removed a batch too early",
        "return 0 <= retired < host_batch - self.retain",
        "return 0 <= retired <= host_batch - self.retain",
    ),
    _bug(
        0,
        "replaced snapshots are forgotten",
        "retired = [one for one in before if one.name and one not in kept]",
        "retired = list[Snapshot]()",
    ),
    _bug(
        0,
        "files that two snapshots share are removed with the older one",
        "if file not in used and file in found:",
        "if file in found:",
    ),
    _bug(
        7,
        "the bytes of a file are not synced",
        "            sync_file(aside)\n",
        "            pass\n",
    ),
    _bug(
        10,
        "the name of a file is not synced",
        "        self._place[0].move(aside, target)\n        if self._local is not None:\n",
        "        self._place[0].move(aside, target)\n        if self._local is None:\n",
    ),
    _bug(
        17,
        "a file whose answer was lost is removed, though others may use it",
        "if not (whole and complete):",
        "if True:",
    ),
    _bug(
        159,
        "a snapshot of another process is taken up before its name is synced",
        "                folder.confirm(snapshot.name)\n",
        "",
    ),
    _bug(
        11,
        "the clock that goes back makes a dead process's snapshot awaited for a day",
        "return abs(time.time() - when)",
        "return time.time() - when",
    ),
    _bug(
        10,
        "functions of another code answer, since the runs have the same name",
        "job = self._jobs.get(origin)",
        "job = next((job for one, job in self._jobs.items() if one.run == origin.run), None)",
        "executors",
    ),
    _bug(
        0,
        "what a process has removed from the journal stays there",
        "                journal.remove(name)\n",
        "                pass\n",
        "executors",
    ),
    _bug(
        8,
        "workers keep the copies that they had while a process stood still",
        "    if done is answer or large:",
        "    if large:",
        "executors",
    ),
    _bug(
        80,
        "a process that stands still is waited for with each call",
        '        _rest(name)\n        warn_once(\n            _LOG,\n            "the worker waits',
        '        warn_once(\n            _LOG,\n            "the worker waits',
        "executors",
    ),
    _bug(
        0,
        "a task that waits for work hears nothing of the process",
        "self._accepted.add(task)",
        "self._accepted.discard(task)",
        "executors",
    ),
    _bug(
        21,
        "one process that died fails the task",
        "TaskState.ASK: TaskState.ASK_AFTER_DEATH",
        "TaskState.ASK: TaskState.FAIL",
        "executors",
    ),
    _bug(
        80,
        "a worker's own copy keeps the functions of the run before",
        "not copy.operator.try_update_binding(binding)",
        "copy.operator.try_update_binding(binding) is None",
        "executors",
    ),
    _bug(
        0,
        "what the process asks of the journal is answered with nothing",
        "return encode_blob(self._journal.get(name))",
        "return encode_blob(None)",
        "executors",
    ),
)


def in_process(mutation: Mutation | None, act: Callable[[], Any]) -> Any:
    """Call a function in a new process where the product has a bug, and return what it returns.

    The product must not have been imported in this one.
    """
    assert "state_backends.durability" not in sys.modules
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            if mutation is not None:
                path = str(file_of(mutation.old))
                sys.meta_path.insert(0, _Planter(path, mutation))
            with os.fdopen(writing, "wb") as told:
                pickle.dump(act(), told)
            status = 0
        except BaseException:  # noqa: BLE001 - the parent sees that nothing came
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        answer = told.read()
    os.waitpid(child, 0)
    if not answer:
        raise RuntimeError("the process with the bug broke off")
    return pickle.loads(answer)  # noqa: S301 - of the child


class _Planter(importlib.abc.MetaPathFinder):
    def __init__(self, path: str, mutation: Mutation) -> None:
        self._path = path
        self._mutation = mutation

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin == self._path:
            spec.loader = _Loader(name, self._path, self._mutation)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, mutation: Mutation) -> None:
        super().__init__(name, path)
        self._mutation = mutation

    def path_stats(self, path: str) -> Any:
        raise OSError(f"{path} is not cached")

    def get_data(self, path: str) -> bytes:
        text = super().get_data(path).decode()
        return text.replace(self._mutation.old, self._mutation.new).encode()


def played(seed: int, kind: str) -> tuple[str | None, list[str], list[str]]:
    """Play a random run; return what failed, the faults that were planned, and those that struck."""
    from tests.protocol.runs import SCENARIOS, random_run

    run = random_run(SCENARIOS[kind](seed), seed)
    failed = None if run.failure is None else f"{type(run.failure).__name__}: {run.failure}"
    return failed, sorted(run.planned), run.struck


def searched(seconds: float, kind: str, *, draw: bool) -> tuple[int | None, int, float, str]:
    """Play random runs until one fails; return its seed, the number of runs, the seconds of the processor, and its drawing."""
    from tests.protocol.runs import SCENARIOS, drawing, random_run, shortest

    began, seed = time.process_time(), 0
    while time.process_time() - began < seconds:
        scenario = SCENARIOS[kind](seed)
        run = random_run(scenario, seed)
        if run.failure is not None:
            took = time.process_time() - began
            return seed, seed + 1, took, drawing(shortest(scenario, run)) if draw else ""
        seed += 1
    return None, seed, time.process_time() - began, ""
