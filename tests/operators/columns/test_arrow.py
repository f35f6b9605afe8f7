"""Arrow columns become NumPy columns and come back the same."""

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import DefinitionError, RollingWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.columns.arrow import ColumnData, arrow_column, column_data, state_code
from serializers.arrays import fill
from serializers.errors import SerializationError

UTC = timezone.utc
COLUMNS: list[tuple[pa.DataType, str, list[Any]]] = [
    (pa.bool_(), "i8", [True, False]),
    (pa.int8(), "i8", [-128, 127]),
    (pa.int16(), "i8", [-(2**15), 2**15 - 1]),
    (pa.int32(), "i8", [-(2**31), 2**31 - 1]),
    (pa.int64(), "i8", [-(2**63), 0, 2**63 - 1]),
    (pa.uint8(), "i8", [0, 255]),
    (pa.uint64(), "i8", [0, 2**63 - 1]),
    (pa.float32(), "f8", [0.5, -1.5, math.inf, -math.inf]),
    (pa.float64(), "f8", [0.1, -1e300, 5e-324, math.inf]),
    (pa.date32(), "i8", [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    (pa.date64(), "i8", [date(1969, 12, 31), date(2024, 2, 29)]),
    (pa.timestamp("s"), "i8", [datetime(1, 1, 1), datetime(9999, 12, 31)]),
    (pa.timestamp("ms"), "i8", [datetime(1969, 12, 31, 23, 59, 59, 999_000)]),
    (pa.timestamp("us"), "i8", [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]),
    (pa.timestamp("us", "UTC"), "i8", [datetime(1960, 5, 5, 5, 5, 5, 5, tzinfo=UTC)]),
    (pa.timestamp("us", "Asia/Tokyo"), "i8", [datetime(2024, 5, 5, tzinfo=UTC)]),
    (pa.duration("us"), "i8", [timedelta(microseconds=-1), timedelta(days=1)]),
    (pa.duration("s"), "i8", [timedelta(seconds=-1)]),
    (pa.string(), "object", ["", "ä\x00", "x" * 1000]),
    (pa.large_string(), "object", ["", "a"]),
    (pa.binary(), "object", [b"", b"\xff\x00"]),
    (
        pa.decimal128(38, 5),
        "object",
        [Decimal("-1.00000"), Decimal("123456789012345678901234567890123.12345")],
    ),
]
IDS = [str(type_) for type_, _, _ in COLUMNS]
DTYPES = {"i8": np.int64, "f8": np.float64, "object": object}


@pytest.mark.parametrize(("type_", "code", "values"), COLUMNS, ids=IDS)
class TestEveryType:
    """What holds for columns of every type."""

    def test_code(self, type_: pa.DataType, code: str, values: list[Any]) -> None:
        """The code says how values are held."""
        assert code == state_code(type_)

    def test_without_nulls(self, type_: pa.DataType, code: str, values: list[Any]) -> None:
        """A column without nulls has no mask, the dtype of its code, and comes back the same."""
        array = pa.array(values, type_)
        data = column_data(array)
        assert (None, DTYPES[code], (len(values),)) == (data.valid, data.values.dtype, data.values.shape)
        assert array.equals(arrow_column(data.values, type_))

    def test_with_nulls(self, type_: pa.DataType, code: str, values: list[Any]) -> None:
        """A column with nulls has a mask, 0 or None where there is no value, and comes back the same."""
        array = pa.array([None, *values, None], type_)
        data = column_data(array)
        assert data.valid is not None
        assert [False, *[True] * len(values), False] == data.valid.tolist()
        assert [None if code == "object" else 0] * 2 == [data.values[0], data.values[-1]]
        assert DTYPES[code] == data.values.dtype
        assert array.equals(arrow_column(data.values, type_, ~data.valid))

    def test_nulls_alone_and_nothing(self, type_: pa.DataType, code: str, values: list[Any]) -> None:
        """A column of nulls, or of no rows, has the dtype of its code and comes back the same."""
        for array in (pa.nulls(3, type_), pa.array([], type_)):
            data = column_data(array)
            assert (DTYPES[code], len(array)) == (data.values.dtype, len(data.values))
            assert array.equals(arrow_column(data.values, type_, None if data.valid is None else ~data.valid))

    def test_chunks_and_slices(self, type_: pa.DataType, code: str, values: list[Any]) -> None:
        """Chunks, empty ones too, and slices are read like the whole."""
        array = pa.array([values[0], None, *values], type_)
        whole = column_data(array)
        chunks = pa.chunked_array([array.slice(0, 1), array.slice(0, 0), array.slice(1)], type_)
        padded = pa.concat_arrays([pa.nulls(3, type_), array, array]).slice(3, len(array))
        for form in (chunks, padded):
            data = column_data(form)
            assert whole.values.tolist() == data.values.tolist()
            assert whole.valid.tolist() == data.valid.tolist()


def test_dictionary_encoded_columns() -> None:
    """A dictionary-encoded column of any type is held like the plain one."""
    different = []
    for type_, _, values in COLUMNS:
        array = pa.array([values[-1], None, values[0]], type_)
        plain, encoded = column_data(array), column_data(array.dictionary_encode())
        if plain.values.dtype != encoded.values.dtype or plain.values.tolist() != encoded.values.tolist():
            different.append(str(type_))
    assert [] == different


def test_nan_is_no_null() -> None:
    """NaN is a value, in and out, with nulls and without them."""
    for values in ([math.nan, 1.0], [math.nan, None]):
        data = column_data(pa.array(values, pa.float64(), from_pandas=False))
        assert math.isnan(data.values[0])
        back = arrow_column(data.values, pa.float64(), None if data.valid is None else ~data.valid)
        assert values.count(None) == back.null_count


def test_whole_numbers_beyond_64_bits_are_an_error() -> None:
    """An unsigned number that does not fit is an error, never a negative one."""
    with pytest.raises(SerializationError, match="18446744073709551615"):
        column_data(pa.array([2**64 - 1], pa.uint64()))


def test_result_that_does_not_fit_its_type_is_an_error() -> None:
    """A number that is out of the column's range is an error, but not where it is missing."""
    with pytest.raises(pa.ArrowInvalid, match="300"):
        arrow_column(np.array([300]), pa.int8())
    assert [None, 3] == arrow_column(np.array([300, 3]), pa.int8(), np.array([True, False])).to_pylist()


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.date32(), pa.timestamp("us", "UTC"), pa.bool_(), pa.float32()], ids=str
)
def test_missing_values_may_be_anything(type_: pa.DataType) -> None:
    """What stands in the place of a missing value is of no account, be it the smallest number there is."""
    filler = np.array([-np.inf, np.nan] if type_ == pa.float32() else [-(2**63), 2**63 - 1])
    assert [None, None] == arrow_column(filler, type_, np.array([True, True])).to_pylist()


