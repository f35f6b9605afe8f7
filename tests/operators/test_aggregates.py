"""Aggregates as laws: however records are cut, combined and stored, results are those of plain Python."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators import DefinitionError
from operators import aggregates as agg
from operators.aggregates.definitions import Aggregate, Bound, Spread
from operators.aggregates.operations import CountRows, CountValid, SumInt
from operators.batch import Records
from operators.columns import column_data
from operators.kernel import State
from serializers import PageLayout

Values = list[Any]
INT64 = 2**63 - 1


@dataclass(frozen=True)
class Case:
    """An aggregate over one type, and what it is in plain Python.

    Attributes:
        aggregate: of a column "v".
        type: the column's type.
        values: makes values of that type, without None.
        reference: the result for a list of values that are not None, at least one.
        empty: the result where every value is None.
        close: whether results are compared within a relative 1e-9.
    """

    aggregate: Aggregate
    type: pa.DataType
    values: st.SearchStrategy[Any]
    reference: Callable[[Values], Any]
    empty: Any = None
    close: bool = False

    @property
    def bound(self) -> Bound:
        """The aggregate bound to the type."""
        return self.aggregate.bind({"v": self.type})


def mean(values: Values) -> float:
    """The mean, as exact as a double can be."""
    return float(sum(map(Fraction, values)) / len(values))


def spread(freedom: int, root: bool, values: Values) -> float | None:
    """Variance or standard deviation of exact fractions."""
    if len(values) <= freedom:
        return None
    exact = list(map(Fraction, values))
    middle = sum(exact) / len(exact)
    variance = float(sum((value - middle) ** 2 for value in exact) / (len(exact) - freedom))
    return math.sqrt(variance) if root else variance


def nan_is_largest(pick: Callable[..., Any], values: Values) -> Any:
    """The smallest or largest, NaN above all."""
    return pick(values, key=lambda value: (value != value, 0 if value != value else value))


SMALL = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**52), 2**52)
FLOATS = st.floats(-1e9, 1e9).map(lambda value: round(value, 3))
DECIMALS = st.integers(-(10**10) + 1, 10**10 - 1).map(lambda units: Decimal(units).scaleb(-2))
LONG_DECIMALS = st.integers(1 - 10**36, 10**36 - 1).map(lambda units: Decimal(f"{units}E-10"))
DATES = st.dates()
MOMENTS = st.datetimes()
INSTANTS = st.datetimes(timezones=st.just(timezone.utc))
TEXT = st.text(max_size=4)
ORDERED: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "bool": (pa.bool_(), st.booleans()),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    "date": (pa.date32(), DATES),
    "timestamp": (pa.timestamp("us", "UTC"), INSTANTS),
    "timestamp_ntz": (pa.timestamp("us"), MOMENTS),
    "interval": (pa.duration("us"), st.timedeltas(timedelta(days=-(10**8)), timedelta(days=10**8))),
    "decimal": (pa.decimal128(12, 2), DECIMALS),
    "string": (pa.string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=4)),
}
CASES = {
    "count(*)": Case(agg.count(), pa.int64(), LONG, len, empty=None),
    "count": Case(agg.count("v"), pa.string(), TEXT, len, empty=0),
    "sum of int": Case(agg.sum("v"), pa.int32(), SMALL, sum),
    "sum of long": Case(agg.sum("v"), pa.int64(), LONG, sum),
    "sum of float": Case(agg.sum("v"), pa.float32(), st.floats(-1e6, 1e6, width=32), math.fsum, close=True),
    "sum of double": Case(agg.sum("v"), pa.float64(), FLOATS, math.fsum, close=True),
    "sum of decimal": Case(agg.sum("v"), pa.decimal128(12, 2), DECIMALS, lambda v: exact_decimal(v, -2)),
    "sum of long decimal": Case(
        agg.sum("v"), pa.decimal128(38, 10), LONG_DECIMALS, lambda v: exact_decimal(v, -10)
    ),
    "avg of int": Case(agg.avg("v"), pa.int32(), SMALL, mean, close=True),
    "avg of long": Case(agg.avg("v"), pa.int64(), st.integers(-(2**63), 2**63 - 1), mean, close=True),
    "avg of double": Case(agg.avg("v"), pa.float64(), FLOATS, mean, close=True),
    "variance of int": Case(agg.variance("v"), pa.int32(), SMALL, partial(spread, 1, False), close=True),
    "variance of double": Case(
        agg.variance("v"), pa.float64(), FLOATS, partial(spread, 1, False), close=True
    ),
    "stddev of double": Case(agg.stddev("v"), pa.float64(), FLOATS, partial(spread, 1, True), close=True),
    "population variance": Case(
        Spread("v", 0, False), pa.float64(), FLOATS, partial(spread, 0, False), close=True
    ),
    **{
        f"min of {n}": Case(agg.min("v"), t, v, partial(nan_is_largest, min)) for n, (t, v) in ORDERED.items()
    },
    **{
        f"max of {n}": Case(agg.max("v"), t, v, partial(nan_is_largest, max)) for n, (t, v) in ORDERED.items()
    },
    **{
        f"collect_list of {n}": Case(agg.collect_list("v"), t, v, list, empty=[])
        for n, (t, v) in ORDERED.items()
    },
}


def exact_decimal(values: Values, exponent: int) -> Decimal:
    """The sum of decimals without a context's rounding."""
    units = sum(int(Fraction(value) / Fraction(10) ** exponent) for value in values)
    return Decimal((units < 0, tuple(map(int, str(abs(units)))), exponent))


