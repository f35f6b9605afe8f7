"""Tables of Delta and Iceberg as Spark has them: what they are, and what their commits say of the batches of queries."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from operators.errors import DefinitionError
from operators.sinks.interface import SinkError
from operators.sinks.lake_rows import DAY
from operators.spark.base.quoting import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructField, StructType

KEYS = "windows.keys"
"""The table property that has the key columns, as `DeltaSink` writes it."""
STAMP = "windows.batch"
"""The property of an Iceberg snapshot that has the note of a batch."""
_FEW = 20
"""Commits of a Delta table that are read first: the last batch is mostly among them."""
_PART = r"(?:`(?:[^`]|``)+`|[\w-]+)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART}){{0,4}}")
_FORMATS = ("delta", "iceberg")
_RESERVED = (
    "the session has {}, which the batch's commit would take for its own, or which holds commits back: unset it, and call "
    "merge_to and append_to one at a time in a foreachBatch function"
)


@dataclass(frozen=True, slots=True)
class Note:
    """What a commit says of the batch that it has.

    Attributes:
        query: name of the query.
        batch: number of the batch.
        fingerprint: a number that stands for the checkpoint that the batch is of, or, where there is none, for its rows.
        attempt: a text that no other attempt has.
    """

    query: str
    batch: int
    fingerprint: int
    attempt: str

    def text(self) -> str:
        """Return the note as JSON."""
        return json.dumps(asdict(self))


def note_of(text: str | None, query: str) -> Note | None:
    """Return the note that a commit has; None if it has none, or that of another query."""
    with suppress(ValueError, TypeError):
        found = json.loads(text or "")
        if isinstance(found, dict) and found.get("query") == query:
            return Note(**found)
    return None


def _first_two(texts: Iterable[str | None], query: str) -> list[Note]:
    return list(islice(filter(None, (note_of(text, query) for text in texts)), 2))


@dataclass(frozen=True, slots=True)
class LakeTable(ABC):
    """A table in a catalog of Spark.

    Attributes:
        spark: the session.
        name: the table's name, as SQL has it.
    """

    format: ClassVar[str]
    spark: "SparkSession"
    name: str

    @abstractmethod
    def notes(self, query: str) -> list[Note]:
        """Return what a query's two newest commits say, the newest first, as the table is now; those that are kept."""

    @abstractmethod
    def settings(self, note: Note) -> dict[str, str]:
        """Return the settings of a session with which one statement commits a note."""

    @property
    @abstractmethod
    def forbidden(self) -> Sequence[str]:
        """Settings that a session must not have."""

    @abstractmethod
    def day(self, names: Sequence[str]) -> str | None:
        """Return how a new table of these columns is partitioned by the day of its windows; None if it has no windows."""

    def was_skipped(self, result: Sequence[Any]) -> bool:
        """Whether a MERGE did nothing, since the table has the batch's number, from what the statement returned."""
        return False

    def add_columns(self, fields: "Sequence[StructField]") -> None:
        """Add columns to the table."""
        columns = ", ".join(f"{quote(field.name)} {field.dataType.simpleString()}" for field in fields)
        self.spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({columns})")

    def refresh(self) -> None:
        """See what others have committed."""
        self.spark.sql(f"REFRESH TABLE {self.name}")

    def schema(self) -> "StructType":
        """Return the table's columns."""
        return self.spark.table(self.name).schema

    def properties(self) -> dict[str, str]:
        """Return the table's properties."""
        return {
            row["key"]: row["value"] for row in self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        }

    def create(
        self, fields: "Sequence[StructField]", keys: Sequence[str], partition_by: Sequence[str] | None
    ) -> None:
        """Create the table, unless it exists."""
        names = [field.name for field in fields]
        day = self.day(names) if partition_by is None else None
        columns = [f"{quote(field.name)} {field.dataType.simpleString()}" for field in fields]
        if day == DAY:
            columns.append(f"{DAY} date")
        parts = [day] if day else list(map(quote, partition_by or ()))
        by = f" PARTITIONED BY ({', '.join(parts)})" if parts else ""
        text = json.dumps(list(keys)).replace("\\", "\\\\").replace("'", "\\'")
        options = f" TBLPROPERTIES ('{KEYS}' = '{text}')" if keys else ""
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({', '.join(columns)}) USING {self.format}{by}{options}"
        )

    @contextmanager
    def view_of(self, frame: "DataFrame") -> Iterator[str]:
        """Give a frame a name that a statement of this block can use."""
        view = f"windows_source_{uuid4().hex}"
        frame.createOrReplaceTempView(view)
        try:
            yield view
        finally:
            self.spark.catalog.dropTempView(view)

    @contextmanager
    def noted(self, note: Note) -> Iterator[None]:
        """Have the one statement of this block commit the note.

        Raises:
            SinkError: the session has such settings already.
        """
        conf, wanted = self.spark.conf, self.settings(note)
        if found := [key for key in self.forbidden if conf.get(key, None) is not None]:
            raise SinkError(_RESERVED.format(" and ".join(found)))
        before = {key: conf.get(key, None) for key in wanted}
        try:
            for key, value in wanted.items():
                conf.set(key, value)
            yield
        finally:
            for key, old in before.items():
                if old is None:
                    conf.unset(key)
                else:
                    conf.set(key, old)


