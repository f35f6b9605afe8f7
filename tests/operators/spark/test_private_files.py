"""Folders and files that no other user can look into, replace, or make a process wait for."""

import os
from pathlib import Path

import pytest

from operators.spark.base.private_files import check_owner, private_folder, read_small, write_small


def belongs_to_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file or folder one of another user, for this test."""
    if os.getuid() == 0:
        os.lchown(path, 65534, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 65534)


def test_a_new_folder_is_this_users_alone(tmp_path: Path) -> None:
    assert 0o700 == private_folder(tmp_path / "new").stat().st_mode & 0o777


def test_a_folder_that_others_could_read_is_closed(tmp_path: Path) -> None:
    """As earlier versions made them. What is in it stays."""
    (tmp_path / "old").mkdir(mode=0o755)
    (tmp_path / "old" / "file").touch()
    assert 0o700 == private_folder(tmp_path / "old").stat().st_mode & 0o777
    assert (tmp_path / "old" / "file").exists()


@pytest.mark.parametrize("what", ["writable", "link", "file", "of another user"])
def test_other_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    path = tmp_path / "folder"
    if what == "file":
        path.touch()
    else:
        (path if what != "link" else tmp_path / "elsewhere").mkdir(mode=0o700)
    if what == "writable":
        path.chmod(0o720)
    if what == "link":
        path.symlink_to(tmp_path / "elsewhere")
    if what == "of another user":
        belongs_to_another(path, monkeypatch)
    with pytest.raises(PermissionError, match=f"{path} is not a folder that only this user can enter"):
        private_folder(path)


def test_an_owner_is_this_user_or_the_administrator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_owner(tmp_path)
    check_owner(Path("/"))
    (tmp_path / "theirs").mkdir()
    belongs_to_another(tmp_path / "theirs", monkeypatch)
    with pytest.raises(PermissionError, match="theirs belongs to another user"):
        check_owner(tmp_path / "theirs")


def test_a_file_replaces_what_has_its_name(tmp_path: Path) -> None:
    """A link is replaced, and not followed; nothing else is left in the folder."""
    (tmp_path / "target").write_text("kept")
    (tmp_path / "name").symlink_to(tmp_path / "target")
    for text in ("one", "two"):
        write_small(tmp_path / "name", text)
        assert text == read_small(tmp_path / "name")
    assert "kept" == (tmp_path / "target").read_text()
    assert 0o600 == (tmp_path / "name").stat().st_mode & 0o777
    assert {"name", "target"} == {path.name for path in tmp_path.iterdir()}


def test_what_cannot_be_replaced_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()
    with pytest.raises(OSError, match="name"):
        write_small(tmp_path / "name", "one")
    assert ["name"] == [path.name for path in tmp_path.iterdir()]


def test_only_small_files_of_this_user_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe, which would be waited for, a link, bytes that are no text, and a file of another user are not."""
    place = tmp_path / "name"
    with pytest.raises(FileNotFoundError):
        read_small(place)
    place.write_text("one")
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(OSError, match="link"):
        read_small(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    assert read_small(tmp_path / "pipe") is None
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert read_small(tmp_path / "bytes") is None
    place.write_text("x" * 1_000_000)
    assert "x" * 256 == read_small(place)
    belongs_to_another(place, monkeypatch)
    assert read_small(place) is None
