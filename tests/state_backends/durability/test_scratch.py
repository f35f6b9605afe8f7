"""Temporary folders: those of killed processes are removed, and nothing that is not the library's own."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from state_backends.durability.scratch import MARKER, Scratch, is_own, mark

OWN = "0123456789abcdef"


def made(folder: Path, *, marked: bool = True) -> Path:
    """A folder with a file in it."""
    folder.mkdir(parents=True)
    (folder / "chapter").write_text("one")
    if marked:
        mark(folder)
    return folder


def test_a_folder_lives_as_long_as_its_writer(tmp_path: Path) -> None:
    """It is made when it is needed, and removed with all that is in it; another writer does not touch it."""
    parent = tmp_path / "state-memory-snapshots"
    one, other = Scratch(parent), Scratch(parent)
    assert not parent.exists()
    (one.folder / "file").write_text("being written")
    assert stat.S_IMODE(one.folder.stat().st_mode) == stat.S_IRWXU
    assert one.folder == one.folder != other.folder
    third = Scratch(parent)
    assert (one.folder / "file").exists()
    other.close()
    third.close()
    assert [one.folder] == list(parent.iterdir())
    one.close()
    assert not parent.exists()
    assert list(one.folder.iterdir()) == [one.folder / MARKER]  # It can be used again.
    one.close()


@pytest.mark.kill
def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """The lock ends with the process."""
    code = (
        "import sys; from pathlib import Path; from state_backends.durability.scratch import Scratch\n"
        "made = Scratch(Path(sys.argv[1])); (made.folder / 'file').write_text('half'); print('made', flush=True); input()"
    )
    parent = tmp_path / "parent"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "made\n"
        Scratch(parent)
        assert len(list(parent.glob("*/file"))) == 1
        child.kill()
    Scratch(parent)
    assert not parent.exists()


@pytest.mark.parametrize("name", ["thesis", "7-x", OWN.upper(), OWN + "0"])
def test_folders_of_others_stay(name: str, tmp_path: Path) -> None:
    """Whatever has another name, or no mark; and the parent with them."""
    parent = tmp_path / "state-memory-snapshots"
    made(parent / name)
    made(parent / OWN, marked=False)
    (parent / "notes").write_text("mine")
    scratch = Scratch(parent)
    (scratch.folder / "file").write_text("x")
    scratch.close()
    assert {name, OWN, "notes"} == {path.name for path in parent.iterdir()}
    assert (parent / name / "chapter").exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither a link with a name of the library, nor one in its folder, nor a parent that is a link, nor a mark that is one."""
    theirs = made(tmp_path / "theirs" / OWN)
    parent = tmp_path / "parent"
    parent.mkdir()
    (parent / OWN).symlink_to(theirs, target_is_directory=True)
    marked_by_link = made(parent / OWN[::-1], marked=False)
    (marked_by_link / MARKER).symlink_to(theirs / MARKER)
    assert not is_own(marked_by_link)
    left = made(parent / ("f" * 16))
    (left / "link").symlink_to(theirs, target_is_directory=True)
    Scratch(parent)
    assert not left.exists()
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path / "theirs", target_is_directory=True)
    Scratch(linked)
    assert (theirs / "chapter").exists()
    assert (marked_by_link / "chapter").exists()
    shutil.rmtree(parent)
