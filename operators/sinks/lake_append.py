"""A function for `foreachBatch` that appends each batch to a table of Delta or Iceberg once, without a MERGE."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from operators.errors import DefinitionError
from operators.sinks.fingerprints import fingerprint_of
from operators.sinks.interface import SinkError
from operators.sinks.lake import (
    Batch,
    Format,
    batch_of,
    check_arguments,
    prepared,
    retried,
    with_all_rows,
    write_once,
)
from operators.sinks.lake_rows import DAY, day_of, fingerprint_of_frame, flat_columns
from operators.sinks.lake_tables import LakeTable, lake_table
from operators.sinks.upsert import in_words
from operators.spark.base.inside import unpin
from operators.spark.base.quoting import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Append:
    """What `append_to` returns: call it with a frame and a batch's number."""

    table: str
    query: str | None = None
    format: Format | None = None
    partition_by: tuple[str, ...] | None = None

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Append the rows of a batch to the table, unless they are in it already."""
        of = batch_of("append_to", rows, self.query, batch)
        columns, _ = flat_columns(rows)
        if "change" in columns:
            raise DefinitionError(
                "the rows have the column 'change', so that later ones replace earlier ones: use merge_to, or emit('on_close')"
            )
        plain = rows.select(*(column.alias(name) for name, column in columns.items()))
        with in_words(f"append_to({self.table!r})", of.query, batch):
            with_all_rows(lambda: self._pinned(plain, of))

    def _pinned(self, rows: "DataFrame", batch: Batch) -> None:
        frame = rows.localCheckpoint()
        try:
            self._write(frame, batch)
        finally:
            unpin(frame)

    def _write(self, frame: "DataFrame", batch: Batch) -> None:
        table, exists = lake_table(frame.sparkSession, self.table, self.format)
        fields = frame.schema.fields
        if not exists:
            retried(lambda: table.create(fields, (), self.partition_by))
        if frame.isEmpty():
            return
        with_day = prepared(table, fields, add_columns=False)
        if with_day:
            frame = frame.withColumn(DAY, day_of(frame, "window_start"))
        _mark(table, batch.query)
        write_once(
            table, batch, lambda: fingerprint_of_frame(frame), lambda: _insert(table, frame), appends=True
        )


def append_to(
    table: str,
    *,
    query: str | None = None,
    format: Format | None = None,  # noqa: A002 - Spark's word
    partition_by: Sequence[str] | None = None,
) -> Append:
    """Return a function for `foreachBatch` that appends rows to a table of Delta or Iceberg, each batch once.

    For rows that nothing replaces: windows on close, rolling rows, late records. A query that writes nothing else can use the
    sinks that both formats have in Spark, which write each batch once, too.

    Args:
        table, query, format, partition_by: as for `merge_to`. The first batch creates the table if it is missing.

    Raises:
        DefinitionError: an argument has a wrong type or value.
    """
    check_arguments(table, query, format, partition_by)
    return Append(table, query, format, None if partition_by is None else tuple(partition_by))


def _mark(table: LakeTable, query: str) -> None:
    """Have a table of Iceberg say that a query appends to it, before its first commit: snapshots expire.

    Raises:
        SinkError: it says so, and no snapshot that is kept has a batch of the query.
    """
    if table.format != "iceberg":
        return
    mark = f"windows.appended.{fingerprint_of(query):x}"
    if mark not in table.properties():
        table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{mark}' = 'true')")
    elif not table.notes(query):
        raise SinkError(
            f"the snapshots of table {table.name} that had the batches of query {query!r} have expired, so that nobody knows "
            f"whether it has this one: compare the table with the batch, then skip the batch, or run ALTER TABLE {table.name} "
            f"UNSET TBLPROPERTIES ('{mark}')"
        )


def _insert(table: LakeTable, frame: "DataFrame") -> Sequence[Any]:
    columns = ", ".join(map(quote, frame.columns))
    with table.view_of(frame) as view:
        return table.spark.sql(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {view}").collect()
