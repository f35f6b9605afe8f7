"""From the rows that a query emits in a batch to the changes of a table: the last row of each key counts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from operators.columns.arrow import plain_type
from operators.columns.checks import list_columns, refuse_twice
from operators.errors import DefinitionError
from operators.sinks.interface import Changes, SinkError
from operators.sinks.tables import check_key_names
from operators.sinks.times import refuse_times
from serializers.arrays import one_array, take_rows
from serializers.shapes import short

if TYPE_CHECKING:
    from operators.runtime.keys_to_forget import Keys

_Ints = npt.NDArray[np.int64]
_ONE_ZERO = " (-0.0 and 0.0 are one key)"
_WORDS = ("update", "retract")
REPORT = {"reason", "window", "late_by_ms", "record"}
"""Fields of the report of a late record."""


def changes_of(
    rows: pa.Table, keys: Sequence[str], query: str, batch: int, latest_by: str | None = None
) -> Changes:
    """Return what the rows of a batch change.

    The struct `window` becomes the columns `window_start` and `window_end`, which belong to the key. A row whose
    `change` is "retract" is a delete; every other row is an upsert. Of several rows with one key, the one with the
    highest `sequence` counts, and an update counts more than a retract of the same sequence. In a key, -0.0 is 0.0, as
    it is for Spark.

    Args:
        rows: as an operator emits them; `change` and `sequence` may be missing.
        keys: names of the key columns, without the window.
        query: name of the query.
        batch: number of the batch.
        latest_by: the column whose largest value makes a row the one that counts for its key, without the window.

    Raises:
        DefinitionError: the rows lack a column, have columns that cannot be a key or say which row is newer, or late records
            among them.
        SinkError: a key has two different updates, `change` has an unknown value, or a time is outside of the years 1 to
            9999.
    """
    _refuse_late(rows.schema)
    table, names = _flat(rows, keys)
    if latest_by is not None:
        names = list(keys)
    _check_keys(table.schema, names)
    refuse_times(table)
    table = _with_one_zero(table, names)
    if latest_by is not None:
        _check_latest_by(table.schema, latest_by)
        newest = take_rows(table, _newest(table, names, latest_by))
        return Changes(query, batch, newest.slice(0, 0).select(names), newest, latest_by=latest_by)
    updated = _updated(table)
    last = _last(table, names, updated)
    kept, updates = take_rows(table, last), pa.array(updated[last])
    upserts = kept.filter(updates)
    if "change" in upserts.column_names:
        upserts = upserts.drop_columns("change")
    retracts = kept.filter(pc.invert(updates))
    return Changes(query, batch, retracts.select(names), upserts, retracts=retracts)


def forgotten_keys(keys: "Keys", names: Sequence[str]) -> pa.Table:
    """Return the distinct keys whose rows are to go from a table, with its key columns in their order, in plain types.

    Args:
        keys: rows of the key columns: a table, or a dictionary for each row.
        names: the names of the key columns, without the window.

    Raises:
        DefinitionError: there is no key column or no key, or the keys have other columns; names them.
        SinkError: a time is outside of the years 1 to 9999.
    """
    if not names:
        raise DefinitionError(
            "the table has no key columns but the window: there is nothing to forget a key by"
        )
    from operators.runtime.keys_to_forget import rows_of_keys  # imports more than a sink needs for a batch

    rows = rows_of_keys(keys, names, {})
    try:
        table = _flat(rows, names)[0]
    except pa.ArrowException as error:
        raise DefinitionError(f"the keys have values that no table has: {error}") from error
    _check_keys(table.schema, names)
    refuse_times(table)
    return _with_one_zero(table, names).group_by(list(names)).aggregate([])


def _refuse_late(schema: pa.Schema) -> None:
    """Refuse the rows of `apply_with_late`: those of late records have no window and no key."""
    from operators.steps.late_reports import LATE  # imports more than a sink needs before its first batch

    place = schema.get_field_index(LATE)
    type_ = schema.field(place).type if place >= 0 else pa.null()
    if pat.is_struct(type_) and REPORT <= {field.name for field in type_}:
        raise DefinitionError(
            "apply_with_late made these rows, with late records among them, which have no key: write only the "
            "windows, as with result.foreach_batch(lambda windows, late, number: upsert(windows, number))"
        )


def _flat(rows: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Return the rows with the window's bounds as columns, in plain types, and the names of all key columns."""
    names, fields, columns = list(keys), [], []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if field.name == "window" and pat.is_struct(field.type):
            bounds = [f"window_{bound.name}" for bound in field.type]
            names += bounds
            fields += [
                pa.field(name, bound.type, field.nullable or bound.nullable)
                for name, bound in zip(bounds, field.type, strict=True)
            ]
            columns += [pc.struct_field(column, number) for number in range(len(bounds))]
        else:
            fields.append(pa.field(field.name, field.type, field.nullable))
            columns.append(column)
    refuse_twice("column", tuple(field.name for field in fields))
    schema = pa.schema([field.with_type(_plain(field.type)) for field in fields])
    return pa.table(columns, schema=pa.schema(fields)).cast(schema), names


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries and views, with times in microseconds and UTC, also in nested types."""
    type_ = plain_type(type_)
    if pat.is_timestamp(type_):
        return pa.timestamp("us", type_.tz and "UTC")
    if pat.is_struct(type_):
        return pa.struct([pa.field(f.name, _plain(f.type), f.nullable) for f in type_])
    if pat.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    if pat.is_list(type_):
        return pa.list_(_plain(type_.value_type))
    return type_


def _check_keys(schema: pa.Schema, keys: Sequence[str]) -> None:
    check_key_names("upsert_to", keys, schema.names)
    for key in keys:
        if pat.is_nested(schema.field(key).type):
            raise DefinitionError(
                f"key column {key!r} is of type {schema.field(key).type}; keys must be atomic: name its "
                f"fields as columns"
            )


def _with_one_zero(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the table with 0.0 in the place of -0.0 in its keys: some databases take them for two, others for one."""
    for key in keys:
        number = table.schema.get_field_index(key)
        field = table.schema.field(number)
        if pat.is_floating(field.type):
            table = table.set_column(number, field, pc.add(table.column(number), pa.scalar(0, field.type)))
    return table


