"""The shipped contract suite: the built-in backends keep it, and those that break a promise are told which."""

import os
import re
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import ClassVar

import pytest

from serializers import CorruptDataError
from serializers.blobs import BlobFormat
from serializers.changes import decode_changes, encode_changes
from state_backends import WriteBatch
from state_backends.backends.memory import MemoryBackend
from state_backends.backends.rocksdb import RocksDBBackend
from state_backends.backends.spark_state import SparkStateBackend
from state_backends.contract import BackendContract
from state_backends.contract.opening import OpeningContract
from state_backends.contract.pages import PagesContract
from state_backends.contract.recovery import RecoveryContract
from state_backends.contract.segments import SegmentsContract
from state_backends.contract.snapshots import SnapshotContract
from state_backends.errors import pages_of_copy


class TestMemory(BackendContract):
    """The backend of dictionaries."""

    backend_class = MemoryBackend


class TestJournal(BackendContract):
    """The backend that keeps its pages in a journal, here in one of its own."""

    backend_class = SparkStateBackend


class TestRocksDB(BackendContract):
    """RocksDB with its defaults."""

    backend_class = RocksDBBackend
    refused: ClassVar[Sequence[Mapping[str, str]] | None] = [
        *({name: text} for name in ("writeBufferMb", "blockCacheMb") for text in ("", "0", "-1", "1.5")),
        {"compression": "zip"},
    ]


@pytest.mark.slow
class TestSmallRocksDB(OpeningContract, PagesContract, SegmentsContract, RecoveryContract, SnapshotContract):
    """RocksDB that flushes and compacts often, with another compression; kills find the same as with its defaults."""

    backend_class = RocksDBBackend
    options: ClassVar[Mapping[str, str]] = {"writeBufferMb": "1", "blockCacheMb": "1", "compression": "zstd"}


VERSION = BlobFormat(b"vers", 1)


class Filed(MemoryBackend):
    """Dictionaries whose snapshots are a file of the version and one of all pages."""

    snapshots = True

    @classmethod
    def open(cls, directory: Path, options: Mapping[str, str]) -> "Filed":
        del directory, options
        return cls()

    def snapshot(self, directory: Path) -> None:
        directory.mkdir()
        pages = {segment: dict(self.iterate(segment)) for segment in self.segments()}
        (directory / "version").write_bytes(VERSION.encode(self.version or b""))
        (directory / "pages").write_bytes(encode_changes(pages, {}, None))

    def check_snapshot(self, directory: Path, files: Sequence[str]) -> None:
        del files
        with pages_of_copy(resident=False):
            self._read(directory)

    def restore(self, directory: Path) -> None:
        self.clear()
        pages, version = self._read(directory)
        self.write(WriteBatch(puts=pages), version)

    @staticmethod
    def _read(directory: Path) -> tuple[dict[int, dict[bytes, bytes]], bytes]:
        pages, _, _ = decode_changes((directory / "pages").read_bytes())
        return pages, VERSION.decode((directory / "version").read_bytes(), "a version")


class TestFiled(SnapshotContract):
    """Snapshots of the simplest kind."""

    backend_class = Filed


class Unordered(Filed):
    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        return super().get_many(segment, sorted(keys))


class Greedy(Filed):
    def write(self, batch: WriteBatch, version: bytes) -> None:
        edge = None if batch.drop_segments_below is None else batch.drop_segments_below + 1
        super().write(WriteBatch(batch.puts, batch.deletes, edge), version)


class Lazy(Filed):
    def write(self, batch: WriteBatch, version: bytes) -> None:
        if batch:
            super().write(batch, version)


class Scattered(Filed):
    def segments(self) -> list[int]:
        return list(self._segments)


class Versionless(Filed):
    def snapshot(self, directory: Path) -> None:
        super().snapshot(directory)
        (directory / "version").write_bytes(VERSION.encode(b"some"))


class Unchecked(Filed):
    def check_snapshot(self, directory: Path, files: Sequence[str]) -> None:
        pass


class Nested(Filed):
    def snapshot(self, directory: Path) -> None:
        super().snapshot(directory)
        (directory / "more").mkdir()


class Adding(Filed):
    def restore(self, directory: Path) -> None:
        before = WriteBatch(puts={segment: dict(self.iterate(segment)) for segment in self.segments()})
        super().restore(directory)
        self.write(before, self.version or b"")


