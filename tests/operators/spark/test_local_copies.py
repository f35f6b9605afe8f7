"""A worker's copy of a bucket is expendable: one that cannot be opened is rebuilt from the changelog."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from operators import TumblingWindows
from operators import aggregates as agg
from operators.spark.replicas import copies
from operators.spark.replicas.copies import _claim, drop_copy, lease_copy, remove_other_copies
from operators.spark.replicas.local_files import sweep
from state_backends import StateError, resolve
from state_backends.journal import MemoryJournal
from tests.feeds import committed
from tests.operators.spark.test_private_files import belongs_to_another

LONG_AGO = time.time() - 2 * 86_400
TABLE = pa.table({"k": ["a", "b"], "at": pa.array([1, 2], pa.int64())})


def test_a_damaged_copy_is_rebuilt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a crash of the machine leaves of RocksDB's files may be anything; the changelog has what counts."""
    config = resolve("rocksdb", {"state.directory": str(tmp_path)})
    op = TumblingWindows(10).group_by("k").aggregate(n=agg.count())
    binding, journal = op.bind(TABLE.schema, "at", config), MemoryJournal()
    with lease_copy(binding, config, "bucket") as copy:
        committed(copy, journal, 0, [TABLE])
    drop_copy(config, "bucket")
    current = next(tmp_path.glob("bucket/*-rocksdb/CURRENT"))
    current.write_text("MANIFEST-of-nothing\n")
    with caplog.at_level(logging.WARNING, "operators"), lease_copy(binding, config, "bucket") as copy:
        done = committed(copy, journal, 100, [TABLE])
    drop_copy(config, "bucket")
    assert sorted(done.rows.column("n").to_pylist()) == [1, 1]  # Those of before: the new ones are late.
    assert done.counters.late == 2
    assert "cannot open a local copy, and rebuilds it from the changelog" in caplog.text


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Where a file is in the way, nothing is thrown away; the option is named, too."""
    (tmp_path / "here").write_text("a file")
    config = resolve("rocksdb", {"state.directory": str(tmp_path / "here")})
    op = TumblingWindows(10).aggregate(n=agg.count())
    message = f"cannot keep local state in {tmp_path}/here: .* Set spark.windows.state.directory to a directory that"
    binding = op.bind(TABLE.schema, "at", config)
    with pytest.raises(StateError, match=message), lease_copy(binding, config, "bucket"):
        pass
    assert (tmp_path / "here").read_text() == "a file"


def test_a_directory_is_taken_over_from_a_process_that_ended(tmp_path: Path) -> None:
    """A released directory is used again with what it holds; one in use is left to its process."""
    first, lock = _claim(tmp_path, "bucket", "rocksdb")
    other, other_lock = _claim(tmp_path, "bucket", "rocksdb")
    assert (first.name[:2], other.name[:2]) == ("0-", "1-")
    lock.release()
    again, lock = _claim(tmp_path, "bucket", "rocksdb")
    assert again == first
    lock.release()
    other_lock.release()


@pytest.mark.slow
def test_a_killed_process_releases_its_directory(tmp_path: Path) -> None:
    """The lock ends with the process, however it ends."""
    code = (
        "import sys, time; from pathlib import Path; from operators.spark.replicas.copies import _claim\n"
        "directory, lock = _claim(Path(sys.argv[1]), 'bucket', 'rocksdb')\n"
        "print(directory, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        held = Path(process.stdout.readline().strip())
        other, other_lock = _claim(tmp_path, "bucket", "rocksdb")
        process.kill()
    taken_over, lock = _claim(tmp_path, "bucket", "rocksdb")
    assert (other != held, taken_over) == (True, held)
    lock.release()
    other_lock.release()


def test_a_deleted_lock_file_gives_another_directory(tmp_path: Path) -> None:
    """What cleans temporary files may delete the lock of a live process: the next one must not meet it."""
    first, lock = _claim(tmp_path, "bucket", "rocksdb")
    (tmp_path / "bucket" / "0.lock").unlink()
    second, second_lock = _claim(tmp_path, "bucket", "rocksdb")
    assert first != second
    lock.release()
    second_lock.release()


def test_old_copies_that_nobody_holds_are_removed(tmp_path: Path) -> None:
    """Copies stay while a process holds them, and for a day after they were opened."""
    fresh, held, old, new = (f"{number:016x}" for number in range(4))
    locks = {}
    for name in (fresh, held, old):
        directory, locks[name] = _claim(tmp_path, name, "memory")
        directory.mkdir()
    for name in (held, old):
        os.utime(tmp_path / name / "0.lock", (LONG_AGO, LONG_AGO))
    locks[fresh].release()
    locks[old].release()
    _, lock = _claim(tmp_path, new, "memory")
    assert {path.name for path in tmp_path.iterdir()} == {fresh, held, new}
    lock.release()
    locks[held].release()


BUCKET = "0123456789abcdef"
COPIES = """
import sys
from pathlib import Path
from operators.spark.replicas import copies
from state_backends.journal import MemoryJournal
from tests.operators.spark.test_local_copies import BUCKET, filled
filled(Path(sys.argv[1]), BUCKET)
"""
HOLDS = {
    "a process for state": "from operators.spark.replicas.state_process import main; "
    "import os; main('0' * 16, str(os.getpid()), '', lambda name: print(name, flush=True))",
    "a worker": "print('ready', flush=True); input(); filled(Path(sys.argv[1]), BUCKET); "
    "print('filled', flush=True); sys.stdin.read()",
    "one that is killed": "print('ready', flush=True); sys.stdin.read()",
}


def filled(folder: Path, store_id: str, forgets: str = "") -> Path:
    """Have this process hold a copy of a bucket with keys, and return its folder."""
    options = {"state.directory": str(folder), "state.forget.folder": forgets}
    config = resolve("rocksdb", {name: value for name, value in options.items() if value})
    op = TumblingWindows(10).group_by("k").aggregate(n=agg.count())
    with lease_copy(op.bind(TABLE.schema, "at", config), config, store_id) as copy:
        committed(copy, MemoryJournal(), 0, [TABLE])
        return copy._directory


def until(reached: Callable[[], bool]) -> None:
    """Wait for it, for as long as a slow machine may need."""
    deadline = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("holder", HOLDS)
def test_a_copy_of_another_process_goes_when_keys_are_forgotten(tmp_path: Path, holder: str) -> None:
    """A process for state removes it by itself, a worker with its next call, and what a killed one leaves, the next sweep."""
    command = [sys.executable, "-c", COPIES + HOLDS[holder], str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        (theirs,) = (tmp_path / BUCKET).glob("*-rocksdb")
        own = filled(tmp_path, BUCKET)
        remove_other_copies(resolve("rocksdb", {"state.directory": str(tmp_path)}), BUCKET)
        if holder == "a worker":
            (theirs / "of the first").touch()  # A new folder may have the inode of the old one.
            process.stdin.write("\n")
            process.stdin.flush()
            assert "filled\n" == process.stdout.readline()
            assert not (theirs / "of the first").exists()
        elif holder == "a process for state":
            until(lambda: not theirs.exists())
        process.kill()
    sweep(tmp_path)
    assert theirs.exists() == (holder == "a worker"), "a worker has made a new one"
    assert own.exists()
    assert [] == [*(tmp_path / BUCKET).glob("*.drop")]
    drop_copy(resolve("rocksdb", {"state.directory": str(tmp_path)}), BUCKET)


def test_a_copy_with_keys_to_forget_is_not_used_again(tmp_path: Path) -> None:
    """The process that had it was killed before it removed it: the next one begins with an empty folder."""
    directory, lock = _claim(tmp_path, BUCKET, "memory")
    directory.mkdir()
    (tmp_path / BUCKET / "0.drop").touch()
    lock.release()
    again, lock = _claim(tmp_path, BUCKET, "memory")
    assert (directory, False) == (again, again.exists())
    lock.release()


def test_copies_of_operators_that_forget_stay_for_an_hour(tmp_path: Path) -> None:
    """Those of others for a day after their last use. On close, a process leaves no copy that it has not used for an hour."""
    forgets, other = "f" * 16, "e" * 16
    config = resolve(
        "rocksdb", {"state.directory": str(tmp_path), "state.forget.folder": str(tmp_path / "r")}
    )
    for name, forgetting in ((forgets, str(tmp_path / "r")), (other, "")):
        copy = filled(tmp_path, name, forgetting)
        drop_copy(config if forgetting else resolve("rocksdb", {"state.directory": str(tmp_path)}), name)
        lock = copy.parent / "0.lock"
        assert time.time() - lock.stat().st_mtime < 600
        os.utime(lock, (time.time() - 4_000,) * 2)
    sweep(tmp_path)
    assert [False, True] == [(tmp_path / name).exists() for name in (forgets, other)]
    copy = filled(tmp_path, forgets, str(tmp_path / "r"))
    copies._copies[forgets, config].used -= 4_000
    filled(tmp_path, other)
    assert not copy.exists()
    drop_copy(resolve("rocksdb", {"state.directory": str(tmp_path)}), other)


def test_folders_of_others_are_not_removed(tmp_path: Path) -> None:
    """Whoever chooses a directory that has other things keeps them: projects with lock files, and what a link leads to."""
    theirs = {"thesis": "poetry.lock", "site": "0.lock", "0123456789abcdef": "0.lock"}
    for name, lock in theirs.items():
        folder = tmp_path / "home" / name
        folder.mkdir(parents=True)
        (folder / "chapter").write_text("one")
        (folder / lock).touch()
        os.utime(folder / lock, (LONG_AGO, LONG_AGO))
    away = tmp_path / "away" / "00000000000000ff"
    directory, lock = _claim(away.parent, away.name, "memory")
    directory.mkdir()
    lock.release()
    os.utime(away / "0.lock", (LONG_AGO, LONG_AGO))
    (tmp_path / "home" / away.name).symlink_to(away, target_is_directory=True)
    old, lock = _claim(tmp_path / "home", "f" * 16, "memory")
    lock.release()
    (old.parent / "7.lock").symlink_to(away / "0.lock")
    os.utime(old.parent / "0.lock", (LONG_AGO, LONG_AGO))
    _, lock = _claim(tmp_path / "home", "e" * 16, "memory")
    lock.release()
    assert {*theirs, away.name, "e" * 16} == {path.name for path in (tmp_path / "home").iterdir()}
    assert all((tmp_path / "home" / name / "chapter").exists() for name in theirs)
    assert directory.exists()


@pytest.mark.parametrize("found", ["missing", "readable", "home"])
def test_copies_are_for_this_user_alone(tmp_path: Path, found: str) -> None:
    """Whatever the umask is, and also in a folder that others can look into, as earlier versions made them."""
    root = tmp_path / "parent" / "state"
    if found != "missing":
        (root / "bucket" if found == "home" else root).mkdir(parents=True, mode=0o755)
    _, lock = _claim(root, "bucket", "memory")
    assert 0o700 == (root / "bucket").stat().st_mode & 0o777
    assert (0o700 if found == "missing" else 0o755) == root.stat().st_mode & 0o777
    lock.release()


@pytest.mark.parametrize("whose", ["state", "state/bucket"])
def test_a_directory_of_another_user_is_refused(
    tmp_path: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could read what is in it, or replace it. So could others in a copy's folder that all can write to."""
    (tmp_path / "state" / "bucket").mkdir(parents=True)
    belongs_to_another(tmp_path / whose, monkeypatch)
    with pytest.raises(StateError, match=r"cannot keep local state in .*/state: .*(another|only this) user"):
        _claim(tmp_path / "state", "bucket", "memory")


def test_a_copy_goes_on_with_the_program_of_each_run(tmp_path: Path) -> None:
    """Functions of the run before are not called any more, also where the copy stays open."""
    config = resolve("memory", {"state.directory": str(tmp_path)})
    journal, windows = MemoryJournal(), TumblingWindows(10).group_by("k")
    counts = []
    for by, at in ((1, 0), (10, 10), (10, 20)):
        op = windows.aggregate(n=agg.fold(int, partial(counted_by, by), type="bigint", name="counted"))
        binding = op.bind(TABLE.schema, "at", config)
        table = pa.table({"k": ["a", "a"], "at": pa.array([at, at], pa.int64())})
        with lease_copy(binding, config, "bucket") as copy:
            rows = committed(copy, journal, at + 5, [table]).rows
        counts += rows.column("n").to_pylist()
        with lease_copy(binding, config, "bucket") as again:
            assert again is copy
    drop_copy(config, "bucket")
    assert [2, 20] == counts


def counted_by(by: int, state: int) -> int:
    """Count a record."""
    return state + by
