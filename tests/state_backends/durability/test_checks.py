"""What a pointer, a changelog and a journal say about themselves is checked: altered or exchanged blobs are never used."""

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from operators import SlidingWindows
from operators import aggregates as agg
from serializers import CorruptDataError, NewerFormatError, pack_value
from state_backends import StateError, WriteBatch
from state_backends.backends.memory import MemoryBackend
from state_backends.durability import pages_in_parts
from state_backends.durability.durable import Durable
from state_backends.durability.pointer import NO_VERSION, Pointer, Snapshot
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress
from state_backends.journal import MemoryJournal
from state_backends.sqlite_journal import SqliteJournal

OPERATOR = SlidingWindows(size=10).group_by("k").aggregate(n=agg.count())
FULL = replace(
    Pointer.fresh(),
    number=7,
    snapshots=(Snapshot(6, NO_VERSION, 10, "/folder", "6-00ff"),),
    progress=Progress({"a": [1, "b", None]}, close_time=-5),
)


@pytest.mark.parametrize("pointer", [FULL, Pointer.fresh()], ids=["full", "fresh"])
def test_an_altered_pointer_is_refused(pointer: Pointer) -> None:
    """Whichever byte is another, also of the checksum and of its name, and wherever the pointer is cut."""
    blob = pointer.encode()
    assert pointer == Pointer.decode(blob)
    for at in range(len(blob)):
        for flip in range(1, 256):
            with pytest.raises((CorruptDataError, NewerFormatError)):
                Pointer.decode(blob[:at] + bytes([blob[at] ^ flip]) + blob[at + 1 :])
        with pytest.raises(CorruptDataError):
            Pointer.decode(blob[:at])


def test_a_pointer_without_a_checksum_is_refused() -> None:
    """No damage can take the checksum away: what has none is not read."""
    blob = FULL.encode()
    progress = FULL.progress.plain()
    start = blob.index(pack_value(progress)[1:])
    with pytest.raises(CorruptDataError, match=r"truncated or altered.* start with a new one"):
        Pointer.decode(blob[: start - 1] + pack_value(progress))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (
            "snapshots",
            (replace(FULL.newest, name="../../other"),),
            "names a snapshot '../../other', not a number",
        ),
        ("number", -1, "-1 is negative"),
        ("number", 2**70, "is not an integer of 64 bits"),
        ("version", b"short", "a version of 5 bytes"),
        ("page_location", "elsewhere", "pages live in 'elsewhere'"),
        ("progress", Progress(close_time=2**65), "is not an integer of 64 bits"),
        ("progress", Progress(usage=[[1, 2]]), "has a form that this library does not write"),
    ],
)
def test_a_pointer_of_another_form_is_refused(field: str, value: object, said: str) -> None:
    """Fields of other types, and names that would leave a folder, are damage."""
    with pytest.raises(CorruptDataError, match=re.escape(said)):
        Pointer.decode(replace(FULL, **{field: value}).encode())


def written(batches: int, policy: SnapshotPolicy | None = None) -> tuple[MemoryJournal, Pointer]:
    """A journal after some batches."""
    journal, pointer = MemoryJournal(), Pointer.fresh()
    with closing(Durable(MemoryBackend(), "memory", Path("/nowhere"), policy)) as copy:
        for number in range(batches):
            pointer = copy.align(journal, pointer).pointer
            batch = WriteBatch(puts={number: {b"k": b"page %d" % number}})
            pointer = copy.commit(journal, pointer, batch, Progress())
    return journal, pointer


def restore(journal: MemoryJournal, pointer: Pointer) -> None:
    """Bring a new copy to the pointer's version."""
    with closing(Durable(MemoryBackend(), "memory", Path("/nowhere"))) as copy:
        copy.align(journal, pointer)


@pytest.mark.parametrize(("one", "other"), [("log-2", "log-3"), ("log-3", "log-1")])
def test_entries_follow_one_another(one: str, other: str) -> None:
    """An entry in the place of another one is whole, and of another state."""
    journal, pointer = written(3)
    restore(journal, pointer)
    journal.put(one, journal.get(other) or b"")
    with pytest.raises(CorruptDataError, match=f"the changelog entry '{one}' is of another state"):
        restore(journal, pointer)


def test_the_last_entry_leads_to_the_pointer() -> None:
    """An entry of an attempt that failed does not count."""
    journal, pointer = written(3)
    with pytest.raises(CorruptDataError, match="the changelog entry 'log-3' is of another state"):
        restore(journal, replace(pointer, version=pointer.version[:8] + b"othertkn"))


def test_a_snapshot_in_the_journal_has_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part in the place of another one is whole, and of other pages."""
    monkeypatch.setattr(pages_in_parts, "PART_BYTES", 5)
    journal, pointer = written(12, SnapshotPolicy(batches=11))
    number = pointer.newest.number
    restore(journal, pointer)
    journal.put(f"base-{number}-1", journal.get(f"base-{number}-10") or b"")
    with pytest.raises(
        CorruptDataError, match=f"the snapshot of version {number} in the journal has 79 bytes"
    ):
        restore(journal, pointer)


def test_an_empty_file_is_no_journal(tmp_path: Path) -> None:
    """A journal is made under another name, so that an empty file is one that was cut."""
    path = tmp_path / "journal"
    with closing(SqliteJournal(path)):
        pass
    assert [path] == list(tmp_path.iterdir())
    path.write_bytes(b"")
    with pytest.raises(StateError, match="journal is damaged, or not a journal: it is empty"):
        SqliteJournal(path)


def test_a_journal_that_lost_its_pointer_is_refused(tmp_path: Path) -> None:
    """A runner does not begin anew where there was a state; in an empty journal it does."""
    with closing(SqliteJournal(tmp_path / "journal")):
        pass
    with OPERATOR.local_runner("at", directory=tmp_path) as runner:
        runner.process(pa.table([["a"], [5]], ["k", "at"]))
    with closing(SqliteJournal(tmp_path / "journal")) as journal:
        journal.remove("pointer")
        journal.commit()
    with pytest.raises(StateError, match=r"journal is damaged.* it has 1 blobs and no state pointer; ok"):
        OPERATOR.local_runner("at", directory=tmp_path)


def test_a_value_that_is_no_blob_is_refused(tmp_path: Path) -> None:
    """SQLite keeps the type with each value, so that one byte can make text of a blob."""
    with closing(SqliteJournal(tmp_path / "journal")) as journal:
        journal._db.execute("INSERT INTO blobs VALUES ('a', 'text')")
        with pytest.raises(StateError, match="journal is damaged, or not a journal: 'a' is not a blob"):
            journal.get("a")
