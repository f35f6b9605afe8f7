"""Fingerprints of batches: the same for the same rows, and another for each other batch."""

import random

import pyarrow as pa
import pytest

from operators.sinks.contract.base import VALUES
from operators.sinks.contract.values import keyed
from operators.sinks.fingerprints import fingerprint_of, fingerprint_of_rows

MAP = pa.map_(pa.string(), pa.list_(pa.int64()))
ROWS = keyed(**VALUES, map=pa.array([[("a", [1]), ("b", None)], None, []], MAP))
NONE = ROWS.select(["id"]).slice(0, 0)


def test_the_order_of_rows_and_columns_does_not_count() -> None:
    """Nor do the parts that columns come in, what stands in the place of a null, or the kind of text."""
    expected = fingerprint_of_rows(NONE, ROWS)
    assert 0 <= expected < 2**63
    places = random.Random(3).sample(range(ROWS.num_rows), ROWS.num_rows)
    turned = ROWS.take(places).select(ROWS.column_names[::-1])
    assert expected == fingerprint_of_rows(NONE, turned)
    parts = pa.concat_tables([ROWS.slice(5), ROWS.slice(0, 2), ROWS.slice(2, 3)])
    assert expected == fingerprint_of_rows(NONE, parts)
    texts = ROWS.set_column(ROWS.schema.get_field_index("text"), "text", ROWS["text"].cast(pa.large_string()))
    assert expected == fingerprint_of_rows(NONE, texts)
    for held in (0, 1):
        validity = pa.array([1, None]).buffers()[0]
        buffers = [validity, pa.py_buffer(bytes([1, *bytes(7), held, *bytes(7)]))]
        rows = pa.table({"k": [1, 2], "v": pa.Array.from_buffers(pa.int64(), 2, buffers)})
        none = rows.select(["k"]).slice(0, 0)
        assert fingerprint_of_rows(none, rows) == fingerprint_of_rows(
            none, pa.table({"k": [1, 2], "v": [1, None]})
        )


@pytest.mark.parametrize("name", [*VALUES, "map"])
def test_each_value_counts(name: str) -> None:
    """Of every type: a value in the place of another one, or of null, is another batch."""
    column, number = ROWS[name].combine_chunks(), ROWS.schema.get_field_index(name)
    values = column.to_pylist()
    first, second, *rest = values
    batches = [values, [second, first, *rest], [first, first, *rest], [None, second, *rest]]
    seen = set()
    for changed in batches:
        rows = ROWS.set_column(number, ROWS.schema.field(number), pa.array(changed, column.type))
        seen.add(fingerprint_of_rows(NONE, rows))
    assert len(batches) == len(seen)


def test_deletes_and_names_count() -> None:
    """A delete is no upsert, and a column of another name is another one."""
    keys = ROWS.select(["id"])
    batches = [
        (NONE, keys),
        (keys, keys.slice(0, 0)),
        (keys.slice(1), keys.slice(0, 1)),
        (NONE, keys.append_column("a", keys["id"])),
        (NONE, keys.append_column("b", keys["id"])),
    ]
    assert len(batches) == len({fingerprint_of_rows(*batch) for batch in batches})
    assert fingerprint_of("one") != fingerprint_of("two")
