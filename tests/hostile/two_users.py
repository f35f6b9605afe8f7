"""Two users of one machine: one works on a bucket, the other tries what somebody can try who may write to shared folders.

    python -m tests.hostile.two_users SHARED ALICE MALLORY

is run by the administrator. SHARED is a folder in which everybody may make files, as in /tmp; the others are numbers of users.
It prints what came of each attempt, as JSON. All that is needed is imported before the processes change their user, who may
not be able to read it.
"""

import encodings.ascii  # noqa: F401 - opening a file would import it
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from operators.spark.replicas import where_held
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.state_process import main as hold_copies
from tests.operators.spark.bucket_worker import batch

ROWS = [["a", 2], ["b", 1]]
"""Key and count of the windows of the first batch, which the second one emits."""


def forked(parent: Parent, name: str) -> None:
    """Start a process for state by a fork, since a new interpreter of these users could read no library."""
    said, say = os.pipe()
    if not os.fork():
        os.dup2(say, 1)
        hold_copies(name, str(parent.number), parent.began)
    os.close(say)
    with os.fdopen(said) as lines:
        assert name == lines.readline().strip()


def as_user(user: int, function: Callable[[], object]) -> object:
    """What a function returns in a process of that user, or the error that it raises, as text."""
    with process_of(user, function) as answer:
        return answer()


@contextmanager
def process_of(user: int, *functions: Callable[[], object]) -> Iterator[Callable[[], object]]:
    """A process of that user, which calls one function after another as it is asked to; it ends with the context."""
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    process = os.fork()
    if not process:
        os.close(ask)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        for function in functions:
            if not os.read(asked, 1):
                break
            os.write(answer, json.dumps(outcome(function)).encode() + b"\n")
        os.read(asked, 1)
        os._exit(0)
    os.close(asked)
    os.close(answer)
    with os.fdopen(answered) as answers:

        def call() -> object:
            os.write(ask, b".")
            return json.loads(answers.readline())

        yield call
        os.close(ask)
        os.waitpid(process, 0)


def outcome(function: Callable[[], object]) -> object:
    """What the function returns, or its error."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - whatever the user meets is the outcome
        return f"{type(error).__name__}: {error}"


def folder_of(user: int, path: Path) -> Path:
    """A new folder that the user owns and others can look into."""
    path.mkdir()
    os.chown(path, user, user)
    return path


def rows_of(folder: Path, number: int) -> list[list[object]]:
    """The rows of a batch of the bucket in a folder: key and count."""
    return sorted([key, count] for key, _, count in batch(folder, "rocksdb", "run", number))


def names_in(folder: Path) -> list[str]:
    """The names in a folder."""
    return [path.name for path in folder.iterdir()]


def connected(path: Path) -> str:
    """Connect to a socket."""
    with socket.socket(socket.AF_UNIX) as trying:
        trying.connect(str(path))
    return "connected"


def attempts(shared: Path, alice: int, mallory: int) -> dict[str, object]:
    """What comes of what the second user tries while the first one's process lives, and before."""
    found: dict[str, object] = {}
    hers = folder_of(alice, shared / "hers")
    local = hers / "local"
    with process_of(alice, lambda: rows_of(hers, 0), lambda: rows_of(hers, 1)) as her_process:
        found["her first batch"] = her_process()
        sockets = shared / f"spark-windows-{alice}"
        (name,) = [path.name for path in sockets.iterdir() if not path.suffix]
        (copies,) = [path for path in local.iterdir() if path.is_dir()]
        found["look into her sockets' folder"] = as_user(mallory, lambda: names_in(sockets))
        found["connect to her process"] = as_user(mallory, lambda: connected(sockets / name))
        found["read her copies"] = as_user(mallory, lambda: names_in(copies))
        found["remove her process's socket"] = as_user(mallory, (sockets / name).unlink)
        found["remove her copies' folder"] = as_user(mallory, lambda: copies.rename(local / "gone"))
        found["her second batch"] = her_process()

    taken = folder_of(alice, shared / "taken")
    (shared / f"spark-windows-{alice}").rename(shared / "aside")
    as_user(mallory, lambda: (shared / f"spark-windows-{alice}").mkdir(mode=0o777))
    with process_of(alice, lambda: rows_of(taken, 0), lambda: rows_of(taken, 1)) as her_process:
        found["her batches where he made her sockets' folder"] = [her_process(), her_process()]
        found["what is in it"] = as_user(mallory, lambda: names_in(shared / f"spark-windows-{alice}"))

    his = folder_of(alice, shared / "his")
    (his / "local").mkdir()
    os.chown(his / "local", mallory, mallory)
    found["her batch in a directory that he made"] = as_user(alice, lambda: rows_of(his, 0))
    return found


if __name__ == "__main__":
    where_held.start = forked
    tempfile.tempdir = sys.argv[1]
    json.dump(attempts(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])), sys.stdout)
