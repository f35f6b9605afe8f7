"""What happens between two steps: something is done before a chosen line, or change of a file, that a call comes to."""

import sys
import sysconfig
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


class Lines:
    """The lines and the changes of files that a call comes to, in order; no lines of the suite and of Python's own library.

    Args:
        at: the number of the place before which something is done, from 0; None only watches.
        act: what is done.

    Attributes:
        seen: the places so far.
    """

    def __init__(self, at: int | None = None, act: Callable[[], object] = list) -> None:
        self.seen: list[Place] = []
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
        if len(self.seen) - 1 == self._at:
            self._act()


def _is_skipped(file: str) -> bool:
    """Whether a file is of the suite or of Python itself, not of a package that was installed."""
    return file.startswith((_OURS, "<")) or (file.startswith(_STANDARD) and "-packages" not in file)


def chosen(seen: Sequence[Place]) -> list[int]:
    """Return the numbers of the first and the last time of each line, and of all changes of files, ascending."""
    times: dict[Place, list[int]] = {}
    for number, place in enumerate(seen):
        times.setdefault(place, []).append(number)
    return sorted(
        {n for (_, line), found in times.items() for n in ((found[0], found[-1]) if line else found)}
    )
