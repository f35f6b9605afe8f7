"""What a table of pages says of itself: which features it has, of which query, and as of which batch."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from operators.kinds.calendars import CLOCK_CHANGES, ZONE
from operators.kinds.rolling import CLOSED
from operators.runtime.binding import Binding
from operators.runtime.identity import SEGMENT, differences, differing
from operators.runtime.moments import moment_of
from operators.runtime.page_places import HEADS, NO_KEY
from operators.sinks.interface import SinkError
from operators.sinks.pages import PageFinder, Wanted
from serializers import CorruptDataError, NewerFormatError, pack_value, unpack_value
from serializers.schemas import read_schema
from serializers.shapes import count, instance, int64, refusing

HEAD_VERSION = 2
HEADS_EDITION = 0
"""The edition of the rows that have a head; the segment is the number of the definition."""
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Definition:
    """What pages are of: the operator that wrote them, as far as a reader depends on it.

    Attributes:
        identity: what the state depends on, without the length of a segment, which each bucket tells, and without which
            ends belong to windows, which pages do not know.
        schema: the columns of the records that the operator reads.
        event_time: which of them has the times.
        grace: grace in ticks.
    """

    identity: Mapping[str, Any]
    schema: pa.Schema
    event_time: str
    grace: int

    @classmethod
    def of(cls, binding: Binding, schema: pa.Schema) -> "Definition":
        """Return that of an operator that is bound to columns."""
        names = [name for name in binding.inputs.names if name in schema.names]
        identity = {
            name: value for name, value in binding.identity().items() if name not in (SEGMENT, CLOSED)
        }
        columns = pa.schema([schema.field(name).remove_metadata() for name in names])
        return cls(identity, columns, binding.inputs.event_time, binding.grace)

    @property
    def number(self) -> int:
        """A number of 63 bits that tells definitions apart."""
        text = json.dumps(self.identity, sort_keys=True, default=str)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1

    def differs_by_clock(self, published: "Definition") -> bool:
        """Whether all that differs are the zone and its clock, which a reader compares over what it reads."""
        names, identities = {ZONE, CLOCK_CHANGES}, (self.identity, published.identity)
        both = all(isinstance(identity.get(name), str) for name in names for identity in identities)
        return both and {*differing(*identities)} <= names

    def check_same(self, published: "Definition") -> None:
        """Refuse a table of other features.

        Raises:
            SinkError: says what differs.
        """
        names = differing(published.identity, self.identity)
        if names:
            what = differences(published.identity, self.identity, names)
            raise SinkError(
                f"the table has pages of other features: {what}. Read them with the definition that the query has, or publish "
                "these features to the table, too"
            )


@dataclass(frozen=True, slots=True)
class Head:
    """The features that a table has, as of a batch.

    Attributes:
        definition: the definition of the features.
        query: id of the query that writes them.
        batch: its last batch in the table.
        edition: the edition of the rows that count.
        buckets: how many there are.
        segment: length of a segment in ticks; 0 before a bucket has worked.
        close_time: the highest one of a bucket, in ticks; None before any.
        written_us: when the batch was written, by the clock of the table's server, in microseconds since the epoch.
    """

    definition: Definition
    query: str
    batch: int
    edition: int
    buckets: int
    segment: int
    close_time: int | None
    written_us: int

    def encode(self) -> bytes:
        """Return it as bytes."""
        of = self.definition
        return pack_value(
            [
                HEAD_VERSION,
                dict(of.identity),
                of.schema.serialize().to_pybytes(),
                of.event_time,
                of.grace,
                self.query,
                self.batch,
                self.edition,
                self.buckets,
                self.segment,
                self.close_time,
                self.written_us,
            ]
        )

    @classmethod
    def decode(cls, data: bytes) -> "Head":
        """Return what `encode` wrote.

        Raises:
            NewerFormatError: a newer version wrote it.
            CorruptDataError: the bytes are something else.
        """
        with refusing("the head of a table of pages"):
            version, *rest = instance(list, unpack_value(data))
            if count(version) > HEAD_VERSION:
                raise NewerFormatError("a table of pages", version, HEAD_VERSION)
            if version < HEAD_VERSION:
                raise CorruptDataError(
                    "a table of pages: an earlier version wrote it. Remove it: the query writes all pages again"
                )
            identity, schema, event_time, grace, query, batch, edition, buckets, *times = rest
            segment, close_time, written = times
            columns = _columns(instance(bytes, schema))
            if not count(buckets):
                raise CorruptDataError("the head of a table of pages has no buckets")
            moment_of(int64(written), 1)
            return cls(
                Definition(instance(dict, identity), columns, instance(str, event_time), int64(grace)),
                instance(str, query),
                count(batch),
                count(edition),
                buckets,
                count(segment),
                None if close_time is None else int64(close_time),
                written,
            )


@lru_cache(maxsize=64)
def _columns(schema: bytes) -> pa.Schema:
    """The columns that a head names; each answer reads a head."""
    return read_schema(schema, "the columns in the head of a table of pages")


def wanted_head(definition: int) -> Wanted:
    """Return how the head of a definition is found."""
    return Wanted(HEADS_EDITION, HEADS, NO_KEY, definition, definition)


@lru_cache(maxsize=4)
def decoded_head(data: bytes) -> Head:
    """Return what `Head.decode` does. A reader finds the same bytes with each answer until the next batch."""
    return Head.decode(data)


def find_heads(finder: PageFinder) -> list[Head]:
    """Return the heads of all features in a table."""
    found = finder.find([Wanted(HEADS_EDITION, HEADS, NO_KEY, _LEAST, _MOST)])
    heads = [Head.decode(row.page) for row in found]
    for head in heads:
        with refusing("the head of a table of pages"):
            _ = head.definition.number
    return heads


def find_head(finder: PageFinder, definition: int) -> Head | None:
    """Return the head of a definition, or None."""
    found = finder.find([wanted_head(definition)])
    return Head.decode(found[0].page) if found else None


def head_rows(heads: Sequence[tuple[int, Head]], schema: pa.Schema) -> pa.Table:
    """Return heads, by the numbers of their definitions, as rows of a table of pages."""
    rows = [note_row(NO_KEY, number, head.encode(), head.batch) for number, head in heads]
    return pa.Table.from_pylist(rows, schema=schema)


def note_value(page: bytes, version: int, what: str) -> object:
    """Return the value of a note, which is packed with the version of its form.

    Args:
        page: the bytes of the note.
        version: the newest version that this library knows.
        what: what is noted, for errors.

    Raises:
        NewerFormatError: a newer version wrote it.
        CorruptDataError: the bytes are something else.
    """
    with refusing(what):
        written, *rest = instance(list, unpack_value(page))
        if count(written) > version:
            raise NewerFormatError(what, written, version)
        if len(rest) != 1:
            raise CorruptDataError(f"{what}: it has {len(rest)} values")
        return rest[0]


def note_row(key: bytes, definition: int, page: bytes | None, sequence: int) -> dict[str, object]:
    """Return what a table says of a definition, under a key, as a row; without a page, the row that removes it."""
    return {
        "edition": HEADS_EDITION,
        "bucket": HEADS,
        "key": key,
        "segment": definition,
        "start": 0,
        "page": page,
        "change": "retract" if page is None else "update",
        "sequence": sequence,
    }