def lifted(case: Case, values: Values) -> list[State]:
    """The state of each record by itself, one per operation."""
    records = records_of(pa.array(values, case.type, from_pandas=False))
    return [operation.lift(records) for operation in case.bound.operations]


def records_of(values: pa.Array) -> Records:
    """Records of one key and one event time with a column "v"."""
    zeros = np.zeros(len(values), np.int64)
    return Records([b""], zeros, zeros, {"v": column_data(values)}, 0)


def expected(case: Case, values: Values) -> Any:
    """What plain Python makes of the values."""
    if case.aggregate.column is None:
        return len(values)
    present = [value for value in values if value is not None]
    return case.reference(present) if present else case.empty


def finished(bound: Bound, states: Sequence[State]) -> pa.Array:
    """The result of each row of states, as a window that covers that one pane."""
    lo = np.arange(len(states[0][0]))
    return bound.finish(
        [op.combined(state, lo, lo + 1) for op, state in zip(bound.operations, states, strict=True)]
    )


def assert_results(case: Case, wanted: Sequence[Any], array: pa.Array) -> None:
    """Assert that the results are these, in the type that was promised."""
    assert case.bound.type == array.type
    assert case.bound.nullable or not array.null_count
    found = array.to_pylist()
    if case.close:
        assert found == [
            None if value is None else pytest.approx(value, rel=1e-9, abs=1e-6) for value in wanted
        ]
    else:
        assert plain(wanted) == plain(found)


