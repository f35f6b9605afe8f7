"""The files of buckets in the directory of local state, and which of them go when.

    DIRECTORY/BUCKET/N.lock              held as long as a process has the copy; its time is that of the last use
    DIRECTORY/BUCKET/N-INODE-BACKEND/    the copy
    DIRECTORY/BUCKET/N.drop              whoever holds the lock has to remove the copy: it has keys that a batch has forgotten
    DIRECTORY/BUCKET/forgets             the operator looks for requests to forget keys: a free copy stays an hour, not a day
    DIRECTORY/BUCKET/rows-BATCH-TOKEN    rows on their way to the worker that makes rows of Spark of them

The directory may be one that others use too: what has not the library's name and mark stays.
"""

import re
import shutil
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from state_backends.durability.scratch import is_own

UNUSED_S = 3_600.0
"""How long a copy stays open without a call: a little more than the longest usual interval between batches."""
_ORPHAN_S = 86_400.0
"""How long what nobody uses stays: a pause between runs of a job, and more than a sink may take for the rows of a bucket."""
ROWS = "rows-{}"
_ROWS = re.compile(ROWS.format("[0-9a-f]{16}"))
_LOCK = re.compile("[0-9]{1,9}[.]lock")
_FORGETS = "forgets"


def sweep(root: Path) -> None:
    """Remove copies that no process holds and that were not used for a day, or an hour, and rows that are a day old.

    Args:
        root: the directory of local state.
    """
    if not root.is_dir():
        return
    for bucket_dir in root.iterdir():
        # Another process may remove the same files at the same time, and what cannot be removed must not stop a batch.
        with suppress(OSError):
            if not is_own(bucket_dir):
                continue
            locks = _locks(bucket_dir)
            unused_s = UNUSED_S if (bucket_dir / _FORGETS).exists() else _ORPHAN_S
            if locks and not any(_age(lock) < unused_s for lock in locks):
                _remove_unless_held(bucket_dir, locks)
            for lock in locks:
                _remove_free(lock, 0.0 if is_to_go(lock) else unused_s)
            for rows in rows_files(bucket_dir):
                if _age(rows) > _ORPHAN_S:
                    rows.unlink(missing_ok=True)


def keep_for_an_hour(bucket_dir: Path) -> None:
    """Have free copies of a bucket removed after an hour."""
    (bucket_dir / _FORGETS).touch(mode=0o600)


def forget_copies(bucket_dir: Path, own: Path | None) -> None:
    """Remove the copies of a bucket on this machine; those that a process holds, it removes itself.

    Args:
        bucket_dir: the bucket's folder.
        own: the lock of the copy that has forgotten the keys.
    """
    with suppress(OSError):
        if not is_own(bucket_dir):
            return
        for lock in _locks(bucket_dir):
            if lock != own and not _remove_free(lock, 0.0):
                _order(lock).touch(mode=0o600)


def is_to_go(lock: Path) -> bool:
    """Return whether the copy of a lock has to be removed."""
    return _order(lock).exists()


def remove_copy(lock: Path) -> None:
    """Remove a copy. The caller holds its lock, whose file stays."""
    for copy in lock.parent.glob(f"{lock.stem}-*"):
        shutil.rmtree(copy, ignore_errors=True)
    _order(lock).unlink(missing_ok=True)


def rows_files(bucket_dir: Path) -> list[Path]:
    """Return the files with rows of a bucket."""
    return [file for file in bucket_dir.iterdir() if is_rows_file(file)]


def is_rows_file(file: Path) -> bool:
    """Return whether a file has the name of one with rows."""
    return _ROWS.fullmatch(file.name) is not None


def _order(lock: Path) -> Path:
    return lock.with_suffix(".drop")


def _age(file: Path) -> float:
    return time.time() - file.lstat().st_mtime


def _locks(bucket_dir: Path) -> list[Path]:
    return [path for path in bucket_dir.iterdir() if _LOCK.fullmatch(path.name) and not path.is_symlink()]


def _remove_free(lock: Path, unused_s: float) -> bool:
    """Remove a copy that no process holds, and that was not used for so long, in seconds; return whether it was free."""
    try:
        if unused_s and _age(lock) < unused_s:
            return True
        with FileLock(lock, blocking=False, preserve_lock_file=True):
            remove_copy(lock)
    except Timeout:
        return False
    except OSError:  # Another process has removed it.
        return True
    return True


def _remove_unless_held(bucket_dir: Path, locks: list[Path]) -> None:
    with ExitStack() as held:
        try:
            for lock in locks:
                held.enter_context(FileLock(lock, blocking=False, preserve_lock_file=True))
        except Timeout:
            return
        shutil.rmtree(bucket_dir, ignore_errors=True)
