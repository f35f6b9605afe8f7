"""What happens between two steps: something is done before a chosen line, or change of a file, that a call comes to."""

import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_OURS = str(Path(__file__).parent)
_STANDARD = sysconfig.get_path("stdlib")
_CHANGES = ("os.", "open", "shutil.")
"""Python announces these calls, whoever makes them."""

Place = tuple[str, int]
"""A file and a line in it; or a call that changes files, and 0."""


Moment = tuple[Place, int]
"""A place, and how often a call has come to it, from 1."""


class Lines:
    """The lines and the changes of files that a call comes to, in order; no lines of the suite and of Python's own library.

    Args:
        at: when something is done; None only watches.
        act: what is done.

    Attributes:
        seen: the places so far.
    """

    def __init__(self, at: Moment | None = None, act: Callable[[], object] = list) -> None:
        self.seen: list[Place] = []
        self._times: Counter[Place] = Counter()
        self._at = at
        self._act = act
        self._watches = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch what this thread runs."""
        before = sys.gettrace()
        sys.addaudithook(self._announced)
        sys.settrace(self._entered)
        self._watches = True
        try:
            yield
        finally:
            self._watches = False
            sys.settrace(before)

    def _announced(self, event: str, values: Any) -> None:
        del values
        if self._watches and event.startswith(_CHANGES):
            self._come((event, 0))

    def _entered(self, frame: FrameType, event: str, value: Any) -> Any:
        del event, value
        return None if _is_skipped(frame.f_code.co_filename) else self._reached

    def _reached(self, frame: FrameType, event: str, value: Any) -> Any:
        del value
        if event in {"line", "return"}:
            self._come((frame.f_code.co_filename, frame.f_lineno))
        return self._reached

    def _come(self, place: Place) -> None:
        self.seen.append(place)
        self._times[place] += 1
        if (place, self._times[place]) == self._at:
            self._act()


def _is_skipped(file: str) -> bool:
    """Whether a file is of the suite or of Python itself, not of a package that was installed."""
    return file.startswith((_OURS, "<")) or (file.startswith(_STANDARD) and "-packages" not in file)


def chosen(seen: Sequence[Place]) -> list[Moment]:
    """Return the first and the last time of each line, and all changes of files, in their order.

    Not their numbers: another time, a loop before them may be longer.
    """
    times: Counter[Place] = Counter(seen)
    found, so_far = [], Counter[Place]()
    for place in seen:
        so_far[place] += 1
        if not place[1] or so_far[place] in {1, times[place]}:
            found.append((place, so_far[place]))
    return found
