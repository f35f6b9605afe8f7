"""The stored directories have each version of each format that docs/versions.md says is read."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from operators.runtime.keys_to_forget import encoded_keys
from serializers.changes import Puts, decode_changes, decode_edits
from state_backends.checkpoints.savepoint import Savepoint, read_header
from state_backends.durability.request_folder import RequestFolder, RequestReader
from state_backends.store.page_ids import key_of
from tests.compatibility.archives import CHECKPOINTS, REQUESTS, unpack

PAGE = Path(__file__).parents[2] / "docs" / "versions.md"
ARCHIVES = [
    CHECKPOINTS / "memory-directories.tar.gz",
    CHECKPOINTS / "spark-directories.tar.gz",
    CHECKPOINTS / "rocksdb-windows.tar.gz",
    REQUESTS / "requests.tar.gz",
]
Found = tuple[str, int]
"""A format and a version."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> set[Found]:
    """What the stored directories have."""
    folder = tmp_path_factory.mktemp("stored")
    return {one for n, archive in enumerate(ARCHIVES) for one in formats(unpack(archive, folder / str(n)))}


def formats(folder: Path) -> Iterator[Found]:
    """The formats of all files in a folder."""
    for path in folder.rglob("*"):
        if path.name == "journal" and path.is_file():
            yield from of_journal(path)
        elif path.name == "savepoint.json":
            yield "savepoint", signed(path)
            yield from of_savepoint(read_header(str(path.parent)))
        elif path.suffix == ".json" and "snapshots" in path.parts:
            yield "manifest of a snapshot", signed(path)
        elif path.parent.name in ("requests", "operators"):
            yield "request to forget keys", signed(path)


def of_journal(path: Path) -> Iterator[Found]:
    """The format of a journal in a file, and those of what is in it."""
    with closing(sqlite3.connect(path)) as db:
        yield "journal in a file", db.execute("PRAGMA user_version").fetchone()[0]
        blobs = db.execute("SELECT name, blob FROM blobs").fetchall()
    for name, stored in blobs:
        # Before an entry of the changelog stand the versions of the state before and after, and their checksum.
        blob = stored[36:] if name.startswith("log-") else stored
        if name == "pointer":
            yield "pointer", blob[0]
        elif blob[:4] == b"SWJB":
            yield "blob of the backend `spark`", blob[4]
        elif blob[:4] == b"SWCL":
            yield "changelog entry", blob[4]
            yield from of_pages(decode_changes(blob)[0])
        elif blob[:4] == b"SWED":
            yield "changelog entry with edits", blob[4]
            yield from of_pages(decode_edits(blob)[0])


def of_pages(puts: Puts) -> Iterator[Found]:
    """The formats of the pages in a changelog entry, and of their keys."""
    for pages in puts.values():
        for key, page in pages.items():
            yield "key", key_of(key)[0]
            if page[:2] == b"WP":  # the backend `spark` says which keys have changed, without their pages
                yield "page", int.from_bytes(page[2:4], "little")


def of_savepoint(saved: Savepoint) -> Iterator[Found]:
    """The formats of a savepoint's files, and of rows that wait: they are the fourth column of rolling windows' state."""
    for file in saved.files:
        yield "pages of a savepoint", Path(saved.uri, file.name).read_bytes()[4]
    for _, _, entries in saved.groups(0, 1) if saved.uri.endswith("rolling") else ():
        for rows in entries.columns[3].tolist():
            if rows is not None:
                yield "rows that wait", rows[0]


def signed(path: Path) -> int:
    """The version of a signed file of JSON."""
    return int(json.loads(path.read_bytes().partition(b"\n")[2])["format"])


def said() -> set[Found]:
    """What the page says."""
    table = PAGE.read_text("utf-8").partition("| format |")[2].partition("\n\n")[0]
    lines = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()[2:]]
    return {(name, int(version)) for _, name, _, versions, *_ in lines for version in versions.split(",")}


def test_every_version_that_is_read_is_stored(found: set[Found]) -> None:
    """A new version of a format needs a set of its own, written by the first code that writes it."""
    assert said() == found


def test_stored_requests_are_read(tmp_path: Path) -> None:
    """The keys, as the store has them, and the operator that looks for them."""
    requests = RequestFolder(str(unpack(REQUESTS / "requests.tar.gz", tmp_path)))
    keys = pa.schema([("k", pa.string()), ("i", pa.int64())])
    assert [RequestReader("windows", keys, 4)] == requests.readers()
    (file,) = requests.files()
    wanted = encoded_keys([{"k": "a", "i": 1}, {"k": "b", "i": None}], keys)
    assert ("windows", tuple(wanted)) == (requests.read(file).operator, requests.read(file).keys)
