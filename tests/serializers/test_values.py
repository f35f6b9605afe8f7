"""One value as bytes: what it is comes back, and what cannot be read or written is a clear error."""

import math
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serializers import CorruptDataError, SerializationError, pack_value, unpack_value
from serializers.values import canonical, pack_values
from tests.effort import examples

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(timezone.utc))
    | st.decimals(allow_nan=False)
    | st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000))
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.integers(-(2**63), 2**63), inner, max_size=4)
    ),
    max_leaves=12,
)


def types_of(value: Any) -> Any:
    """The value's type, and those of all that it holds."""
    if isinstance(value, list):
        return [list, *map(types_of, value)]
    if isinstance(value, dict):
        return [dict, *((types_of(key), types_of(item)) for key, item in value.items())]
    return type(value)


@pytest.mark.slow
@examples(3)
@given(VALUES)
def test_round_trip(value: Any) -> None:
    """Any value, however nested, comes back equal and of the same types."""
    back = unpack_value(pack_value(value))
    assert value == back
    assert types_of(value) == types_of(back)


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        2**64 - 1,
        2**64,
        -(2**63) - 1,
        2**127,
        -(2**127),
        2**128,
        10**38,
        -(10**38),
        255,
        256,
        -128,
        -129,
    ],
)
def test_integers_of_any_size(value: int) -> None:
    """Whole numbers beyond 64 bits come back exactly, alone and inside lists and dicts."""
    nested = [value, {"a": [value, 1]}, [[value]]]
    assert value == unpack_value(pack_value(value))
    assert nested == unpack_value(pack_value(nested))


def test_nan_and_minus_zero() -> None:
    """NaN and minus zero come back as they are: only keys make them one."""
    nan, zero = unpack_value(pack_value([math.nan, -0.0]))
    assert math.isnan(nan)
    assert -1.0 == math.copysign(1, zero)


@pytest.mark.parametrize("text", ["0", "-0", "0E-10", "1E+5", "1.10", "-1E-38", "9" * 38])
def test_decimals_keep_their_digits(text: str) -> None:
    """A decimal comes back with the very digits and exponent that it had."""
    assert text == str(unpack_value(pack_value(Decimal(text))))


@pytest.mark.parametrize(
    "value",
    [date.min, date.max, datetime.min, datetime.max, datetime.min.replace(tzinfo=timezone.utc)],
)
def test_first_and_last_moments(value: date) -> None:
    """The first and the last moment that Python knows come back."""
    assert value == unpack_value(pack_value(value))


def test_tuples_come_back_as_lists() -> None:
    """A tuple comes back as the list of its items."""
    assert [1, [2, 3]] == unpack_value(pack_value((1, (2, 3))))


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, [1, object()], {"a": [object()]}, (2**70, object())])
def test_values_without_stored_form_are_refused(value: Any) -> None:
    """A value of another type is refused with the types that are accepted, wherever it is."""
    with pytest.raises(SerializationError, match="cannot be stored: use None, bool, int"):
        pack_value(value)


@pytest.mark.parametrize("value", [timedelta.max, timedelta.min])
def test_intervals_beyond_64_bits_are_refused(value: timedelta) -> None:
    """An interval whose microseconds are beyond 64 bits is refused as a value that cannot be stored."""
    with pytest.raises(SerializationError):
        pack_value(value)


def test_errors_leave_no_trace() -> None:
    """After a value that was refused the next one is stored as if nothing had been."""
    good = pack_value([1, "a"])
    for bad in ([1, object()], {"a": object()}, object()):
        with pytest.raises(SerializationError):
            pack_value(bad)
        assert good == pack_value([1, "a"])


@pytest.mark.parametrize(
    "value",
    [[1, "abc", 2.5], {"a": b"bytes"}, Decimal("1.5"), date(2024, 1, 1), 2**70, ["x" * 40, None]],
    ids=repr,
)
def test_truncated_values_are_refused(value: Any) -> None:
    """Every proper beginning of a value's bytes is refused."""
    data = pack_value(value)
    for length in range(len(data)):
        with pytest.raises(CorruptDataError):
            unpack_value(data[:length])