def plain(value: Any) -> Any:
    """A value with NaN made comparable."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def bits(states: Sequence[State]) -> list[Any]:
    """States as values that tell every bit apart."""
    return [
        [
            column.view(np.int64).tolist() if column.dtype == np.float64 else plain(column.tolist())
            for column in state
        ]
        for state in states
    ]


EVERY = pytest.mark.parametrize("name", CASES)
FEW = settings(max_examples=15)


@EVERY
@FEW
@given(data=st.data())
def test_ranges(name: str, data: st.DataObject) -> None:
    """Ranges of panes and runs of records are what plain Python makes of them; states are left alone."""
    case = CASES[name]
    values = data.draw(st.lists(st.none() | case.values, min_size=1, max_size=14))
    lo = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=6))
    hi = [data.draw(st.integers(a + 1, len(values))) for a in lo]
    cuts = data.draw(st.sets(st.integers(1, len(values))))
    starts = sorted({0, *cuts} - {len(values)})
    operations, states = case.bound.operations, lifted(case, values)
    before = bits(states)
    ranges = np.array(lo, np.int64), np.array(hi, np.int64)
    combined = [op.combined(state, *ranges) for op, state in zip(operations, states, strict=True)]
    assert_results(
        case, [expected(case, values[a:b]) for a, b in zip(lo, hi, strict=True)], case.bound.finish(combined)
    )
    runs = list(zip(starts, [*starts[1:], len(values)], strict=True))
    reduced = [op.reduce(state, np.array(starts)) for op, state in zip(operations, states, strict=True)]
    in_runs = [expected(case, values[a:b]) for a, b in runs]
    assert_results(case, [in_value_order(result) for result in in_runs], finished(case.bound, reduced))
    folded = [folded_runs(op.combine, state, runs) for op, state in zip(operations, states, strict=True)]
    assert_results(case, in_runs, finished(case.bound, folded))
    assert before == bits(states)


def in_value_order(result: Any) -> Any:
    """Lists of values of one event time are kept in the order of the values, NaN last."""
    if isinstance(result, list):
        return sorted(result, key=lambda value: (value != value, 0 if value != value else value))
    return result


def folded_runs(
    combine: Callable[[State, State], State], state: State, runs: Sequence[tuple[int, int]]
) -> State:
    """The states of runs, row by row combined from left to right."""
    results = []
    for start, end in runs:
        total = tuple(column[start : start + 1] for column in state)
        for row in range(start + 1, end):
            total = combine(total, tuple(column[row : row + 1] for column in state))
        results.append(total)
    return tuple(np.concatenate(columns) for columns in zip(*results, strict=True))


@EVERY
@FEW
@given(data=st.data())
def test_combine(name: str, data: st.DataObject) -> None:
    """Combine is associative, on records as on what was combined before, and leaves its arguments alone."""
    case = CASES[name]
    rows = data.draw(st.integers(0, 4))
    column = st.lists(st.none() | case.values, min_size=rows, max_size=rows)
    a, b, c, d = (data.draw(column) for _ in range(4))
    results: list[list[State]] = [[], [], []]
    for operation, parts in zip(
        case.bound.operations, zip(*(lifted(case, part) for part in (a, b, c, d)), strict=True), strict=True
    ):
        w, x, y, z = parts
        before = bits(parts)
        plus = operation.combine
        results[0].append(plus(plus(plus(w, x), y), z))
        results[1].append(plus(w, plus(x, plus(y, z))))
        results[2].append(plus(plus(w, x), plus(y, z)))
        assert before == bits(parts)
    wanted = [expected(case, list(row)) for row in zip(a, b, c, d, strict=True)]
    for states in results:
        assert_results(case, wanted, finished(case.bound, states))


@EVERY
@FEW
@given(data=st.data())
def test_storage(name: str, data: st.DataObject) -> None:
    """States come back from pages bit for bit, with the same results, and finishing them changes nothing."""
    case = CASES[name]
    values = data.draw(st.lists(st.none() | case.values, min_size=1, max_size=8))
    starts = np.array(sorted({0, *data.draw(st.sets(st.integers(0, len(values) - 1)))}))
    operations = case.bound.operations
    states = [op.reduce(state, starts) for op, state in zip(operations, lifted(case, values), strict=True)]
    layout = PageLayout(("i8", *(code for operation in operations for code in operation.codes)))
    columns = [np.arange(len(starts)), *(column for state in states for column in state)]
    pages = layout.encode(columns, np.ones(len(starts), np.int64))
    back, _ = layout.decode(pages)
    stored, at = [], 1
    for operation in operations:
        stored.append(tuple(back[at : at + len(operation.codes)]))
        at += len(operation.codes)
    assert bits(states) == bits(stored)
    first = finished(case.bound, stored)
    assert bits(states) == bits(stored)
    assert plain(finished(case.bound, states).to_pylist()) == plain(first.to_pylist())


@EVERY
def test_no_rows(name: str) -> None:
    """No records have no states, and no results of the right type."""
    case = CASES[name]
    nothing = np.empty(0, np.int64)
    states = lifted(case, [])
    assert_results(case, [], finished(case.bound, states))
    reduced = [op.reduce(state, nothing) for op, state in zip(case.bound.operations, states, strict=True)]
    assert_results(case, [], finished(case.bound, reduced))


@EVERY
def test_codes_are_those_of_the_state(name: str) -> None:
    """A state has a column for each of its codes, of that code's dtype."""
    case = CASES[name]
    for operation, state in zip(case.bound.operations, lifted(case, [None, None]), strict=True):
        dtypes = {"i8": np.int64, "f8": np.float64, "object": object}
        assert [np.dtype(dtypes[code]) for code in operation.codes] == [column.dtype for column in state]


