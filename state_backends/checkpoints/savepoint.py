"""Savepoints: state as files of entries and a JSON header, for any backend, any number of buckets and later versions.

savepoint.json        the operator, the close time and the list of files; with a checksum
entries/N-TOKEN       pages of bucket N, as `saved_files` describes
"""

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

import numpy as np

from serializers import CorruptDataError
from serializers.keys import crc_range
from serializers.shapes import count, instance, int64, refusing, short
from state_backends.checkpoints.saved_files import SavedFile, entries_of, read_files, saved_pages, write_files
from state_backends.checkpoints.stored_bucket import Bucket
from state_backends.durability.folders import Folder, stays_inside
from state_backends.durability.progress import checked_inputs, checked_schema
from state_backends.durability.signed import decode_signed, encode_signed
from state_backends.errors import StateError
from state_backends.store.entries import Entries
from state_backends.store.schema import StoredSchema

SAVEPOINT_VERSION = 1
HEADER = "savepoint.json"
_LONGEST = 200
_BLOBS = "keys", "rows"
"""What is bytes in the description of entries, and text in the header."""


@dataclass(frozen=True)
class Savepoint:
    """A savepoint that is complete.

    Attributes:
        uri: its folder.
        identity: what its state depends on, as the operator describes it.
        schema: the schema of its entries.
        close_time: where a new query continues, in ticks: the latest that any bucket had reached, or with which the next
            batch of the query would have begun.
        files: the files that have the entries.
        origin: of a query, for information: the checkpoint, its batch, and the offsets of the sources; of a local runner, the
            stream time and the highest event times in ticks, from which a new one continues. Of both, `sequence`.
    """

    uri: str
    identity: dict[str, Any]
    schema: StoredSchema
    close_time: int
    files: tuple[SavedFile, ...]
    origin: dict[str, Any]

    def __str__(self) -> str:
        """Return what it is in a few lines: how much it holds, up to when, and from where."""
        closed = self.closed_up_to
        said = {
            "closed up to": f"{self.close_time} ticks"
            if closed is None
            else f"{closed:%Y-%m-%d %H:%M:%S} UTC",
            "entries": f"{sum(file.rows for file in self.files):,}",
            "files": len(self.files),
            **self.origin,
        }
        lines = [f"{name}: {_cut(str(value))}" for name, value in said.items()]
        return "\n  ".join([f"savepoint {self.uri}", *lines])

    @property
    def closed_up_to(self) -> datetime | None:
        """The close time in UTC; None if it is outside the range of timestamps."""
        closed: list[datetime | None] = self.schema.instants(np.array([self.close_time])).to_pylist()
        return closed[0]

    @property
    def sequence(self) -> int:
        """The number of the next batch."""
        return int(self.origin.get("sequence", 0))

    def starting_offsets(self, source: int = 0) -> str:
        """Return where a new query has to begin to read topics of Kafka, as the option `startingOffsets` takes it.

        Args:
            source: its number among the sources of the old query, in the order of the query's plan.

        Raises:
            StateError: the old query has no such source, or it is not one of Kafka's.
        """
        sources = self.origin.get("sources") or []
        offsets = sources[source] if 0 <= source < len(sources) else None
        if not (
            isinstance(offsets, dict) and offsets and all(isinstance(one, dict) for one in offsets.values())
        ):
            raise StateError(
                f"source {source} of the savepoint {self.uri} has no offsets of Kafka; the sources stood at "
                f"{_cut(str(sources))}"
            )
        return json.dumps(offsets)

    def groups(self, bucket: int, buckets: int) -> Iterator[tuple[int, list[bytes], Entries]]:
        """Yield the entries of one new bucket of `buckets` in parts: the close time of their old bucket, keys, and entries.

        Each part has all entries of its keys that are in an old bucket.

        Raises:
            CorruptDataError: a file is missing, truncated or altered; names it.

        Cost: a file's entries pass through memory some MiB at a time, those of one key together.
        """
        low, high = crc_range(bucket, buckets)
        folder = Folder(self.uri)
        wanted = [file for file in self.files if low < file.high and file.low < high]
        for close_time, files in groupby(wanted, lambda file: file.close_time):
            for pages in read_files(folder, files, low, high):
                yield close_time, *entries_of(pages, self.schema.layout)


