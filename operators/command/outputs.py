"""The file that a command writes: checked before Spark starts, and complete whenever it has its name."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operators.command.errors import CommandError


def check_out(path: Path) -> None:
    """Refuse a file that cannot be written.

    Raises:
        CommandError: its folder does not exist or cannot be written to, or it is a folder itself.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise CommandError(f"there is no folder {folder}: create it, or give --out another file")
    if path.is_dir():
        raise CommandError(f"{path} is a folder: give --out a file")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"this user may not write to the folder {folder}: give --out another file")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Provide a file to write, which takes the place of another one when it is complete.

    Nobody can know its name before, and only this user can read it until it is complete.

    Raises:
        CommandError: the file system does not let it be written; names the file that was wanted.
    """
    target = path.absolute()
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error
    aside = Path(name)
    try:
        mode = _mode(target)
        yield aside
        aside.replace(target)
        os.fchmod(descriptor, mode)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        os.close(descriptor)
        aside.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    """Return the rights of the file that is replaced, or those of a new one."""
    if path.is_file() and not path.is_symlink():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
