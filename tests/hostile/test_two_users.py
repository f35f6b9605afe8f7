"""Another user of the machine neither reads what a job stores, nor changes its rows, nor talks to its processes."""

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.two_users import ROWS

NAMES = ("windows-test-a", "windows-test-m")
DENIED = "PermissionError"

pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("useradd") is None,
    reason="only the administrator can make users: run as root, with useradd (apt-get install passwd)",
)


@pytest.fixture(scope="module")
def users() -> Iterator[list[int]]:
    """The numbers of two users who are made for these tests."""
    for name in NAMES:
        subprocess.run(
            ["/usr/bin/env", "useradd", "--system", "--user-group", "--no-create-home", name], check=True
        )
    yield [pwd.getpwnam(name).pw_uid for name in NAMES]
    for name in NAMES:
        subprocess.run(["/usr/bin/env", "userdel", name], check=True)


@pytest.fixture(scope="module")
def found(users: list[int]) -> dict[str, object]:
    """What came of each attempt."""
    read = [Path(__file__).parent, Path(sys.prefix)]
    for user in users:
        listing = subprocess.run(
            ["/usr/bin/env", "ls", *read], capture_output=True, user=user, group=user, check=False
        )
        if listing.returncode:
            pytest.skip(
                f"another user cannot read {read[0]} or {read[1]}: clone into a folder that others can enter"
            )
    shared = Path("/tmp", f"windows-two-users-{os.getpid()}")  # noqa: S108 - others cannot enter pytest's own folder
    shared.mkdir()
    shared.chmod(0o1777)
    try:
        command = [sys.executable, "-m", "tests.hostile.two_users", shared, *map(str, users)]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    finally:
        shutil.rmtree(shared)


@pytest.mark.slow
@pytest.mark.parametrize(
    "attempt",
    [
        "look into her sockets' folder",
        "connect to her process",
        "read her copies",
        "remove her process's socket",
        "remove her copies' folder",
    ],
)
def test_what_another_user_tries_is_denied(found: dict[str, object], attempt: str) -> None:
    """The system denies it, since folders of the job are its user's alone."""
    assert str(found[attempt]).startswith(DENIED), found[attempt]


def test_rows_are_right_meanwhile(found: dict[str, object]) -> None:
    """The batches before and after the attempts have their rows."""
    assert ([], ROWS) == (found["her first batch"], found["her second batch"])


def test_a_folder_that_another_user_made_is_not_used(found: dict[str, object]) -> None:
    """Neither for sockets, without which a process works for itself, nor for copies, where the error names it."""
    assert [[], ROWS] == found["her batches where he made her sockets' folder"]
    assert [] == found["what is in it"]
    refused = str(found["her batch in a directory that he made"])
    assert refused.startswith("StateError")
    assert "his/local" in refused
    assert "another user" in refused
