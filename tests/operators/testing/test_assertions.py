"""Rows compared: what counts as equal, and what the message says of what does not."""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from operators import DefinitionError, TumblingWindows
from operators import aggregates as agg
from operators.testing import assert_rows

EPOCH = datetime(1970, 1, 1)
NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
NAN = float("nan")
RECORDS = pa.table({"k": ["a", "a", "b"], "at": pa.array([1, 12, 3], pa.int64()), "v": [1.0, 2.0, 5.0]})


def row(k: str, start: int, **results: Any) -> dict[str, Any]:
    """A row of a window of 10 ms."""
    return {"k": k, "window": (start, start + 10), **results}


def emitted(tick: str = "1 ms") -> pa.Table:
    """What tumbling windows of 10 ticks emit for the records."""
    windows = TumblingWindows(tick.replace("1", "10"), tick=tick)
    operator = windows.group_by("k").aggregate(n=agg.count(), mean=agg.avg("v"))
    with operator.local_runner("at") as runner:
        return runner.process(RECORDS, 1_000)


def difference(actual: Any, expected: Any, **more: Any) -> str:
    """The message about rows that differ."""
    with pytest.raises(AssertionError) as caught:
        assert_rows(actual, expected, **more)
    return str(caught.value)


ROWS = [row("b", 0, n=1, mean=5.0), row("a", 10, n=1, mean=2.0), row("a", 0, n=1, mean=1.0)]


def test_rows_are_equal_in_any_order() -> None:
    """Neither the order of rows nor that of results is of account; bounds may be ticks, datetimes, pairs or structs."""
    zoned = [
        {
            "k": r["k"],
            "mean": r["mean"],
            "window": {
                "start": (EPOCH + timedelta(milliseconds=r["window"][0])).replace(tzinfo=timezone.utc),
                "end": EPOCH + timedelta(milliseconds=r["window"][1]),
            },
            "n": r["n"],
        }
        for r in ROWS
    ]

    assert_rows(emitted(), ROWS)
    assert_rows(emitted(), zoned)
    assert_rows(emitted(), emitted().slice(1).to_pylist() + emitted().slice(0, 1).to_pylist())
    assert_rows(emitted().slice(0, 0), [])


def test_ticks_are_as_long_as_the_definition_says() -> None:
    """Whole numbers are microseconds for windows that count in these."""
    assert_rows(emitted("1 us"), ROWS, windows=TumblingWindows("10 us", tick="1 us"))


def test_message_names_missing_unexpected_and_different_rows() -> None:
    """Of rows that differ, the columns that differ."""
    expected = [row("a", 0, n=3, mean=1.5), row("a", 10, n=1, mean=2.0), row("c", 0, n=1, mean=0.0)]

    assert (
        "rows differ: 1 missing, 1 unexpected, 1 different; got 3 rows, expected 3\n"
        "\n"
        "missing:\n"
        "  k='c' window=(0, 10) n=1 mean=0.0\n"
        "\n"
        "unexpected:\n"
        "  k='b' window=(0, 10) n=1 mean=5.0\n"
        "\n"
        "different:\n"
        "  k='a' window=(0, 10)\n"
        "    n is 1, expected 3\n"
        "    mean is 1.0, expected 1.5"
    ) == difference(emitted(), expected)


def test_bounds_are_written_as_they_were_given() -> None:
    """Ticks if the expected rows or the records have ticks, else ISO times."""
    expected = emitted().to_pylist()
    expected[0]["n"] = 7
    by_clock = difference(emitted(), expected)
    by_tick = difference(emitted(), expected, records=RECORDS, event_time="at")

    assert (
        "k='a' window=(1970-01-01T00:00:00, 1970-01-01T00:00:00.010000)\n    n is 1, expected 7" in by_clock
    )
    assert "k='a' window=(0, 10)\n    n is 1, expected 7" in by_tick


def test_message_lists_ten_rows_and_counts_the_rest() -> None:
    """Long differences are cut."""
    message = difference([], [row("a", 10 * n, n=1) for n in range(13)])

    assert message.startswith("rows differ: 13 missing; got 0 rows, expected 13")
    assert 10 == message.count("k='a'")
    assert message.endswith("  ... and 3 more")


