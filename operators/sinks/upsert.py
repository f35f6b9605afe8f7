"""A function for `foreachBatch` that brings a table up to date with each batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operators.columns.checks import check_column_name
from operators.errors import DefinitionError
from operators.sinks.changes import changes_of
from operators.sinks.interface import Sink, SinkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class Upsert:
    """What `upsert_to` returns: call it with a frame and a batch's number."""

    sink: Sink
    keys: tuple[str, ...]
    query: str | None

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Write the rows of a batch, unless they are in the table already."""
        query = _query_of(rows) if self.query is None else self.query
        changes = changes_of(rows.toArrow(), self.keys, query, batch)
        if not self.sink.write(changes):
            self._check_repeated(query, batch)

    def _check_repeated(self, query: str, batch: int) -> None:
        """Refuse a batch that comes after later ones: it is no repetition, since Spark repeats the last batch only."""
        last = self.sink.last_batch(query)
        if last is not None and last > batch:
            raise SinkError(
                f"batch {batch} of query {query!r} comes after batch {last}, which is in the table already: the "
                "query started from a new or an older checkpoint, or runs twice. Under another name (query=...) it "
                "replaces rows of the same keys; remove the table first if other rows must not stay"
            )


def upsert_to(sink: Sink, *, keys: Sequence[str], query: str | None = None) -> Upsert:
    """Return a function for `foreachBatch` that keeps the last value of each window in a table, exactly once.

    Rows with `change` "retract" are deleted, all others inserted or replaced, in one transaction with the batch's
    number. A batch that Spark repeats after a failure changes nothing. The column `window` becomes `window_start` and
    `window_end`, `change` is not stored, all other columns are.

    The rows of a batch are collected on the driver as Arrow columns: some hundred bytes each, several copies at a
    time, within `spark.driver.maxResultSize`. The frame is computed once.

    Args:
        sink: the table, such as `PostgresSink` or your own `Sink`.
        keys: the operator's key columns. The window, if the rows have one, is added to them: together they identify a
            row.
        query: a name for the batches' numbers, by default Spark's id of the query, which its checkpoint keeps over
            restarts. A new checkpoint needs another name. With Spark Connect, and for frames that are no batches of a
            stream, a name is required.

    Raises:
        DefinitionError: `sink` is not a sink, or `keys` are not names. A missing key column is an error of the first
            batch.
    """
    if not isinstance(sink, Sink):
        raise DefinitionError(
            f"upsert_to takes a sink, such as SQLiteSink('results.db', 'windows'), not {sink!r}"
        )
    if isinstance(keys, str):
        raise DefinitionError(f"keys takes a list of column names, not {keys!r}: write keys=[{keys!r}]")
    for key in keys:
        check_column_name("keys", key)
    return Upsert(sink, tuple(key for key in keys if key != "window"), query)


def _query_of(rows: "DataFrame") -> str:
    """Return the id of the query that the rows are a batch of."""
    context = getattr(rows.sparkSession, "sparkContext", None)  # a Spark Connect session has none
    query = context and context.getLocalProperty(_QUERY_ID)
    if not query:
        raise DefinitionError(
            "upsert_to cannot find the query's id, since this session is one of Spark Connect, or the call does not "
            "come from foreachBatch: give the query a name with query=..., which no other query on the table has"
        )
    return str(query)
