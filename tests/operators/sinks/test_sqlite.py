"""What SQLite cannot do, with the path of the file that is meant."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from operators.sinks import SinkError, SQLiteSink, upsert_to
from operators.sinks.contract.base import changes, row


def test_a_file_that_cannot_be_is_found_before_the_query_starts(tmp_path: Path) -> None:
    """Its folder is missing, it is a folder itself, or no file of SQLite; nothing is created."""
    (tmp_path / "notes.txt").write_text("no file of SQLite at all")
    for name, message in {
        "no/t.db": f"there is no folder {tmp_path}/no for the SQLite file t.db: create it",
        ".": f"{tmp_path} is not a file of SQLite: give another path",
        "notes.txt": f"{tmp_path}/notes.txt is not a file of SQLite: give another path",
    }.items():
        sink = SQLiteSink(tmp_path / name, "t")
        for act in (lambda sink=sink: upsert_to(sink, keys=["k"]), lambda sink=sink: sink.write(changes(0))):
            with pytest.raises(SinkError, match=message):
                act()
    upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=["k"])
    assert ["notes.txt"] == [path.name for path in tmp_path.iterdir()]


def test_errors_name_the_file(tmp_path: Path) -> None:
    """A file that another writer holds, and a constraint of the user's own."""
    path = tmp_path / "t.db"
    sink = SQLiteSink(path, "t", timeout=0)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE t (k, window_start, n CHECK (n < 5), x, UNIQUE (k, window_start))")
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(SinkError, match=f"the table 't' in {path}: database is locked"):
            sink.write(changes(0, [row("a")]))
        db.execute("ROLLBACK")
    with pytest.raises(
        SinkError, match=f"SQLite cannot use the table 't' in {path}: CHECK constraint failed"
    ):
        sink.write(changes(0, [row("a", n=5)]))
    assert sink.write(changes(0, [row("a", n=4)]))


@pytest.mark.parametrize("table", ["excluded", "old", "main.t"])
def test_awkward_names_of_tables(table: str, tmp_path: Path) -> None:
    """A name that statements use, too, is the user's."""
    sink = SQLiteSink(tmp_path / "t.db", table)
    for batch in (0, 1):
        assert sink.write(changes(batch, [row("a", n=batch), row("b")], []))
    with closing(sqlite3.connect(tmp_path / "t.db")) as db:
        found = db.execute(f'SELECT k, n FROM "{table}" ORDER BY k').fetchall()  # noqa: S608 - the test's own name
    assert [("a", 1), ("b", 0)] == found


def test_the_statements_that_add_missing_columns(tmp_path: Path) -> None:
    """As the error has them: after they are run, the batch is written."""
    sink = SQLiteSink(tmp_path / "t.db", "t")
    with closing(sqlite3.connect(tmp_path / "t.db")) as db:
        db.execute('CREATE TABLE "t" (k TEXT, window_start TIMESTAMPTZ_TEXT, UNIQUE (k, window_start))')
        with pytest.raises(SinkError, match="has no columns n, x; it has k, window_start") as caught:
            sink.write(changes(0, [row("a", n=4)]))
        db.executescript(str(caught.value).partition("or add them with ")[2])
        db.commit()
        assert sink.write(changes(0, [row("a", n=4)]))
        assert [("a", 4)] == db.execute("SELECT k, n FROM t").fetchall()
