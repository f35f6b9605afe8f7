"""Lengths of time in every form, and what is none."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import DefinitionError
from operators.columns.durations import as_text, microseconds, odd, ticks

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 us", 1),
        ("1 microsecond", 1),
        ("2 microseconds", 2),
        ("1 ms", 1_000),
        ("1 millisecond", 1_000),
        ("5 milliseconds", 5_000),
        ("1 s", 1_000_000),
        ("1 sec", 1_000_000),
        ("2 secs", 2_000_000),
        ("1 second", 1_000_000),
        ("30 seconds", 30_000_000),
        ("1 min", 60_000_000),
        ("2 mins", 120_000_000),
        ("60 minutes", 3_600_000_000),
        ("1 h", 3_600_000_000),
        ("1 hour", 3_600_000_000),
        ("24 hours", DAY),
        ("1 d", DAY),
        ("7 days", 7 * DAY),
        ("1 week", 7 * DAY),
        ("2 weeks", 14 * DAY),
        ("0 s", 0),
        ("-3 s", -3_000_000),
        ("10min", 600_000_000),
        ("  10   Minutes  ", 600_000_000),
        ("1 hour 30 min", 5_400_000_000),
        ("1h30min", 5_400_000_000),
        ("1 day -1 hour", DAY - 3_600_000_000),
        ("1 s 1 s", 2_000_000),
        ("0.5 seconds", 500_000),
        ("-0.000001 s", -1),
        ("1 min 1.25 s", 61_250_000),
    ],
)
def test_text(text: str, expected: int) -> None:
    """A number with a unit, or several, is a length; case, spaces and plural don't matter."""
    assert expected == microseconds(text, "size")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", 3_600_000_000),
        ("pt1h", 3_600_000_000),
        (" PT1H ", 3_600_000_000),
        ("P1D", DAY),
        ("P2W", 14 * DAY),
        ("P1DT2H30M", DAY + 9_000_000_000),
        ("PT0.5S", 500_000),
        ("PT0,5S", 500_000),
        ("PT1.0000010S", 1_000_001),
        ("PT90M", 5_400_000_000),
        ("PT0S", 0),
        ("-PT1M", -60_000_000),
        ("PT-1.5S", -1_500_000),
        ("-P1DT-1H", -DAY + 3_600_000_000),
        ("P+1D", DAY),
    ],
)
def test_iso_8601(text: str, expected: int) -> None:
    """A duration of ISO 8601 is a length, with signs as in Java."""
    assert expected == microseconds(text, "size")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INTERVAL 1 HOUR", 3_600_000_000),
        ("interval 1 hour 30 minutes", 5_400_000_000),
        ("INTERVAL -5 MINUTES", -300_000_000),
        ("INTERVAL 1.5 SECONDS", 1_500_000),
        ("INTERVAL '1' DAY", DAY),
        ("INTERVAL -'1' DAY", -DAY),
        ("INTERVAL '-1' DAY", -DAY),
        ("INTERVAL '1' DAY '2' HOURS", DAY + 7_200_000_000),
        ("INTERVAL '1 hour 30 minutes'", 5_400_000_000),
        ("INTERVAL - '1 hour'", -3_600_000_000),
        ("INTERVAL '1 02:03:04' DAY TO SECOND", DAY + 7_384_000_000),
        ("interval '1 02:03:04.005' day to second", DAY + 7_384_005_000),
        ("INTERVAL '-1 02:03:04' DAY TO SECOND", -DAY - 7_384_000_000),
        ("INTERVAL '1 02' DAY TO HOUR", DAY + 7_200_000_000),
        ("INTERVAL '1 02:03' DAY TO MINUTE", DAY + 7_380_000_000),
        ("INTERVAL '26:03' HOUR TO MINUTE", 93_780_000_000),
        ("INTERVAL '02:03:04' HOUR TO SECOND", 7_384_000_000),
        ("INTERVAL '90:04.5' MINUTE TO SECOND", 5_404_500_000),
    ],
)
def test_intervals_of_spark(text: str, expected: int) -> None:
    """The text of an interval in Spark SQL is a length."""
    assert expected == microseconds(text, "size")


