"""The local copies of buckets that a worker process keeps open.

Spark gives a bucket to any of its workers. Each worker keeps copies of the buckets that it has seen, and brings a copy up to
date from the changelog in Spark's state before it uses it. A copy has a directory that no other process uses: it is locked.
"""

import logging
import os
import shutil
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from operators.runtime.program import Program
from operators.runtime.stateful import StatefulOperator
from serializers import SerializationError
from state_backends import StateConfig, StateError

_IDLE_SECONDS = 600.0
_ORPHAN_SECONDS = 86_400.0
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Copy:
    """An open copy of a bucket.

    Attributes:
        operator: runs over the copy.
        lock: on its directory.
        used: when it was last used, in monotonic seconds.
    """

    operator: StatefulOperator
    lock: BaseFileLock
    used: float

    def close(self) -> None:
        """Release the directory, even if the backend fails to close: the changelog has all that counts."""
        try:
            self.operator.close()
        except StateError as error:
            _LOG.warning("a local copy could not be closed: %s", error)
        finally:
            self.lock.release()


_copies: dict[tuple[str, StateConfig], _Copy] = {}


def open_copy(program: Program, config: StateConfig, store_id: str) -> StatefulOperator:
    """Return the operator over this process's copy of a bucket; open the copy if needed, and close those idle for long."""
    now = time.monotonic()
    for key in [key for key, copy in _copies.items() if now - copy.used > _IDLE_SECONDS]:
        _copies.pop(key).close()
    copy = _copies.get((store_id, config))
    if copy is not None and copy.operator.takes(program):
        copy.used = now
        return copy.operator
    drop_copy(config, store_id)
    directory, lock = _claim(config.directory, store_id, config.backend)
    try:
        copy = _Copy(_open_operator(program, config, directory), lock, now)
    except BaseException:
        lock.release()
        raise
    _copies[store_id, config] = copy
    return copy.operator


def drop_copy(config: StateConfig, store_id: str) -> None:
    """Close this process's copy of a bucket and forget it, if it has one."""
    copy = _copies.pop((store_id, config), None)
    if copy is not None:
        copy.close()


def _open_operator(program: Program, config: StateConfig, directory: Path) -> StatefulOperator:
    """Open a copy. One that cannot be opened is deleted, since the changelog has all that it had."""
    try:
        return StatefulOperator(program, config, directory)
    except (StateError, SerializationError) as error:
        if not directory.exists():
            raise
        _LOG.warning("a local copy cannot be opened and is rebuilt from the changelog: %s", error)
        shutil.rmtree(directory, ignore_errors=True)
        return StatefulOperator(program, config, directory)


def _claim(root: Path, store_id: str, backend: str) -> tuple[Path, BaseFileLock]:
    """Return a directory that no other process uses, and the lock on it. One that a dead process left is taken over.

    Raises:
        StateError: the directory cannot be created or locked; names the root and the option.
    """
    try:
        _sweep(root)
        home = root / store_id
        home.mkdir(parents=True, exist_ok=True)
        owner, lock = _first_free(home)
    except OSError as error:
        raise StateError(
            f"cannot keep local state in {root}: {error}. Set spark.windows.state.directory to a directory that all "
            "workers can create and write to"
        ) from error
    return home / f"{owner}-{backend.replace(':', '.').replace('/', '.')}", lock


def _first_free(home: Path) -> tuple[str, BaseFileLock]:
    """Lock the file of the lowest number that is free; return the name of its directory, and the lock."""
    return next(found for number in count() if (found := _try_lock(home, number)) is not None)


def _try_lock(home: Path, number: int) -> tuple[str, BaseFileLock] | None:
    inodes: list[int] = []

    def on_acquired(descriptor: int) -> None:
        inodes.append(os.fstat(descriptor).st_ino)
        os.utime(descriptor)  # `_sweep` reads this time.

    lock = FileLock(
        home / f"{number}.lock",
        blocking=False,
        thread_local=False,
        preserve_lock_file=True,
        on_acquired=on_acquired,
    )
    try:
        lock.acquire()
    except Timeout:
        return None
    # If a lock file is deleted from outside, the next process locks a new one while the first still holds the old one.
    # The inode in the name keeps their directories apart.
    return f"{number}-{inodes[0]:x}", lock


def _sweep(root: Path) -> None:
    """Remove the copies of queries that are gone: those that no process has opened for a day, nor holds."""
    if not root.is_dir():
        return
    for home in root.iterdir():
        # Another process may remove the same copies at the same time, and what cannot be removed must not stop a batch.
        with suppress(OSError):
            locks = list(home.glob("*.lock")) if home.is_dir() else []
            if locks and not any(time.time() - lock.stat().st_mtime < _ORPHAN_SECONDS for lock in locks):
                _remove_unless_held(home, locks)


def _remove_unless_held(home: Path, locks: list[Path]) -> None:
    with ExitStack() as held:
        try:
            for lock in locks:
                held.enter_context(FileLock(lock, blocking=False, preserve_lock_file=True))
        except Timeout:
            return
        shutil.rmtree(home, ignore_errors=True)
