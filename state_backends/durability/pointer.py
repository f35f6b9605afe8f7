"""The pointer: which version of a bucket's state counts, and what is needed to restore it."""

import os
import re
import struct
import zlib
from dataclasses import astuple, dataclass, field, fields
from typing import Any

from serializers import CorruptDataError, NewerFormatError, pack_value, unpack_value
from serializers.shapes import count, instance, int64, refusing, short
from state_backends.durability.progress import Progress
from state_backends.journal import Journal

POINTER_VERSION = 1
COPIES, JOURNAL = "copies", "journal"
"""Where pages live: in local copies that the changelog restores, or in the journal itself."""
_STORE_ID = re.compile("[0-9a-f]{16}")
_NAME = re.compile("[0-9]{1,19}-[0-9a-z]{1,32}")
_NO_CHECK = 2**32 - 1
_CHECK = pack_value({"check": _NO_CHECK})[1:-4]
_VERSION = struct.Struct(">Q8s")
NO_VERSION = _VERSION.pack(0, bytes(8))


def new_version(number: int) -> bytes:
    """Return the version of that number, with a random token that distinguishes attempts."""
    return _VERSION.pack(number, os.urandom(8))


def version_number(version: bytes | None) -> int | None:
    """Return a version's number, or None for bytes that are not a version."""
    if version is None or len(version) != _VERSION.size:
        return None
    return int(_VERSION.unpack(version)[0])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of the whole state at one version.

    Attributes:
        number, version: the number and version of the state.
        size: bytes of its pages or files.
        folder: URI of the folder that it was written to; "" if it is in the journal, in `parts` blobs.
        name: the name of its manifest in the folder.
        parts: number of blobs in the journal.
        retired: batch of the host in which a newer one took its place; -1 while it is in use.
    """

    number: int
    version: bytes
    size: int
    folder: str = ""
    name: str = ""
    parts: int = 0
    retired: int = -1


@dataclass(frozen=True, slots=True)
class Pending:
    """A snapshot that some worker is writing in the background.

    Attributes:
        snapshot: what it will be.
        log_bytes: the pointer's log bytes when it began.
        since: when it began, in seconds since the epoch.
        owner: the process that writes it, as "host:process id:when it began"; empty once it is known to have failed.
    """

    snapshot: Snapshot
    log_bytes: int
    since: float
    owner: str

    @property
    def has_failed(self) -> bool:
        """Whether it is known to have failed. It stands here until the next attempt is due."""
        return not self.owner


@dataclass(frozen=True, slots=True)
class Pointer:
    """Which version of the state counts.

    Attributes:
        store_id: random name of this state; local copies and snapshots are kept under it.
        page_location: COPIES or JOURNAL.
        number: number of the newest version; 0 is the empty state.
        version: that number and its token, as the backend stores it.
        oldest: number of the oldest log entry that is kept.
        log_bytes: bytes of log entries since the newest snapshot, before compression.
        snapshots: those that can be restored, newest first.
        retired: those that were replaced, kept as long as the host may return to a batch that needs them.
        pending: the one that is being written, or None.
        failures: how many snapshots failed since the last complete one.
        progress: the progress of the operator and its host.
    """

    store_id: str
    page_location: str = COPIES
    number: int = 0
    version: bytes = NO_VERSION
    oldest: int = 1
    log_bytes: int = 0
    snapshots: tuple[Snapshot, ...] = ()
    retired: tuple[Snapshot, ...] = ()
    pending: Pending | None = None
    failures: int = 0
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def fresh(cls) -> "Pointer":
        """Return the pointer of an empty state with a new name."""
        return cls(store_id=os.urandom(8).hex())

    @property
    def newest(self) -> Snapshot:
        """The newest snapshot, or the empty state."""
        return self.snapshots[0] if self.snapshots else Snapshot(0, NO_VERSION, 0)

    def encode(self) -> bytes:
        values = [getattr(self, attribute.name) for attribute in fields(self)]
        *rest, progress = [_plain(value) for value in values]
        # The last four bytes are the checksum of all before them.
        body = pack_value([*rest, {**progress, "check": _NO_CHECK}])[:-4]
        blob = bytes([POINTER_VERSION]) + body
        return blob + zlib.crc32(blob).to_bytes(4, "big")

    @classmethod
    def decode(cls, blob: bytes) -> "Pointer":
        """Return the pointer that `encode` wrote.

        Raises:
            NewerFormatError: a newer version wrote it.
            CorruptDataError: the bytes are not a pointer, are altered, or have no checksum.
        """
        if blob and blob[0] > POINTER_VERSION:
            raise NewerFormatError("the state of this query", blob[0], POINTER_VERSION)
        if not blob or blob[0] < POINTER_VERSION:
            raise CorruptDataError(f"the bytes are not a state pointer: {blob[:16]!r}")
        if zlib.crc32(blob[:-4]) != int.from_bytes(blob[-4:], "big") or not blob[:-4].endswith(_CHECK):
            raise CorruptDataError(
                f"a state pointer of {len(blob)} bytes is truncated or altered: go back to an earlier checkpoint, or start "
                "with a new one"
            )
        try:
            values = unpack_value(blob[1:])
        except CorruptDataError as error:
            raise CorruptDataError(f"a state pointer of {len(blob)} bytes cannot be read: {error}") from error
        with refusing("a state pointer"):
            store_id, location, number, version, oldest, log_bytes, snapshots, retired, pending, *rest = (
                values
            )
            failures, progress = rest
            return cls(
                _part_of_paths(_STORE_ID, store_id, "the state", "16 hex digits"),
                _page_location(location),
                count(number),
                _version(version),
                count(oldest),
                count(log_bytes),
                tuple(_snapshot(*row) for row in instance(list, snapshots)),
                tuple(_snapshot(*row) for row in instance(list, retired)),
                None if pending is None else _pending(*pending),
                count(failures),
                Progress.from_plain(progress),
            )


def _snapshot(
    number: Any, version: Any, size: Any, folder: Any, name: Any, parts: Any, retired: Any
) -> Snapshot:
    name = name and _part_of_paths(_NAME, name, "a snapshot", "a number and a token")
    folder = instance(str, folder)
    return Snapshot(count(number), _version(version), count(size), folder, name, count(parts), int64(retired))


def _pending(snapshot: Any, log_bytes: Any, since: Any, owner: Any) -> Pending:
    return Pending(_snapshot(*snapshot), count(log_bytes), float(since), instance(str, owner))


def _page_location(value: Any) -> str:
    if value not in (COPIES, JOURNAL):
        raise ValueError(f"pages live in {short(value)}")
    return str(value)


def _version(value: Any) -> bytes:
    if len(instance(bytes, value)) != _VERSION.size:
        raise ValueError(f"a version of {len(value)} bytes")
    return bytes(value)


def _part_of_paths(pattern: re.Pattern[str], name: Any, what: str, expected: str) -> str:
    if not pattern.fullmatch(instance(str, name)):
        raise CorruptDataError(f"a state pointer names {what} {short(name)}, not {expected}")
    return str(name)


def _plain(value: Any) -> Any:
    """The value as msgpack has it: records as lists."""
    if isinstance(value, Progress):
        return value.plain()
    if isinstance(value, Snapshot | Pending):
        return astuple(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def read_pointer(journal: Journal) -> Pointer | None:
    """Return the journal's pointer, or None for a journal that was never written."""
    blob = journal.get("pointer")
    return None if blob is None else Pointer.decode(blob)
