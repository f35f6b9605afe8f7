"""A journal in a file outlives its process, and says what is wrong with a file that it cannot use."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from state_backends import StateError
from state_backends.sqlite_journal import JOURNAL_VERSION, SqliteJournal

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is not there yet, nor its directory."""
    return tmp_path / "a" / "journal"


@pytest.fixture
def sqlite_journal(path: Path) -> Iterator[SqliteJournal]:
    """An empty journal in a file."""
    with closing(SqliteJournal(path)) as journal:
        yield journal


def test_file_outlives_the_journal(path: Path) -> None:
    """The next journal on the file sees what was committed, and nothing of what was not."""
    with closing(SqliteJournal(path)) as journal:
        journal.put("pointer", bytes(range(256)))
        journal.commit()
        journal.put("pointer", b"lost")
        journal.put("log-1", b"lost")
    with closing(SqliteJournal(path)) as again:
        assert [bytes(range(256)), None] == [again.get(name) for name in ("pointer", "log-1")]


@pytest.mark.parametrize(("waits", "synchronous"), [(True, 2), (False, 1)])
def test_commit_waits_for_the_disk_or_not(path: Path, waits: bool, synchronous: int) -> None:
    """As SQLite numbers it. A journal that does not wait is synced when it is asked to be."""
    with closing(SqliteJournal(path, waits=waits)) as journal:
        assert journal._pragma("synchronous") == synchronous
        journal.put("pointer", b"there")
        journal.commit()
        journal.sync()
        assert journal.get("pointer") == b"there"


def test_other_readers_see_commits(path: Path, sqlite_journal: SqliteJournal) -> None:
    """A second journal that only reads sees each commit, whole; large changes that wait for theirs hinder neither."""
    with closing(SqliteJournal(path)) as reader:
        for number in (b"1" * (5 << 20), b"2"):
            before = reader.get("a")
            sqlite_journal.put("a", number)
            sqlite_journal.put("b", number)
            assert [before, before] == [reader.get("a"), reader.get("b")]
            sqlite_journal.commit()
            assert [number, number] == [reader.get("a"), reader.get("b")]


def test_any_thread_may_call(sqlite_journal: SqliteJournal) -> None:
    """A journal that one thread opened is written, committed and read by others."""
    sqlite_journal.put("a", b"1")
    with ThreadPoolExecutor(1) as other:
        other.submit(sqlite_journal.put, "b", b"2").result()
        other.submit(sqlite_journal.commit).result()
    sqlite_journal.rollback()
    assert [b"1", b"2"] == [sqlite_journal.get("a"), sqlite_journal.get("b")]


def test_close_twice(path: Path) -> None:
    """A second close is no error; the log is then part of the file."""
    journal = SqliteJournal(path)
    journal.put("a", b"1")
    journal.commit()
    journal.close()
    journal.close()
    assert [path] == list(path.parent.iterdir())


def test_second_owner_is_refused(path: Path, sqlite_journal: SqliteJournal) -> None:
    """While one owner has changes that are not committed, another cannot begin: it is told who hinders it."""
    sqlite_journal.put("a", b"1")
    with closing(SqliteJournal(path)) as second:
        second._db.execute("PRAGMA busy_timeout = 0")
        with pytest.raises(
            StateError,
            match=r"cannot read or write the journal .*a/journal: .*locked\. If another process uses it, stop",
        ):
            second.put("a", b"2")
        sqlite_journal.commit()
        assert b"1" == second.get("a")
        second.put("a", b"2")
        second.commit()
    assert b"2" == sqlite_journal.get("a")


def test_full_disk_leaves_the_last_commit(path: Path, sqlite_journal: SqliteJournal) -> None:
    """A put that finds no room is an error with the way out; the last commit stays, and smaller blobs go on."""
    sqlite_journal.put("a", b"old")
    sqlite_journal.commit()
    sqlite_journal._db.execute("PRAGMA max_page_count = 30")
    sqlite_journal.put("b", b"lost too")
    with pytest.raises(
        StateError,
        match=r"cannot read or write the journal .*full.* make sure that the disk works and has free space",
    ):
        sqlite_journal.put("a", bytes(1 << 20))
    sqlite_journal.rollback()
    sqlite_journal.put("c", b"new")
    sqlite_journal.commit()
    with closing(SqliteJournal(path)) as again:
        assert [b"old", None, b"new"] == [again.get(name) for name in "abc"]


def test_use_after_close_is_not_blamed_on_the_file(sqlite_journal: SqliteJournal) -> None:
    """A closed journal says that it is closed."""
    sqlite_journal.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        sqlite_journal.get("a")


