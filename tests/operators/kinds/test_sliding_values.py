"""Values and keys of every type in sliding windows: nulls, NaN, extremes, exact sums, and what counts as one key."""

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import SlidingWindows
from operators import aggregates as agg

NAN = math.nan
UTC = timezone.utc


def window_of(
    values: Sequence[Any], type_: pa.DataType, split: bool = False, /, **aggregates: agg.Aggregate
) -> dict[str, Any]:
    """The results of one window that holds all the values, in one batch or in a batch each; NaN as text."""
    operator = SlidingWindows(size=100).aggregate(**aggregates)
    times = range(len(values))
    whole = pa.table({"time": pa.array(times, pa.int64()), "value": pa.array(values, type_)})
    with operator.local_runner("time") as runner:
        for batch in [whole.slice(n, 1) for n in times] if split else [whole]:
            runner.process(batch, stream_time=0)
        emitted = runner.process(whole.slice(0, 0), stream_time=len(values) + 99).to_pylist()
    [found] = [
        row
        for row in emitted
        if row["window"]["end"] == datetime(1970, 1, 1) + timedelta(milliseconds=times[-1])
    ]
    return {
        name: str(value) if value != value else value for name, value in found.items() if name != "window"
    }


def keys_of(names: Sequence[str], *columns: pa.Array | pa.ChunkedArray) -> list[tuple[Any, ...]]:
    """The keys and counts that come out of one record per row of the key columns, in order of first appearance."""
    rows = len(columns[0])
    table = pa.table({"time": pa.array([0] * rows), **dict(zip(names, columns, strict=True))})
    operator = SlidingWindows(size=10).group_by(*names).aggregate(n=agg.count())
    with operator.local_runner("time") as runner:
        emitted = runner.process(table, stream_time=100)
    assert [column.type for column in columns] == [emitted.schema.field(name).type for name in names]
    return list(zip(*(emitted.column(name).to_pylist() for name in (*names, "n")), strict=True))


@pytest.mark.parametrize("split", [False, True], ids=["one batch", "a batch each"])
@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([2.0, NAN, 1.0], 1.0, "nan"),
        ([NAN, NAN], "nan", "nan"),
        ([None, NAN], "nan", "nan"),
        ([None, 3.0], 3.0, 3.0),
        ([None, None], None, None),
        ([-math.inf, NAN, math.inf], -math.inf, "nan"),
        ([-math.inf, None], -math.inf, -math.inf),
        ([math.inf, None], math.inf, math.inf),
    ],
)
def test_nan_is_the_largest_number(values: list[Any], low: Any, high: Any, split: bool) -> None:
    """As in Spark, NaN is larger than infinity: max finds it, min only where there is nothing else."""
    found = window_of(values, pa.float64(), split, low=agg.min("value"), high=agg.max("value"))

    assert {"low": low, "high": high} == found


@pytest.mark.parametrize("split", [False, True], ids=["one batch", "a batch each"])
@pytest.mark.parametrize("type_", [pa.int64(), pa.int8(), pa.float64(), pa.float32()], ids=str)
def test_nulls_are_no_values(type_: pa.DataType, split: bool) -> None:
    """Nulls count as records and as nothing else."""
    everything = {
        "records": agg.count(), "values": agg.count("value"), "total": agg.sum("value"), "mean": agg.avg("value"),
        "low": agg.min("value"), "high": agg.max("value"), "variance": agg.variance("value"),
        "stddev": agg.stddev("value"), "all": agg.collect_list("value"),
    }  # fmt: skip
    expected = {
        "records": 4, "values": 2, "total": 4, "mean": 2.0, "low": 1, "high": 3, "variance": 2.0,
        "stddev": math.sqrt(2), "all": [3, 1],
    }  # fmt: skip

    assert expected == window_of([None, 3, 1, None], type_, split, **everything)


@pytest.mark.parametrize("type_", [pa.int64(), pa.float64(), pa.decimal128(5, 2), pa.string()], ids=str)
def test_all_null_gives_null(type_: pa.DataType) -> None:
    """Where every value is null, counts are 0, lists are empty, and the rest is null."""
    aggregates = {"values": agg.count("value"), "low": agg.min("value"), "all": agg.collect_list("value")}
    expected = {"values": 0, "low": None, "all": []}
    if not pa.types.is_string(type_):
        aggregates["total"], expected["total"] = agg.sum("value"), None

    assert expected == window_of([None, None], type_, **aggregates)


def test_one_value_has_no_spread() -> None:
    """Sample variance and deviation of a single value are null, as in Spark."""
    found = window_of([None, 5.0], pa.float64(), variance=agg.variance("value"), stddev=agg.stddev("value"))

    assert {"variance": None, "stddev": None} == found


@pytest.mark.parametrize("split", [False, True], ids=["one batch", "a batch each"])
def test_whole_sum_beyond_64_bits_is_an_error(split: bool) -> None:
    """A sum that does not fit is an error that names the column, never a wrapped number."""
    with pytest.raises(OverflowError, match="column 'value' exceeds 64 bits: cast"):
        window_of([2**62, 2**62], pa.int64(), split, total=agg.sum("value"))


def test_whole_sum_up_to_64_bits_is_exact() -> None:
    """Sums are right up to the last of 64 bits, even if sums over more records than a window's would not fit."""
    assert {"total": 2**63 - 1} == window_of([2**62, 2**62 - 1], pa.int64(), total=agg.sum("value"))
    assert {"total": -(2**63)} == window_of([-(2**62), -(2**62)], pa.int64(), total=agg.sum("value"))


