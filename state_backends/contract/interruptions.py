"""Promises about calls that do not come to their end: killed, or ended by an error."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from serializers import CorruptDataError
from state_backends.contract.base import Contract
from state_backends.contract.states import DAMAGES, applied, assert_holds, check, fail
from state_backends.errors import StateError
from state_backends.interface import StateBackend, WriteBatch

_BEFORE = {0: {b"a": b"1", b"b": b"1"}, 1: {b"a": b"1"}, 2: {b"a": b"1"}}
_AS_BEFORE = "if write raises, the store shows what it showed before"
_RAISES = (
    "write raises what its batch raises while it is read; if it raises nothing, it has written its batch"
)


class _EndsInError(dict[Any, Any]):
    """A dictionary that shows all its entries but the last, and then raises."""

    def __iter__(self) -> Iterator[Any]:
        yield from list(super().__iter__())[:-1]
        raise OSError("raised by the contract suite")

    def keys(self) -> Any:
        return iter(self)

    def items(self) -> Any:
        return ((key, self[key]) for key in self)

    def values(self) -> Any:
        return (self[key] for key in self)


class _SetEndsInError(set[Any]):
    """A set that shows all its members but one, and then raises."""

    def __iter__(self) -> Iterator[Any]:
        yield from list(super().__iter__())[:-1]
        raise OSError("raised by the contract suite")


def _plain(value: Any) -> Any:
    """The same without errors."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in dict.items(value)}
    return set(set.__iter__(value)) if isinstance(value, set) else value


def _batch(*, puts: Any = None, deletes: Any = None) -> WriteBatch:
    return WriteBatch(puts or {0: {b"a": b"2"}}, deletes or {2: {b"a"}}, 1)


_BAD_BATCHES: dict[str, Callable[[], WriteBatch]] = {
    "puts end": lambda: _batch(puts=_EndsInError({0: {b"a": b"2"}, 3: {b"a": b"2"}, 4: {}})),
    "pages end": lambda: _batch(
        puts={0: {b"a": b"2"}, 3: _EndsInError({b"a": b"2", b"b": b"2", b"c": b"2"})}
    ),
    "deletes end": lambda: _batch(deletes=_EndsInError({2: {b"a"}, 1: {b"a"}, 0: {b"a"}})),
    "keys end": lambda: _batch(deletes={1: {b"a"}, 2: _SetEndsInError({b"a", b"b", b"c"})}),
    "no page": lambda: _batch(puts={0: {b"a": b"2"}, 3: {b"a": b"2", b"b": None}}),
    "a page of something else": lambda: _batch(puts={0: {b"a": b"2"}, 3: {b"a": b"2", b"b": object()}}),
    "a key of something else": lambda: _batch(puts={0: {b"a": b"2"}, 3: {b"a": b"2", 7: b"2"}}),
    "a segment of something else": lambda: _batch(puts={0: {b"a": b"2"}, "three": {b"a": b"2"}}),
}