def filled(path: Path) -> None:
    """Write a journal with blobs of several sizes."""
    with closing(SqliteJournal(path)) as journal:
        for size in range(0, 200_000, 1_000):
            journal.put(f"log-{size}", bytes(size))
        journal.commit()


def test_directory_is_refused(tmp_path: Path) -> None:
    """A directory, such as an earlier version wrote, is not passed over."""
    with pytest.raises(StateError, match=rf"{tmp_path} is a directory, .*choose another"):
        SqliteJournal(tmp_path)


@pytest.mark.parametrize("content", [b"x", b"no database\n" * 1_000, b"SQLite format 3\x00" + bytes(9_000)])
def test_other_files_are_refused(path: Path, content: bytes) -> None:
    """What is no SQLite database is refused by name, and left as it is."""
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(
        StateError, match=r"a/journal (is damaged, or not a journal|is an SQLite database of)"
    ):
        SqliteJournal(path)
    assert content == path.read_bytes()
    assert [path] == list(path.parent.iterdir())


def test_other_databases_are_refused(path: Path) -> None:
    """An SQLite database of another program is refused by name, and left as it is."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE blobs (name TEXT PRIMARY KEY, blob BLOB NOT NULL)")
    content = path.read_bytes()
    with pytest.raises(
        StateError, match=r"a/journal is an SQLite database of another program: choose another"
    ):
        SqliteJournal(path)
    assert content == path.read_bytes()


def test_newer_format_is_refused(path: Path) -> None:
    """A file of a newer version is refused by name, with the way out."""
    filled(path)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {JOURNAL_VERSION + 1}")
    with pytest.raises(StateError, match=r"a/journal has format version 2, this version reads 1: upgrade"):
        SqliteJournal(path)


@pytest.mark.parametrize("start", [0, 4_096])
def test_damaged_file_is_told(path: Path, start: int) -> None:
    """A file with its head, or with its tables overwritten, is told by name, with the way out."""
    filled(path)
    content = path.read_bytes()
    path.write_bytes(content[:start] + b"\xff" * 16_384 + content[start + 16_384 :])
    with (
        pytest.raises(StateError, match=r"a/journal is damaged.*Restore it from a copy"),
        closing(SqliteJournal(path)) as journal,
    ):
        journal.get("log-5000")


STOPPED = """
import sys
from pathlib import Path
from state_backends.sqlite_journal import SqliteJournal
journal = SqliteJournal(Path(sys.argv[1]))
for number in (b"1", b"2"):
    for name in range(300):
        journal.put(f"log-{name}", number * 100_000)
    if number == b"1":
        journal.commit()
print("put", flush=True)
sys.stdin.read()
"""


def spawned(code: str, path: Path) -> subprocess.Popen[bytes]:
    """A child process that runs the code on the journal."""
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)


@pytest.mark.slow
@pytest.mark.kill
def test_process_killed_before_its_commit(path: Path) -> None:
    """What a killed process put and did not commit is gone, even beyond what fits in memory; commits stay."""
    with spawned(STOPPED, path) as child:
        assert child.stdout is not None
        assert b"put\n" == child.stdout.readline()
        child.kill()
    with closing(SqliteJournal(path)) as journal:
        assert {b"1" * 100_000} == {journal.get(f"log-{name}") for name in range(300)}
        journal.put("log-0", b"next")
        journal.commit()


COMMITTER = """
import sys
from pathlib import Path
from state_backends.sqlite_journal import SqliteJournal
journal, number = SqliteJournal(Path(sys.argv[1])), 0
while True:
    for name in range(5):
        journal.put(f"log-{name}", bytes([number % 256]) * (number % 7 + 1) * 10_000)
    journal.remove(f"odd-{number - 1}")
    journal.put(f"odd-{number}", b"")
    journal.put("pointer", b"%d" % number)
    journal.commit()
    number += 1
    if number == 50:
        print("writing", flush=True)
"""


@pytest.mark.kill
@pytest.mark.parametrize("after", [0, 1_000, 100_000])
def test_process_killed_while_it_commits(path: Path, after: int) -> None:
    """A process that is killed amid commits leaves one of them, whole, and none that it had finished is lost."""
    with spawned(COMMITTER, path) as child:
        assert child.stdout is not None
        assert b"writing\n" == child.stdout.readline()
        sum(range(after))  # A little later each time.
        child.kill()
    with closing(SqliteJournal(path)) as journal:
        number = int(journal.get("pointer") or b"-1")
        assert number >= 49
        blob = bytes([number % 256]) * (number % 7 + 1) * 10_000
        assert {blob} == {journal.get(f"log-{name}") for name in range(5)}
        assert [None, b"", None] == [journal.get(f"odd-{number + step}") for step in (-1, 0, 1)]
