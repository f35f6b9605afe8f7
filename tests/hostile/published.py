"""A table of published pages, one of whose rows has other bytes, and what its reader answers."""

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import pyarrow as pa

from operators import RollingWindows
from operators import aggregates as agg
from operators.definitions.publishing import PublishedFeatures
from operators.definitions.rolling import RollingAggregation
from operators.errors import DefinitionError
from operators.runtime.local import LocalRunner
from operators.sinks import Changes, PageTable, SinkError
from operators.sinks.interface import WrittenBatch
from operators.sinks.pages import FoundPage, PageFinder, Wanted
from operators.sinks.publish import Publish
from operators.sinks.published import Definition
from serializers import PageLayout
from state_backends import StateError, resolve

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC")), ("v", pa.int64())])
ROWS = "heads", "buckets", "pages"
"""The kinds of rows of a table."""
Place = tuple[int, int, bytes, int, int]
"""Edition, bucket, key, segment and start of a row."""


class Rows(PageTable):
    """A table in memory.

    Attributes:
        rows: the page of each row.
    """

    def __init__(self, rows: dict[Place, bytes]) -> None:
        self.rows = rows

    def write(self, changes: Changes) -> bool:
        """Add rows."""
        for row in changes.upserts.to_pylist():
            place = row["edition"], row["bucket"], row["key"], row["segment"], row["start"]
            self.rows[place] = row["page"]
        return True

    def last_batch(self, query: str) -> WrittenBatch | None:
        """No batch is noted: each is written once."""
        del query

    def remove(self, edition: int) -> None:
        """Remove rows."""
        self.rows = {place: page for place, page in self.rows.items() if place[0] != edition}

    @contextmanager
    def finder(self) -> Iterator[PageFinder]:
        """Find rows in the table itself."""
        yield self

    def find(self, wanted: Sequence[Wanted]) -> list[FoundPage]:
        """Return the rows that are wanted."""
        return [
            FoundPage(number, segment, start, page)
            for number, one in enumerate(wanted)
            for (edition, bucket, key, segment, start), page in self.rows.items()
            if (edition, bucket, key) == (one.edition, one.bucket, one.key)
            and one.first <= segment <= one.last
        ]

    def now_us(self) -> int:
        """Return the time of this machine."""
        return time.time_ns() // 1_000

    def close(self) -> None:
        """Nothing is open."""


def features() -> RollingAggregation:
    """Return features with numbers, sketches and an end of their lookback."""
    windows = RollingWindows({"5m": "5 minutes"}).group_by("k")
    return windows.aggregate(n=agg.count(), s=agg.sum("v"), kinds=agg.approx_count_distinct("v"))


@cache
def table() -> dict[Place, bytes]:
    """Return the rows of a table with one batch."""
    operator, rows = PublishedFeatures(features()), Rows({})
    binding = operator.bind(SCHEMA, "at", resolve("memory"))
    records = [{"k": "a", "at": BEGIN + dt.timedelta(seconds=n), "v": n} for n in range(100)]
    with LocalRunner(lambda s, c: operator.bind(s, "at", c), resolve("memory"), None) as runner:
        changed = runner.process(pa.Table.from_pylist(records, schema=SCHEMA))
    Publish(rows, Definition.of(binding, SCHEMA), 1).write(changed, 0, "query")
    return rows.rows


def place_of(kind: str) -> Place:
    """Return the first row of a kind: the head of the features, that of a bucket, or a page of a key."""
    found = [place for place in table() if (place[1] < 0, not place[2]) == (kind == "heads", kind != "pages")]
    return min(found)


def seed(kind: str) -> bytes:
    """Return the bytes of the first row of a kind."""
    return table()[place_of(kind)]


def layout() -> PageLayout:
    """Return the layout of the pages."""
    return PublishedFeatures(features()).bind(SCHEMA, "at", resolve("memory")).plan.layout


def read(kind: str, page: bytes) -> object:
    """Read what keys hold, where one row has these bytes. An error for a table that cannot be used is a StateError here."""
    with features().reader(Rows({**table(), place_of(kind): page})) as reader:
        try:
            answers = reader.get_many([{"k": "a"}, {"k": "b"}], BEGIN + dt.timedelta(seconds=120))
        except (SinkError, DefinitionError) as error:
            raise StateError(str(error)) from error
        except OverflowError as error:
            if "exceeds 64 bits" in str(error):  # a sum, as of records that are too large
                raise StateError(str(error)) from error
            raise
        return answers.table.to_pylist(), answers.freshness