def test_a_window_that_comes_several_times_is_matched_row_by_row() -> None:
    """Updates of one window are distinguished by their results: those that are equal pair up first."""
    updates = [row("a", 0, n=n) for n in (1, 2, 3)]

    assert_rows(updates, updates[::-1])
    message = difference(updates, [updates[2], updates[1], row("a", 0, n=9)])
    assert "rows differ: 1 different" in message
    assert "n is 1, expected 9" in message
    assert "1 unexpected" in difference(updates, updates[:2])


@pytest.mark.parametrize(
    ("actual", "expected", "tolerance", "equal"),
    [
        (1.0, 1.0, 0.0, True),
        (1.0, 1.0 + 1e-12, 0.0, False),
        (1.0, 1.0 + 1e-12, 1e-9, True),
        (1e12, 1e12 + 1, 1e-9, True),
        (1.0, 1.1, 1e-9, False),
        (float("nan"), float("nan"), 0.0, True),
        (float("nan"), 1.0, 1.0, False),
        (None, 0.0, 1.0, False),
        (5, 6, 10.0, False),
        (2, 2.0, 0.0, True),
        (True, 1, 0.0, False),
        ([1.0, None], [1.0 + 1e-12, None], 1e-9, True),
        ([1.0], [1.0, 2.0], 1.0, False),
        ({"slope": 1.0}, {"slope": 1.0 + 1e-12}, 1e-9, True),
        ({"slope": 1.0}, {"slope": 2.0}, 1e-9, False),
    ],
)
def test_equality_of_values(actual: Any, expected: Any, tolerance: float, equal: bool) -> None:
    """Exact unless a tolerance is given, which is for fractions, wherever they stand."""
    rows = [row("a", 0, x=actual)], [row("a", 0, x=expected)]
    if equal:
        assert_rows(*rows, tolerance=tolerance)
    else:
        assert "x is" in difference(*rows, tolerance=tolerance)


SAME: list[tuple[Any, Any]] = [
    (NOON, NOON.astimezone(ZoneInfo("UTC"))),
    (NOON, NOON.astimezone(ZoneInfo("America/New_York"))),
    (NOON, NOON.replace(tzinfo=None)),
    (NOON, np.datetime64("2026-01-05T12:00")),
    (NOON, 1_767_614_400_000),
    (1, 1.0),
    (1, np.int64(1)),
    (1, Decimal("1.00")),
    (np.float32(0.5), 0.5),
    (0.0, -0.0),
    (NAN, np.float64("nan")),
    (Decimal("NaN"), NAN),
    (True, np.bool_(True)),
    (None, None),
    (b"a", bytearray(b"a")),
    ([1, NAN], np.array([1, NAN])),
    ({"a": NOON, "b": 1}, {"b": 1.0, "a": NOON.astimezone(ZoneInfo("UTC"))}),
    (timedelta(seconds=1), np.timedelta64(1000, "ms")),
]
OTHERS: list[tuple[Any, Any]] = [
    (1, True),
    (1, "1"),
    (1, 2),
    (None, 0),
    (None, NAN),
    (NAN, 0.0),
    (NOON, NOON + timedelta(microseconds=1)),
    (NOON, NOON.replace(tzinfo=ZoneInfo("America/New_York"))),
    (NOON, 1_767_614_400_001),
    (NOON + timedelta(microseconds=1), 1_767_614_400_000),
    (date(2026, 1, 5), NOON),
    ("a", b"a"),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=repr)
def test_keys_and_results_are_compared_by_value(one: Any, other: Any) -> None:
    """A key or a result is the same in another type, in another zone, and as a number of ticks."""
    for actual, expected in ((one, other), (other, one)):
        assert_rows([{"k": actual, "n": 1}], [{"k": expected, "n": 1}], keys=["k"])
        assert_rows([{"k": actual, "window": (0, 1)}], [{"k": expected, "window": (0, 1)}])
        assert_rows([{"k": 1, "x": actual}], [{"k": 1, "x": expected}], keys=["k"])


