"""Folders and small files of one user, on machines that others use as well."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MOST_BYTES = 256


def private_folder(path: Path) -> Path:
    """Return a folder that only this user can enter. It is made if it is missing; its parent has to exist.

    One of this user that others could look into is closed to them.

    Raises:
        PermissionError: it belongs to another user, others can write to it, or it is a link or a file.
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=stat.S_IRWXU)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & _OTHERS_WRITE:
        raise PermissionError(f"{path} is not a folder that only this user can enter")
    if found.st_mode & _OTHERS:
        path.chmod(stat.S_IRWXU)
    return path


def state_folder(path: Path) -> Path:
    """Return the directory of local state. If it is missing, it is made as one that only this user can enter.

    One that is there may be the administrator's. Everything that the library makes in it has its own checks.

    Raises:
        PermissionError: it belongs to another user, or is a link of another user.
        OSError: it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=stat.S_IRWXU)
    check_owner(path)
    return path


def check_owner(folder: Path) -> None:
    """Refuse a folder that another user made, and whose content that user can therefore replace; and a link of that user.

    Folders of the administrator are not refused.

    Raises:
        PermissionError: names the folder and its owner.
        OSError: it is missing.
    """
    for owner in (folder.lstat().st_uid, folder.stat().st_uid):
        if owner not in (0, os.getuid()):
            why = f"{folder} belongs to another user (number {owner}), who could replace what is in it"
            raise PermissionError(errno.EACCES, why)


def write_small(path: Path, text: str) -> None:
    """Write a small file in one step, in the place of whatever has its name: no link is followed.

    Raises:
        OSError: it cannot be written.
    """
    written = path.with_name(f"{path.name}-{os.urandom(8).hex()}")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        written.replace(path)
    except OSError:
        written.unlink(missing_ok=True)
        raise


def read_small(path: Path) -> str | None:
    """Return what `write_small` wrote; None for a link, a pipe, a file of another user, or one with other content.

    Raises:
        OSError: it is missing, or cannot be read.
    """
    # A pipe that is opened in this way does not wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            return None
        data = file.read(_MOST_BYTES)
    return data.decode("ascii") if data.isascii() else None
