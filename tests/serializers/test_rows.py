"""Rows of a table as bytes: any types come back, whatever runs they are packed in, and damage is found."""

import random
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import CorruptDataError, NewerFormatError, SerializationError
from serializers.rows import RowCodec
from tests.effort import examples

NUMBERS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(max_size=5)
ATOMS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.binary(), st.binary(max_size=5)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), NUMBERS),
    (pa.timestamp("ms"), NUMBERS),
    (pa.duration("us"), NUMBERS),
    (pa.decimal128(12, 2), st.integers(-(10**11), 10**11).map(lambda n: Decimal(n).scaleb(-2))),
    (pa.null(), st.none()),
]


def nested(
    inner: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """Lists, structs and maps of inner types, with strategies of their values."""

    def listed(of: tuple[pa.DataType, st.SearchStrategy[Any]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        return pa.list_(of[0]), st.lists(st.none() | of[1], max_size=3)

    def mapped(of: tuple[pa.DataType, st.SearchStrategy[Any]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        return pa.map_(pa.string(), of[0]), st.lists(st.tuples(TEXTS, st.none() | of[1]), max_size=3)

    def struct_of(
        fields: list[tuple[pa.DataType, st.SearchStrategy[Any]]],
    ) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        names = [f"f{n}" for n in range(len(fields))]
        type_ = pa.struct([pa.field(name, of[0]) for name, of in zip(names, fields, strict=True)])
        values = {name: st.none() | of[1] for name, of in zip(names, fields, strict=True)}
        return type_, st.fixed_dictionaries(values)

    return inner.map(listed) | inner.map(mapped) | st.lists(inner, min_size=1, max_size=3).map(struct_of)


COLUMNS = st.recursive(st.sampled_from(ATOMS), nested, max_leaves=5)


@st.composite
def tables(draw: Any) -> pa.Table:
    """A table of any types, which may be a slice of another one."""
    rows, columns = draw(st.integers(0, 6)), draw(st.lists(COLUMNS, min_size=1, max_size=4))
    arrays = [
        pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), type_)
        for type_, values in columns
    ]
    table = pa.table(dict(zip("abcd", arrays, strict=False)))
    return table.slice(draw(st.integers(0, rows)))


@pytest.mark.slow
@examples(2)
@given(tables(), st.randoms(use_true_random=False))
def test_any_rows_come_back(table: pa.Table, random_: random.Random) -> None:
    """Rows of nested columns come back, packed in any runs, and read in any number of blobs."""
    codec, rows = RowCodec(table.schema), table.num_rows
    starts = np.array(sorted({0, *random_.choices(range(rows), k=2)}) if rows else [], np.int64)
    blobs = codec.encode(table, starts)
    assert len(starts) == len(blobs)
    back = codec.decode(blobs)
    back.validate(full=True)
    assert table.to_pylist() == back.to_pylist()
    assert table.schema == back.schema


def test_rows_of_one_blob_are_few_bytes() -> None:
    """A row is its values, a byte for each column, and four for each text."""
    table = pa.table({"n": pa.array([1, 2], pa.int64()), "s": ["abc", "d"]})
    (blob,) = RowCodec(table.schema).encode(table, np.zeros(1, np.int64))
    assert 5 + 2 * (1 + 8 + 1 + 4) + 4 == len(blob)


@pytest.mark.parametrize(
    "type_",
    [pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.int8(), 2), pa.struct([]), pa.list_(pa.struct([]))],
    ids=str,
)
def test_types_without_a_stored_form(type_: pa.DataType) -> None:
    """A type that cannot be packed is refused, by the name of its column."""
    with pytest.raises(SerializationError, match=r"column 'odd' is of type .* cannot be stored"):
        RowCodec(pa.schema([("fine", pa.int64()), ("odd", type_)]))


SAMPLE = pa.table(
    {
        "n": pa.array([1, None, 3], pa.int64()),
        "s": ["abc", None, "déf"],
        "l": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
        "m": pa.array([[("k", [True])], None, []], pa.map_(pa.string(), pa.list_(pa.bool_()))),
        "at": pa.array([datetime(2024, 1, 1), None, datetime(1960, 1, 1)], pa.timestamp("us")),
        "day": [date(2024, 1, 1), None, date(1960, 1, 1)],
        "wait": pa.array([timedelta(1), None, timedelta(0)], pa.duration("us")),
    }
)


@pytest.mark.slow
def test_damaged_rows_are_found_or_differ() -> None:
    """Whatever is cut off a blob, or changed in it, is an error of the documented kind, or rows; never another error."""
    codec = RowCodec(SAMPLE.schema)
    (blob,) = codec.encode(SAMPLE, np.zeros(1, np.int64))
    for size in range(len(blob)):
        with pytest.raises((CorruptDataError, NewerFormatError)):
            codec.decode([blob[:size]])
    for place in range(len(blob)):
        for bit in (1, 128):
            changed = bytearray(blob)
            changed[place] ^= bit
            try:
                codec.decode([bytes(changed)]).validate(full=True)
            except (CorruptDataError, NewerFormatError):
                continue


def test_a_newer_version_is_named() -> None:
    """Rows of a newer format say so."""
    with pytest.raises(
        NewerFormatError, match="a stored row has format version 2; this version reads up to 1"
    ):
        RowCodec(SAMPLE.schema).decode([struct.pack("<BI", 2, 1)])