class DeltaTable(LakeTable):
    """A table of Delta: a batch's number is the transaction of its commit, so that Delta itself skips a repetition."""

    __slots__ = ()
    format = "delta"
    _APP, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
    _METADATA = "spark.databricks.delta.commitInfo.userMetadata"
    _ZONE = "spark.sql.session.timeZone"
    """Delta casts times to the days of generated columns in it: where it finds a row must not depend on the session."""

    def notes(self, query: str) -> list[Note]:
        found = list[Note]()
        for limit in (f" LIMIT {_FEW}", ""):
            history = self.spark.sql(f"DESCRIBE HISTORY {self.name}{limit}")
            commits = history.select("version", "userMetadata").collect()
            found = _first_two((text for _, text in sorted(commits, reverse=True)), query)
            if found or len(commits) < _FEW:
                break
        return found

    def settings(self, note: Note) -> dict[str, str]:
        number = {self._APP: note.query, self._VERSION: str(note.batch), self._METADATA: note.text()}
        return {**number, self._ZONE: "UTC"}

    @property
    def forbidden(self) -> Sequence[str]:
        return (self._APP, self._VERSION)

    def was_skipped(self, result: Sequence[Any]) -> bool:
        return not result

    def day(self, names: Sequence[str]) -> str | None:
        return DAY if "window_start" in names and DAY not in names else None


class IcebergTable(LakeTable):
    """A table of Iceberg: a batch's note is a property of its snapshot."""

    __slots__ = ()
    format = "iceberg"

    def refresh(self) -> None:
        for what in ("", ".snapshots", ".refs"):  # Somebody may have cached each.
            self.spark.sql(f"REFRESH TABLE {self.name}{what}")

    def notes(self, query: str) -> list[Note]:
        return _first_two((row[1] for row in self.line(f"s.summary['{STAMP}']")), query)

    def line(self, *columns: str) -> "list[Row]":
        """Return the snapshots of the table, newest first: the id, and columns of `snapshots` as `s`; those that are kept."""
        self.refresh()
        rows = self.spark.sql(
            f"SELECT {', '.join(['s.snapshot_id', *columns])}, s.parent_id, r.snapshot_id = s.snapshot_id "
            f"FROM {self.name}.snapshots s CROSS JOIN (SELECT snapshot_id FROM {self.name}.refs WHERE name = 'main') r"
        ).collect()
        known = {row[0]: row for row in rows}
        number = next((row[0] for row in rows if row[-1]), None)
        found = []
        while number in known:
            found.append(known[number])
            number = known[number][-2]
        return found

    def settings(self, note: Note) -> dict[str, str]:
        return {f"spark.sql.iceberg.snapshot-property.{STAMP}": note.text()}

    @property
    def forbidden(self) -> Sequence[str]:
        return (f"spark.sql.iceberg.snapshot-property.{STAMP}", "spark.wap.id", "spark.wap.branch")

    def day(self, names: Sequence[str]) -> str | None:
        return "days(window_start)" if "window_start" in names else None


_KINDS: Mapping[str, type[LakeTable]] = {"delta": DeltaTable, "iceberg": IcebergTable}


def check_table_name(name: object) -> str:
    """Return the name of a table.

    Raises:
        DefinitionError: it is not a name as SQL has it, or names a branch or a tag of an Iceberg table.
    """
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise DefinitionError(
            f"the table takes a name such as 'lake.db.visits', or 'delta.`/tables/visits`' for a path, not {name!r}: put parts "
            "with other characters into backticks"
        )
    if re.match(r"`?delta`?\.`(?!/|[\w-]+:/)", name):
        raise DefinitionError(f"Delta takes absolute paths, or URIs, not {name!r}: write the whole path")
    if re.search(r"\.(?:branch|tag)_[^.]+$", name) and name.count(".") > 2:
        raise DefinitionError(f"{name!r} is a branch or a tag of an Iceberg table: write to the table itself")
    return name


def check_format(format_: object) -> None:
    """Refuse what is not a format.

    Raises:
        DefinitionError: names the formats.
    """
    if format_ not in (None, *_FORMATS):
        raise DefinitionError(f"format is 'delta' or 'iceberg', not {format_!r}")


def lake_table(spark: "SparkSession", name: str, format_: str | None) -> tuple[LakeTable, bool]:
    """Return a table, and whether it is known to exist.

    Raises:
        SinkError: it is of another format, or does not exist and the catalog does not say of which format it will be.
    """
    if re.match(r"`?delta`?\.`", name):
        return DeltaTable(spark, name), False
    if spark.catalog.tableExists(name):
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
        found = next(
            (row[1].lower() for row in reversed(described) if row[0] == "Provider"), "another format"
        )
        if found not in _KINDS or format_ not in (None, found):
            wanted = format_ or "Delta or Iceberg"
            raise SinkError(
                f"table {name} is of {found or 'an unknown format'}, not of {wanted}: give another name"
            )
        return _KINDS[found](spark, name), True
    chosen = format_ or _format_of_catalog(spark, name)
    if chosen is None:
        raise SinkError(
            f"table {name} does not exist, and its catalog does not say whether it will be of Delta or Iceberg: create it, or "
            "pass format='delta' or format='iceberg'"
        )
    return _KINDS[chosen](spark, name), False


def _format_of_catalog(spark: "SparkSession", name: str) -> str | None:
    first = name.partition(".")[0].strip("`")
    for catalog in (first, "spark_catalog"):
        kind = spark.conf.get(f"spark.sql.catalog.{catalog}", None)
        if kind is not None:
            return next((one for one in _FORMATS if one in kind.lower()), None)
    return None
