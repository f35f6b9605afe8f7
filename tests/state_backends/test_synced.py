"""Files and folders that are passed to the disk."""

from pathlib import Path

import pytest

from state_backends.synced import make_folder, sync_file, sync_folder, sync_tree


def test_make_folder_makes_those_above_it(tmp_path: Path) -> None:
    """It may be there already, as a folder."""
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    """It cannot have been passed to the disk."""
    for sync in (sync_file, sync_folder):
        with pytest.raises(FileNotFoundError):
            sync(tmp_path / "missing")


def test_tree_is_synced_with_all_that_is_in_it(tmp_path: Path) -> None:
    """Files without bytes, and folders without files, too."""
    make_folder(tmp_path / "a" / "empty")
    (tmp_path / "a" / "file").write_bytes(b"")
    sync_tree(tmp_path)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="only Linux has a folder that cannot be synced")
def test_folders_that_cannot_be_synced_are_left() -> None:
    """Some file systems sync no folders: that is no error, while a file is one."""
    sync_folder(Path("/proc/self"))
    with pytest.raises(OSError, match="Invalid argument"):
        sync_file(Path("/proc/self/status"))
