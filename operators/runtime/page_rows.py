"""The pages that a batch changed, as rows for a table from which services read what the windows of a key hold.

A row is a page, by the bucket, the key, the segment and the tick at which the page starts. It is the batch's changelog entry
with whole pages: a row that retracts stands for a page that is gone. Each bucket that has worked has a row without key, too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from serializers import pack_value, unpack_value
from serializers.keys import stored_key
from serializers.shapes import int64, refusing
from state_backends.errors import StateError
from state_backends.store.page_ids import keys_and_starts

if TYPE_CHECKING:
    from state_backends import WindowStore
    from state_backends.checkpoints.stored_bucket import Bucket
    from state_backends.interface import WriteBatch
    from state_backends.store.schema import StoredSchema

NO_KEY = b""
"""The key of rows that are not of a key; encoded keys are never empty."""
HEADS = -1
"""The bucket of rows that are not of a bucket."""
KEY_COLUMNS = ("edition", "bucket", "key", "segment", "start")
PAGE_ROWS = pa.schema(
    [
        ("edition", pa.int64()),
        ("bucket", pa.int32()),
        ("key", pa.binary()),
        ("segment", pa.int64()),
        ("start", pa.int64()),
        ("page", pa.binary()),
        ("change", pa.string()),
        ("sequence", pa.int64()),
    ]
)
"""Columns of the rows: `edition` tells sets of pages in one table apart, `sequence` is the version of the bucket's state."""


@dataclass(frozen=True, slots=True)
class BucketHead:
    """What a table knows of a bucket beside its pages.

    Attributes:
        close_time: the close time that the bucket has reached, in ticks.
        segment: length of a segment in ticks.
    """

    close_time: int
    segment: int

    def encode(self) -> bytes:
        """Return it as bytes."""
        return pack_value([self.close_time, self.segment])

    @classmethod
    def decode(cls, data: bytes) -> "BucketHead":
        """Return what `encode` wrote.

        Raises:
            CorruptDataError: the bytes are something else.
        """
        with refusing("a bucket of a table of pages"):
            close_time, segment = unpack_value(data)
            return cls(int64(close_time), int64(segment))


def check_published(running: "StoredSchema", given: "StoredSchema") -> None:
    """Refuse to publish pages in another form than that of the definition that readers have.

    Args:
        running: the state's binding.
        given: the definition's binding.

    Raises:
        StateError: they differ.
    """
    if running.layout != given.layout or running.states != given.states:
        raise StateError(
            "pages of a state that was converted from another definition cannot be published: start the query with a new "
            "checkpoint, from a savepoint of this one"
        )


def changed_pages(
    store: "WindowStore", changes: "WriteBatch", bucket: int, sequence: int, close_time: int
) -> pa.Table:
    """Return the rows of the pages that a batch changes.

    Args:
        store: to whose backend the changes are not written yet: it still has the pages of dropped segments.
        changes: the changes of the batch.
        bucket: its number.
        sequence: the sequence of the batch, above those of earlier ones.
        close_time: that the batch has reached, in ticks.

    Cost: O(changed pages), and the names of the pages in dropped segments.
    """
    parts = [_head(bucket, sequence, close_time, store.segment_ticks)]
    for segment, names in _gone(store, changes):
        parts.append(_rows(store, bucket, sequence, segment, names, None))
    for segment, pages in changes.puts.items():
        parts.append(_rows(store, bucket, sequence, segment, list(pages), list(pages.values())))
    return pa.concat_tables(parts)


def all_pages(store: "WindowStore", bucket: int, stored: "Bucket") -> Iterator[pa.Table]:
    """Yield the rows of all pages of a bucket, segment by segment."""
    sequence = stored.pointer.number
    yield _head(bucket, sequence, stored.close_time, store.segment_ticks)
    for segment in stored.backend.segments():
        for names, pages in stored.backend.scan(segment):
            yield _rows(store, bucket, sequence, segment, names, pages)


def _gone(store: "WindowStore", changes: "WriteBatch") -> Iterator[tuple[int, list[bytes]]]:
    below = changes.drop_segments_below
    for segment in store.backend.segments() if below is not None else ():
        if below is not None and segment < below:
            yield from ((segment, list(names)) for names in store.backend.scan_keys(segment))
    yield from ((segment, list(names)) for segment, names in changes.deletes.items() if names)


def _head(bucket: int, sequence: int, close_time: int, segment: int) -> pa.Table:
    head = BucketHead(close_time, segment).encode()
    return _table(bucket, sequence, 0, ([NO_KEY], [0], [head]))


def _rows(
    store: "WindowStore",
    bucket: int,
    sequence: int,
    segment: int,
    names: Sequence[bytes],
    pages: Sequence[bytes] | None,
) -> pa.Table:
    keys, starts = keys_and_starts(list(names), store.span_of(segment)[0])
    columns = [stored_key(key) for key in keys], starts, pages
    return _table(bucket, sequence, segment, columns)


def _table(
    bucket: int, sequence: int, segment: int, columns: tuple[Sequence[bytes], object, Sequence[bytes] | None]
) -> pa.Table:
    keys, starts, pages = columns
    count = len(keys)
    arrays = [
        pa.repeat(pa.scalar(0, pa.int64()), count),
        pa.repeat(pa.scalar(bucket, pa.int32()), count),
        pa.array(keys, pa.binary()),
        pa.repeat(pa.scalar(segment, pa.int64()), count),
        pa.array(starts, pa.int64()),
        pa.nulls(count, pa.binary()) if pages is None else pa.array(pages, pa.binary()),
        pa.repeat("retract" if pages is None else "update", count),
        pa.repeat(pa.scalar(sequence, pa.int64()), count),
    ]
    return pa.Table.from_arrays(arrays, schema=PAGE_ROWS)
