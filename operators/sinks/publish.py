"""A function for `foreachBatch` that keeps the pages of a query's state in a table, so that services read them."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from operators.errors import DefinitionError
from operators.runtime.page_places import KEY_COLUMNS, NO_KEY, PAGE_ROWS, BucketHead
from operators.sinks.interface import SinkError
from operators.sinks.pages import PageTable
from operators.sinks.published import Definition, Head, find_head, head_rows
from operators.sinks.upsert import Upsert
from operators.spark.base.inside import query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WholeState = Callable[["DataFrame", int], pa.Table]
"""Returns all pages of a query's state as the batch before the one that runs has left them."""


@dataclass(frozen=True, slots=True)
class Publish:
    """What `features.publish` calls with the changed pages of each batch.

    Attributes:
        pages: the table.
        definition: what the pages are of.
        buckets: how many buckets the query has.
        whole: returns all pages of the query.
    """

    pages: PageTable
    definition: Definition
    buckets: int
    whole: WholeState | None = None

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Write the pages of a batch, unless they are in the table already."""
        query = query_id(rows.sparkSession)
        if query is None:
            raise DefinitionError("publish needs a query of Spark itself: Spark Connect does not tell its id")
        whole = self.whole
        self.write(rows.toArrow(), batch, query, None if whole is None else lambda: whole(rows, batch))

    def write(
        self, rows: pa.Table, batch: int, query: str, whole: Callable[[], pa.Table] | None = None
    ) -> None:
        """Write changed pages.

        Where the table lacks the batch before, pages that are not among the changed ones may be missing: then all are
        written, as a new edition.

        Args:
            rows: rows with the columns of `PAGE_ROWS`.
            batch: its number.
            query: id of the query.
            whole: returns all pages as of the batch before; None if they cannot be read.

        Raises:
            SinkError: the table has these features of another query, or a later batch; or lacks the batch before, and there
                is no `whole`.
        """
        number = self.definition.number
        with self.pages.finder() as finder:
            head = find_head(finder, number)
            if head is not None and head.query != query:
                raise SinkError(
                    f"{self.pages!r} has the pages of these features of another query, {head.query}: publish to another table, "
                    "or remove this one first"
                )
            edition = _edition(query, number, 0) if head is None else head.edition
            behind = batch > 0 if head is None else head.batch < batch - 1
            if behind:
                if whole is None:
                    raise SinkError(
                        f"{self.pages!r} lacks the batches before batch {batch} of query {query}: start the query with a new "
                        "checkpoint, from a savepoint of this one"
                    )
                rows, edition = pa.concat_tables([whole(), rows]), _edition(query, number, batch)
        now = self._head(head, rows, query, batch, edition)
        place = rows.schema.get_field_index("edition")
        rows = rows.set_column(place, PAGE_ROWS.field("edition"), pa.repeat(edition, rows.num_rows))
        rows = pa.concat_tables([rows.cast(PAGE_ROWS), head_rows([(number, now)], PAGE_ROWS)])
        # The batches of each definition are counted apart: a query may go on with another one.
        Upsert(self.pages, KEY_COLUMNS, None).write(rows, batch, f"{query} {number:016x}", query)
        if head is not None and head.edition != edition:
            self.pages.remove(head.edition)

    def _head(self, before: Head | None, rows: pa.Table, query: str, batch: int, edition: int) -> Head:
        """The head after a batch."""
        found = [BucketHead.decode(page) for page in _bucket_heads(rows)]
        times = [bucket.close_time for bucket in found]
        segment = found[0].segment if found else 0
        if before is not None:
            times += [] if before.close_time is None else [before.close_time]
            segment = segment or before.segment
        latest, now = max(times, default=None), time.time_ns() // 1_000
        return Head(self.definition, query, batch, edition, self.buckets, segment, latest, now)


def _bucket_heads(rows: pa.Table) -> list[bytes]:
    """The heads of buckets among rows."""
    found: list[bytes] = rows.filter(pc.equal(rows.column("key"), NO_KEY)).column("page").to_pylist()
    return found


def _edition(query: str, definition: int, batch: int) -> int:
    """A number of 63 bits for a new set of pages."""
    text = f"{query} {definition} {batch}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