@EVERY
def test_accumulate(name: str) -> None:
    """Records of a batch are accumulated by runs, and where each run is one record, each is its own."""
    case = CASES[name]
    values = [None, *example(case), None]
    records = records_of(pa.array(values, case.type))
    for starts in ([0], [0, 1, len(values) - 1], list(range(len(values)))):
        states = [op.accumulate(records, np.array(starts)) for op in case.bound.operations]
        wanted = [
            expected(case, values[a:b]) for a, b in zip(starts, [*starts[1:], len(values)], strict=True)
        ]
        assert_results(case, [in_value_order(result) for result in wanted], finished(case.bound, states))


def example(case: Case) -> Values:
    """Some values of the case's type."""
    by_type = {
        pa.string(): ["b", "a"],
        pa.binary(): [b"b", b"a"],
        pa.bool_(): [True, False],
        pa.date32(): [date(2024, 1, 2), date(1960, 1, 1)],
        pa.timestamp("us"): [datetime(2024, 1, 2), datetime(1960, 1, 1)],
        pa.timestamp("us", "UTC"): [datetime(2024, 1, 2, tzinfo=timezone.utc)],
        pa.duration("us"): [timedelta(1), timedelta(-1)],
        pa.decimal128(12, 2): [Decimal("1.50"), Decimal("-2.25")],
        pa.decimal128(38, 10): [Decimal("1.5000000000")],
    }
    return by_type.get(case.type, [3, 1, 2])


class TestWholeSums:
    """Sums of whole numbers are exact or an error."""

    EXTREMES = st.sampled_from([INT64, -INT64 - 1, INT64 - 1, 2**62, -(2**62), 2**62 - 1, 1, -1, 0]) | LONG

    @given(st.lists(EXTREMES, min_size=1, max_size=12), st.data())
    def test_never_wrapped(self, values: Values, data: st.DataObject) -> None:
        """Sums of ranges and runs are the true ones if all fit into 64 bits, and an error if any does not."""
        lo = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=5))
        hi = [data.draw(st.integers(a + 1, len(values))) for a in lo]
        starts = sorted({0, *data.draw(st.sets(st.integers(0, len(values) - 1)))})
        operation, state = SumInt("v"), (np.array(values, np.int64),)
        ranges = list(zip(lo, hi, strict=True))
        check_sums(
            [sum(values[a:b]) for a, b in ranges],
            lambda: operation.combined(state, np.array(lo), np.array(hi)),
        )
        runs = zip(starts, [*starts[1:], len(values)], strict=True)
        check_sums([sum(values[a:b]) for a, b in runs], lambda: operation.reduce(state, np.array(starts)))

    @given(EXTREMES, EXTREMES)
    def test_combine_is_never_wrapped(self, left: int, right: int) -> None:
        """The combination of two sums is the true one if it fits into 64 bits, and an error if not."""
        check_sums([left + right], lambda: SumInt("v").combine((np.array([left]),), (np.array([right]),)))

    def test_prefixes_may_wrap(self) -> None:
        """A range's sum is right though the sum of all that comes before it is beyond 64 bits."""
        values = [INT64] * 100 + [-7, 5] + [-INT64] * 99
        operation, state = SumInt("v"), (np.array(values),)
        (found,) = operation.combined(state, np.array([100, 0, 99, 0]), np.array([102, 1, 103, 201]))
        assert [-2, INT64, -2, INT64 - 2] == found.tolist()
        (reduced,) = operation.reduce(state, np.array([0]))
        assert [INT64 - 2] == reduced.tolist()

    def test_many_large_numbers(self) -> None:
        """A hundred thousand numbers of full size that cancel out are summed exactly."""
        rng = np.random.default_rng(1)
        values = rng.integers(-INT64, INT64, 100_000)
        values[1::2] = -values[::2]
        lo, hi = np.array([0, 0, 50_000]), np.array([100_000, 99_999, 50_003])
        expected_ = [sum(values[a:b].tolist()) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]
        assert expected_ == SumInt("v").combined((values,), lo, hi)[0].tolist()

    def test_error_names_the_column(self) -> None:
        """The error names the column and the way out."""
        with pytest.raises(
            OverflowError, match="column 'v' is beyond 64 bits: cast the column to double or decimal"
        ):
            SumInt("v").reduce((np.array([INT64, 1]),), np.array([0]))


