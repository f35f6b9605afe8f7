"""The files of a savepoint: pages of a bucket's entries, in the order of the CRC-32s of their keys.

Each file is a blob (see `serializers.blobs`) of a few MiB, with the value [[keys], [pages]]. The pages of a key follow one
another, and may go on in the bucket's next file.
"""

import hashlib
import os
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from serializers import CorruptDataError
from serializers.blobs import BlobFormat
from serializers.pages import PageLayout
from serializers.shapes import instance, list_of, refusing
from state_backends.durability.folders import Folder
from state_backends.store.entries import Entries
from state_backends.store.ordering import row_order

FILE_VERSION = 1
_FORMAT = BlobFormat(b"SWSP", FILE_VERSION)
SAVED = pa.schema(
    [
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("digest", pa.string()),
        ("close_time", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
    ]
)
"""The columns in which a task describes a file that it wrote: the fields of `SavedFile`."""
_FILE_BYTES, _AT_ONCE_BYTES = 4 << 20, 64 << 20


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of a savepoint.

    Attributes:
        name: the name of the file.
        rows: entries in it.
        size: its bytes.
        digest: SHA-256 of its bytes, in hex.
        close_time: that the bucket had reached, in ticks.
        low, high: CRC-32s of the keys in it, from the first to the one after the last.
    """

    name: str
    rows: int
    size: int
    digest: str
    close_time: int
    low: int
    high: int

    def table(self) -> pa.Table:
        """Return this as a row of `SAVED`."""
        columns = [pa.array([value], type_) for value, type_ in zip(astuple(self), SAVED.types, strict=True)]
        return pa.Table.from_arrays(columns, schema=SAVED)


class SavedPage(NamedTuple):
    """A page of some entries of one key.

    Attributes:
        crc: the CRC-32 of the key.
        key: the encoded key.
        page: its bytes.
    """

    crc: int
    key: bytes
    page: bytes

    @property
    def size(self) -> int:
        """Bytes of the key and the page."""
        return len(self.key) + len(self.page)


def write_files(
    folder: Folder, number: int, layout: PageLayout, pages: Iterable[SavedPage], close_time: int
) -> Iterator[SavedFile]:
    """Write pages to files of a few MiB each, and yield what describes them.

    Args:
        folder: the savepoint's.
        number: the number of the bucket.
        layout: the layout of the pages.
        pages: the pages, in the order of the CRC-32s of their keys.
        close_time: that the bucket had reached, in ticks.
    """
    for part in in_parts(pages):
        values = [page.page for page in part]
        blob = _FORMAT.encode([[page.key for page in part], values])
        name = f"entries/{number}-{os.urandom(8).hex()}"
        folder.write(name, blob)
        rows, digest = layout.count_rows(values, sum(map(len, values))), hashlib.sha256(blob).hexdigest()
        yield SavedFile(name, rows, len(blob), digest, close_time, part[0].crc, part[-1].crc + 1)


def saved_pages(pages: Iterable[tuple[bytes, bytes]]) -> Iterator[SavedPage]:
    """Yield pages, of each the key and the bytes, with the CRC-32s of their keys."""
    return (SavedPage(zlib.crc32(key), key, page) for key, page in pages)


def in_parts(pages: Iterable[SavedPage]) -> Iterator[list[SavedPage]]:
    """Yield pages in lists of a few MiB."""
    part: list[SavedPage] = []
    size = 0
    for page in pages:
        part.append(page)
        size += page.size
        if size >= _FILE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def read_files(folder: Folder, files: Iterable[SavedFile], low: int, high: int) -> Iterator[list[SavedPage]]:
    """Yield the pages of files with low <= crc < high, some MiB at a time, each time with all pages that their keys have.

    Args:
        folder: the savepoint's.
        files: those of a bucket in their order, then those of others.
        low, high: the CRC-32s.

    Raises:
        CorruptDataError: a file is missing, truncated or altered, or its pages are not in order.
    """
    held: list[SavedPage] = []
    size = 0
    for file in files:
        pages = _read_file(folder, file, low, high)
        if held and pages and pages[0].crc < held[-1].crc:  # another bucket begins
            yield held
            held, size = [], 0
        held += pages
        size += sum(page.size for page in pages)
        if size >= _AT_ONCE_BYTES and (edge := bisect_left(held, held[-1][:1])):
            yield held[:edge]
            held = held[edge:]
            size = sum(page.size for page in held)
    if held:
        yield held


def _read_file(folder: Folder, file: SavedFile, low: int, high: int) -> list[SavedPage]:
    what, way_out = (
        f"the savepoint's file {folder.where(file.name)}",
        "restore the file, or write a new savepoint",
    )
    blob = folder.read(file.name, file.size)
    if blob is None:
        raise CorruptDataError(f"{what} is missing: {way_out}")
    if len(blob) != file.size or hashlib.sha256(blob).hexdigest() != file.digest:
        raise CorruptDataError(f"{what} is truncated or altered: {way_out}")
    with refusing(what):
        keys, values = (list_of(bytes, values) for values in instance(list, _FORMAT.decode(blob, what)))
        pages = list(saved_pages(zip(keys, values, strict=True)))
    crcs = [page.crc for page in pages]
    if crcs != sorted(crcs):
        raise CorruptDataError(f"{what} has pages that are not in the order of their keys")
    return pages[bisect_left(crcs, low) : bisect_left(crcs, high)]


def entries_of(pages: Sequence[SavedPage], layout: PageLayout) -> tuple[list[bytes], Entries]:
    """Return the distinct keys of pages, and their entries."""
    columns, counts = layout.decode([page.page for page in pages])
    numbers: dict[bytes, int] = {}
    number = [numbers.setdefault(page.key, len(numbers)) for page in pages]
    key = np.repeat(np.array(number, np.int64), counts)
    entries = Entries(key, tuple(columns))
    order = row_order(key, entries.time)
    return list(numbers), entries if order is None else entries.take(order)
