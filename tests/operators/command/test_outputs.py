"""Files that commands write: nobody else's is followed, taken or seen half."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from operators.command.errors import CommandError
from operators.command.outputs import replacing


def test_planted_links_and_files_of_a_similar_name_are_left_alone(tmp_path: Path) -> None:
    """Whoever can write to the folder can't say where the rows go; a user's own file is no scratch file."""
    (tmp_path / "secret").write_text("mine")
    (tmp_path / ".out.csv.part").symlink_to(tmp_path / "secret")
    (tmp_path / ".other.csv.part").write_text("mine, too")
    for name in ("out.csv", "other.csv"):
        with replacing(tmp_path / name) as target:
            target.write_text("rows")
        assert "rows" == (tmp_path / name).read_text()
    assert "mine" == (tmp_path / "secret").read_text()
    assert "mine, too" == (tmp_path / ".other.csv.part").read_text()
    assert 5 == len(list(tmp_path.iterdir()))


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """What it leads to stays as it is."""
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "out.csv").symlink_to(tmp_path / "secret")
    with replacing(tmp_path / "out.csv") as target:
        target.write_text("rows")
    assert ("mine", "rows") == tuple((tmp_path / name).read_text() for name in ("secret", "out.csv"))
    assert not (tmp_path / "out.csv").is_symlink()


def test_runs_at_once_write_whole_files(tmp_path: Path) -> None:
    """The file is that of one run, whole."""
    both = Barrier(2)

    def run(text: str) -> None:
        with replacing(tmp_path / "out.csv") as target:
            target.write_text(text)
            both.wait(timeout=60)
            target.write_text(text * 2)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(run, "ab"))
    assert (tmp_path / "out.csv").read_text() in ("aa", "bb")
    assert [tmp_path / "out.csv"] == list(tmp_path.iterdir())


def test_only_its_user_can_read_a_file_that_is_not_complete(tmp_path: Path) -> None:
    """Then a new one has the usual rights, and one that is replaced keeps its own; a failure leaves it as it was."""
    before = os.umask(0o027)
    try:
        for rights in (0o640, 0o604):
            with replacing(tmp_path / "out.csv") as target:
                target.write_text("rows")
                assert 0o600 == stat.S_IMODE(target.stat().st_mode)
            assert rights == stat.S_IMODE((tmp_path / "out.csv").stat().st_mode)
            (tmp_path / "out.csv").chmod(0o604)
    finally:
        os.umask(before)
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "out.csv") as target:
        target.write_text(str(1 // 0))
    assert "rows" == (tmp_path / "out.csv").read_text()
    assert [tmp_path / "out.csv"] == list(tmp_path.iterdir())


def test_what_the_file_system_refuses_is_told_with_the_path(tmp_path: Path) -> None:
    """The file that was wanted, and not the scratch file."""
    path = tmp_path / "gone" / "out.csv"
    with (
        pytest.raises(CommandError, match=f"^{path} cannot be written: No such file or directory$"),
        replacing(path),
    ):
        raise AssertionError
    with (
        pytest.raises(CommandError, match=r"out\.csv cannot be written: No space left"),
        replacing(tmp_path / "out.csv"),
    ):
        raise OSError(28, "No space left on device")