def check_sums(true: Sequence[int], compute: Callable[[], State]) -> None:
    """Assert that the sums are the true ones, or an error where one does not fit."""
    if all(-INT64 - 1 <= value <= INT64 for value in true):
        assert list(true) == compute()[0].tolist()
    else:
        with pytest.raises(OverflowError, match="beyond 64 bits"):
            compute()


class TestFloats:
    """Sums and spreads of floating-point numbers beyond the ordinary."""

    @pytest.mark.parametrize(
        ("values", "total"),
        [
            ([math.inf, 1.0], math.inf),
            ([1.0, math.inf, 2.0], math.inf),
            ([-math.inf, 5.0], -math.inf),
            ([math.inf, math.inf], math.inf),
            ([math.inf, -math.inf], math.nan),
            ([math.nan, 1.0], math.nan),
            ([1e308, 1e308], math.inf),
            ([-1e308, -1e308, 5.0], -math.inf),
            ([1e308, 5.0], 1e308),
            ([5e-324, 5e-324], 1e-323),
            ([1e300, 1.0, -1e300], 1.0),
            ([0.1] * 10, 1.0),
        ],
        ids=str,
    )
    def test_sum(self, values: Values, total: float) -> None:
        """Infinities, NaN, overflow, cancellation and the smallest numbers give the right sum, every way."""
        bound, rows = CASES["sum of double"].bound, len(values)
        pairs = list(zip(bound.operations, lifted(CASES["sum of double"], values), strict=True))
        ways = {
            "combine": [folded_runs(op.combine, state, [(0, rows)]) for op, state in pairs],
            "reduce": [op.reduce(state, np.array([0])) for op, state in pairs],
            "combined": [op.combined(state, np.array([0]), np.array([rows])) for op, state in pairs],
        }
        found = {way: finished(bound, states).to_pylist() for way, states in ways.items()}
        assert plain({way: [total] for way in ways}) == plain(found)

    def test_long_windows_do_not_drift(self) -> None:
        """Sums of windows that slide over many numbers of very different size are those of their own rows."""
        rng = np.random.default_rng(2)
        values = rng.normal(size=200_000) * 10.0 ** rng.integers(-8, 12, 200_000)
        lo = np.arange(0, 199_000, 997)
        hi = lo + rng.integers(1, 1_000, len(lo))
        case_ = CASES["sum of double"]
        records = records_of(pa.array(values))
        states = [op.combined(op.lift(records), lo, hi) for op in case_.bound.operations]
        found = case_.bound.finish(states).to_pylist()
        for a, b, total in zip(lo.tolist(), hi.tolist(), found, strict=True):
            assert total == pytest.approx(math.fsum(values[a:b].tolist()), rel=1e-14, abs=1e-300)

    @pytest.mark.parametrize("offset", [0.0, 1e6, 1e9, -1e12])
    def test_spread_far_from_zero(self, offset: float) -> None:
        """The variance of numbers that are close together far from zero keeps its digits."""
        values = [offset + step for step in (0.0, 1.0, 2.0, 3.0, 4.0)]
        assert [2.5] == results("variance of double", values)
        assert [statistics.variance(values)] == results("variance of double", values)

    @pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf], ids=str)
    def test_spread_of_what_has_none(self, odd: float) -> None:
        """The variance of values with NaN or infinity among them is NaN."""
        (found,) = results("variance of double", [1.0, odd, 2.0])
        assert math.isnan(found)

    @pytest.mark.parametrize("value", [0.1, 1 / 3, 1e9 + 0.1, 1e-200, 12345.678])
    def test_spread_of_equal_values(self, value: float) -> None:
        """Equal values have no variance but what rounding in twice the precision leaves; none is negative."""
        (found,) = results("variance of double", [value] * 7)
        assert 0.0 <= found <= 1e-30 * value**2

    def test_average_of_nothing_but_nan(self) -> None:
        """The mean and the extremes of NaN are NaN, not null."""
        for name in ("avg of double", "min of double", "max of double", "sum of double"):
            assert ["NaN"] == plain(results(name, [math.nan, math.nan]))

    def test_nan_is_the_largest(self) -> None:
        """NaN is larger than infinity: it is the maximum wherever it is, and the minimum only of itself."""
        values = [1.0, math.nan, math.inf, None]
        assert ["NaN", [1.0]] == [
            plain(results("max of double", values))[0],
            results("min of double", values),
        ]


