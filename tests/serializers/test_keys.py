"""Keys are the same bytes exactly if GROUP BY puts them in one group, and come back as they were."""

import math
import struct
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import CorruptDataError, NewerFormatError, SerializationError, decode_keys, encode_keys
from serializers.keys import KEY_VERSION, NO_COLUMNS
from serializers.values import pack_value
from tests.effort import examples

UTC = timezone.utc
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-128, -1, 0, 127]),
    "int64": (pa.int64(), [-(2**63), -(2**31), -1, 0, 1, 127, 128, 2**32, 2**63 - 1]),
    "uint64": (pa.uint64(), [0, 2**63, 2**64 - 1]),
    "float": (pa.float32(), [0.0, 0.5, -1.5, math.inf, -math.inf, 3.4028234663852886e38]),
    "double": (pa.float64(), [0.0, 0.1, -0.1, math.inf, -math.inf, 5e-324, 1.7976931348623157e308]),
    "string": (pa.string(), ["", "a", "a\x00", "ä", "\U0001f600", "x" * 70_000]),
    "large string": (pa.large_string(), ["", "a"]),
    "binary": (pa.binary(), [b"", b"a", b"\x00", b"\xff" * 300]),
    "date": (
        pa.date32(),
        [date(1, 1, 1), date(1582, 10, 4), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
    ),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        ],
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        [
            datetime(1, 1, 1),
            datetime(1969, 12, 31, 23, 59, 59, 999_999),
            datetime(9999, 12, 31, 23, 59, 59, 999_999),
        ],
    ),
    "timestamp ms": (pa.timestamp("ms"), [datetime(1960, 1, 1, 0, 0, 0, 1_000), datetime(2024, 2, 29)]),
    "interval": (
        pa.duration("us"),
        [timedelta(0), timedelta(microseconds=-1), timedelta(days=106_751_991), timedelta(days=-106_751_991)],
    ),
    "decimal(10,2)": (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("99999999.99")]),
    "decimal(38,0)": (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(0)]),
    "decimal(38,38)": (pa.decimal128(38, 38), [Decimal("1E-38"), Decimal("0E-38")]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_round_trip(name: str) -> None:
    """Every value of every atomic type, and null, comes back as it was."""
    type_, values = COLUMNS[name]
    column = pa.array([*values, None], type_)
    (back,) = decode_keys(encode_keys([column]), [type_])
    assert column.type == back.type
    assert column.to_pylist() == back.to_pylist()


@pytest.mark.parametrize(
    ("type_", "numbers"),
    [
        (pa.date32(), [-(2**31), -719_163, 2_932_897, 2**31 - 1]),
        (pa.timestamp("us", "UTC"), [-(2**63), -62_135_596_800_000_001, 253_402_300_800_000_000, 2**63 - 1]),
        (pa.timestamp("us", "Asia/Tokyo"), [-62_135_596_800_000_001, 253_402_300_799_999_999]),
        (pa.timestamp("us"), [-(2**63), 2**63 - 1]),
        (pa.timestamp("s"), [-100_000_000_000, 9_000_000_000_000]),
    ],
    ids=str,
)
def test_times_before_the_year_1_and_after_9999(type_: pa.DataType, numbers: list[int]) -> None:
    """Dates and timestamps that Python has no values for come back as they were, each its own key."""
    column = pa.array([*numbers, None, 0], pa.int32() if pa.types.is_date(type_) else pa.int64()).cast(type_)
    keys = encode_keys([column])
    assert len(numbers) + 2 == len(set(keys))
    assert column.equals(decode_keys(keys, [type_])[0])


def test_time_that_cannot_be_stored() -> None:
    """A time that microseconds of 64 bits do not hold is refused with its type."""
    with pytest.raises(
        SerializationError, match=r"timestamp\[s\] has a time that is beyond 64 bits in microseconds"
    ):
        encode_keys([pa.array([2**60], pa.timestamp("s"))])


@pytest.mark.parametrize("name", COLUMNS)
def test_distinct_values_are_distinct_bytes(name: str) -> None:
    """Different values of one type, and null, are different keys."""
    type_, values = COLUMNS[name]
    assert len(values) + 1 == len(set(encode_keys([pa.array([*values, None], type_)])))


def test_types_are_told_apart() -> None:
    """The same-looking value of another type is another key."""
    columns = [
        pa.array([1]),
        pa.array([1.0]),
        pa.array(["1"]),
        pa.array([True]),
        pa.array([b"1"]),
        pa.array([Decimal(1)]),
        pa.array([1], pa.date32()),
        pa.array([1], pa.timestamp("us")),
        pa.array([1], pa.timestamp("us", "UTC")),
        pa.array([1], pa.duration("us")),
        pa.array([None], pa.int64()),
        pa.array([""]),
        pa.array([b""]),
        pa.array([0]),
        pa.array([False]),
    ]
    assert len(columns) == len({encode_keys([column])[0] for column in columns})


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_floats_group_as_in_sql(type_: pa.DataType) -> None:
    """-0.0 equals 0.0, every NaN equals every other, and NaN is neither null nor infinite."""
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    zero, minus, nan, other, null, inf = encode_keys(
        [pa.array([0.0, -0.0, math.nan, odd_nan, None, math.inf], type_, from_pandas=False)]
    )
    assert zero == minus
    assert nan == other
    assert 4 == len({zero, nan, null, inf})


def test_nan_and_zero_come_back() -> None:
    """NaN comes back as NaN, and either zero as plain zero."""
    (back,) = decode_keys(encode_keys([pa.array([math.nan, -0.0])]), [pa.float64()])
    nan, zero = back.to_pylist()
    assert math.isnan(nan)
    assert 1.0 == math.copysign(1, zero)


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")], ids=str)
def test_nanoseconds_are_told_apart_or_refused(type_: pa.DataType) -> None:
    """Times that differ by nanoseconds are different keys, or are refused; they are never one key."""
    column = pa.array([1_000, 1_001], type_)
    try:
        keys = encode_keys([column])
    except SerializationError:
        return
    assert 2 == len(set(keys))


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_first_and_last_instant_in_any_zone(zone: str) -> None:
    """The first and the last instant of SQL's range are keys whatever the session's time zone is."""
    column = pa.array([COLUMNS["timestamp"][1][0], COLUMNS["timestamp"][1][-1]], pa.timestamp("us", "UTC"))
    assert encode_keys([column]) == encode_keys([column.cast(pa.timestamp("us", zone))])


def test_instants_do_not_depend_on_the_zone() -> None:
    """One instant is one key in every time zone, also where the local clock shows it twice."""
    hours = [datetime(2024, 10, 27, hour, 30, tzinfo=UTC) for hour in range(3)]
    keys = [encode_keys([pa.array(hours, pa.timestamp("us", zone))]) for zone in ("UTC", "Europe/Berlin")]
    assert 3 == len(set(keys[0]))
    assert keys[0] == keys[1]


def test_column_order_and_number_matter() -> None:
    """(a, b) is not (b, a), nor (ab), nor (a, b, null)."""
    a, b, both, null = pa.array(["a"]), pa.array(["b"]), pa.array(["ab"]), pa.array([None], pa.string())
    keys = [encode_keys(columns)[0] for columns in ([a, b], [b, a], [both], [a, b, null], [null, a, b])]
    assert 5 == len(set(keys))


def test_no_columns() -> None:
    """The key of an operator that groups by nothing has no columns."""
    assert [] == decode_keys([NO_COLUMNS], [])
    assert [] == encode_keys([])


def test_no_rows() -> None:
    """No rows are no keys, and no keys are empty columns of the types asked for."""
    assert [] == encode_keys([pa.array([], pa.int64()), pa.array([], pa.string())])
    assert [pa.array([], pa.int64()), pa.array([], pa.string())] == decode_keys([], [pa.int64(), pa.string()])


def test_values_without_stored_form_are_refused() -> None:
    """A column of a type that has no stored form is an error that names the type and what is accepted."""
    with pytest.raises(SerializationError, match=r"type time64.us. cannot be stored: cast it"):
        encode_keys([pa.array([1], pa.time64("us"))])


def test_columns_of_different_length_are_refused() -> None:
    """Key columns of different lengths are an error, never a short list."""
    with pytest.raises(ValueError, match="shorter"):
        encode_keys([pa.array([1, 2]), pa.array([1])])


def test_newer_keys_are_refused() -> None:
    """A key that a newer version wrote is refused with the way out."""
    with pytest.raises(NewerFormatError, match=r"a stored key has format version 2.*upgrade"):
        decode_keys([bytes([KEY_VERSION + 1]) + NO_COLUMNS[1:]], [])


@pytest.mark.parametrize(
    "key", [b"", b"\x00\x90", b"\x01", b"\x01\xc0", b"\x01\x92\x01", b"\x01\x91\x01\x01"]
)
def test_what_is_no_key_is_refused(key: bytes) -> None:
    """Bytes that are empty, of version 0, truncated or too long are no key."""
    with pytest.raises(CorruptDataError):
        decode_keys([key], [pa.int64()])


def test_keys_of_another_width_are_refused() -> None:
    """A key of another number of columns is refused with that number."""
    with pytest.raises(CorruptDataError, match="does not have the 1 columns"):
        decode_keys(encode_keys([pa.array([1]), pa.array([2])]), [pa.int64()])


@pytest.mark.parametrize(
    "type_", [pa.int64(), pa.decimal128(38, 0), pa.string(), pa.timestamp("us")], ids=str
)
def test_numbers_of_more_digits_than_python_shows_are_refused(type_: pa.DataType) -> None:
    """As one column, as one of two, as no list and within another value: with the documented error, and a short message."""
    huge = 10**7_000
    for row in ([huge], [huge, 1], huge, [{"a": huge}], [[huge]]):
        key = bytes([KEY_VERSION]) + pack_value(row)
        for keys in ([key], [key] * 100):
            with pytest.raises(CorruptDataError) as refused:
                decode_keys(keys, [type_])
            assert len(str(refused.value)) < 300


CELLS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, max_value=10**20, min_value=-(10**20))
    | st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000))
)