def test_objects_with_missing_values() -> None:
    """Objects are null where they are missing, whatever stands there."""
    assert ["a", None] == arrow_column(fill(["a", "b"]), pa.string(), np.array([False, True])).to_pylist()


def test_filled() -> None:
    """Missing values take the default; without a mask the values are returned themselves."""
    values = np.array([1, 0, 3])
    assert [1, 9, 3] == ColumnData(values, np.array([True, False, True])).filled(9).tolist()
    assert values is ColumnData(values, None).filled(9)
    floats = ColumnData(np.array([1.5, 0.0]), np.array([True, False]))
    assert [1.5, -math.inf] == floats.filled(-math.inf).tolist()


def test_filled_keeps_the_dtype() -> None:
    """A default does not change the dtype of the column."""
    mask = np.array([True, False])
    for values in (np.array([1, 0]), np.array([1.0, 0.0]), fill(["a", None])):
        assert values.dtype == ColumnData(values, mask).filled(0).dtype


def test_take() -> None:
    """Rows are taken with their mask."""
    data = ColumnData(np.array([1, 0, 3]), np.array([True, False, True])).take(np.array([2, 1, 1]))
    assert ([3, 0, 0], [True, False, False]) == (data.values.tolist(), data.valid.tolist())
    assert None is ColumnData(np.array([1, 2]), None).take(np.array([0])).valid


ALIKE = {
    "string_view": (pa.string_view(), pa.string(), ["a", None, "", "a"]),
    "binary_view": (pa.binary_view(), pa.binary(), [b"a", None, b"", b"a"]),
    "decimal32": (pa.decimal32(5, 2), pa.decimal128(5, 2), [Decimal("1.25"), None, Decimal(0), Decimal("1.25")]),
    "decimal64": (pa.decimal64(15, 2), pa.decimal128(15, 2), [Decimal("1.25"), None, Decimal(0), Decimal("1.25")]),
}  # fmt: skip


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("name", ALIKE)
def test_types_that_are_taken_as_others(name: str, dictionary: bool) -> None:
    """As keys, as values and in late records these columns give what the older form of their values gives."""
    narrow, plain, values = ALIKE[name]
    found = []
    for type_ in (narrow, plain):
        column = pa.array(values, type_)
        if dictionary:
            column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), column)
        table = pa.table({"k": column, "v": column, "at": pa.array([5, 5, None, 7], pa.int64())})
        op = SlidingWindows(5).group_by("k").aggregate(
            n=agg.count("v"), low=agg.min("v"), all=agg.collect_list("v"), last=agg.last("v"), some=agg.collect_set("v")
        )  # fmt: skip
        with op.local_runner("at", late=True) as runner:
            first = runner.process(table.slice(1))
            rest = runner.process(table, stream_time=100)
            found.append((pa.concat_tables([first, rest]), runner.late))
    (rows, late), (expected, expected_late) = found
    assert expected.num_rows > 2
    assert expected_late.num_rows > 0
    assert rows.equals(expected)
    assert late.to_pylist() == expected_late.to_pylist()