@pytest.mark.parametrize(
    ("digits", "values", "total"),
    [
        ((10, 2), ["0.10", "0.20", None], "0.30"),
        ((5, 2), ["999.99", "999.99"], "1999.98"),
        ((38, 0), ["12345678901234567890123456789012345678", "1"], "12345678901234567890123456789012345679"),
        ((38, 30), ["0.000000000000000000000000000001", "1"], "1.000000000000000000000000000001"),
        ((36, 2), ["1234567890123456789012345678901234.56", "0.01"], "1234567890123456789012345678901234.57"),
    ],
    ids=["tenths", "wider", "38 digits", "30 places", "36 digits"],
)
def test_decimal_sums_are_exact(digits: tuple[int, int], values: list[str | None], total: str) -> None:
    """Decimals add up without rounding, and the sum has room for ten digits more, up to 38."""
    decimals = [None if value is None else Decimal(value) for value in values]

    assert {"total": Decimal(total)} == window_of(decimals, pa.decimal128(*digits), total=agg.sum("value"))


def test_decimal_sum_beyond_38_digits_is_an_error() -> None:
    """A sum with too many digits is an error that names the column, as for whole numbers."""
    with pytest.raises(OverflowError, match="value"):
        window_of([Decimal(9 * 10**37)] * 2, pa.decimal128(38, 0), total=agg.sum("value"))


ORDERED = [
    (pa.bool_(), False, True),
    (pa.int8(), -128, 127),
    (pa.int64(), -(2**63), 2**63 - 1),
    (pa.float32(), -1.5, 2.5),
    (pa.decimal128(38, 2), Decimal("-123456789012345678901234567890123456.78"), Decimal("0.01")),
    (pa.string(), "", "é"),
    (pa.binary(), b"\x00", b"\xff"),
    (pa.date32(), date(1900, 1, 1), date(2100, 1, 1)),
    (pa.timestamp("us"), datetime(1900, 1, 1, 0, 0, 0, 1), datetime(2100, 1, 1)),
    (pa.timestamp("us", "UTC"), datetime(1900, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)),
    (pa.duration("us"), timedelta(days=-1), timedelta(microseconds=1)),
]


@pytest.mark.parametrize("split", [False, True], ids=["one batch", "a batch each"])
@pytest.mark.parametrize(("type_", "low", "high"), ORDERED, ids=[str(type_) for type_, _, _ in ORDERED])
def test_extremes_and_lists_are_of_the_columns_type(
    type_: pa.DataType, low: Any, high: Any, split: bool
) -> None:
    """Smallest, largest and collected values of every type with an order come out as they went in."""
    aggregates = {"low": agg.min("value"), "high": agg.max("value"), "all": agg.collect_list("value")}

    assert {"low": low, "high": high, "all": [high, low]} == window_of(
        [high, None, low], type_, split, **aggregates
    )


@pytest.mark.parametrize(("type_", "one", "other"), ORDERED, ids=[str(type_) for type_, _, _ in ORDERED])
def test_keys_of_every_type(type_: pa.DataType, one: Any, other: Any) -> None:
    """Null is a key like any other, and keys come out as they went in."""
    expected = [(one, 2), (None, 2), (other, 1)]

    assert expected == keys_of(["key"], pa.array([one, None, other, None, one], type_))


@pytest.mark.parametrize("type_", [np.float32, np.float64])
def test_all_nan_are_one_key_and_minus_zero_is_zero(type_: type) -> None:
    """NaN of any sign and bits are one key, as in Spark's GROUP BY, and so are 0.0 and -0.0."""
    keys = pa.array(np.array([np.nan, -np.nan, -0.0, 0.0, 1.0], type_))
    found = keys_of(["key"], keys)

    assert [("nan", 2), ("0.0", 2), ("1.0", 1)] == [(str(key), n) for key, n in found]
    assert found[1:] == keys_of(["key"], keys.slice(2))


def test_keys_of_several_columns() -> None:
    """A key is the tuple of its columns; a null in one is not a null in another."""
    first = pa.array(["a", None, "a", None, "a", "a"])
    second = pa.array([1, 1, None, None, 1, None], pa.int16())

    assert [("a", 1, 2), (None, 1, 1), ("a", None, 2), (None, None, 1)] == keys_of(
        ["first", "second"], first, second
    )


def test_keys_of_many_columns_with_many_values() -> None:
    """Keys stay apart when the numbers of values of their columns multiply beyond 64 bits."""
    columns = [pa.array([(n * step) % 1_000 for n in range(1_000)]) for step in (1, 3, 7, 9, 11, 13, 17, 19)]
    names = [f"key{n}" for n in range(len(columns))]

    assert sorted((*row, 1) for row in zip(*(c.to_pylist() for c in columns), strict=True)) == sorted(
        keys_of(names, *columns)
    )


def test_time_can_be_a_key_too() -> None:
    """Event time may be one of the key columns."""
    operator = SlidingWindows(size=10).group_by("time").aggregate(n=agg.count())
    with operator.local_runner("time") as runner:
        emitted = runner.process(pa.table({"time": pa.array([5, 5, 6])}), stream_time=100)

    assert [(5, 2), (6, 1)] == list(zip(emitted["time"].to_pylist(), emitted["n"].to_pylist(), strict=True))