class InterruptionsContract(Contract):
    """Whatever interrupts a call, a store holds some version, whole."""

    def test_killed_at_any_line(self, directory: Path) -> None:
        """A process killed at any line of Python that a call runs leaves some version, whole, and nothing in between."""
        self._torment(directory, "kill")

    def test_killed_at_any_moment(self, directory: Path) -> None:
        """A process killed while it writes, drops, takes snapshots and clears leaves some version, whole."""
        self._torment(directory, "moments")

    def test_error_at_any_line(self, directory: Path) -> None:
        """After an error in the midst of a call, and a close, a store opens as some version, whole."""
        self._torment(directory, "fail")

    def test_full_disk(self, directory: Path) -> None:
        """Where files cannot grow, calls raise StateError, and a process that ends there leaves some version, whole."""
        self._torment(directory, "full")

    @pytest.mark.parametrize("what", _BAD_BATCHES)
    def test_failed_write_changes_nothing(self, backend: StateBackend, what: str) -> None:
        """A write that raises after it has seen a part of its batch leaves pages and version as they were."""
        backend.write(WriteBatch(puts=_BEFORE), b"v1")
        batch = _BAD_BATCHES[what]()
        try:
            backend.write(batch, b"v2")
        except Exception:  # noqa: BLE001 - any error is one
            assert_holds(backend, _BEFORE, b"v1", _AS_BEFORE)
            backend.write(WriteBatch(puts={1: {b"b": b"3"}}), b"v3")
            after = {**_BEFORE, 1: {b"a": b"1", b"b": b"3"}}
            assert_holds(backend, after, b"v3", "a store can be written after a write that failed")
        else:
            found = backend.version, backend.get_many(0, [b"a", b"b"])
            check(_RAISES, (b"v2", [b"2", None]), found)
            if what.endswith("end"):
                whole = WriteBatch(_plain(batch.puts), _plain(batch.deletes), batch.drop_segments_below)
                assert_holds(backend, applied(_BEFORE, whole), b"v2", _RAISES)

    def test_nothing_beside_the_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A store creates, changes and removes files in its own directory only, but for temporary ones until it is closed."""
        parent, copy, damaged = tmp_path / "parent", tmp_path / "copies" / "1", tmp_path / "copies" / "2"
        temporary = tmp_path / "temporary"
        folders = (
            parent / "neighbour",
            parent / "store-neighbour",
            tmp_path / "current",
            copy.parent,
            temporary,
        )
        for folder in folders:
            folder.mkdir(parents=True)
            (folder / "file").write_text("somebody's")
        (parent / "file").write_text("somebody's")
        monkeypatch.chdir(tmp_path / "current")
        monkeypatch.setenv("TMPDIR", str(temporary))
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        before = _others(tmp_path)
        with closing(self.open(parent / "store")) as backend:
            backend.write(WriteBatch(puts=_BEFORE), b"v1")
            assert_holds(backend, _BEFORE, b"v1")
            with suppress(Exception):
                backend.write(_BAD_BATCHES["pages end"](), b"no")
            if backend.snapshots:
                backend.snapshot(copy)
                shutil.copytree(copy, damaged)
                for path in damaged.iterdir():
                    path.write_bytes(DAMAGES["garbage"](path.read_bytes()))
                with suppress(CorruptDataError, StateError):
                    backend.restore(damaged)
                backend.restore(copy)
            backend.clear()
            backend.write(WriteBatch(puts=_BEFORE), b"v2")
            found = _others(tmp_path)
            in_use = {path for path in found if path.startswith("temporary/")} - set(before)
            check(_BESIDE, before, {path: data for path, data in found.items() if path not in in_use})
        check(_BESIDE, before, _others(tmp_path))
        with closing(self.open(parent / "store")) as backend:
            backend.write(WriteBatch(drop_segments_below=1), b"v3")
        check(_BESIDE, before, _others(tmp_path))
        check("a store leaves the current directory as it is", tmp_path / "current", Path.cwd())

    def _torment(self, directory: Path, how: str) -> None:
        """Have another process kill others, and fail with what it found."""
        name = f"{self.backend_class.__module__}:{self.backend_class.__qualname__}"
        if "<locals>" in name:
            pytest.skip("the backend class cannot be imported by another process")
        if not hasattr(os, "fork"):
            pytest.skip("processes cannot be forked on this system")
        seed = random.randrange(2**32) if self.seed is None else self.seed
        print(f"seed = {seed}")
        arguments = (name, str(directory), dict(self.options), how, seed, self.kills)
        code = f"from state_backends.contract.torment import torment; torment(*{arguments!r})"
        directory.mkdir(parents=True)
        answer = _ran(code)
        if "failure" in answer:
            raise AssertionError(f"{answer['failure']}\n  seed = {seed}")
        print(f"{answer['rounds']} rounds")
        shutil.rmtree(directory, ignore_errors=True)


_BESIDE = (
    "a store writes to nothing beside its directory or in the current one, and leaves no temporary files"
)


def _others(root: Path) -> dict[str, bytes | None]:
    """All files and folders with what they hold, but those of the store and its copies."""
    paths = [path for path in root.rglob("*") if not {"store", "1", "2"} & set(path.relative_to(root).parts)]
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in paths}


def _ran(code: str) -> dict[str, Any]:
    """What a process says at its end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.curdir for entry in sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        timeout=600,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        fail("another process can import the backend and use it", f"it said {done.stdout!r}, and more above")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer
