"""What a sink is: a table that takes the changes of a batch, all or none of them, and each batch once."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa


class SinkError(RuntimeError):
    """A table cannot take the rows of a batch; the message says why, and the way out."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a batch changes in a table.

    No two rows have the same key, also not one of `deletes` and one of `upserts`. Keys may contain nulls; two nulls
    are the same key.

    Attributes:
        query: name of the query that the batch is of.
        batch: the batch's number. The numbers of a query ascend; a batch that comes again has the same number and the
            same fingerprint.
        deletes: the keys of rows to remove; the columns are the key. A row that does not exist needs no removal.
        upserts: the rows to insert, or to replace the row of the same key with; the key columns are among the
            columns. Timestamps are in microseconds, in UTC if they have a zone, and in the years 1 to 9999. A float of
            the key is never -0.0.
        fingerprint: a number of 63 bits that tells the batch from another one of the same query and number: it stands
            for the checkpoint that the batch is of, or, where there is none, for the rows.
        latest_by: the column that says which of two rows of a key is newer, not one of the key. An upsert does not replace
            a row with a larger value in this column; null is less than any value. None if each upsert replaces.
        retracts: for each row of `deletes`, the columns of the row that says so, which has a `sequence`; None if that is not
            known.
    """

    query: str
    batch: int
    deletes: pa.Table
    upserts: pa.Table
    fingerprint: int = 0
    latest_by: str | None = None
    retracts: pa.Table | None = None

    @property
    def keys(self) -> list[str]:
        """Names of the key columns."""
        return list(self.deletes.column_names)

    @property
    def values(self) -> list[str]:
        """Names of the other columns."""
        return [name for name in self.upserts.column_names if name not in self.keys]

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.deletes.num_rows or self.upserts.num_rows)


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """The last batch of a query that is in a table.

    Attributes:
        number: the number of the batch.
        fingerprint: the fingerprint of its `Changes`; None if the table has lost it.
    """

    number: int
    fingerprint: int | None


class Sink(ABC):
    """A table to which queries write. `operators.sinks.contract` tests an implementation.

    A sink is a value that names the table: it can be pickled, holds no connection between calls, and two sinks of the
    same arguments are the same table. Calls come one at a time, from any thread of the driver.

    Attributes:
        keeps_latest: whether `write` observes `Changes.latest_by`. Without it, `upsert_to` refuses `latest_by`.
    """

    keeps_latest: ClassVar[bool] = False

    def check(self) -> None:  # noqa: B027 - a sink need not know anything before there are rows
        """Refuse, before a query starts, what would make its first batch fail; nothing is created or changed.

        `upsert_to` calls it, on the driver.

        Raises:
            SinkError: the place of the table cannot be reached or written to; the message says the way out.
        """

    @abstractmethod
    def write(self, changes: Changes) -> bool:
        """Delete, then upsert, and note the batch and its fingerprint as the query's last, in one transaction.

        The batches of each query and table are counted apart. The first write creates the table if it does not exist,
        also if it has no rows. A batch without rows need not be noted.

        Args:
            changes: the changes of one batch.

        Returns:
            Whether it was written. False if this batch of the query, or a later one, was written before: then nothing
            has changed.

        Raises:
            SinkError: the table has other columns or another key, or cannot hold a type. Nothing has changed.
        """

    @abstractmethod
    def last_batch(self, query: str) -> WrittenBatch | None:
        """Return the query's last batch that was written to this table, or None."""

    def forget(self, keys: pa.Table) -> int:
        """Delete all rows of keys, whatever their windows, in one transaction; a sink need not be able to.

        A table that does not exist has none. What is noted of batches stays. Keys are compared as values of the table's
        columns: `operators.sinks.tables.cast_keys` casts them, and refuses those that may mean another key.

        Args:
            keys: distinct rows of the key columns without those of the window, in the types in which they were given. Null is
                equal to null, and to nothing else.

        Returns:
            How many rows were deleted.

        Raises:
            SinkError: the table lacks such a column, or the sink cannot forget. Nothing has changed.
            DefinitionError: a key has another type than its column. Nothing has changed.
        """
        raise SinkError(
            f"{type(self).__name__} has no method forget: delete the rows of {keys.num_rows} keys in the table yourself"
        )