def test_trailing_bytes_are_refused() -> None:
    """Bytes after the value are refused."""
    with pytest.raises(CorruptDataError, match="cannot be read"):
        unpack_value(pack_value(1) + b"\x00")


def test_unknown_extensions_are_refused() -> None:
    """An extension of another library is refused by its number."""
    with pytest.raises(CorruptDataError, match="unknown msgpack extension 9"):
        unpack_value(b"\xd4\x09\x00")


@pytest.mark.slow
@examples(5)
@given(
    st.binary(max_size=30)
    | st.tuples(st.sampled_from([b"\xc7\x03", b"\xd7"]), st.binary(max_size=10)).map(b"".join)
)
def test_random_bytes_are_a_value_or_an_error(data: bytes) -> None:
    """Any bytes are a value or corrupt data; no other error escapes."""
    with suppress(CorruptDataError):
        unpack_value(data)


@pytest.mark.parametrize(
    ("value", "expected"), [(-0.0, "0.0"), (0.0, "0.0"), (math.nan, "nan"), (1.5, "1.5")]
)
def test_canonical_floats(value: float, expected: str) -> None:
    """There is one zero and one NaN; every other float stays."""
    assert expected == repr(canonical(value))


@pytest.mark.parametrize("value", [None, 0, 1, True, "a", b"", Decimal("-0")])
def test_canonical_leaves_other_values(value: Any) -> None:
    """What is no float is returned itself."""
    assert value is canonical(value)


@pytest.mark.parametrize("text", ["1E+1000001", "-1E-1000001"])
def test_decimals_of_any_exponent_are_refused(text: str) -> None:
    """A few bytes could take gigabytes as an integer. What Python computes with by default is stored."""
    with pytest.raises(SerializationError, match=r"a decimal with the exponent -?1000001 cannot be stored"):
        pack_value(Decimal(text))
    with pytest.raises(CorruptDataError, match=r"with the exponent -?1000001"):
        unpack_value(bytes([0xC7, len(text), 4]) + text.encode())
    for most in ("1E+999999", "Infinity", "NaN"):
        assert most == str(unpack_value(pack_value(Decimal(most))))


def test_arrays_cannot_claim_more_than_there_is() -> None:
    """Short or long, with arrays inside: what is not there is refused."""
    for size in (10, 5_000):
        with pytest.raises(CorruptDataError, match=f"a stored value of {size} bytes cannot be read"):
            unpack_value(b"\xdc\xff\xff" * 3 + bytes(size - 9))


class _Interrupted(Decimal):
    """A number that has something else packed while it is packed itself, in another thread or in the same one."""

    in_thread = False
    packed: bytes | None = None

    def __str__(self) -> str:
        def pack() -> None:
            self.packed = pack_value(["other", Decimal("9.9"), 2**70])

        if self.in_thread:
            other = Thread(target=pack)
            other.start()
            other.join()
        else:
            pack()
        return super().__str__()


@pytest.mark.parametrize("in_thread", [True, False], ids=["another thread", "the same thread"])
@pytest.mark.parametrize("pack", [pack_value, lambda value: pack_values([value])[0]], ids=["one", "many"])
def test_values_that_are_packed_at_the_same_time(pack: Any, in_thread: bool) -> None:
    """What is packed while a value is packed has bytes of its own, and so has the value."""
    number = _Interrupted("1.5")
    number.in_thread = in_thread
    packed = pack(["first", number, "last"])
    assert pack_value(["first", Decimal("1.5"), "last"]) == packed
    assert pack_value(["other", Decimal("9.9"), 2**70]) == number.packed


@examples(1)
@given(st.lists(VALUES, max_size=5))
def test_many_values_are_packed_as_one_by_one(values: list[Any]) -> None:
    """Packing several values gives the bytes of each."""
    assert [pack_value(value) for value in values] == pack_values(values)


def test_value_that_cannot_be_packed_leaves_nothing_behind() -> None:
    """After a value without a stored form, the next ones have their own bytes."""
    with pytest.raises(SerializationError, match="type object cannot be stored"):
        pack_values([1, object()])
    assert [b"\x01", pack_value(2**80), b"\x02"] == pack_values([1, 2**80, 2])
