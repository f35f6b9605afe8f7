"""Rows as JSON, made by Arrow column by column: the same bytes for the same values, whatever the session's settings."""

import base64
import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from operators.sinks.nested import json_text
from serializers.arrays import one_array

_TEXT = pa.large_string()
_SPECIAL = r'["\\\x00-\x1f]'
"""Characters that JSON escapes."""
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def is_json(type_: pa.DataType) -> str | None:
    """Return something if JSON has a form for the type: an object's members are columns of such types."""
    if pat.is_nested(type_):
        inner = [type_.field(number).type for number in range(type_.num_fields)]
        return "nested" if all(map(is_json, inner)) else None
    return None if pat.is_duration(type_) or pat.is_time(type_) or pat.is_interval(type_) else "atomic"


def json_values(rows: pa.Table) -> dict[str, pa.Array]:
    """Return the values of each column as JSON, by its name.

    Numbers are numbers, and so are booleans. Times are ISO text with microseconds, those with a zone in UTC:
    "2026-01-05T09:00:00.000000Z". Decimals, dates, NaN and the infinities are text, bytes base64, null is `null`. Nested values
    are made one by one in Python, all others by Arrow.
    """
    return {
        name: pc.fill_null(_texts(column), _scalar("null"))
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    }


def json_objects(values: Mapping[str, pa.Array], names: Sequence[str]) -> pa.LargeBinaryArray:
    """Return a JSON object for each row, in UTF-8, without spaces between its members.

    Args:
        values: of each column, as `json_values` gives them.
        names: the columns of the objects, in their order; at least one.
    """
    pieces: list[pa.Array | pa.Scalar] = []
    for number, name in enumerate(names):
        pieces += [_scalar(f"{',' if number else '{'}{json.dumps(name, ensure_ascii=False)}:"), values[name]]
    return pc.binary_join_element_wise(*pieces, _scalar("}"), _scalar("")).cast(pa.large_binary())


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, _TEXT)


def _texts(column: pa.ChunkedArray) -> pa.Array:
    values = one_array(column)
    type_ = values.type
    if pat.is_nested(type_):
        return json_text(pa.chunked_array([values])).cast(_TEXT)
    if pat.is_boolean(type_) or pat.is_integer(type_):
        return values.cast(_TEXT)
    if pat.is_floating(type_):
        texts = values.cast(_TEXT)
        for text, name in _NOT_FINITE.items():
            texts = pc.if_else(pc.equal(texts, text), _scalar(f'"{name}"'), texts)
        return texts
    if pat.is_timestamp(type_):
        few = values.dictionary_encode()  # Many rows have the bounds of the same windows.
        return _quoted(pc.replace_substring(few.dictionary.cast(_TEXT), " ", "T")).take(few.indices)
    if pat.is_binary(type_) or pat.is_large_binary(type_) or pat.is_fixed_size_binary(type_):
        coded = [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()]
        return _quoted(pa.array(coded, _TEXT))
    return _quoted(_escaped(values.cast(_TEXT)))


def _escaped(texts: pa.Array) -> pa.Array:
    special = pc.match_substring_regex(texts, _SPECIAL)
    if not pc.any(special).as_py():
        return texts
    escaped = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(texts, pc.fill_null(special, False), pa.array(escaped, _TEXT))


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_scalar('"'), texts, _scalar('"'), _scalar(""))
