"""The local copies of buckets that a worker process keeps open.

A process brings a copy up to date from the changelog in Spark's state before it uses it. A copy has a directory that no other
process uses: it is locked. One thread of a process has to do with copies, the main one.
"""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from operators.runtime.binding import Binding
from operators.runtime.stateful import StatefulOperator
from operators.spark.base.private_files import private_folder, state_folder
from operators.spark.replicas.local_files import (
    UNUSED_S,
    forget_copies,
    is_to_go,
    keep_for_an_hour,
    remove_copy,
    sweep,
)
from serializers import SerializationError
from state_backends import StateConfig, StateError
from state_backends.durability.scratch import mark
from state_backends.errors import DamagedCopyError


@dataclass(slots=True)
class _Copy:
    """An open copy of a bucket.

    Attributes:
        operator: runs over the copy.
        lock: the lock on its directory.
        used: when it was last used, in monotonic seconds.
    """

    operator: StatefulOperator
    lock: BaseFileLock
    used: float

    @property
    def lock_file(self) -> Path:
        """The file of the lock."""
        return Path(self.lock.lock_file)

    def close(self, *, remove: bool = False) -> None:
        """Release the backend and the directory, which may be removed before."""
        try:
            self.operator.close()
            with suppress(OSError):  # Then a sweep removes it.
                if remove or is_to_go(self.lock_file):
                    remove_copy(self.lock_file)
        finally:
            self.lock.release()


_Key = tuple[str, StateConfig]
_copies: dict[_Key, _Copy] = {}


@contextmanager
def lease_copy(binding: Binding, config: StateConfig, store_id: str) -> Iterator[StatefulOperator]:
    """The operator over this process's copy of a bucket. The copy is opened if needed, and stays open.

    After an error it is closed and forgotten, and deleted if it cannot be read.
    """
    key = store_id, config
    copy = _opened(binding, key) or _open(binding, key)
    try:
        yield copy.operator
    except BaseException as error:
        if isinstance(error, DamagedCopyError):
            copy.operator.discard()
        _copies.pop(key, None)
        _note_use(copy)
        copy.close()
        raise
    _note_use(copy)


def open_copies() -> set[_Key]:
    """The names and backends of all buckets of which this process has a copy."""
    return {*_copies}


def drop_unused(store_ids: Collection[str], seconds: float) -> None:
    """Close and forget this process's copies of these buckets that were not used for so long, in seconds."""
    before = time.monotonic() - seconds
    for key, copy in [*_copies.items()]:
        if key[0] in store_ids and copy.used < before:
            _copies.pop(key).close()


def drop_copy(config: StateConfig, store_id: str) -> None:
    """Close this process's copy of a bucket and forget it, if it has one."""
    copy = _copies.pop((store_id, config), None)
    if copy is not None:
        copy.close()


def remove_other_copies(config: StateConfig, store_id: str) -> None:
    """Remove the copies of a bucket on this machine but this process's, which has forgotten keys.

    Those that other processes hold, they remove: a process for state within a second or after what it works on, a worker with
    its next call or when it ends, and what one leaves that is killed, the next sweep.
    """
    own = _copies.get((store_id, config))
    forget_copies(config.directory / store_id, None if own is None else own.lock_file)


def drop_ordered() -> None:
    """Remove this process's copies that have to go, as another process has forgotten keys of them."""
    for key, copy in [*_copies.items()]:
        if is_to_go(copy.lock_file):
            _copies.pop(key).close()


def drop_all() -> None:
    """Close this process's copies, when what they write in the background is complete."""
    for key in [*_copies]:
        _close_unused(key)


def _close_unused(key: _Key) -> None:
    """Close a copy that nobody may need any more. Where keys are to be forgotten, it does not stay on the disk."""
    _copies.pop(key).close(remove=key[1].forget_folder is not None)


def _opened(binding: Binding, key: _Key) -> _Copy | None:
    """The copy that is open, if there is one that fits. Those that are idle for long are closed."""
    now = time.monotonic()
    for unused in [one for one, copy in _copies.items() if now - copy.used > UNUSED_S]:
        _close_unused(unused)
    copy = _copies.get(key)
    if copy is not None and (is_to_go(copy.lock_file) or not copy.operator.try_update_binding(binding)):
        _copies.pop(key).close()
        return None
    return copy


def _open(binding: Binding, key: _Key) -> _Copy:
    store_id, config = key
    directory, lock = _claim(
        config.directory, store_id, config.backend, forgets=config.forget_folder is not None
    )
    try:
        operator = StatefulOperator.open_copy(binding, config, directory, StateError, SerializationError)
    except BaseException:
        lock.release()
        raise
    _copies[key] = _Copy(operator, lock, time.monotonic())
    return _copies[key]


def _note_use(copy: _Copy) -> None:
    copy.used = time.monotonic()
    with suppress(OSError):
        os.utime(copy.lock_file)  # `sweep` reads this time.


def _claim(root: Path, store_id: str, backend: str, *, forgets: bool = False) -> tuple[Path, BaseFileLock]:
    """Return a directory that no other process uses, and the lock on it. One that a dead process left is taken over.

    Args:
        root: the directory of local state.
        store_id: the bucket's.
        backend: its name.
        forgets: whether the operator looks for requests to forget keys.

    Raises:
        StateError: the directory cannot be created or locked; names the root and the option.
    """
    try:
        sweep(state_folder(root))
        bucket_dir = private_folder(root / store_id)
        if forgets:
            keep_for_an_hour(bucket_dir)
        owner, lock = _first_free(bucket_dir)
    except OSError as error:
        raise StateError(
            f"cannot keep local state in {root}: {error}. Set spark.windows.state.directory to a directory that all "
            "workers can create and write to"
        ) from error
    return bucket_dir / f"{owner}-{backend.replace(':', '.').replace('/', '.')}", lock


def _first_free(bucket_dir: Path) -> tuple[str, BaseFileLock]:
    """Lock the file of the lowest number that is free; return the name of its directory, and the lock."""
    mark(bucket_dir)
    return next(found for number in count() if (found := _try_lock(bucket_dir, number)) is not None)


def _try_lock(bucket_dir: Path, number: int) -> tuple[str, BaseFileLock] | None:
    inodes: list[int] = []

    def on_acquired(descriptor: int) -> None:
        inodes.append(os.fstat(descriptor).st_ino)
        os.utime(descriptor)  # `sweep` reads this time.

    lock = FileLock(
        bucket_dir / f"{number}.lock",
        blocking=False,
        thread_local=False,
        preserve_lock_file=True,
        on_acquired=on_acquired,
    )
    try:
        lock.acquire()
    except Timeout:
        return None
    if is_to_go(Path(lock.lock_file)):  # Whoever had it was killed.
        remove_copy(Path(lock.lock_file))
    # If a lock file is deleted from outside, the next process locks a new one while the first still holds the old one.
    # The inode in the name keeps their directories apart.
    return f"{number}-{inodes[0]:x}", lock
