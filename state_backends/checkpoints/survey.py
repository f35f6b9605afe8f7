"""What a stopped query stores and how: sizes by bucket and segment, the largest keys, pointers and changelogs."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from serializers import decode_keys
from state_backends.checkpoints.labels import bucket_number
from state_backends.checkpoints.reading import Checkpoint, by_bucket, journals
from state_backends.checkpoints.sizes import SegmentSize, SizeCount, in_segments_of
from state_backends.checkpoints.stored_bucket import Bucket
from state_backends.durability.pointer import Pointer
from state_backends.store.schema import StoredSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_KEYS = 20
_LONGEST_TEXT = 120
_SEGMENT = pa.struct(
    [(name, pa.int64()) for name in ("segment", "keys", "panes", "size", "oldest", "newest")]
)
_KEY = pa.struct([("key", pa.list_(pa.string())), ("size", pa.int64()), ("panes", pa.int64())])
_SURVEYED = pa.schema(
    [
        ("bucket", pa.int32()),
        ("pointer", pa.binary()),
        ("keys", pa.int64()),
        ("segments", pa.list_(_SEGMENT)),
        ("largest", pa.list_(_KEY)),
    ]
)


@dataclass(frozen=True, slots=True)
class KeySize:
    """What a key holds.

    Attributes:
        key: the value of each key column as text, shortened if it is long; None for null.
        size: bytes of the key in each of its pages, and of these pages, before compression.
        panes: how many.
        bucket: where it is.
    """

    key: tuple[str | None, ...]
    size: int
    panes: int
    bucket: int


@dataclass(frozen=True, slots=True)
class SurveyedBucket:
    """What a bucket stores, and how.

    Attributes:
        number: its number.
        pointer: its pointer.
        keys: number of distinct keys.
        segments: what each of its segments holds.
        largest: its largest keys.
        log_entries: number of entries in its changelog.
        log_bytes: their bytes as stored.
        stored_bytes: bytes of all its blobs in Spark's state store.
    """

    number: int
    pointer: Pointer
    keys: int
    segments: tuple[SegmentSize, ...]
    largest: tuple[KeySize, ...]
    log_entries: int
    log_bytes: int
    stored_bytes: int

    @classmethod
    def of(
        cls, row: Mapping[str, Any], log_entries: int, log_bytes: int, stored_bytes: int
    ) -> "SurveyedBucket":
        """Return the bucket of a row of `SurveyBucket`, and the sizes of its blobs."""
        pointer = Pointer.decode(bytes(row["pointer"]))
        number = bucket_number(row["bucket"], pointer.progress.buckets)
        return cls(
            number,
            pointer,
            row["keys"],
            tuple(SegmentSize(**segment) for segment in row["segments"]),
            tuple(KeySize(tuple(one["key"]), one["size"], one["panes"], number) for one in row["largest"]),
            log_entries,
            log_bytes,
            stored_bytes,
        )

    @property
    def close_time(self) -> int:
        """The close time reached, in ticks."""
        return self.pointer.progress.close_time

    @property
    def panes(self) -> int:
        """Number of panes."""
        return sum(segment.panes for segment in self.segments)

    @property
    def size(self) -> int:
        """Bytes of keys and pages, before compression."""
        return sum(segment.size for segment in self.segments)


@dataclass(frozen=True, slots=True)
class StateSurvey:
    """What one operator of a stopped query stores, and how.

    Attributes:
        checkpoint: the checkpoint of the state.
        schema: the schema of the entries. Segments are counted by its length, also those of buckets that have another one.
        identity: what the state depends on, as the operator describes it.
        buckets: the buckets in the order of their numbers.
    """

    checkpoint: Checkpoint
    schema: StoredSchema
    identity: dict[str, Any]
    buckets: tuple[SurveyedBucket, ...]

    @property
    def segments(self) -> tuple[SegmentSize, ...]:
        """What each segment holds in all buckets together, in the order of their numbers."""
        sums: dict[int, SegmentSize] = {}
        for bucket in self.buckets:
            for size in bucket.segments:
                sums[size.segment] = sums[size.segment] + size if size.segment in sums else size
        return tuple(sums[number] for number in sorted(sums))

    @property
    def largest(self) -> list[KeySize]:
        """The largest keys of all buckets, largest first."""
        every = (key for bucket in self.buckets for key in bucket.largest)
        return heapq.nlargest(MOST_KEYS, every, key=lambda key: (key.size, key.panes))


def survey(checkpoint: Checkpoint, spark: "SparkSession | None" = None) -> StateSurvey:
    """Return what an operator of a stopped query stores, and how. Nothing is changed.

    Raises:
        StateError: the checkpoint has no state of windows, or none of that batch.
        CorruptDataError: it is damaged; names the file or blob.

    Cost: each bucket's state passes through one task's memory. The driver gets a few numbers for each bucket and segment.
    """
    rows, form = journals(checkpoint, spark)
    schema = form.schema
    logs = _stored(rows)
    found = by_bucket(rows, SurveyBucket(checkpoint, schema), _SURVEYED).collect()
    buckets = [SurveyedBucket.of(row.asDict(recursive=True), *logs[row.bucket]) for row in found]
    buckets.sort(key=lambda bucket: bucket.number)
    return StateSurvey(checkpoint, schema, form.identity, tuple(buckets))


@dataclass(frozen=True)
class SurveyBucket:
    """Surveys one bucket.

    Attributes:
        checkpoint: the checkpoint of the state.
        schema: the schema of the survey.
    """

    checkpoint: Checkpoint
    schema: StoredSchema

    def __call__(self, number: int, bucket: Bucket) -> Iterator[pa.Table]:
        """Yield one row."""
        count = SizeCount()
        for stored in bucket.entries():
            count.add_segment(stored)
            count.add_keys(stored)
        row = {
            "bucket": number,
            "pointer": bucket.pointer.encode(),
            "keys": count.keys,
            "segments": [
                {name: getattr(size, name) for name in SegmentSize.__slots__}
                for size in in_segments_of(self.schema.segment, count.segments, bucket.schema.segment)
            ],
            "largest": self._largest(count),
        }
        yield pa.Table.from_pylist([row], schema=_SURVEYED)

    def _largest(self, count: SizeCount) -> list[dict[str, Any]]:
        found = count.largest(MOST_KEYS)
        columns = decode_keys([key for key, *_ in found], self.schema.keys.types)
        texts = [[_shorten(value) for value in column.to_pylist()] for column in columns]
        return [
            {"key": [column[at] for column in texts], "size": size, "panes": panes}
            for at, (_, size, panes) in enumerate(found)
        ]


def _shorten(value: Any) -> str | None:
    if value is None:
        return None
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _stored(rows: "DataFrame") -> dict[int, tuple[int, int, int]]:
    """Of each bucket: entries of the changelog, their bytes, and the bytes of all blobs."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

    is_log, size = F.col("name").startswith("log-"), F.length("blob")
    sums = rows.groupBy("bucket").agg(
        F.countDistinct(F.when(is_log, F.col("name"))),
        F.coalesce(F.sum(F.when(is_log, size)), F.lit(0)),
        F.sum(size),
    )
    return {bucket: tuple(found) for bucket, *found in sums.collect()}
