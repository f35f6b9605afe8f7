"""Arrow schemas from stored bytes."""

import pyarrow as pa

from serializers.errors import CorruptDataError


def read_schema(data: bytes, what: str) -> pa.Schema:
    """Return the schema that `pa.Schema.serialize` wrote.

    Args:
        data: the stored bytes.
        what: names the schema in errors.

    Raises:
        CorruptDataError: the bytes are no schema, or text in it is not UTF-8.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        for field in schema:
            _decode(field)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptDataError(f"{what} cannot be read: {error}") from error
    return schema


def _decode(field: pa.Field) -> None:
    """Ask for the texts of a field, which Arrow decodes only when they are asked for."""
    _ = field.name, getattr(field.type, "tz", None)
    for number in range(field.type.num_fields):
        _decode(field.type.field(number))