def group(value: Any) -> tuple[str, Any]:
    """What GROUP BY compares: the type with the value, one NaN, one zero."""
    if isinstance(value, float):
        return ("double", "NaN" if math.isnan(value) else value + 0.0)
    if isinstance(value, datetime):
        return ("timestamp", (value.tzinfo is None, value))
    return (type(value).__name__, value)


def arrow_type(value: Any) -> pa.DataType | None:
    """The column type that a value has on Spark."""
    if isinstance(value, datetime):
        return pa.timestamp("us", None if value.tzinfo is None else "UTC")
    return (
        pa.decimal128(38, 3)
        if isinstance(value, Decimal)
        else pa.duration("us")
        if isinstance(value, timedelta)
        else None
    )


def key_of(row: list[Any]) -> bytes:
    columns = [pa.array([value], arrow_type(value), from_pandas=False) for value in row]
    return encode_keys(columns)[0]


@pytest.mark.slow
@examples(3)
@given(st.lists(CELLS, min_size=1, max_size=3), st.data())
def test_equal_bytes_iff_equal_key(row: list[Any], data: st.DataObject) -> None:
    """Two keys of any types are the same bytes exactly if their columns are the same under GROUP BY."""
    other = data.draw(st.lists(CELLS, min_size=1, max_size=3) | st.permutations(row) | st.just([*row, None]))
    assert ([*map(group, row)] == [*map(group, other)]) == (key_of(row) == key_of(other))


@examples(2)
@given(st.binary(max_size=40))
def test_random_bytes_are_a_key_or_an_error(data: bytes) -> None:
    """Any bytes are read as a row of the width asked for, or refused as no key."""
    try:
        decode_keys([b"\x01" + data], [])
    except CorruptDataError:
        return
    assert b"\x90" == data


def test_distinct_rows_of_many_types_together() -> None:
    """A product of columns with nulls makes as many keys as it has rows."""
    cells = np.array(np.meshgrid(range(4), range(4), range(4))).reshape(3, -1)
    choices = [
        pa.array([None, 0, 1, -1]),
        pa.array([None, "", "0", "1"]),
        pa.array([None, 0.0, 1.0, math.nan]),
    ]
    keys = encode_keys([values.take(pa.array(cell)) for values, cell in zip(choices, cells, strict=True)])
    assert 64 == len(set(keys))
