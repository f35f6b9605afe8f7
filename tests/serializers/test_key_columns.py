"""Many keys are read column by column, with the values and the errors of keys that are read one by one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import CorruptDataError, NewerFormatError, decode_keys, encode_keys
from serializers.key_columns import read_columns
from serializers.keys import KEY_VERSION
from tests.effort import examples
from tests.serializers.test_keys import COLUMNS

READ = [
    name
    for name in COLUMNS
    if not name.startswith(("decimal", "interval", "uint64", "large", "timestamp ms"))
]
MANY = 64
Choice = list[tuple[str, list[int]]]


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """Columns of several types, with the positions of the values of each row."""
    names = draw(st.lists(st.sampled_from(READ), min_size=1, max_size=3))
    rows = draw(st.integers(1, 5))
    return [(name, draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows))) for name in names]


def made(choice: Choice) -> list[pa.Array]:
    """The columns of a choice, repeated until there are many rows."""
    return [
        pa.array([*COLUMNS[name][1], None] * 6, COLUMNS[name][0]).take(rows * MANY) for name, rows in choice
    ]


def one_by_one(keys: list[bytes], types: list[pa.DataType]) -> list[pa.Array]:
    """The columns of keys, each read alone."""
    parts = [decode_keys([key], types) for key in keys]
    return [pa.concat_arrays(column) for column in zip(*parts, strict=True)]


@given(choices())
def test_columns_come_back(choice: Choice) -> None:
    """Values of all common types, nulls among them, in keys of one and of several columns."""
    columns = made(choice)
    types = [column.type for column in columns]
    found = read_columns(encode_keys(columns), types, KEY_VERSION)
    assert found is not None
    assert columns == found
    assert columns == decode_keys(encode_keys(columns), types)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
def test_integers_of_each_width(name: str) -> None:
    """The least and the greatest number of each type."""
    type_ = getattr(pa, name)()
    bits = type_.bit_width
    least, most = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    column = pa.array([least, most, None, 0] * MANY, type_)
    assert [column] == read_columns(encode_keys([column]), [type_], KEY_VERSION)


@pytest.mark.parametrize("name", ["decimal(10,2)", "interval", "uint64", "large string", "timestamp ms"])
def test_other_types_are_read_one_by_one(name: str) -> None:
    """Types that are seldom keys come back by the reader of single keys."""
    type_, values = COLUMNS[name]
    keys = encode_keys([pa.array(values * MANY, type_)])
    assert read_columns(keys, [type_], KEY_VERSION) is None
    assert values * MANY == decode_keys(keys, [type_])[0].to_pylist()


@given(choices(), st.integers(0, 10**6), st.integers(0, 255), st.sampled_from(["change", "cut", "more"]))
def test_damaged_bytes(choice: Choice, place: int, byte: int, damage: str) -> None:
    """With one damaged key among many, the values or the error are those of keys that are read one by one."""
    columns = made(choice)
    types = [column.type for column in columns]
    keys = encode_keys(columns)
    number = place % len(keys)
    keys[number] = damaged(keys[number], place, byte, damage)
    assert outcome(lambda: one_by_one(keys, types)) == outcome(lambda: decode_keys(keys, types))


def damaged(key: bytes, place: int, byte: int, damage: str) -> bytes:
    """A key with one byte changed or added, or without its end."""
    at = place % len(key)
    if damage == "change":
        return key[:at] + bytes([byte]) + key[at + 1 :]
    return key[:at] if damage == "cut" else key + bytes([byte])


def outcome(read: Any) -> Any:
    """The columns that are read as text, since NaN is no other NaN's equal, or the kind of the error."""
    try:
        return [str(column.to_pylist()) for column in read()]
    except (
        CorruptDataError,
        NewerFormatError,
        pa.ArrowException,
        OverflowError,
        UnicodeError,
        TypeError,
    ) as error:
        return type(error)


@pytest.mark.parametrize(
    "key", [b"", b"\x01", b"\x01\x91", b"\x01\x91\xcf", b"\x01\x91\xd9", b"\x01\x91\xdb\xff\xff\xff\xff"]
)
def test_keys_that_end_too_early(key: bytes) -> None:
    """A length beyond the end of the last key is not followed."""
    for type_ in (pa.int64(), pa.string(), pa.float64(), pa.timestamp("us")):
        assert read_columns([key] * MANY, [type_], KEY_VERSION) is None
        with pytest.raises(CorruptDataError):
            decode_keys([key] * MANY, [type_])


@examples(0.2)
@given(st.lists(st.binary(max_size=40), min_size=MANY, max_size=MANY + 6), st.sampled_from(READ))
def test_any_bytes(keys: list[bytes], name: str) -> None:
    """Random bytes behind a right head are an error, or are the values that single keys have."""
    type_ = COLUMNS[name][0]
    keys = [b"\x01\x91" + key for key in keys]
    assert outcome(lambda: one_by_one(keys, [type_])) == outcome(lambda: decode_keys(keys, [type_]))
