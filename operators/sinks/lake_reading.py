"""A table of Delta or Iceberg as history up to a version, and as the stream of what was appended after it."""

import re
from typing import TYPE_CHECKING

from operators.errors import DefinitionError
from operators.sinks.history import HistoryAndStream
from operators.sinks.lake_tables import KEYS, IcebergTable, LakeTable, lake_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_CHILD = (
    "nothing was committed to table {0} after {1}, and a stream cannot start there: leave version out, which takes the version "
    "before the newest, or wait for a commit"
)


def history_and_stream(spark: "SparkSession", table: str, version: int | None = None) -> HistoryAndStream:
    """Cut a table of Delta or Iceberg at a version: no row is in both parts, and none in neither.

    `savepoint` of the history, then a query over the stream with `state.savepoint`, is as one query over all rows. When the
    query starts again, Spark goes on from its checkpoint, whatever version the stream has.

    Args:
        spark: a session with the table's catalog.
        table: its name.
        version: Delta's version, or the id of Iceberg's snapshot; by default the one before the newest, since a stream can
            only start at a commit that exists.

    Raises:
        DefinitionError: there is no such version, or no commit after it; a commit after it, or `merge_to`, has replaced or
            deleted rows, which streams do not have; or Iceberg, which starts by time, would start elsewhere.
    """
    found, exists = lake_table(spark, table, None)
    if exists:
        found.refresh()
    if KEYS in found.properties():
        raise DefinitionError(
            f"table {table} is kept by merge_to or upsert_to, which replace rows: a stream has appended rows only. Read the "
            "table that the records come from"
        )
    cut, option = (
        _cut_iceberg(found, version) if isinstance(found, IcebergTable) else _cut_delta(found, version)
    )
    history = spark.sql(f"SELECT * FROM {table} VERSION AS OF {cut}")
    reader = spark.readStream.format(found.format).options(**option)
    path = re.match(r"`?delta`?\.`([^`]+)`", table)
    return HistoryAndStream(history, reader.load(path[1]) if path else reader.table(table), cut)


def _cut_delta(table: LakeTable, version: int | None) -> tuple[int, dict[str, str]]:
    newest = int(table.spark.sql(f"DESCRIBE HISTORY {table.name} LIMIT 1").collect()[0]["version"])
    cut = newest - 1 if version is None else version
    if not 0 <= cut < newest:
        raise DefinitionError(_NO_CHILD.format(table.name, f"version {cut}"))
    return cut, {"startingVersion": str(cut + 1)}


def _cut_iceberg(table: IcebergTable, version: int | None) -> tuple[int, dict[str, str]]:
    known = {row[0]: row for row in table.line("unix_millis(s.committed_at)", "s.operation")}
    line = list(known)  # newest first
    if version is None and len(line) > 1:
        version = line[1]
    if version is None or version not in line[1:]:
        raise DefinitionError(_NO_CHILD.format(table.name, f"snapshot {version}"))
    after = line[: line.index(version)]
    if changed := [number for number in after if known[number][2] not in ("append", "replace")]:
        raise DefinitionError(
            f"snapshot {changed[-1]} of table {table.name} is of the kind {known[changed[-1]][2]!r}: a stream has appended "
            "rows only. Cut the table after it"
        )
    # Iceberg takes the oldest of the newest snapshots that are not before this time.
    time = known[version][1] + 1
    first = next((at for at, number in enumerate(line) if known[number][1] < time), len(line)) - 1
    if line[first] != after[-1]:
        raise DefinitionError(
            f"snapshots of table {table.name} have the same time, or go back in time, so that a stream would not start after "
            f"snapshot {version}: cut the table at another one"
        )
    return version, {"stream-from-timestamp": str(time)}
