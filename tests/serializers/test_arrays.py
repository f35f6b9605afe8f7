"""Rows of tables that are larger than an array can be, by a limit of a few bytes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import arrays
from serializers.arrays import cut_rows, one_array, row_bytes, take_rows, take_values
from serializers.rows import RowCodec

TYPES = {
    "text": pa.string(),
    "bytes": pa.binary(),
    "wide": pa.large_string(),
    "texts": pa.list_(pa.string()),
    "map": pa.map_(pa.string(), pa.list_(pa.binary())),
    "struct": pa.struct([("a", pa.string()), ("b", pa.list_(pa.int32())), ("c", pa.bool_())]),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "none": pa.null(),
}


@pytest.fixture(autouse=True, scope="module")
def limit() -> Iterator[int]:
    """Arrays of 64 bytes are large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "PIECE_BYTES", 64)
        yield 64


def values(type_: pa.DataType, rng: np.random.Generator) -> Any:
    """A value of a type, or null."""
    if pa.types.is_null(type_) or rng.random() < 0.1:
        return None
    if pa.types.is_map(type_):
        return [(f"{n}", values(type_.item_type, rng)) for n in range(rng.integers(0, 3))]
    if pa.types.is_list(type_):
        return [values(type_.value_type, rng) for _ in range(rng.integers(0, 4))]
    if pa.types.is_struct(type_):
        return {field.name: values(field.type, rng) for field in type_}
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_binary(type_):
        text = "é" * int(rng.integers(0, 9) ** 2 // 4)
        return text.encode() if pa.types.is_binary(type_) else text
    number = int(rng.integers(0, 99))
    return number > 50 if pa.types.is_boolean(type_) else number


def table(rows: int, seed: int, chunks: int = 3) -> pa.Table:
    """Rows of all types, in chunks."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(0, rows + 1, chunks - 1))
    sizes = np.diff([0, *edges, rows]).tolist()
    parts = [{name: [values(t, rng) for _ in range(n)] for name, t in TYPES.items()} for n in sizes]
    schema = pa.schema(list(TYPES.items()))
    return pa.concat_tables([pa.table(part, schema) for part in parts])


@given(st.lists(st.integers(0, 30)), st.integers(1, 40), st.none() | st.integers(1, 5))
def test_ranges_of_rows(sizes: list[int], most: int, rows: int | None) -> None:
    """Each has as many rows as fit, and at least one; together they are all rows."""
    ranges = cut_rows(np.array(sizes, np.int64), most, rows)
    assert list(range(len(sizes))) == [n for a, b in ranges for n in range(a, b)]
    for a, b in ranges:
        assert b - a == 1 or (sum(sizes[a:b]) <= most and b - a <= (rows or b))
        fits = b < len(sizes) and sum(sizes[a : b + 1]) <= most
        assert not fits or b - a == rows


def test_bytes_of_rows() -> None:
    """Those of text and bytes are exact, however they are nested."""
    found = table(40, 1)
    for name in ("text", "bytes", "wide", "texts"):
        column = found.select([name])
        listed = column.column(0).to_pylist()
        flat = [value if isinstance(value, list) else [value] for value in listed]
        sizes = [
            sum(len(v.encode() if isinstance(v, str) else v or b"") for v in each or []) for each in flat
        ]
        assert sizes == row_bytes(column).tolist()
    assert [8] * 40 == row_bytes(found.select(["number"])).tolist()
    assert row_bytes(found.slice(7, 9)).tolist() == row_bytes(found).tolist()[7:16]


@pytest.mark.parametrize("rows", [0, 1, 50])
@pytest.mark.parametrize("chunks", [1, 6])
def test_rows_are_taken_in_chunks_that_fit(rows: int, chunks: int) -> None:
    """The same rows in the same order, and no chunk larger than the limit, but for single rows."""
    whole = table(rows, rows, chunks)
    rng = np.random.default_rng(chunks)
    listed = whole.to_pylist()
    chosen = [rng.permutation(rows), np.arange(rows // 2), np.empty(0, np.int64)]
    for at in chosen:
        found = take_rows(whole, at)
        assert whole.schema == found.schema
        assert [listed[n] for n in at.tolist()] == found.to_pylist()
        assert all(
            b.num_rows == 1 or row_bytes(pa.Table.from_batches([b])).sum() <= 64 for b in found.to_batches()
        )
    again = rng.integers(0, rows, 80) if rows else np.empty(0, np.int64)
    assert [listed[n] for n in again.tolist()] == take_rows(whole, again, repeats=True).to_pylist()


def test_values_are_taken_as_often_as_wanted() -> None:
    """From one array that fits, into several that fit; few values come as one array."""
    column = pa.array(["a" * 20, None, "b"])
    found = take_values(column, np.zeros(9, np.int64))
    assert (["a" * 20] * 9, 3) == (found.to_pylist(), found.num_chunks)
    assert isinstance(take_values(column, np.array([2, 1, 2])), pa.Array)


def test_one_array() -> None:
    """What is too much text for its type becomes text of a wider one; anything else keeps its type."""
    for name, type_ in {"text": pa.large_string(), "bytes": pa.large_binary()}.items():
        column = table(50, 5).column(name)
        assert (type_, column.to_pylist()) == (one_array(column).type, one_array(column).to_pylist())
    few = pa.chunked_array([["a"], ["b"]])
    assert (pa.string(), ["a", "b"]) == (one_array(few).type, one_array(few).to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("names", [list(TYPES), ["number", "flag"], ["none"]], ids=" ".join)
def test_rows_are_packed_and_unpacked_in_pieces(names: list[str]) -> None:
    """To the same bytes as at once, and back, however runs lie to pieces; also a run that is larger than a piece."""
    whole = table(60, 3).select(names)
    codec = RowCodec(whole.schema)
    for starts in ([0], [0, 1, 2, 3, 30, 31, 59], list(range(60))):
        packed = codec.encode(whole, np.array(starts))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arrays, "PIECE_BYTES", 1 << 30)
            assert codec.encode(whole, np.array(starts)) == packed
            at_once = codec.decode(packed)
        found = codec.decode(packed)
        assert whole.to_pylist() == at_once.to_pylist() == found.to_pylist()
        assert found.schema == whole.schema
        if len(names) > 2:
            assert found.column(0).num_chunks > 9
    assert 0 == codec.decode([]).num_rows
    assert [] == codec.encode(whole.slice(0, 0), np.empty(0, np.int64))
