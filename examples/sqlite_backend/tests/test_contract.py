"""The library's contract suite on SQLite, and what SQLite adds to it."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest
from windows_sqlite import SqliteBackend

from state_backends import StateError, WriteBatch
from state_backends.contract import BackendContract, assert_holds


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
            "has format 0, this version reads 1: delete",
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


def test_failed_write_changes_nothing(tmp_path: Path) -> None:
    """A write that fails half way leaves the store as it was, and the next one works."""
    with closing(SqliteBackend.open(tmp_path, {})) as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v1")
        with pytest.raises(StateError, match="cannot write"):
            backend.write(WriteBatch(puts={0: {b"a": b"2"}, 1: {b"b": None}}), b"v2")  # type: ignore[dict-item]
        assert_holds(backend, {0: {b"a": b"1"}}, b"v1")
        backend.write(WriteBatch(deletes={0: {b"a"}}), b"v3")
        assert_holds(backend, {}, b"v3")
