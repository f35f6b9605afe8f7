"""A function for `foreachBatch` that brings a table of Delta or Iceberg up to date with each batch, by the executors."""

import json
import logging
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from operators.columns.checks import check_column_name
from operators.errors import DefinitionError
from operators.sinks.fingerprints import fingerprint_of
from operators.sinks.interface import SinkError, WrittenBatch
from operators.sinks.lake_rows import DAY, Pinned, day_of, pinned
from operators.sinks.lake_tables import KEYS, LakeTable, Note, check_format, check_table_name, lake_table
from operators.sinks.upsert import OTHER_NAME, check_query, check_repeated, in_words
from operators.spark.base.inside import has_lost_rows, java_classes, query_id
from operators.spark.base.quoting import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

Format = Literal["delta", "iceberg"]
_WAITS = [0.2 * 2**n for n in range(6)] * 2
"""Least seconds before each further try; each is up to twice as long, so that writers part."""
_CONFLICT = re.compile(
    r"(?:io\.delta\.exceptions|org\.apache\.spark\.sql\.delta)\.(?:Delta)?(?:Concurrent\w+|MetadataChanged\w*|ProtocolChanged\w*)"
    r"|org\.apache\.iceberg\.exceptions\.(?:ValidationException|CommitFailedException|AlreadyExistsException)"
)
_UNKNOWN = "org.apache.iceberg.exceptions.CommitStateUnknownException"
_LOSSES = 3
"""How often a batch begins anew since executors were lost."""
_MOST_RANGES = 32
"""Ranges of days in a MERGE's condition: days that are apart are put together until there are no more."""
_NAMELESS = (
    "{0} cannot find the query's id, since this session is one of Spark Connect, or the call does not come from foreachBatch: "
    "give the query a name with query=..., which no other query on the table has"
)
_EPOCH = date(1970, 1, 1)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Merge:
    """What `merge_to` returns: call it with a frame and a batch's number."""

    table: str
    keys: tuple[str, ...]
    query: str | None = None
    format: Format | None = None
    partition_by: tuple[str, ...] | None = None
    add_columns: bool = False

    def __call__(self, rows: "DataFrame", batch: int) -> None:
        """Merge the rows of a batch into the table, unless they are in it already."""
        of = batch_of("merge_to", rows, self.query, batch)
        with in_words(f"merge_to({self.table!r})", of.query, batch):
            with_all_rows(lambda: self._pinned(rows, of))

    def _pinned(self, rows: "DataFrame", batch: "Batch") -> None:
        source = pinned(rows, self.keys)
        try:
            self._write(rows.sparkSession, source, batch)
        finally:
            source.unpin()

    def _write(self, spark: "SparkSession", source: Pinned, batch: "Batch") -> None:
        table, exists = lake_table(spark, self.table, self.format)
        if not exists:
            retried(lambda: table.create(source.fields, source.keys, self.partition_by))
        if not source.count:
            return
        with_day = prepared(table, source.fields, add_columns=self.add_columns)
        _check_table(table, source.keys)
        write_once(table, batch, source.fingerprint, lambda: merge(table, source, with_day=with_day))


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query.

    Attributes:
        query: name of the query.
        number: number of the batch.
        running: the query's id, which its checkpoint keeps; None if it is not known.
    """

    query: str
    number: int
    running: str | None


def batch_of(function: str, rows: "DataFrame", query: str | None, number: int) -> Batch:
    """Return the batch that rows are.

    Args:
        function: the name of the function that users called, for errors.
        rows: the rows.
        query: the name that users gave the query, if they did.
        number: the batch's number.

    Raises:
        DefinitionError: the query has no name, and Spark does not tell its id.
    """
    running = query_id(rows.sparkSession)
    name = query or running
    if name is None:
        raise DefinitionError(_NAMELESS.format(function))
    return Batch(name, number, running)


def merge_to(
    table: str,
    *,
    keys: Sequence[str],
    query: str | None = None,
    format: Format | None = None,  # noqa: A002 - Spark's word
    partition_by: Sequence[str] | None = None,
    add_columns: bool = False,
) -> Merge:
    """Return a function for `foreachBatch` that keeps the last value of each window in a table of Delta or Iceberg.

    A batch is one MERGE of the executors: no rows go to the driver. Rows with `change` "retract" are deleted, all others
    inserted or replaced, in one commit that has the batch's number: each batch is in the table once. The column `window`
    becomes `window_start` and `window_end`, `change` is not stored, all other columns are. Nulls in keys are equal.

    The session needs the table's catalog and the extensions of its format. The MERGE reads only files that may have windows of
    the batch's days. Where another writer was faster, it comes again, up to 12 times.

    Args:
        table: its name in a catalog, such as "lake.db.visits", or "delta.`/tables/visits`". The first batch creates it if it is
            missing.
        keys: the operator's key columns. The window, if the rows have one, is added to them: together they identify a row.
        query: a name for the batches' numbers, by default Spark's id of the query, which its checkpoint keeps over restarts. A
            new checkpoint needs another name. For frames that are no batches of a stream, a name is required.
        format: format of a table that is created, where its catalog does not say it.
        partition_by: columns by which a table that is created is partitioned; by default the day in UTC of the window's start,
            if there is one: an Iceberg table has it as `days(window_start)`, a Delta table as a column `window_day`.
        add_columns: whether columns that the table lacks are added to it.

    Raises:
        DefinitionError: an argument has a wrong type or value. A missing column is an error of the first batch.

    Cost: the rows are computed once and kept by the executors until the batch ends; three jobs and more, seconds in all.
    """
    check_arguments(table, query, format, partition_by)
    if isinstance(keys, str):
        raise DefinitionError(f"keys takes a list of column names, not {keys!r}: write keys=[{keys!r}]")
    for key in keys:
        check_column_name("keys", key)
    parts = None if partition_by is None else tuple(partition_by)
    return Merge(table, tuple(key for key in keys if key != "window"), query, format, parts, add_columns)


def check_arguments(table: object, query: object, format_: object, partition_by: object) -> None:
    """Refuse what `merge_to` and `append_to` cannot take.

    Raises:
        DefinitionError: names the argument.
    """
    check_table_name(table)
    check_query(query)
    check_format(format_)
    if partition_by is None:
        return
    if not isinstance(partition_by, list | tuple):
        raise DefinitionError(f"partition_by takes a list of column names, not {partition_by!r}")
    for column in partition_by:
        check_column_name("partition_by", column)


def write_once(
    table: LakeTable,
    batch: Batch,
    fingerprint: Callable[[], int],
    write: Callable[[], Sequence[Any]],
    *,
    appends: bool = False,
) -> bool:
    """Write a batch, unless the table has it; again, where another writer was faster.

    Args:
        table: the table.
        batch: the batch.
        fingerprint: returns the fingerprint of its rows; it is only called where no checkpoint is known.
        write: the one statement that commits; returns its result.
        appends: whether it commits whatever the table has; a MERGE that finds nothing to change may leave it.

    Returns:
        Whether it was written.

    Raises:
        SinkError: the table has a later batch of the query, or this one from another checkpoint; or another run of the query
            wrote while this one did.
    """
    of = fingerprint() if batch.running is None else fingerprint_of(batch.running)

    def attempt() -> bool:
        last = next(iter(table.notes(batch.query)), None)
        if last is not None and last.batch >= batch.number:
            written = WrittenBatch(last.batch, last.fingerprint)
            check_repeated(written, batch.query, batch.number, of, has_checkpoint=batch.running is not None)
            return False
        note = Note(batch.query, batch.number, of, uuid4().hex)
        is_skipped = appends
        try:
            with table.noted(note):
                is_skipped |= table.was_skipped(write())
        except Exception:
            # A commit that reported an error may have come about.
            if note not in table.notes(batch.query):
                raise
            _LOG.warning("%s has batch %d, although its commit reported an error", table.name, batch.number)
        _check_alone(table, note, is_skipped=is_skipped)
        return True

    return retried(attempt)


def _check_alone(table: LakeTable, note: Note, *, is_skipped: bool) -> None:
    """Refuse a batch that came after the same or a later one of another run, or that is skipped unless its commit is there."""
    found = table.notes(note.query)
    newest = max((one.batch for one in found if one != note), default=-1)
    if newest >= note.batch:
        raise SinkError(
            f"another run of query {note.query!r} wrote batch {newest} into table {table.name} while this one wrote batch "
            f"{note.batch}: end one of them. In a table of Iceberg, rows may now be older than they were, or there twice: "
            "compare it with these batches"
        )
    if is_skipped and note not in found:
        raise SinkError(
            f"table {table.name} has batch {note.batch} of query {note.query!r} or a later one, and its history does not say "
            f"from which checkpoint: this batch was not written. {OTHER_NAME}"
        )


def retried(act: Callable[[], Any]) -> Any:
    """Return what the function returns; call it again where another writer was faster."""
    for wait in _WAITS:
        try:
            return act()
        except Exception as error:
            classes = java_classes(error)
            if _UNKNOWN in classes or not any(map(_CONFLICT.fullmatch, classes)):
                raise
            time.sleep(wait * (1 + random.random()))  # noqa: S311 - no secret
    return act()


def with_all_rows(write: Callable[[], None]) -> None:
    """Compute the rows of a batch and write them; begin anew with all of them where executors were lost that had some.

    Rows of two computations may differ, so that none are computed alone.
    """
    for _ in range(_LOSSES):
        try:
            return write()
        except Exception as error:
            if not has_lost_rows(error):
                raise
            _LOG.warning(
                "executors were lost that had rows of a batch: all its rows are computed again, and written"
            )
    return write()


def prepared(table: LakeTable, fields: "Sequence[StructField]", *, add_columns: bool) -> bool:
    """Add the columns that a table lacks, or refuse them; return whether it has a column for the windows' days.

    Raises:
        SinkError: it lacks columns.
    """
    table.refresh()
    names = {name.lower() for name in table.schema().names}
    ours = {field.name.lower() for field in fields}
    if missing := [field for field in fields if field.name.lower() not in names]:
        if not add_columns:
            raise SinkError(
                f"table {table.name} has no columns {', '.join(field.name for field in missing)}; it has "
                f"{', '.join(table.schema().names)}: drop them from the rows, or pass add_columns=True to merge_to"
            )
        retried(lambda: table.add_columns(missing))
    return table.format == "delta" and DAY in names and "window_start" in ours and DAY not in ours


def _check_table(table: LakeTable, keys: Sequence[str]) -> None:
    """Refuse a table of other keys, or one that would not notice what others write at the same time."""
    properties = table.properties()
    known = json.loads(properties.get(KEYS, "null"))
    if known is not None and set(known) != set(keys):
        raise SinkError(
            f"table {table.name} has the key ({', '.join(known)}), not ({', '.join(keys)}): merge_to(..., keys=...) must name "
            "the table's key columns without the window's columns"
        )
    if properties.get("write.merge.isolation-level", "serializable") != "serializable":
        raise SinkError(
            f"table {table.name} has write.merge.isolation-level = snapshot, with which two queries may write one key: set it "
            "to serializable"
        )


def merge(table: LakeTable, source: Pinned, *, with_day: bool) -> Sequence[Any]:
    """Run the MERGE of a batch, and return what it returns."""
    frame, names = source.frame, source.names
    if with_day:
        frame, names = frame.withColumn(DAY, day_of(frame, "window_start")), [*names, DAY]
    deleted = f"new.{quote(source.deleted)}"
    same = [f"old.{quote(key)} <=> new.{quote(key)}" for key in source.keys]
    condition = " AND ".join([*same, *_bounds(frame, source.days, with_day=with_day)])
    changed = [name for name in names if name not in source.keys]
    update = ", ".join(f"{quote(name)} = new.{quote(name)}" for name in changed)
    when_matched = f"WHEN MATCHED THEN UPDATE SET {update} " if update else ""
    columns, values = ", ".join(map(quote, names)), ", ".join(f"new.{quote(name)}" for name in names)
    with table.view_of(frame) as view:
        return table.spark.sql(
            f"MERGE INTO {table.name} AS old USING {view} AS new ON {condition} WHEN MATCHED AND {deleted} "
            f"THEN DELETE {when_matched}WHEN NOT MATCHED AND NOT {deleted} THEN INSERT ({columns}) VALUES ({values})"
        ).collect()


def _bounds(frame: "DataFrame", days: Sequence[int] | None, *, with_day: bool) -> list[str]:
    """Return conditions that all rows of the table with a key of the batch meet, so that the MERGE reads no other files."""
    from pyspark.sql.types import TimestampNTZType, TimestampType

    if not days:
        return []
    type_ = frame.schema["window_start"].dataType
    if not isinstance(type_, TimestampType | TimestampNTZType):
        return []
    word, zone = ("TIMESTAMP", "+00:00") if isinstance(type_, TimestampType) else ("TIMESTAMP_NTZ", "")

    def at(day: int) -> str:
        return f"{word}'{_EPOCH + timedelta(day)} 00:00:00{zone}'"

    ranges = day_ranges(days)
    parts = [
        f"(old.window_start >= {at(first)} AND old.window_start < {at(last + 1)})" for first, last in ranges
    ]
    found = [f"({' OR '.join(parts)})"]
    if with_day:
        between = [
            f"old.{DAY} BETWEEN DATE'{_EPOCH + timedelta(first)}' AND DATE'{_EPOCH + timedelta(last)}'"
            for first, last in ranges
        ]
        found.append(f"({' OR '.join(between)})")
    return found


def day_ranges(days: Sequence[int]) -> list[tuple[int, int]]:
    """Return first and last day of a few ranges that have all the days, and few others."""
    gaps = sorted(range(1, len(days)), key=lambda at: days[at] - days[at - 1], reverse=True)[
        : _MOST_RANGES - 1
    ]
    cuts = sorted(at for at in gaps if days[at] - days[at - 1] > 1)
    starts, ends = [0, *cuts], [*cuts, len(days)]
    return [(days[start], days[end - 1]) for start, end in zip(starts, ends, strict=True)]