class Shared(Filed):
    """Its snapshots are links to a file that it writes to."""

    _file: Path | None = None

    def snapshot(self, directory: Path) -> None:
        super().snapshot(directory)
        self._file = self._file or directory.with_name("shared")
        self._file.write_bytes((directory / "pages").read_bytes())
        (directory / "pages").unlink()
        os.link(self._file, directory / "pages")

    def write(self, batch: WriteBatch, version: bytes) -> None:
        super().write(batch, version)
        if self._file is not None:
            self._file.write_bytes(b"other bytes")


class Credulous(Filed):
    def restore(self, directory: Path) -> None:
        try:
            super().restore(directory)
        except CorruptDataError:
            self.clear()


class Frank(Filed):
    def restore(self, directory: Path) -> None:
        try:
            super().restore(directory)
        except CorruptDataError as error:
            raise KeyError(str(error)) from error


class Clinging(Filed):
    def restore(self, directory: Path) -> None:
        decode_changes((directory / "pages").read_bytes())
        super().restore(directory)


BROKEN = [
    (Unordered, "get_many_keeps_the_order_asked", "in the order of the keys"),
    (Greedy, "drop_before_keeps_its_own_segment", "drops the segments below it as a whole, and no others"),
    (Lazy, "version_is_that_of_the_last_write", "also of one without changes (version)"),
    (Scattered, "segments_are_ascending", "in the order of their numbers"),
    (
        Versionless,
        "snapshot_brings_the_store_back",
        "the version of the snapshot, and nothing else (version)",
    ),
    (Nested, "snapshot_brings_the_store_back", "plain files, without folders"),
    (Unchecked, "damaged_files_are_not_stored", "pages is damaged"),
    (Adding, "later_writes_leave_snapshots_alone", "restore replaces all that the store held"),
    (Shared, "later_writes_leave_snapshots_alone", "files of a snapshot do not change"),
    (
        Credulous,
        "restore_refuses_what_is_no_snapshot",
        "raises CorruptDataError and leaves the store empty\n  it raised nothing",
    ),
    (Frank, "restore_refuses_what_is_no_snapshot", "it raised KeyError"),
    (Clinging, "restore_refuses_what_is_no_snapshot", "leaves the store empty (version)"),
]


@pytest.mark.parametrize(("broken", "name", "promise"), BROKEN, ids=[case[0].__name__ for case in BROKEN])
def test_broken_promises_are_named(broken: type[Filed], name: str, promise: str, tmp_path: Path) -> None:
    """A backend that breaks a promise fails the test that asks for it, with the promise in the message."""
    suite = type("Suite", (BackendContract,), {"backend_class": broken})()
    test = getattr(suite, f"test_{name}")
    given = {
        "backend": suite.open(tmp_path),
        "directory": tmp_path,
        "tmp_path": tmp_path,
        "damage": lambda _: b"",
    }
    with pytest.raises(AssertionError, match=re.escape(promise)) as failed:
        test(**{argument: given[argument] for argument in signature(test).parameters})
    assert str(failed.value).startswith("a promise of StateBackend is broken: ")


class Careless(MemoryBackend):
    """An option that is nowhere looked at."""

    @classmethod
    def known_options(cls) -> Mapping[str, str]:
        return {"depth": "how deep"}


class Late(Careless):
    """An option that only open looks at."""

    @classmethod
    def open(cls, directory: Path, options: Mapping[str, str]) -> MemoryBackend:
        del directory
        int(options.get("depth", "1"))
        return cls()


class Silent(Careless):
    """An option that is refused without a word."""

    @classmethod
    def check_options(cls, options: Mapping[str, str]) -> None:
        if options:
            raise ValueError("no")


@pytest.mark.parametrize(
    ("broken", "refused", "what"),
    [
        (
            Careless,
            None,
            "it accepted ('', '-1', 'no such value', '²') for each option. Set the attribute `refused`",
        ),
        (Careless, [{"depth": "0"}], "it accepted {'depth': '0'}"),
        (Late, None, "it accepted {'depth': ''}, and open raised ValueError"),
        (Silent, [{"depth": "0"}], "a refused option is named, with its value"),
    ],
)
def test_options_that_are_not_checked_are_named(broken, refused, what, tmp_path: Path) -> None:
    """A backend that accepts what it must refuse fails with the option, and with what the author can set."""
    suite = type("Suite", (BackendContract,), {"backend_class": broken, "refused": refused})()
    with pytest.raises(AssertionError, match=re.escape(what)):
        suite.test_bad_options_are_refused(tmp_path)


def test_every_text_may_be_a_good_value(tmp_path: Path) -> None:
    """An author can say that there is nothing to refuse."""
    suite = type("Suite", (BackendContract,), {"backend_class": Careless, "refused": ()})()
    suite.test_bad_options_are_refused(tmp_path)
