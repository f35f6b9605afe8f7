"""Files and folders that survive a power loss: each is passed to the disk before another file names it."""

import errno
import os
from pathlib import Path

_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)
"""How a file system says that it cannot sync a folder, or that this process may not open it."""


def sync_file(path: str | Path) -> None:
    """Wait until the bytes of a file are on the disk, whichever process wrote them.

    Raises:
        OSError: the disk failed to write them. They may be lost even if another attempt succeeds.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(path: str | Path) -> None:
    """Wait until the names in a folder are on the disk: of new files, and of renamed and removed ones."""
    try:
        sync_file(path)
    except OSError as error:
        if error.errno not in _NOT_SYNCED:
            raise


def make_folder(path: Path) -> None:
    """Create a folder with those above it, and wait until their names are on the disk.

    Raises:
        OSError: it cannot be created.
    """
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        sync_folder(folder.parent)


def sync_tree(path: Path) -> None:
    """Wait until all files of a folder are on the disk, and the folders below it."""
    for found in path.rglob("*"):
        (sync_folder if found.is_dir() else sync_file)(found)
    sync_folder(path)
