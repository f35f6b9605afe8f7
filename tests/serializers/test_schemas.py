"""Arrow schemas as bytes: what is no schema is refused, and so is text that Arrow decodes later."""

import pyarrow as pa
import pytest

from serializers import CorruptDataError
from serializers.schemas import read_schema

ZONED = pa.timestamp("us", "Mars/Base")
SCHEMAS = {
    "a name": pa.schema([("Mars/Base", pa.int64())]),
    "a zone": pa.schema([("at", ZONED)]),
    "a zone in a list": pa.schema([("at", pa.list_(pa.list_(ZONED)))]),
    "a zone in a map": pa.schema([("at", pa.map_(pa.string(), ZONED))]),
    "a field's name": pa.schema([("at", pa.struct([("x", pa.struct([("Mars/Base", pa.date32())]))]))]),
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_text_that_is_no_utf8_is_refused(schema: pa.Schema) -> None:
    """Wherever it stands: Arrow reads the schema, and would raise when the text is asked for."""
    data = schema.serialize().to_pybytes()
    assert read_schema(data, "a schema") == schema
    damaged = data.replace(b"Mars/Base", b"\xffars/Base")
    assert damaged != data
    with pytest.raises(CorruptDataError, match=r"a schema cannot be read: .*utf-8"):
        read_schema(damaged, "a schema")


@pytest.mark.parametrize("data", [b"", b"abc", pa.schema([("a", pa.int64())]).serialize().to_pybytes()[:-20]])
def test_other_bytes_are_refused(data: bytes) -> None:
    """Nothing, something else, and a part."""
    with pytest.raises(CorruptDataError, match="a schema cannot be read"):
        read_schema(data, "a schema")
