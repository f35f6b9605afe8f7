"""What befalls local copies of state while nobody works on them."""

import shutil
from pathlib import Path

KEPT, DELETED, COPIED, PUT_BACK = "kept", "deleted", "copied aside", "put back"


def strike(what: str, state: Path, aside: Path) -> None:
    """Delete a folder of local state, set a copy of it aside, or put the copy of an earlier time in its place.

    What is not there is not copied: then nothing befalls the state.
    """
    if what == DELETED:
        shutil.rmtree(state, ignore_errors=True)
    elif what == COPIED:
        _copy(state, aside)
    elif what == PUT_BACK:
        _copy(aside, state)


def _copy(source: Path, target: Path) -> None:
    if source.exists():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