@given(st.integers(0, 10**6), *[st.integers(0, 59)] * 2, st.integers(0, 999_999))
def test_one_length_in_three_forms(hours: int, minutes: int, seconds: int, micros: int) -> None:
    """Numbers with units, ISO 8601 and an interval say the same."""
    expected = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros
    forms = [
        f"{hours} hours {minutes} minutes {seconds} seconds {micros} us",
        f"PT{hours}H{minutes}M{seconds}.{micros:06}S",
        f"INTERVAL '{hours}:{minutes:02}:{seconds:02}.{micros:06}' HOUR TO SECOND",
    ]
    assert [expected] * 3 == [microseconds(form, "size") for form in forms]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "1 month",
            "2 years",
            "1 year 2 days",
            "P1M",
            "P1Y2M3D",
            "P1MT1H",
            "INTERVAL 1 MONTH",
            "INTERVAL '1' YEAR",
        ),
        *("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1 month'"),
    ],
)
def test_months_and_years(text: str) -> None:
    """They are refused with the reason, in every form."""
    with pytest.raises(
        DefinitionError, match=r"size is .*: months and years have no fixed length; use days$"
    ):
        microseconds(text, "size")


@pytest.mark.parametrize(
    "text", ["PT", "P1", "PT1", "P1H", "PT1D", "P1DT", "PT1.5H", "PT1M1H", "-P-", "P1W1"]
)
def test_text_that_is_no_iso_8601_duration(text: str) -> None:
    """What begins as one is refused with an example."""
    with pytest.raises(
        DefinitionError, match=r"size is .*: not an ISO 8601 duration: write .*, such as 'P1DT2H30M'"
    ):
        microseconds(text, "size")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INTERVAL", "write a number and a unit"),
        ("INTERVAL HOUR", "write a number and a unit"),
        ("INTERVAL '1'", "write a number and a unit"),
        ("INTERVAL '1 DAY", "write a number and a unit"),
        ("INTERVAL -'-1' DAY", "write a number and a unit"),
        ("'1' day", "write a number and a unit"),
        ("INTERVAL 1 FORTNIGHT", "unknown unit 'FORTNIGHT'; known: us"),
        ("INTERVAL '1' DAY TO SECOND", "an interval from day to second is written as '1 02:02:02'"),
        ("INTERVAL '1 24' DAY TO HOUR", "an interval from day to hour is written as '1 02'"),
        ("INTERVAL '1:60' MINUTE TO SECOND", "an interval from minute to second is written as '1:02'"),
        ("INTERVAL '1:2' SECOND TO MINUTE", "there is no interval from second to minute"),
        ("INTERVAL '1 2' WEEK TO DAY", "there is no interval from week to day"),
        ("PT0.0000001S", r"0\.0000001 seconds are no whole number of microseconds"),
        ("1.0000001 s", r"1\.0000001 seconds are no whole number of microseconds"),
    ],
)
def test_text_that_is_no_interval(text: str, message: str) -> None:
    """It is refused with the argument's name, the text and what is wrong with it."""
    with pytest.raises(DefinitionError, match=rf"gap is .*: {message}"):
        microseconds(text, "gap")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(minutes=1), 60_000_000),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=-1), -1),
        (timedelta(days=1, microseconds=7), DAY + 7),
        (timedelta.max, timedelta.max // timedelta(microseconds=1)),
        (0, 0),
        (1, 1_000),
        (-5, -5_000),
        (10**15, 10**18),
    ],
)
def test_timedelta_and_milliseconds(value: timedelta | int, expected: int) -> None:
    """A timedelta is a length exactly, and a whole number is one in milliseconds."""
    assert expected == microseconds(value, "size")


@given(st.timedeltas())
def test_every_timedelta(value: timedelta) -> None:
    """A timedelta comes back from its microseconds."""
    assert value == timedelta(microseconds=microseconds(value, "size"))


@pytest.mark.parametrize(
    "text", ["", " ", "5", "minutes", "1.5 hours", "5 minutes and a half", "five minutes", "1 s,", "s 1"]
)
def test_text_that_is_no_length(text: str) -> None:
    """Text without number and unit is refused with the argument's name, the text and an example."""
    with pytest.raises(
        DefinitionError, match=f"gap is {text!r}: write a number and a unit, such as '60 minutes'"
    ):
        microseconds(text, "gap")


