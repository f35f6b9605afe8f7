"""The rows of a batch as the source of a MERGE: pinned, one row for each key, with the days of their windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from operators.columns.checks import refuse_twice
from operators.errors import DefinitionError
from operators.sinks.fingerprints import fingerprint_of
from operators.sinks.interface import SinkError
from operators.sinks.tables import check_key_names, free_name
from operators.spark.base.inside import unpin
from operators.spark.base.quoting import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.types import StructField

DAY = "window_day"
"""The column of a Delta table that has the day of a window's start in UTC."""
_WORDS = ("update", "retract")
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Pinned:
    """The rows of a batch, computed once and kept by the executors until `unpin`.

    Attributes:
        frame: the rows with the window's bounds as columns, and `deleted`.
        fields: the columns that a table gets, without `deleted`.
        keys: names of the key columns, those of the window among them.
        deleted: name of the column that is true for a row that deletes.
        count: number of the rows.
        days: the days of the windows' starts in UTC since the epoch, ascending; None if there is no window, or a bound is null.
        kept: what the executors keep.
    """

    frame: "DataFrame"
    fields: "tuple[StructField, ...]"
    keys: tuple[str, ...]
    deleted: str
    count: int
    days: tuple[int, ...] | None
    kept: "DataFrame"

    @property
    def names(self) -> list[str]:
        """Names of the columns that a table gets."""
        return [field.name for field in self.fields]

    def fingerprint(self) -> int:
        """Return the fingerprint of the rows."""
        return fingerprint_of_frame(self.frame)

    def unpin(self) -> None:
        """Let the executors drop the rows."""
        unpin(self.kept)


def fingerprint_of_frame(frame: "DataFrame") -> int:
    """Return the fingerprint of rows, which is the same in whatever order they come."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.to_json(F.struct(*map(quote, frame.columns)))
    return fingerprint_of(repr(frame.agg(F.count(F.lit(1)), F.bit_xor(F.xxhash64(text))).collect()))


def flat_columns(rows: "DataFrame") -> "tuple[dict[str, Column], list[str]]":
    """Return the columns that a table gets, by name, and those of the window among them.

    The struct `window` becomes `window_start` and `window_end`.

    Raises:
        DefinitionError: two columns have one name.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    found = list[tuple[str, Any]]()
    bounds = list[str]()
    for field in rows.schema.fields:
        column = F.col(quote(field.name))
        if field.name == "window" and isinstance(field.dataType, StructType):
            bounds += [f"window_{bound}" for bound in field.dataType.names]
            found += [(f"window_{bound}", column[bound]) for bound in field.dataType.names]
        else:
            found.append((field.name, column))
    refuse_twice("column", tuple(name for name, _ in found))
    return dict(found), bounds


def pinned(rows: "DataFrame", keys: Sequence[str]) -> Pinned:
    """Return the rows of a batch with one row for each key; whoever gets them has to `unpin` them.

    Of several rows with one key, the one with the highest `sequence` counts, and an update counts more than a retract of the
    same sequence. In a key, -0.0 is 0.0.

    Args:
        rows: as an operator emits them; `change` and `sequence` may be missing.
        keys: names of the key columns, without the window.

    Raises:
        DefinitionError: the rows lack a column, or a column cannot be a key.
        SinkError: a key has two different updates, or `change` has another value.

    Cost: two jobs, and a third one if keys come twice. The driver gets one row: numbers, and the days of the windows.
    """
    from pyspark.sql import functions as F  # noqa: N812

    _refuse_late(rows)
    columns, bounds = flat_columns(rows)
    names = (*keys, *bounds)
    plain = rows.select(*(column.alias(name) for name, column in columns.items()))
    _check_keys(plain, names)
    deleted = free_name("windows_deleted", columns)
    has_change = "change" in columns
    is_deleted = F.col("change") == "retract" if has_change else F.lit(False)
    one_zero = {name: _one_zero(plain, name) for name in names}
    plain = plain.withColumns({**one_zero, deleted: is_deleted})
    frame = plain.localCheckpoint()
    try:
        found = _measured(frame, names, has_change=has_change)
        if (found["most"] or 0) > 1:
            before = frame
            frame = _last_of_each(before, names, deleted).localCheckpoint()
            unpin(before)
    except BaseException:
        unpin(frame)
        raise
    fields = tuple(field for field in frame.schema.fields if field.name not in (deleted, "change"))
    days = None if found["null_days"] or not found["days"] else tuple(sorted(found["days"]))
    return Pinned(frame.drop("change"), fields, names, deleted, found["keys"], days, frame)