def test_months_are_no_key() -> None:
    """An interval of months, which has no stored form, is refused by name."""
    table = pa.table({"k": pa.array([pa.MonthDayNano([1, 2, 3])]), "at": [5]})
    with (
        SlidingWindows(5).group_by("k").aggregate(n=agg.count()).local_runner("at") as runner,
        pytest.raises(
            DefinitionError, match="key column 'k' is of type month_day_nano_interval; keys must be atomic"
        ),
    ):
        runner.process(table)


def test_keys_before_the_year_1_and_after_9999() -> None:
    """Dates and timestamps of Spark that Python has no values for are keys like any other."""
    days = pa.array([-719_163, 2_932_897, None], pa.int32()).cast(pa.date32())
    times = pa.array([-(2**62), 2**62, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"d": days, "t": times, "at": [5, 5, 5]})
    with SlidingWindows(5).group_by("d", "t").aggregate(n=agg.count()).local_runner("at") as runner:
        runner.process(table)
        rows = runner.process(table.slice(0, 0), stream_time=100)
    assert rows.select(["d", "t"]).combine_chunks().equals(table.select(["d", "t"]))


TIMES = SlidingWindows(5)
LATEST = 2**64 - 1


@pytest.mark.parametrize(
    "type_", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str
)
@pytest.mark.parametrize(
    ("operator", "begins"),
    [
        (TIMES.group_by("t").aggregate(n=agg.count()), "key column 't' is of type"),
        (TIMES.group_by("k").aggregate(n=agg.max("t")), "aggregate 'n': max"),
        (TIMES.group_by("k").aggregate(n=agg.collect_list("t")), "aggregate 'n': collect_list"),
        (TIMES.group_by("k").aggregate(n=agg.count().by("t")), "aggregate 'n': count"),
    ],
    ids=["key", "max", "collect_list", "by"],
)
def test_times_of_day_are_refused_as_such(type_: pa.DataType, operator: Any, begins: str) -> None:
    """No key and no aggregate takes times of day: the message says that, and the way out. Folds and rows do take them."""
    table = pa.table({"k": ["a"], "t": pa.array([5], type_), "at": [5]})
    with (
        operator.local_runner("at") as runner,
        pytest.raises(
            DefinitionError, match=f"{begins}.*time.*; times of day are not supported: cast it .* to a string"
        ),
    ):
        runner.process(table)


def test_a_time_of_day_is_no_event_time() -> None:
    """A time of day lacks a date, which no cast gives it."""
    table = pa.table({"k": ["a"], "t": pa.array([5], pa.time64("us"))})
    with (
        TIMES.group_by("k").aggregate(n=agg.count()).local_runner("t") as runner,
        pytest.raises(
            DefinitionError, match=r"column 't' is of type time64\[us\], which has no date: .*make_timestamp"
        ),
    ):
        runner.process(table)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "aggregate",
    [
        agg.sum("v"),
        agg.max("v"),
        agg.last("v"),
        agg.collect_set("v"),
        agg.count("v"),
        agg.count().by("v"),
        agg.fold(int, lambda _, v: v, "v", type="bigint"),
    ],
    ids=["sum", "max", "last", "collect_set", "count", "by", "fold"],
)
def test_unsigned_numbers_beyond_int64_are_refused_by_name(aggregate: Any, late: bool) -> None:
    """A value of uint64 that no int64 holds ends the batch with the name of its column and the way out; nothing is stored."""
    few = pa.table({"k": ["a"], "v": pa.array([2**63 - 1], pa.uint64()), "at": [5]})
    many = few.set_column(1, "v", pa.array([LATEST], pa.uint64()))
    with TIMES.group_by("k").aggregate(n=aggregate).local_runner("at", late=late) as runner:
        runner.process(few)
        with pytest.raises(
            SerializationError, match=f"column 'v' of type uint64 has the number {LATEST}, .*: cast it"
        ):
            runner.process(many)
        assert runner.process(few.slice(1), stream_time=100).num_rows


def test_unsigned_numbers_beyond_int64_in_keys_and_rows() -> None:
    """As keys, in arrays, and beside the results of rolling windows, all numbers of uint64 come out as they went in."""
    numbers = [1, 2**63, LATEST]
    lists = pa.array([[], [1], [LATEST]], pa.list_(pa.uint64()))
    table = pa.table({"v": pa.array(numbers, pa.uint64()), "vs": lists, "at": [5, 5, 5]})
    windows = TumblingWindows(10).group_by("v").aggregate(n=agg.collect_union("vs"))
    beside = RollingWindows({"ever": "lifetime"}).group_by("v").aggregate(n=agg.count())
    found = []
    for operator in (windows, beside):
        with operator.local_runner("at") as runner:
            first = runner.process(table)
            runner.restart()
            rest = runner.process(table.slice(3), stream_time=100)
            found.append(pa.concat_tables([first, rest]).sort_by("v").to_pylist())
    assert [(row["v"], row["n"]) for row in found[0]] == [*zip(numbers, lists.to_pylist(), strict=True)]
    assert [(row["v"], row["vs"]) for row in found[1]] == [*zip(numbers, lists.to_pylist(), strict=True)]
