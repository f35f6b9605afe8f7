"""The library's contract suite on SQLite, and what SQLite adds to it."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest
from windows_sqlite import SqliteBackend

from state_backends import StateError, WriteBatch
from state_backends.contract import BackendContract, assert_holds
from state_backends.errors import DamagedCopyError


class TestSqlite(BackendContract):
    """SQLite with its defaults."""

    backend_class = SqliteBackend
    refused: ClassVar[Sequence[Mapping[str, str]] | None] = [
        *({"cacheMb": text} for text in ("", "0", "65537", "1.5", "-1")),
        {"synchronous": "full"},
    ]


class TestSmallSqlite(BackendContract):
    """SQLite that keeps little in memory and leaves all flushing to the system."""

    backend_class = SqliteBackend
    options: ClassVar[Mapping[str, str]] = {"cacheMb": "1", "synchronous": "off"}
    steps = 50
    kills = 20


def test_close_keeps_the_last_version(tmp_path: Path) -> None:
    """What was written last is there after a close."""
    with closing(SqliteBackend.open(tmp_path, {})) as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v1")
    with closing(SqliteBackend.open(tmp_path, {})) as backend:
        assert_holds(backend, {0: {b"a": b"1"}}, b"v1")


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("cacheMb", "0", "it must be a whole number of MiB"),
        ("synchronous", "maybe", "it must be one of normal, off"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, option: str, value: str, expected: str) -> None:
    """A value that cannot be used is refused on the driver and on open, by its name, with what is accepted."""
    for refuse in (SqliteBackend.check_options, lambda options: SqliteBackend.open(tmp_path, options)):
        with pytest.raises(ValueError, match=f"sqlite.{option} is '{value}': {expected}"):
            refuse({option: value})


@pytest.mark.parametrize(
    ("make", "what"),
    [
        ("CREATE TABLE somebodys (x)", "was not written by this backend: choose another directory"),
        (
            "PRAGMA application_id = 0x53575351; CREATE TABLE newer (x)",
            "has format 0, this version reads 2: delete",
        ),
    ],
)
def test_files_of_others_are_refused(tmp_path: Path, make: str, what: str) -> None:
    """A database of another program or format is refused by its name, with the way out."""
    with closing(sqlite3.connect(tmp_path / "pages.db")) as db:
        db.executescript(make)
    with pytest.raises(StateError, match=f"{tmp_path}/pages.db {what}"):
        SqliteBackend.open(tmp_path, {})


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    """A file that is no database is refused by its name, with the way out."""
    (tmp_path / "pages.db").write_text("nothing of use\n" * 1_000)
    with pytest.raises(StateError, match=f"cannot open {tmp_path}/pages.db: .*delete its directory"):
        SqliteBackend.open(tmp_path, {})


def flip(path: Path, text: bytes) -> None:
    """Change the first byte of a text in a file."""
    data = path.read_bytes()
    if data.count(text) != 1:
        pytest.fail(f"{text!r} is {data.count(text)} times in the file")
    path.write_bytes(data.replace(text, bytes([text[0] ^ 1]) + text[1:]))


def lose(path: Path, text: bytes) -> None:
    """Remove a row as a damaged page of SQLite's may lose it: nothing else changes."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM pages WHERE key = ? OR page = ?", (text, text))


@pytest.mark.parametrize("damage", [flip, lose])
@pytest.mark.parametrize("text", [b"key 17", b"page 17"])
@pytest.mark.parametrize(
    "read",
    [
        pytest.param(
            lambda backend: backend.get_many(0, [b"key %d" % n for n in range(10, 30)]), id="get_many"
        ),
        pytest.param(lambda backend: list(backend.iterate(0)), id="iterate"),
        pytest.param(lambda backend: list(backend.scan_keys(0)), id="scan_keys"),
    ],
)
def test_damaged_rows_are_not_passed_over(
    tmp_path: Path,
    damage: Callable[[Path, bytes], None],
    text: bytes,
    read: Callable[[SqliteBackend], object],
) -> None:
    """A row whose bytes have changed, or that is not found, is a DamagedCopyError, after which the host fills a new store."""
    with closing(SqliteBackend.open(tmp_path, {})) as backend:
        backend.write(WriteBatch(puts={0: {b"key %d" % n: b"page %d" % n for n in range(10, 100)}}), b"v1")
    with closing(SqliteBackend.open(tmp_path, {})) as backend:
        read(backend)
    damage(tmp_path / "pages.db", text)
    raises = pytest.raises(DamagedCopyError, match=f"{tmp_path}/pages.db is damaged: ")
    with closing(SqliteBackend.open(tmp_path, {})) as backend, raises:
        read(backend)


@pytest.mark.parametrize("name", ["version", "segments", "both"])
def test_a_lost_version_is_damage(tmp_path: Path, name: str) -> None:
    """A store that has pages, and does not know of which version, or how many, is no empty one."""
    with closing(SqliteBackend.open(tmp_path, {})) as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v1")
    with closing(sqlite3.connect(tmp_path / "pages.db")) as db, db:
        db.execute("DELETE FROM meta WHERE name = ? OR ? = 'both'", (name, name))
    with pytest.raises(DamagedCopyError, match="is damaged: "):
        SqliteBackend.open(tmp_path, {})


def test_what_is_stored_is_counted(tmp_path: Path) -> None:
    """Pages that are put, replaced, deleted, absent, or dropped with their segment, in one batch."""
    pages = {n: {b"%d" % key: b"1" for key in range(9)} for n in range(3)}
    with closing(SqliteBackend.open(tmp_path, {})) as backend:
        backend.write(WriteBatch(puts=pages), b"v1")
        backend.write(
            WriteBatch(
                {1: {b"1": b"2", b"more": b"2"}, 2: {}}, {1: {b"1", b"2", b"none"}, 2: {b"3"}, 5: {b"a"}}, 1
            ),
            b"v2",
        )
        expected = {n: dict(pages[n]) for n in (1, 2)}
        expected[1] |= {b"1": b"2", b"more": b"2"}
        del expected[1][b"2"], expected[2][b"3"]
        assert_holds(backend, expected, b"v2")


def test_failed_write_changes_nothing(tmp_path: Path) -> None:
    """A write that fails half way leaves the store as it was, and the next one works."""
    with closing(SqliteBackend.open(tmp_path, {})) as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v1")
        backend._db.execute("PRAGMA max_page_count = 10")  # noqa: SLF001 - a small disk
        with pytest.raises(StateError, match=r"cannot write .*full"):
            backend.write(WriteBatch(puts={0: {b"a": b"2"}, 1: {b"b": bytes(100_000)}}), b"v2")
        assert_holds(backend, {0: {b"a": b"1"}}, b"v1")
        backend.write(WriteBatch(deletes={0: {b"a"}}), b"v3")
        assert_holds(backend, {}, b"v3")
