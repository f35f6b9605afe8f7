"""Which process of Spark a worker belongs to, and whether that one lives.

With Spark's defaults, a daemon of the executor forks the workers; without it, the executor starts them itself. Both end with
the executor. What is to last longer than a worker, which Spark ends after a minute without work, lives as long as they do.
"""

import hashlib
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from operators.spark.base.inside import FILES_OF_SESSION

_ENDED = ("Z", "X", "")


@dataclass(frozen=True, slots=True)
class Parent:
    """A process, by its number and the time when it began, since numbers are used again.

    Attributes:
        number: the number of the process.
        began: when it began, in ticks of the system's clock, as text; "" on systems that do not tell.
    """

    number: int
    began: str

    @classmethod
    def of(cls, number: int) -> "Parent":
        """Return the process that has this number now."""
        return cls(number, _stat(number)[1])

    @property
    def arguments(self) -> tuple[str, str]:
        """What a process for state is told of it: its number, and when it began."""
        return str(self.number), self.began

    def lives(self) -> bool:
        """Return whether it has not ended. One that nobody has waited for has ended, too."""
        if not self.began:
            with suppress(PermissionError):
                try:
                    os.kill(self.number, 0)
                except ProcessLookupError:
                    return False
            return True
        state, began = _stat(self.number)
        return began == self.began and state not in _ENDED

    @property
    def key(self) -> str:
        """What the worker processes have in common that can work for one another, as 16 digits.

        The parent, its namespace of processes, the interpreter, the folder of this library, and the session if it has files.
        """
        library, session = str(Path(__file__).parent), os.environ.get(FILES_OF_SESSION, "")
        parts = self.number, self.began, _namespace(), sys.executable, library, session
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _namespace() -> int:
    """The number of this process's namespace of processes; 0 where the system has none."""
    with suppress(OSError):
        return Path("/proc/self/ns/pid").stat().st_ino
    return 0


def parent() -> Parent:
    """Return the parent of this worker."""
    return Parent.of(os.getppid())


def _stat(number: int) -> tuple[str, str]:
    """The state of a process and when it began; empty texts if there is none, or the system does not tell."""
    try:
        text = Path(f"/proc/{number}/stat").read_text("utf-8", "replace")
    except OSError:
        return "", ""
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]
