"""The processor time of a process and of all that it has started. It imports nothing, so that any Python runs it."""

import os
import time
from pathlib import Path
from threading import Event, Thread

_LOOK_S = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessorTime:
    """Looks at the processor time of this process and of all below it, ten times a second."""

    def __init__(self) -> None:
        self._ends, self._looks = Event(), list[tuple[float, float]]()
        self._ended: dict[str, float] = {}
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self._ends.wait(_LOOK_S):
            self._looks.append((time.time(), self._seconds()))

    def _seconds(self) -> float:
        """Those that have ended count as they were seen last: what a process reads of its children lacks grandchildren."""
        parents, seconds = dict[str, str](), dict[str, float]()
        for path in Path("/proc").iterdir():
            if path.name.isdecimal():
                try:
                    rest = (path / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[path.name], seconds[path.name] = rest[1], (int(rest[11]) + int(rest[12])) / _TICKS
        own = {str(os.getpid())}
        while more := {name for name, parent in parents.items() if parent in own} - own:
            own |= more
        self._ended |= {name: seconds[name] for name in own}
        return sum(self._ended.values())

    def at(self, moment: float) -> float:
        """Return the seconds that were used until a moment, by the look before it."""
        return max((used for when, used in self._looks if when <= moment), default=0.0)
