"""What is written to folders whose files come and go."""

from contextlib import suppress
from pathlib import Path

import numpy as np

_NOT_SENT = ".zip", ".tmp", ".crc"
"""What Spark makes of files that it has already, and files that are still being written."""


class Written:
    """Bytes of all files that were ever seen in folders. A file that comes and goes between two looks is missed.

    Args:
        folders: they need not exist yet.
    """

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders
        self._seen: list[dict[Path, int]] = [{} for _ in folders]

    def see(self) -> np.ndarray:
        """Look at all files; return the bytes that each folder has had in all."""
        for folder, seen in zip(self._folders, self._seen, strict=True):
            for path in folder.rglob("*"):
                if path.suffix not in _NOT_SENT and path.is_file():
                    with suppress(FileNotFoundError):
                        seen[path] = path.stat().st_size
        return np.array([sum(seen.values()) for seen in self._seen])