def check_new(folder: Folder) -> None:
    """Refuse a folder that contains a savepoint.

    Raises:
        StateError: the folder contains one.
    """
    if folder.has(HEADER):
        raise StateError(f"the folder {folder.shown} already contains a savepoint: choose a new folder")


def write_bucket(
    folder: Folder, number: int, bucket: Bucket, form: StoredSchema | None = None
) -> list[SavedFile]:
    """Write the files of one bucket.

    Args:
        folder: the savepoint's.
        number: the number of the bucket.
        bucket: its state.
        form: the columns that its entries get, as `common_form` returns them; by default those that the bucket has.

    Cost: its pages are in memory at once; sorted by key.
    """
    pages = sorted(saved_pages(bucket.pages(form)), key=lambda page: page.crc)
    layout = (form or bucket.schema).layout
    return list(write_files(folder, number, layout, pages, bucket.close_time))


def write_header(
    folder: Folder,
    identity: dict[str, Any],
    schema: StoredSchema,
    close_time: int,
    files: Iterable[SavedFile],
    origin: dict[str, Any],
) -> Savepoint:
    """Write the header, which completes a savepoint.

    Args:
        folder: the savepoint's.
        identity, schema, origin: see `Savepoint`.
        close_time: the latest that is known, in ticks.
        files: the files that have the entries.
    """
    saved = tuple(files)
    latest = max([close_time, *(one.close_time for one in saved)])
    plain = schema.plain()
    plain |= {name: base64.b64encode(plain[name]).decode() for name in _BLOBS if name in plain}
    values = {
        "identity": identity,
        "schema": plain,
        "close": latest,
        "files": [asdict(one) for one in saved],
        "origin": origin,
    }
    folder.write(HEADER, encode_signed(values, SAVEPOINT_VERSION))
    return Savepoint(folder.uri, identity, schema, latest, saved, origin)


def read_header(uri: str) -> Savepoint:
    """Return the savepoint of a folder.

    Raises:
        StateError: the folder contains none, or the storage fails.
        CorruptDataError: its header is damaged; names it.
        NewerFormatError: a newer version wrote it.
    """
    folder = Folder(uri)
    blob = folder.read(HEADER)
    if blob is None:
        raise StateError(
            f"the folder {folder.shown} contains no savepoint: {HEADER} is missing. It is written last, so the export may be "
            "incomplete"
        )
    what = f"the savepoint's header {folder.where(HEADER)}"
    values = decode_signed(blob, SAVEPOINT_VERSION, what)
    with refusing(what):
        plain = instance(dict, values["schema"])
        plain |= {name: base64.b64decode(plain[name]) for name in _BLOBS if name in plain}
        return Savepoint(
            uri,
            instance(dict, values["identity"]),
            checked_schema(plain),
            int64(values["close"]),
            tuple(_checked(what, SavedFile(**one)) for one in values["files"]),
            _origin(instance(dict, values["origin"])),
        )


def _origin(origin: dict[str, Any]) -> dict[str, Any]:
    for name in ("stream_time", "highest", "sequence"):
        if origin.get(name) is not None:
            int64(origin[name])
    checked_inputs(origin.get("inputs"))
    checked_inputs(origin.get("since"))
    return origin


def _checked(what: str, file: SavedFile) -> SavedFile:
    if not stays_inside(instance(str, file.name)):
        raise CorruptDataError(f"{what} names a file outside its folder: {short(file.name)}")
    instance(str, file.digest), int64(file.close_time)
    for number in (file.rows, file.size, file.low, file.high):
        count(number)
    return file


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
