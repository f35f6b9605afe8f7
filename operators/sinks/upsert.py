"""A function for `foreachBatch` that brings a table up to date with each batch."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from operators.columns.checks import check_column_name
from operators.errors import DefinitionError
from operators.sinks.changes import changes_of, forgotten_keys
from operators.sinks.fingerprints import fingerprint_of, fingerprint_of_rows
from operators.sinks.interface import Sink, SinkError, WrittenBatch
from operators.spark.base.inside import is_connect_client, query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from operators.runtime.keys_to_forget import Keys

_NAMELESS = (
    "upsert_to cannot find the query's id, since this session is one of Spark Connect, or the call does not come from "
    "foreachBatch: give the query a name with query=..., which no other query on the table has"
)
OTHER_NAME = (
    "Under another name (query=...) it replaces rows of the same keys; remove the table first if other rows must not "
    "stay"
)


_NO_ROWS = (
    "no row was deleted: the table has none of the %d keys to forget. If it should have, compare their values with those in "
    "the table: %r"
)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Upsert:
    """What `upsert_to` returns: call it with a frame and a batch's number."""

    sink: Sink
    keys: tuple[str, ...]
    query: str | None
    latest_by: str | None = None

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Write the rows of a batch, unless they are in the table already."""
        running = _query_of(rows)
        query = self.query or running
        if query is None:
            raise DefinitionError(_NAMELESS)
        self.write(rows.toArrow(), batch, query, running)

    def write(self, rows: pa.Table, batch: int, query: str, running: str | None) -> None:
        """Write rows, unless they are in the table already.

        Args:
            rows: the rows of the batch.
            batch: its number.
            query: name of the query.
            running: its id, which its checkpoint keeps; None if it is not known.
        """
        changes = changes_of(rows, self.keys, query, batch, self.latest_by)
        of = (
            fingerprint_of_rows(changes.deletes, changes.upserts)
            if running is None
            else fingerprint_of(running)
        )
        with in_words(repr(self.sink), query, batch):
            if not self.sink.write(replace(changes, fingerprint=of)):
                last = self.sink.last_batch(query)
                check_repeated(last, query, batch, of, has_checkpoint=running is not None)

    def forget(self, keys: "Keys") -> int:
        """Delete all rows of keys from the table, also the rows of closed windows, in one transaction.

        Ask the query first, with `operators.forget`, and wait until that request is done: until then it may write such rows
        again. Call it from any machine that can write to the table; the query may run.

        Args:
            keys: rows of the columns that `upsert_to` has as `keys`: a pyarrow Table, or a dictionary for each row. They
                need not be in the table. They are cast to the types of its columns where no other key can be meant.

        Returns:
            How many rows were deleted. If there were none, the log has a warning.

        Raises:
            DefinitionError: there are no keys, or they have other columns, or another type than their column.
            SinkError: the sink cannot forget, or the table cannot be reached or lacks a column.
        """
        wanted = forgotten_keys(keys, self.keys)
        deleted = self.sink.forget(wanted)
        if not deleted:
            _LOG.warning(_NO_ROWS, wanted.num_rows, self.sink)
        return deleted


@contextmanager
def in_words(writer: str, query: str, batch: int) -> Iterator[None]:
    """Raise errors of the block as a SinkError that says which batch and table they are of."""
    try:
        yield
    except (SinkError, DefinitionError):
        raise
    except Exception as error:
        raise SinkError(
            f"batch {batch} of query {query!r} was not written by {writer}: {type(error).__name__}: {error}"
        ) from error


def check_repeated(
    last: WrittenBatch | None, query: str, batch: int, fingerprint: int, *, has_checkpoint: bool
) -> None:
    """Refuse a batch that was not written and does not repeat the query's last one.

    Spark repeats the last batch only, and the checkpoint that repeats it is the one that it was written from. Where no
    checkpoint is known, the same rows are a repetition.
    """
    if last is None:
        return
    if last.number > batch:
        raise SinkError(
            f"batch {batch} of query {query!r} comes after batch {last.number}, which is in the table already: the "
            f"query started from a new or an older checkpoint, or runs twice. {OTHER_NAME}"
        )
    if last.fingerprint not in (None, fingerprint):
        other = "from another checkpoint" if has_checkpoint else "with other rows"
        raise SinkError(
            f"batch {batch} of query {query!r} is in the table already, {other}: this batch does not repeat it, and was not "
            f"written. {OTHER_NAME}"
        )


def upsert_to(
    sink: Sink, *, keys: Sequence[str], query: str | None = None, latest_by: str | None = None
) -> Upsert:
    """Return a function for `foreachBatch` that keeps the last value of each window in a table, exactly once.

    Rows with `change` "retract" are deleted, all others inserted or replaced, in one transaction with the batch's
    number. A batch that Spark repeats after a failure changes nothing. The column `window` becomes `window_start` and
    `window_end`, `change` is not stored, all other columns are.

    The rows of a batch are collected on the driver as Arrow columns: some hundred bytes each, several copies at a
    time, within `spark.driver.maxResultSize`. The frame is computed once.

    The sink is checked at once: whether the place of its table can be reached and written to. With Spark Connect it is
    not, since the server writes.

    Args:
        sink: the table, such as `PostgresSink` or your own `Sink`.
        keys: the operator's key columns. The window, if the rows have one, is added to them: together they identify a
            row.
        query: a name for the batches' numbers, by default Spark's id of the query, which its checkpoint keeps over
            restarts. A new checkpoint needs another name. With Spark Connect, and for frames that are no batches of a
            stream, a name is required; there, a batch that has the last one's number must have its rows, too.
        latest_by: a column of times or integers, for a table with one row per key: the newest one. A row replaces that of
            its key unless the table's row has a larger value in this column, in whatever order batches and queries bring
            them. Null is less than any value. Of rows of one batch with equal values, the one whose columns are larger, from
            left to right, counts. The window, if the rows have one, is not part of the key then: `window_end` can be the
            column.

    Raises:
        DefinitionError: `sink` is not a sink, `keys`, `query` or `latest_by` are not names, `latest_by` is one of `keys`, or
            the sink cannot observe it. A missing column is an error of the first batch.
        SinkError: no batch could be written, since the database cannot be reached, say, or gives no right to.
    """
    if not isinstance(sink, Sink):
        raise DefinitionError(
            f"upsert_to takes a sink, such as SQLiteSink('results.db', 'windows'), not {sink!r}"
        )
    if isinstance(keys, str):
        raise DefinitionError(f"keys takes a list of column names, not {keys!r}: write keys=[{keys!r}]")
    for key in keys:
        check_column_name("keys", key)
    check_query(query)
    _check_latest_by(sink, latest_by, keys)
    if not is_connect_client():
        sink.check()
    return Upsert(sink, tuple(key for key in keys if key != "window"), query, latest_by)


def check_query(query: object) -> None:
    """Refuse what is not a name of a query."""
    if query is not None and not (isinstance(query, str) and query):
        raise DefinitionError(f"query takes a name of at least one character, not {query!r}")


def _check_latest_by(sink: Sink, latest_by: object, keys: Sequence[str]) -> None:
    if latest_by is None:
        return
    check_column_name("latest_by", latest_by)
    if latest_by in keys:
        raise DefinitionError(
            f"latest_by names {latest_by!r}, which is one of keys, so that each of its values would have its own row. Leave it "
            "out of keys"
        )
    if not sink.keeps_latest:
        raise DefinitionError(
            f"{type(sink).__name__} does not keep the latest row of each key: its write would have to observe "
            "Changes.latest_by, and its class to say keeps_latest = True"
        )


def _query_of(rows: "DataFrame") -> str | None:
    """Return the id of the query that the rows are a batch of, which its checkpoint keeps; None if it cannot be seen."""
    return query_id(rows.sparkSession)
