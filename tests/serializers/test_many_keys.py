"""Many keys are written and read column by column: the same bytes, values and errors as one by one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import CorruptDataError, NewerFormatError, decode_keys, encode_keys
from serializers.key_reading import read_columns
from serializers.key_writing import write_columns
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


@pytest.mark.slow
@given(choices())
def test_same_bytes(choice: Choice) -> None:
    """Keys that are written together are the bytes of keys that are written alone."""
    columns = made(choice)
    assert write_columns(columns, KEY_VERSION) is not None
    assert encode_keys(columns) == [
        encode_keys([column.slice(row, 1) for column in columns])[0] for row in range(len(columns[0]))
    ]


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.builds(
    lambda power, more, sign: sign * 2**power + more,
    st.integers(0, 62),
    st.integers(-2, 2),
    st.sampled_from([-1, 1]),
)


@given(st.lists(st.none() | NUMBERS, min_size=1, max_size=20))
def test_integers_around_powers_of_two(numbers: list[int | None]) -> None:
    """Integers have the shortest form, where msgpack's forms meet too."""
    column = pa.array(numbers * MANY, pa.int64())
    alone = [encode_keys([pa.array([number], pa.int64())])[0] for number in numbers]
    assert alone * MANY == encode_keys([column])
    assert [column] == decode_keys(alone * MANY, [pa.int64()])


@given(st.lists(st.none() | st.floats() | st.floats(width=32), min_size=1, max_size=20))
def test_floats(numbers: list[float | None]) -> None:
    """All NaN are one, and minus zero is zero."""
    alone = [encode_keys([pa.array([number], pa.float64())])[0] for number in numbers]
    assert alone * MANY == encode_keys([pa.array(numbers * MANY, pa.float64())])


@pytest.mark.slow
@given(st.lists(st.none() | st.text() | st.integers(0, 70_000).map("x".__mul__), min_size=1, max_size=5))
def test_text_of_any_length(texts: list[str | None]) -> None:
    """Text whose length takes no byte of its own, one, two or four."""
    alone = [encode_keys([pa.array([text], pa.string())])[0] for text in texts]
    column = pa.array(texts * MANY, pa.string())
    assert alone * MANY == encode_keys([column])
    assert [column] == decode_keys(alone * MANY, [pa.string()])


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
    assert keys == [encode_keys([pa.array([value], type_)])[0] for value in values] * MANY
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
    """The columns that are read as Arrow's text, or the kind of the error. No NaN equals itself; Python has no year 10,000."""
    try:
        return [column.to_string(window=len(column)) for column in read()]
    except (CorruptDataError, NewerFormatError) as error:
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
