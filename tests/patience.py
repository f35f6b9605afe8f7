"""How long tests wait: as long as something moves. A busy machine is slow, and that is no failure."""

import os
import time
from collections.abc import Callable
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
        moved: gives another value whenever there has been progress. It is asked once a second.
        still: seconds without progress after which it is not waited for any longer.

    Raises:
        StillError: there was no progress for so long.
    """
    seen, since, asked = moved(), time.monotonic(), time.monotonic()
    while not condition():
        time.sleep(_LOOK_SECONDS)
        if time.monotonic() - asked < _MOVED_SECONDS:
            continue
        now, asked = moved(), time.monotonic()
        if now != seen:
            seen, since = now, asked
        elif asked - since > still:
            raise StillError(f"{what}: nothing has moved for {still:g} s")


def files(*folders: Path) -> Callable[[], object]:
    """Return what tells whether files in the folders, or below them, have come, gone, grown or been written again."""

    def moved() -> object:
        walked = [level for folder in folders for level in os.walk(folder)]
        paths = [Path(at, name) for at, _, names in walked for name in names]
        return {path: state for path in paths if (state := _state(path))}

    return moved


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of change; None of a file that has just gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