@pytest.mark.parametrize(("one", "other"), OTHERS, ids=repr)
def test_other_values_are_other_keys_and_results(one: Any, other: Any) -> None:
    """A boolean is not a number, text is not bytes, a day is not its midnight, and times are exact."""
    for actual, expected in ((one, other), (other, one)):
        message = difference([{"k": actual, "n": 1}], [{"k": expected, "n": 1}], keys=["k"])
        assert message.startswith("rows differ: 1 missing, 1 unexpected;")
        assert "1 different" in difference([{"k": 1, "x": actual}], [{"k": 1, "x": expected}], keys=["k"])


def test_the_timeline_is_that_of_the_key_in_whatever_type() -> None:
    """Records are found by the key's value, too."""
    midday = NOON.replace(tzinfo=None)
    records = pa.table({"k": [midday, midday + timedelta(hours=1)], "at": pa.array([1, 12], pa.int64())})
    expected = [{"k": NOON.astimezone(ZoneInfo("America/New_York")), "window": (0, 10), "n": 1}]
    message = difference([], expected, windows=TumblingWindows(10), records=records, event_time="at")
    assert message.endswith("[0, 10) [---*--------------------------)   n=1  <- missing"), message


def test_other_columns_are_named() -> None:
    """A result that only one side has is an error of its own."""
    assert "columns differ: only in actual ['mean'], only in expected ['total']" == difference(
        emitted(), [row("a", 0, n=1, total=1.0)]
    )
    assert "not all rows have the same columns" in difference(
        [row("a", 0, n=1), row("b", 0)], [row("a", 0, n=1)]
    )


def test_timeline_of_the_first_difference() -> None:
    """With the records, the key is drawn, missing windows included."""
    expected = [ROWS[0], {**ROWS[1], "n": 2}, row("a", 20, n=1, mean=0.0)]
    message = difference(emitted(), expected, windows=TumblingWindows(10), records=RECORDS, event_time="at")

    drawn = message.partition("\n\nk=a\n")[2].splitlines()
    assert ["records", "[0, 10)", "[10, 20)", "[20, 30)"] == [line[:8].strip() for line in drawn[2:]]
    assert ["n=1 mean=1  <- unexpected", "n=1 mean=2  <- different", "n=1 mean=0  <- missing"] == [
        line[line.index("n=") :] for line in drawn[3:]
    ]


def test_rows_without_windows_are_compared_as_a_whole() -> None:
    """Custom operators may emit any rows; with keys, differences are listed column by column."""
    alerts = pa.table({"k": ["a", "b"], "level": [1.0, 2.0]})
    expected = [{"level": 2.0 + 1e-12, "k": "b"}, {"level": 1.0, "k": "a"}]

    assert_rows(alerts, expected, tolerance=1e-9)
    assert_rows(alerts, expected, tolerance=1e-9, keys=["k"])
    assert (
        "rows differ: 1 missing, 1 unexpected; got 2 rows, expected 2\n\n"
        "missing:\n  level=2.000000000001 k='b'\n\nunexpected:\n  k='b' level=2.0"
    ) == difference(alerts, expected)
    assert "different:\n  k='b'\n    level is 2.0, expected 2.000000000001" in difference(
        alerts, expected, keys=["k"]
    )


def test_what_cannot_be_compared_or_drawn_is_refused() -> None:
    """Keys that are no columns, and records without a time or rows without windows, are errors that say what is missing."""
    with pytest.raises(DefinitionError, match="rows without windows have no timeline"):
        assert_rows([{"k": "a"}], [{"k": "b"}], records=RECORDS, event_time="at")
    with pytest.raises(DefinitionError, match="key columns j do not exist; the rows have the columns k"):
        assert_rows([{"k": "a"}], [{"k": "a"}], keys=["j"])
    with pytest.raises(DefinitionError, match="records and event_time must be given together"):
        assert_rows([], [], records=RECORDS)
