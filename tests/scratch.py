"""Where checks of many small files have them."""

import tempfile
from pathlib import Path

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there


def temporary(name: str) -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder, in memory where the system can: a sync of a disk takes milliseconds."""
    return tempfile.TemporaryDirectory(prefix=f"{name}-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
