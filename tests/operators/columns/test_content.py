"""An order of rows that follows from what they hold."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.columns.content import content_order
from tests.effort import examples

_NUMBERS = st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1.5]) | st.floats(width=32)
_TEXT = st.text(max_size=3)
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-3, 3),
    pa.uint8(): st.integers(0, 255),
    pa.float32(): _NUMBERS,
    pa.float64(): _NUMBERS,
    pa.bool_(): st.booleans(),
    pa.string(): _TEXT,
    pa.large_binary(): st.binary(max_size=3),
    pa.binary(2): st.binary(min_size=2, max_size=2),
    pa.decimal128(30, 2): st.decimals(-99, 99, places=2),
    pa.timestamp("us", "UTC"): st.integers(-5, 5),
    pa.null(): st.none(),
    pa.dictionary(pa.int32(), pa.string()): _TEXT,
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(0, 2), max_size=3),
    pa.list_(pa.list_(pa.string())): st.lists(st.none() | st.lists(_TEXT, max_size=2), max_size=2),
    pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64()))]): st.fixed_dictionaries(
        {"a": st.none() | st.integers(0, 2), "b": st.none() | st.lists(_NUMBERS, max_size=2)}
    ),
    pa.map_(pa.string(), pa.int64()): st.lists(st.tuples(_TEXT, st.none() | st.integers(0, 2)), max_size=2),
}


def written(table: pa.Table) -> bytes:
    """A table to the bit."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("type_", TYPES, ids=str)
@examples(1)
@given(st.data())
def test_the_order_of_arrival_shows_nowhere(type_: pa.DataType, data: st.DataObject) -> None:
    """The same rows, in any order and with ties in some of the columns, come out as the same bytes."""
    values = data.draw(st.lists(st.none() | TYPES[type_], max_size=20))
    number = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    rows = pa.table({"n": pa.array(number, pa.int64()), "value": pa.array(values, type_)})
    other = rows.take(data.draw(st.permutations(range(len(values)))) if values else pa.array([], pa.int64()))
    first, second = (table.take(content_order(table, ["n"])) for table in (rows, other))

    assert sorted(number) == first["n"].to_pylist()
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    assert written(_cast(first, plain)) == written(_cast(second, plain))
    by_value = rows.take(content_order(rows, ["value"])), other.take(content_order(other, ["value"]))
    assert written(_cast(by_value[0], plain)) == written(_cast(by_value[1], plain))


def _cast(table: pa.Table, type_: pa.DataType) -> pa.Table:
    """The table without dictionaries, whose values are numbered as they come."""
    return pa.table({"n": table["n"], "value": table["value"].cast(type_)}).combine_chunks()


def test_the_first_columns_sort() -> None:
    """Numbers and text ascend in the columns that are named, each within the ones before it; nulls come first."""
    rng = np.random.default_rng(1)
    rows = pa.table(
        {"z": rng.integers(0, 9, 500), "a": rng.integers(-4, 4, 500), "text": list("abcde" * 100)}
    )
    order = content_order(rows, ["a", "text"])
    found = rows.take(order)
    assert sorted(
        zip(found["a"].to_pylist(), found["text"].to_pylist(), found["z"].to_pylist(), strict=True)
    ) == list(zip(found["a"].to_pylist(), found["text"].to_pylist(), found["z"].to_pylist(), strict=True))
    assert [None, 1, 2] == pa.table({"n": [2, None, 1]}).take(
        content_order(pa.table({"n": [2, None, 1]}), [])
    ).column(0).to_pylist()


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows: int) -> None:
    """No row, and one."""
    assert (
        list(range(rows)) == content_order(pa.table({"a": ["x"] * rows, "b": [[1]] * rows}), ["a"]).tolist()
    )
