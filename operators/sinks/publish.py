"""A function for `foreachBatch` that keeps the pages of a query's state in a table, so that services read them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from operators.errors import DefinitionError
from operators.runtime.page_places import KEY_COLUMNS, NO_KEY, PAGE_ROWS, BucketHead
from operators.sinks.confirmations import confirm
from operators.sinks.editions import EditionWriter, edition_of, noted_edition, wanted_note, with_edition
from operators.sinks.interface import SinkError
from operators.sinks.pages import PageTable
from operators.sinks.published import Definition, Head, head_rows, wanted_head
from operators.sinks.upsert import Upsert
from operators.spark.base.inside import query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WholeState = Callable[["DataFrame", int], Iterable[pa.Table]]
"""Returns all pages of a query's state, in parts, as the batch before the one that runs has left them."""


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
        self, rows: pa.Table, batch: int, query: str, whole: Callable[[], Iterable[pa.Table]] | None = None
    ) -> None:
        """Write changed pages.

        Where the table lacks the batch before, pages that are not among the changed ones may be missing: then all are
        written, as a new edition, part by part.

        Args:
            rows: rows with the columns of `PAGE_ROWS`.
            batch: its number.
            query: id of the query.
            whole: returns all pages as of the batch before, in parts; None if they cannot be read.

        Raises:
            SinkError: the table has these features of another query, or a later batch; or lacks the batch before, and there
                is no `whole`.
        """
        known = self._known(query)
        if known.left is not None or known.lacks(batch):
            # What another driver writes from here on is refused.
            writer = EditionWriter(self.pages, query, self.definition.number)
            known = self._known(query)
            if known.left is not None:
                writer.clean(known.left)
            if known.lacks(batch):
                self._write_all(writer, known, rows, batch, query, whole)
                rows, known = PAGE_ROWS.empty_table(), self._known(query)
        edition = self._first_edition(query) if known.head is None else known.head.edition
        head = self._head(known, _bucket_heads(rows), query, batch, edition)
        rows = pa.concat_tables([with_edition(rows, edition), self._head_row(head)])
        # The batches of each definition are counted apart: a query may go on with another one.
        Upsert(self.pages, KEY_COLUMNS, None).write(
            rows, batch, f"{query} {self.definition.number:016x}", query
        )

    def _write_all(
        self,
        writer: EditionWriter,
        known: "_Known",
        rows: pa.Table,
        batch: int,
        query: str,
        whole: Callable[[], Iterable[pa.Table]] | None,
    ) -> None:
        """Write all pages as of the batch before, and what this one changes."""
        if whole is None:
            raise SinkError(
                f"{self.pages!r} lacks the batches before batch {batch} of query {query}: start the query with a new "
                "checkpoint, from a savepoint of this one"
            )
        writer.begin()
        buckets = list[BucketHead]()
        for part in whole():
            buckets += _bucket_heads(part)
            writer.put(with_edition(part, writer.edition))
        buckets += _bucket_heads(rows)
        head = self._head(known, buckets, query, batch, writer.edition)
        last = pa.concat_tables([with_edition(rows, writer.edition), self._head_row(head)])
        writer.finish(last, None if known.head is None else known.head.edition)

    def note_idle(self, query: str, committed: int | None) -> None:
        """Note that a query has found nothing new to read, so that the table is current.

        Args:
            query: its id.
            committed: the last batch that it has committed; None if that is not known.

        Raises:
            SinkError: the table cannot be reached or written to.
        """
        confirm(self.pages, query, self.definition.number, committed)

    def _known(self, query: str) -> "_Known":
        """What the table says of the features.

        Raises:
            SinkError: they are of another query.
        """
        number = self.definition.number
        with self.pages.finder() as finder:
            found = finder.find([wanted_head(number), wanted_note(number)])
            now_us = finder.now_us()
        heads = [Head.decode(row.page) for row in found if row.wanted == 0]
        if heads and heads[0].query != query:
            raise SinkError(
                f"{self.pages!r} has the pages of these features of another query, {heads[0].query}: publish to another table, "
                "or remove this one first"
            )
        left = [noted_edition(row) for row in found if row.wanted == 1]
        return _Known(heads[0] if heads else None, left[0] if left else None, now_us)

    def _first_edition(self, query: str) -> int:
        return edition_of(f"{query} {self.definition.number} 0")

    def _head_row(self, head: Head) -> pa.Table:
        return head_rows([(self.definition.number, head)], PAGE_ROWS)

    def _head(
        self, known: "_Known", buckets: Sequence[BucketHead], query: str, batch: int, edition: int
    ) -> Head:
        """The head after a batch."""
        times = [bucket.close_time for bucket in buckets]
        segment = buckets[0].segment if buckets else 0
        if (before := known.head) is not None:
            times += [] if before.close_time is None else [before.close_time]
            segment = segment or before.segment
        latest = max(times, default=None)
        return Head(self.definition, query, batch, edition, self.buckets, segment, latest, known.now_us)


class _Known(NamedTuple):
    """What a table says of features.

    Attributes:
        head: their head; None if it has none.
        left: number of an edition that nobody reads; None if there is none.
        now_us: the time by the table's clock, in microseconds since the epoch.
    """

    head: Head | None
    left: int | None
    now_us: int

    def lacks(self, batch: int) -> bool:
        """Return whether it lacks the batch before this one."""
        return batch > 0 if self.head is None else self.head.batch < batch - 1


def _bucket_heads(rows: pa.Table) -> list[BucketHead]:
    """The heads of buckets among rows."""
    pages = rows.filter(pc.equal(rows.column("key"), NO_KEY)).column("page")
    return [BucketHead.decode(page) for page in pages.to_pylist()]