def _measured(frame: "DataFrame", keys: Sequence[str], *, has_change: bool) -> "Row":
    """Return how many keys there are, how often the most frequent one comes, and what else a batch has to know."""
    from pyspark.sql import functions as F  # noqa: N812

    known = F.coalesce(F.col("change").isin(*_WORDS), F.lit(False)) if has_change else F.lit(True)
    counted = frame.groupBy(*map(quote, keys)).agg(
        F.count(F.lit(1)).alias("rows"), F.count_if(~known).alias("wrong")
    )
    day = day_of(frame, "window_start") if "window_start" in keys else F.lit(None).cast("date")
    found = counted.agg(
        F.count(F.lit(1)).alias("keys"),
        F.max("rows").alias("most"),
        F.coalesce(F.sum("wrong"), F.lit(0)).alias("wrong"),
        F.count_if(day.isNull()).alias("null_days"),
        F.collect_set(F.unix_date(day)).alias("days"),
    ).collect()[0]
    if found["wrong"]:
        raise SinkError(
            f"column 'change' has other values than 'update' and 'retract' in {found['wrong']} rows: rename it if it is a "
            "column of your own"
        )
    return found


def day_of(frame: "DataFrame", name: str) -> "Column":
    """Return the day of a time in UTC, whatever the session's zone is; null for null."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import TimestampNTZType

    column = F.col(quote(name))
    if isinstance(frame.schema[name].dataType, TimestampNTZType):
        return F.to_date(column)
    return F.date_from_unix_date(F.floor(F.unix_seconds(column) / _DAY_SECONDS).cast("int"))


def _one_zero(frame: "DataFrame", name: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import DoubleType, FloatType

    column, type_ = F.col(quote(name)), frame.schema[name].dataType
    if not isinstance(type_, DoubleType | FloatType):
        return column
    return F.when(column == 0, F.lit(0).cast(type_)).otherwise(column)


def _last_of_each(frame: "DataFrame", keys: Sequence[str], deleted: str) -> "DataFrame":
    """Return the last row of each key.

    Raises:
        SinkError: two different updates of a key have the highest sequence.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import IntegralType

    sequenced = "sequence" in frame.columns and isinstance(frame.schema["sequence"].dataType, IntegralType)
    newest = [F.col("sequence").desc_nulls_last()] if sequenced else []
    order = Window.partitionBy(*map(quote, keys)).orderBy(*newest, F.col(deleted).asc())
    place, rank, text = (free_name(name, frame.columns) for name in ("place", "rank", "text"))
    ranked = frame.withColumns({rank: F.rank().over(order), place: F.row_number().over(order)})
    first = ranked.where(F.col(rank) == 1)
    texts = first.where(~F.col(deleted)).select(
        *map(quote, keys), F.to_json(F.struct(*map(quote, frame.columns))).alias(text)
    )
    tied = texts.groupBy(*map(quote, keys)).agg(F.count_distinct(F.col(text)).alias(text))
    if wrong := tied.where(F.col(text) > 1).drop(text).first():
        key = ", ".join(f"{name} {value}" for name, value in zip(keys, wrong, strict=True))
        raise SinkError(
            f"a batch has two different rows of the key {key}, and no sequence says which is the last: add the columns that "
            "tell them apart to keys, or write the results of several operators to a table each"
        )
    return first.where(F.col(place) == 1).drop(rank, place)


def _check_keys(rows: "DataFrame", keys: Sequence[str]) -> None:
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    check_key_names("merge_to", keys, rows.columns)
    for key in keys:
        type_ = rows.schema[key].dataType
        if isinstance(type_, ArrayType | MapType | StructType | VariantType):
            raise DefinitionError(
                f"key column {key!r} is of type {type_.simpleString()}; keys must be atomic: name its fields as columns"
            )


def _refuse_late(rows: "DataFrame") -> None:
    """Refuse the rows of `apply_with_late`: those of late records have no window and no key."""
    from pyspark.sql.types import StructType

    from operators.sinks.changes import REPORT
    from operators.steps.late_reports import LATE

    type_ = rows.schema[LATE].dataType if LATE in rows.columns else None
    if isinstance(type_, StructType) and set(type_.names) >= REPORT:
        raise DefinitionError(
            "apply_with_late made these rows, with late records among them, which have no key: write each side on its "
            "own, as with result.foreach_batch(lambda windows, late, number: ...)"
        )