def results(name: str, values: Values) -> list[Any]:
    """The one result of all values."""
    case_ = CASES[name]
    starts = np.array([0])
    states = [
        op.reduce(state, starts)
        for op, state in zip(case_.bound.operations, lifted(case_, values), strict=True)
    ]
    return finished(case_.bound, states).to_pylist()


class TestDecimals:
    """Sums of decimals are exact to the last of 38 digits."""

    @pytest.mark.parametrize(
        ("precision", "scale", "texts", "total"),
        [
            (38, 0, ["12345678901234567890123456789012345678"], "12345678901234567890123456789012345678"),
            (38, 0, ["10000000000000000000000000000", "1"], "10000000000000000000000000001"),
            (38, 38, ["0.00000000000000000000000000000000000001"] * 3, "3E-38"),
            (36, 18, ["123456789012345.123456789012345678", "-1E-18"], "123456789012345.123456789012345677"),
            (28, 2, ["99999999999999999999999999.99", "0.01"], "100000000000000000000000000.00"),
            (5, 2, ["999.99"] * 1000, "999990.00"),
        ],
    )  # fmt: skip
    def test_every_digit(self, precision: int, scale: int, texts: list[str], total: str) -> None:
        """No digit is rounded away."""
        bound = agg.sum("v").bind({"v": pa.decimal128(precision, scale)})
        data = records_of(pa.array([Decimal(text) for text in texts], pa.decimal128(precision, scale)))
        states = [op.reduce(op.lift(data), np.array([0])) for op in bound.operations]
        assert [Decimal(total)] == finished(bound, states).to_pylist()

    def test_beyond_38_digits(self) -> None:
        """A sum that does not fit into 38 digits is an error, never another number."""
        bound = agg.sum("v").bind({"v": pa.decimal128(38, 0)})
        data = records_of(pa.array([Decimal(10**38 - 1)] * 2, pa.decimal128(38, 0)))
        states = [op.reduce(op.lift(data), np.array([0])) for op in bound.operations]
        with pytest.raises((OverflowError, pa.ArrowInvalid)):
            finished(bound, states)


