"""Rows as JSON: any parser reads the values again, and the same values give the same bytes."""

import json
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.sinks.contract.base import NOT_FINITE, VALUES
from operators.sinks.contract.values import keyed
from operators.sinks.json_rows import is_json, json_objects, json_values
from tests.operators.sinks.reading import from_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def json_rows(rows: pa.Table) -> list[bytes]:
    """Each row as an object of all its columns."""
    return json_objects(json_values(rows), rows.column_names).to_pylist()


def test_values_of_all_types_come_back() -> None:
    """Those of the sinks' contract, and null."""
    rows = keyed(**VALUES)
    parsed = [json.loads(one) for one in json_rows(rows)]
    columns = [from_json([one[f.name] for one in parsed], f.type) for f in rows.schema]
    assert pa.table(columns, rows.column_names).to_pylist() == rows.to_pylist()


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(TEXT, st.none() | st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)), max_size=8
    )
)
def test_any_text_and_number_is_read_as_it_was(rows: list[tuple[str, int | None, float]]) -> None:
    """With quotes, backslashes and control characters, in names, too; floats to the last bit."""
    names = ['te"xt\n', "n", "x"]
    types = pa.string(), pa.int64(), pa.float64()
    columns = list(zip(*rows, strict=True)) or [()] * 3
    table = pa.table([pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)], names)
    found = [tuple(json.loads(one).values()) for one in json_rows(table)]
    assert [(text, n) for text, n, _ in rows] == [one[:2] for one in found]
    assert [x for *_, x in rows] == [float(one[2]) for one in found]


def test_bytes_do_not_depend_on_how_a_column_is_stored() -> None:
    """Chunks, slices and wide types of Arrow give the same bytes; a time is in UTC with microseconds."""
    plain = pa.table({"k": ["a", "b"], "at": pa.array([0, 1], pa.timestamp("us", "UTC"))})
    other = pa.concat_tables([plain.slice(0, 1), plain.slice(1, 1)])
    wide = plain.set_column(0, "k", plain["k"].cast(pa.large_string()))
    expected = [
        b'{"k":"a","at":"1970-01-01T00:00:00.000000Z"}',
        b'{"k":"b","at":"1970-01-01T00:00:00.000001Z"}',
    ]
    for table in (plain, other, wide):
        assert expected == json_rows(table)
    assert [] == json_rows(plain.slice(0, 0))


def test_floats_that_are_not_finite_are_text() -> None:
    """JSON has no numbers for them."""
    rows = pa.table({"x": NOT_FINITE, "y": NOT_FINITE.cast(pa.float32())})
    found = [json.loads(one, parse_constant=None) for one in json_rows(rows)]
    assert ["NaN", "Infinity", "-Infinity"] == [one["x"] for one in found] == [one["y"] for one in found]
    assert math.isnan(float(found[0]["x"]))


def test_types_without_a_form_are_told() -> None:
    """Also inside of others."""
    for type_ in (pa.duration("us"), pa.time64("us"), pa.list_(pa.struct([("d", pa.duration("us"))]))):
        assert is_json(type_) is None
    assert is_json(pa.map_(pa.string(), pa.list_(pa.decimal128(10, 2)))) is not None
