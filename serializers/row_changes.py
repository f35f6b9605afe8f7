"""Rows that were stored in other columns: how each column becomes one of now, and the rows in the columns of now.

Types become wider as Spark widens them without loss: whole numbers and decimals to ones with more digits, whole numbers of up
to 32 bits and float to double, dates to timestamps without a time zone. A date does not become a timestamp with a zone, since
midnight depends on the zone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from serializers.arrays import fill
from serializers.pages import Column
from serializers.rows import RowCodec

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits that Spark gives a whole number of so many bits as a decimal."""
_UNITS = ["s", "ms", "us", "ns"]
_DOUBLE_BITS = 32
"""Whole numbers of up to so many bits are exact as a double."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """How the columns of rows differ, with the fields of structs as columns of their own: `address.street`.

    Attributes:
        added: columns that the stored rows lack.
        dropped: columns that only the stored rows have.
        widened: columns whose types became wider, with the types before and now.
        refused: columns whose types became others, likewise.
    """

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    widened: tuple[tuple[str, pa.DataType, pa.DataType], ...]
    refused: tuple[tuple[str, pa.DataType, pa.DataType], ...]

    @classmethod
    def of(cls, before: pa.Schema, now: pa.Schema) -> "RowChanges":
        """Return how two schemas differ. The order of columns does not count."""
        found: dict[str, list[tuple[str, pa.DataType, pa.DataType]]] = {}
        for change, name, old, new in _changes("", before, now):
            found.setdefault(change, []).append((name, old, new))
        added, dropped = (
            tuple(name for name, _, _ in found.get(change, ())) for change in ("added", "dropped")
        )
        widened, refused = (tuple(found.get(change, ())) for change in ("widened", "refused"))
        return cls(added, dropped, widened, refused)


@dataclass(frozen=True, slots=True)
class RowConversion:
    """Stored rows in other columns.

    Attributes:
        before: the columns that they were stored in.
        now: the columns that they get; `RowChanges` refuses none of them.
    """

    before: pa.Schema
    now: pa.Schema

    def blobs(self, stored: Column, counts: Column) -> Column:
        """Return the blobs of stored entries with other columns; entries without rows have none.

        Args:
            stored: shape (n,), object: blobs, or None.
            counts: shape (n,), int64: the number of rows in each.
        """
        at = np.flatnonzero(counts > 0)
        if not len(at):
            return stored
        table = converted(RowCodec(self.before).decode(stored[at].tolist()), self.now)
        starts = np.cumsum(counts[at]) - counts[at]
        result = stored.copy()
        result[at] = fill(RowCodec(self.now).encode(table, starts))
        return result


def converted(table: pa.Table, now: pa.Schema) -> pa.Table:
    """Return rows in these columns: null in those that they lack."""
    there = {*table.column_names}
    columns = [
        _array(table.column(field.name).combine_chunks(), field.type)
        if field.name in there
        else pa.nulls(table.num_rows, field.type)
        for field in now
    ]
    return pa.Table.from_arrays(columns, schema=now)


def _changes(
    prefix: str, before: Sequence[pa.Field], now: Sequence[pa.Field]
) -> Iterator[tuple[str, str, pa.DataType, pa.DataType]]:
    """Added, dropped, widened and refused columns, with their types."""
    old, new = ({field.name: field.type for field in fields} for fields in (before, now))
    for name, type_ in new.items():
        if name not in old:
            yield "added", prefix + name, type_, type_
        else:
            yield from _change(prefix + name, old[name], type_)
    for name, type_ in old.items():
        if name not in new:
            yield "dropped", prefix + name, type_, type_


def _change(
    name: str, before: pa.DataType, now: pa.DataType
) -> Iterator[tuple[str, str, pa.DataType, pa.DataType]]:
    if before == now:
        return
    if pat.is_struct(before) and pat.is_struct(now):
        yield from _changes(f"{name}.", [*before], [*now])
    elif pat.is_list(before) and pat.is_list(now):
        yield from _change(f"{name}.element", before.value_type, now.value_type)
    else:
        yield "widened" if is_wider(before, now) else "refused", name, before, now


def is_wider(before: pa.DataType, now: pa.DataType) -> bool:
    """Return whether a type holds all values of another one, as Spark widens it."""
    if pat.is_signed_integer(before):
        return (
            (pat.is_signed_integer(now) and now.bit_width > before.bit_width)
            or (pat.is_float64(now) and before.bit_width <= _DOUBLE_BITS)
            or (pat.is_decimal(now) and now.precision - now.scale >= _DIGITS[before.bit_width])
        )
    if pat.is_decimal(before) and pat.is_decimal(now):
        whole = now.precision - now.scale >= before.precision - before.scale
        return whole and now.scale >= before.scale
    if pat.is_timestamp(before) and pat.is_timestamp(now):
        return before.tz == now.tz and _UNITS.index(before.unit) < _UNITS.index(now.unit)
    if pat.is_date(before):
        return pat.is_timestamp(now) and now.tz is None
    return (pat.is_float32(before) and pat.is_float64(now)) or {before, now} == {
        pa.string(),
        pa.large_string(),
    }


def _array(array: pa.Array, now: pa.DataType) -> pa.Array:
    """Return values in a wider type; fields that structs lack are null."""
    if array.type == now:
        return array
    if pat.is_struct(now):
        old = {field.name: values for field, values in zip(array.type, array.flatten(), strict=True)}
        fields = [
            _array(old[field.name], field.type) if field.name in old else pa.nulls(len(array), field.type)
            for field in now
        ]
        return pa.StructArray.from_arrays(fields, fields=[*now], mask=array.is_null())
    if pat.is_list(now):
        lengths = array.value_lengths().fill_null(0).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return pa.ListArray.from_arrays(
            offsets, _array(array.flatten(), now.value_type), mask=array.is_null()
        ).cast(now)
    return array.cast(now)