@pytest.mark.parametrize("text", ["3 fortnights", "1 ns", "5 m", "1 hour 5 parsecs"])
def test_unknown_unit(text: str) -> None:
    """A unit that is none is refused with the known ones."""
    unit = text.rpartition(" ")[2]
    with pytest.raises(
        DefinitionError, match=f"size is {text!r}: unknown unit {unit!r}; known: us, .*minute.*week"
    ):
        microseconds(text, "size")


@pytest.mark.parametrize("text", ["1 mss", "1 uss", "1 ss", "2 hourss"])
def test_misspelt_unit(text: str) -> None:
    """A unit with an s too many is no unit."""
    with pytest.raises(DefinitionError, match="unknown unit"):
        microseconds(text, "size")


@pytest.mark.parametrize("value", [None, 1.5, True, False, [1], b"1 s", ("1 s",)])
def test_value_that_is_no_length(value: Any) -> None:
    """Any other value is refused with the argument's name, the value and what is accepted."""
    with pytest.raises(
        DefinitionError, match=r"grace is .*: give text such as '60 minutes', a timedelta, or whole"
    ):
        microseconds(value, "grace")


@pytest.mark.parametrize(
    ("value", "tick_us", "expected"),
    [("1 s", 1_000, 1_000), ("1 s", 1, 1_000_000), (7, 1_000, 7), ("0 s", 1_000, 0)],
)
def test_ticks(value: str | int, tick_us: int, expected: int) -> None:
    """A length is a number of ticks."""
    assert expected == ticks(value, tick_us, "size", 0)


@pytest.mark.parametrize("value", ["1 us", "1 s 500 us", timedelta(microseconds=999), "-1 us"])
def test_no_whole_number_of_ticks(value: str | timedelta) -> None:
    """A length that is no whole number of ticks is refused with the way out; it is not rounded."""
    with pytest.raises(DefinitionError, match="not a whole number of ticks of 1000 us; choose tick='1 us'"):
        ticks(value, 1_000, "size", 0)


def test_too_small() -> None:
    """A length below the least is refused with the argument's name and what it must be."""
    with pytest.raises(DefinitionError, match="size is '0 s': it must be positive"):
        ticks("0 s", 1_000, "size", 1)
    with pytest.raises(DefinitionError, match=r"grace is -1: it must not be negative"):
        ticks(-1, 1_000, "grace", 0)
    assert (1, 0) == (ticks(1, 1_000, "size", 1), ticks(0, 1_000, "grace", 0))


def test_negative() -> None:
    """A length without a least may be negative, but no more too long than another one."""
    assert -60_000 == ticks("-1 minute", 1_000, "offset", None)
    with pytest.raises(DefinitionError, match=r"offset -5764.* is too long"):
        ticks(-(2**59), 1_000, "offset", None)


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0 seconds"),
        (1, "1 us"),
        (1_500, "1500 us"),
        (5_000, "5 ms"),
        (1_000_000, "1 second"),
        (90_000_000, "90 seconds"),
        (60_000_000, "1 minute"),
        (5_400_000_000, "90 minutes"),
        (7_200_000_000, "2 hours"),
        (604_800_000_000, "7 days"),
    ],
)
def test_a_length_as_text_is_that_length(length: int, text: str) -> None:
    """In the largest unit that divides it, and as the library itself would read it."""
    assert as_text(length) == text
    assert microseconds(text, "size") == length


@pytest.mark.parametrize("value", [2**59, 2**63, 2**70, "99999999999999999999 days"])
def test_too_long(value: str | int) -> None:
    """A length that int64 does not hold, or with which times would leave it, is refused with the argument's name."""
    with pytest.raises(DefinitionError, match=r"segment .* is too long: times would overflow 64 bits"):
        ticks(value, 1_000, "segment", 1)
    assert 2**59 - 1 == ticks(2**59 - 1, 1_000, "segment", 1)


@pytest.mark.parametrize(("value", "text"), [(1, "'1 second'"), (2, "'2 seconds'"), (999, "'999 seconds'")])
def test_a_bare_number_is_told_what_to_write(value: int, text: str) -> None:
    """The text that is proposed is one that is taken, and good English."""
    message = odd(value, "size")
    assert f"give text such as {text}, or '{value} ms' if" in message
    assert value * 1_000_000 == microseconds(text.strip("'"), "size")