ANY_TYPE = {
    "uint64": pa.array([1, 2**62], pa.uint64()),
    "time": pa.array([5, 7], pa.time64("us")),
    "time ms": pa.array([5, 7], pa.time32("ms")),
    "timestamp ns": pa.array([5, 7], pa.timestamp("ns")),
    "half float": pa.array([np.float16(1.5), np.float16(2.5)], pa.float16()),
    "date64": pa.array([date(2024, 1, 1), date(1950, 1, 1)], pa.date64()),
    "fixed binary": pa.array([b"ab", b"aa"], pa.binary(2)),
    "large string": pa.array(["b", "a"], pa.large_string()),
    "decimal256": pa.array([Decimal(2), Decimal(1)], pa.decimal256(50, 0)),
    "calendar interval": pa.array([(1, 2, 3), (0, 1, 2)], pa.month_day_nano_interval()),
    "null": pa.nulls(2),
}


@pytest.mark.parametrize("name", ["count", "sum", "avg", "min", "max", "variance", "collect_list"])
@pytest.mark.parametrize("type_name", ANY_TYPE)
def test_type_is_refused_or_works(name: str, type_name: str) -> None:
    """A type that is accepted when the aggregate is bound can be stored and finished; others are refused."""
    column = ANY_TYPE[type_name]
    try:
        bound = getattr(agg, name)("v").bind({"v": column.type})
    except DefinitionError:
        return
    states = [op.reduce(op.lift(records_of(column)), np.array([0])) for op in bound.operations]
    layout = PageLayout(("i8", *(code for op in bound.operations for code in op.codes)))
    layout.decode(
        layout.encode([np.array([0]), *(column for state in states for column in state)], np.array([1]))
    )
    (found,) = finished(bound, states).to_pylist()
    values = column.to_pylist()
    references = {"min": min, "max": max, "collect_list": sorted}
    if name in references and None not in values:
        assert references[name](values) == found


class TestBinding:
    """Aggregates are checked when they are bound."""

    @pytest.mark.parametrize(
        "name", ["count", "sum", "avg", "min", "max", "variance", "stddev", "collect_list"]
    )
    def test_missing_column(self, name: str) -> None:
        """A column that the frame does not have is refused with those that it has."""
        with pytest.raises(DefinitionError, match="there is no column 'delay'; the frame has origin, time"):
            getattr(agg, name)("delay").bind({"origin": pa.string(), "time": pa.int64()})

    @pytest.mark.parametrize(
        ("name", "type_", "wanted"),
        [
            ("sum", pa.string(), "a number"),
            ("sum", pa.bool_(), "a number"),
            ("sum", pa.timestamp("us"), "a number"),
            ("avg", pa.string(), "an integer or floating-point number"),
            ("avg", pa.decimal128(5, 2), "an integer or floating-point number"),
            ("variance", pa.date32(), "an integer or floating-point number"),
            ("min", pa.list_(pa.int64()), "a type with an order"),
            ("max", pa.struct([("a", pa.int64())]), "a type with an order"),
            ("collect_list", pa.map_(pa.string(), pa.int64()), "an atomic type"),
        ],
    )
    def test_wrong_type(self, name: str, type_: pa.DataType, wanted: str) -> None:
        """A column of a wrong type is refused with what is wanted, by the aggregate's name."""
        with pytest.raises(
            DefinitionError, match=rf"^{name}.*: column 'v' is .*, {wanted} is wanted; cast it before apply"
        ):
            getattr(agg, name)("v").bind({"v": type_})

    def test_equal_states_are_shared(self) -> None:
        """Aggregates that need the same state have equal operations, and different ones have not."""
        types = {"v": pa.int32(), "w": pa.int32()}
        shared = {
            operation
            for name in ("sum", "avg", "count", "min")
            for operation in getattr(agg, name)("v").bind(types).operations
        }
        assert 3 == len(shared)
        assert CountValid("v") != CountRows("v")
        assert agg.sum("v").bind(types).operations != agg.sum("w").bind(types).operations

    def test_definitions_are_values(self) -> None:
        """Equal definitions are equal and hash alike; they cannot be changed."""
        assert (agg.max("v"), hash(agg.max("v"))) == (agg.max("v"), hash(agg.max("v")))
        assert agg.max("v") != agg.min("v")
        assert agg.sum("v") != agg.avg("v")
        with pytest.raises(AttributeError):
            agg.sum("v").column = "w"  # type: ignore[misc]
