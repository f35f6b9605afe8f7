"""How long tests wait: as long as something moves. A busy machine is slow, and that is no failure."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

STILL_SECONDS = 300.0
"""What has not moved for so long does not move any more."""

ENVIRONMENT = {
    "SPARK_CONF_DIR": os.environ.get("TESTS_SPARK_CONF_DIR", str(Path(__file__).parent / "spark_conf"))
}
"""Of every process that starts a Spark session: the timeouts of all of them stand in that folder. TESTS_SPARK_CONF_DIR names
another one, with more conf."""

TOO_BUSY = "Python worker failed to connect back"
"""In the error of a query whose Python process did not start in 10 seconds: no conf gives it more."""
TRIES = 20
"""How often a query may end with that error."""

_LOOK_SECONDS = 0.01
_MOVED_SECONDS = 1.0
_MOVED_SHARE = 20
"""`moved` may look at thousands of files: of the time that is waited, it takes one part in so many."""


class StillError(Exception):
    """Nothing has moved for too long."""


def wait_until(
    condition: Callable[[], object],
    what: str,
    moved: Callable[[], object],
    still: float = STILL_SECONDS,
) -> None:
    """Wait until the condition holds.

    Args:
        condition: what is waited for.
        what: the same in words.
        moved: gives another value whenever there has been progress. It is asked once a second, or less often if it takes long.
        still: seconds without progress after which it is not waited for any longer.

    Raises:
        StillError: there was no progress for so long.
    """
    seen: object = object()
    since = due = time.monotonic()
    while not condition():
        if (began := time.monotonic()) >= due:
            now, asked = moved(), time.monotonic()
            due = asked + max(_MOVED_SECONDS, _MOVED_SHARE * (asked - began))
            if now != seen:
                seen, since = now, asked
            elif asked - since > still:
                raise StillError(f"{what}: nothing has moved for {still:g} s")
        time.sleep(_LOOK_SECONDS)


def files(*folders: Path) -> Callable[[], object]:
    """Return what tells whether files in the folders, or below them, have come, gone, grown or been written again."""

    def moved() -> object:
        return dict(state for folder in folders for state in _states(folder))

    return moved


def _states(folder: os.PathLike[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Path, size and time of change of each file; what has just gone is left out."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _states(entry)
                    continue
                with suppress(OSError):
                    found = entry.stat()
                    yield entry.path, (found.st_size, found.st_mtime_ns)
    except OSError:
        return