def _updated(table: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows are updates, not retracts."""
    if "change" not in table.column_names:
        return np.ones(table.num_rows, bool)
    words = table.column("change")
    wrong = words.filter(pc.invert(pc.fill_null(pc.is_in(words, pa.array(_WORDS, words.type)), False)))
    if len(wrong):
        raise SinkError(
            f"column 'change' is {wrong[0].as_py()!r} in {len(wrong)} rows; it must be 'update' or 'retract': "
            "rename it if it is a column of your own"
        )
    return np.asarray(pc.equal(words, "update").combine_chunks(), bool)


def _last(table: pa.Table, keys: Sequence[str], updated: npt.NDArray[np.bool_]) -> _Ints:
    """Return the position of each key's last row, ascending."""
    groups = _groups(table, keys)
    sequence = _sequence(table)
    ends = _last_of_each(groups, np.lexsort((updated, sequence, groups)))
    if len(ends) < len(groups):
        last = ends[groups]
        tied = (
            updated
            & (sequence == sequence[last])
            & (updated == updated[last])
            & (np.arange(len(last)) != last)
        )
        _refuse_ties(table, keys, np.flatnonzero(tied), last[tied])
    return np.sort(ends)


def _last_of_each(groups: _Ints, order: _Ints) -> _Ints:
    """Return the last position of each group in an order that has the groups one after another."""
    ends = np.ones(len(order), bool)
    ends[:-1] = groups[order][1:] != groups[order][:-1]
    return order[ends]


def _check_latest_by(schema: pa.Schema, name: str) -> None:
    if name not in schema.names:
        raise DefinitionError(
            f"latest_by names {name!r}, which does not exist; the rows have the columns {list_columns(name, schema.names)}"
        )
    type_ = schema.field(name).type
    if not (pat.is_timestamp(type_) or pat.is_date(type_) or pat.is_signed_integer(type_)):
        raise DefinitionError(
            f"latest_by names {name!r}, which is of type {type_}: it takes a timestamp, a date or a signed integer"
        )
    if "change" in schema.names:
        raise DefinitionError(
            "latest_by takes rows that are never taken back, and these have the column 'change': use emit('on_close'), or "
            "emit('on_arrival') of rolling windows, or leave latest_by out, so that each window has a row"
        )


def _newest(table: pa.Table, keys: Sequence[str], latest_by: str) -> _Ints:
    """Return the position of each key's newest row, ascending."""
    from operators.columns.content import content_order  # not needed by most sinks

    rank = np.empty(table.num_rows, np.int64)
    rank[content_order(table, [latest_by])] = np.arange(table.num_rows)
    groups = _groups(table, keys)
    return np.sort(_last_of_each(groups, np.lexsort((rank, groups))))


def _groups(table: pa.Table, keys: Sequence[str]) -> _Ints:
    """Return a number for each row, the same for rows of the same key; nulls are equal."""
    groups = np.zeros(table.num_rows, np.int64)
    for key in keys:
        codes = one_array(table.column(key)).dictionary_encode(null_encoding="encode")
        if isinstance(codes, pa.ChunkedArray):
            codes = codes.combine_chunks()
        numbers = codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        groups = np.unique(groups * (len(codes.dictionary) + 1) + numbers, return_inverse=True)[1]
    return groups


def _sequence(table: pa.Table) -> _Ints:
    """Return the column `sequence`, or zeros."""
    if "sequence" not in table.column_names or not pat.is_integer(table.schema.field("sequence").type):
        return np.zeros(table.num_rows, np.int64)
    column = table.column("sequence").cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
    return column.to_numpy()


def _refuse_ties(table: pa.Table, keys: Sequence[str], rows: _Ints, last: _Ints) -> None:
    """Refuse updates of which none is its key's last; rows that are equal do no harm."""
    for row, other in zip(*(take_rows(table, at).to_pylist() for at in (rows, last)), strict=True):
        if repr(row) != repr(other):
            key = ", ".join(
                f"{name} {short(row[name])}{_ONE_ZERO if str(row[name]) == '0.0' else ''}" for name in keys
            )
            raise SinkError(
                f"a batch has two different rows of the key {key}, and no sequence says which is the last: add the columns "
                "that tell them apart to keys, name the column of their times as latest_by to keep each key's newest row, or "
                "write the results of several operators to a table each"
            )
