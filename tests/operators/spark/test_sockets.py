"""Where processes listen: in a folder of this user alone, each under a name of its own, until it ends."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from operators.spark.replicas.sockets import listen, living, one_at_a_time, socket_of

LISTENS = """
from operators.spark.replicas.sockets import listen
place = listen()
print(place.name, flush=True)
input()
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of sockets in another one for temporary files, whose name is shorter than that of `tmp_path`."""
    tmp_path_factory.getbasetemp()  # Made now, and not in that folder.
    with tempfile.TemporaryDirectory() as made:
        monkeypatch.setattr("tempfile.tempdir", made)
        monkeypatch.setenv("TMPDIR", made)
        yield Path(made, f"spark-windows-{os.getuid()}")


def process(*before: str) -> subprocess.Popen[str]:
    """Another process that listens, until a line is written to it."""
    command = [*before, sys.executable, "-c", LISTENS]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def names(folder: Path) -> set[str]:
    """The names of all sockets."""
    return {path.name for path in folder.iterdir() if not path.suffix}


@pytest.mark.parametrize("before", [[], ["unshare", "--pid", "--fork"]], ids=["here", "in a container"])
def test_sockets_stay_as_long_as_their_process(folder: Path, before: list[str]) -> None:
    """Processes that start remove those that were left. Containers may share the folder and not the numbers of processes."""
    if before and subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user can make no container")
    own = listen()
    with process(*before) as other:
        assert other.stdout is not None
        theirs = other.stdout.readline().strip()
        assert {own.name, theirs} == names(folder)
        second = listen()
        assert {own.name, theirs, second.name} == names(folder)
        other.communicate("\n")
    second.close()
    third = listen()
    assert {own.name, third.name} == names(folder)
    assert 4 == len(list(folder.iterdir()))
    own.close()
    third.close()


def test_a_killed_process_leaves_nothing_for_long(folder: Path) -> None:
    with process() as other:
        assert other.stdout is not None
        theirs = other.stdout.readline().strip()
        other.kill()
    own = listen()
    assert {own.name} == names(folder)
    assert theirs != own.name
    own.close()


def test_names_lead_nowhere_else(folder: Path) -> None:
    """What is no name of a socket has none."""
    for name in ("0123456789abcdef", "0123456789abcdef-0", "0123456789abcdef-9999"):
        assert folder / name == socket_of(name)
    wrong = [
        "",
        "x",
        "0" * 15,
        "0" * 17,
        "../" + "0" * 13,
        "/tmp/0123456789a",  # noqa: S108
        "0123456789abcdef\n",
        "0" * 16 + "-",
        None,
    ]
    assert [None] * len(wrong) == [socket_of(name) for name in wrong]


def test_the_folder_is_this_users_alone(folder: Path) -> None:
    """One that others can write to is not used, nor is a link: somebody may have put something there."""
    listen().close()
    assert 0o700 == folder.stat().st_mode & 0o777
    folder.chmod(0o770)
    with pytest.raises(PermissionError, match="not a folder that only this user can enter"):
        listen()
    moved = folder.rename(folder.with_name("moved"))
    moved.chmod(0o700)
    folder.symlink_to(moved)
    with pytest.raises(PermissionError, match="not a folder that only this user can enter"):
        socket_of("0123456789abcdef")


def test_what_is_in_the_way_stays(folder: Path, tmp_path: Path) -> None:
    """A link or a pipe that looks like a lock is neither followed nor waited for."""
    (tmp_path / "mine.lock").touch()
    folder.mkdir(mode=0o700)
    (folder / "0123456789abcdef.lock").symlink_to(tmp_path / "mine.lock")
    os.mkfifo(folder / "fedcba9876543210.lock")
    listen().close()
    assert (tmp_path / "mine.lock").exists()
    assert (folder / "0123456789abcdef.lock").is_symlink()


def test_a_name_is_that_of_one_process_at_a_time(folder: Path) -> None:
    """Its successor has another token, and gets what is asked of it from then on."""
    name = "0123456789abcdef-3"
    assert not living(name)
    with process() as other:
        assert other.stdout is not None
        theirs = other.stdout.readline().strip()
        before = living(theirs)
        assert before
        with pytest.raises(BlockingIOError, match="another process listens"):
            listen(theirs)
        other.kill()
    assert not living(theirs)
    place = listen(theirs)
    assert living(theirs) not in ("", before)
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(folder / theirs))
    own = listen(name)
    assert {theirs, name} == names(folder)
    for one in (place, own):
        one.close()
    assert not living(name)


def test_those_that_start_a_process_take_turns(folder: Path) -> None:
    """One that waits for too long says for whom; and what is left goes with the next process that listens."""
    name = "0123456789abcdef-3"
    with (
        one_at_a_time(name, 1.0),
        one_at_a_time("0123456789abcdef-4", 1.0),
        pytest.raises(TimeoutError, match=f"another process has held .*/{name}.turn for 0.05 s"),
        one_at_a_time(name, 0.05),
    ):
        pass
    with one_at_a_time(name, 0.0):
        listen().close()
        assert [name] == [path.stem for path in folder.glob("*.turn")]
    listen().close()
    assert [] == [*folder.glob("*.turn")]
