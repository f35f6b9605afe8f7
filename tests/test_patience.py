"""What waits goes on as long as something moves, and no longer."""

from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest

from tests import patience
from tests.patience import StillError, files, wait_until


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A look for progress at each turn."""
    monkeypatch.setattr(patience, "_MOVED_SECONDS", 0.0)


@pytest.mark.usefixtures("no_time")
def test_what_moves_is_waited_for() -> None:
    """Longer than the time for which nothing may move."""
    turns = count()
    wait_until(lambda: next(turns) > 20, "turns", count().__next__, still=0.05)


@pytest.mark.usefixtures("no_time")
def test_what_stands_still_is_not() -> None:
    """The error says what does not come."""
    with pytest.raises(StillError, match=r"a file: nothing has moved for 0\.05 s"):
        wait_until(lambda: False, "a file", lambda: 1, still=0.05)


def test_files_move(tmp_path: Path) -> None:
    """When they come, grow, or go, at any depth."""
    moved, seen = files(tmp_path, tmp_path / "none"), []
    (tmp_path / "a" / "b").mkdir(parents=True)
    file = tmp_path / "a" / "b" / "file"
    for text in ("", "1", None):
        seen.append(moved())
        file.unlink() if text is None else file.write_text(text)
    seen.append(moved())
    assert seen[0] == seen[3]
    assert not any(one == other for one, other in pairwise(seen))
