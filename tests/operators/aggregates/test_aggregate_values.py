"""Aggregates beyond the ordinary: extremes, infinities, NaN, every digit of a decimal, and values far from zero."""

import math
import statistics
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import FLOATS, LONG, Values, finished, plain
from hypothesis import given
from hypothesis import strategies as st

from operators import aggregates as agg
from operators.aggregates import Aggregate, distinct_numbers, exact, top
from operators.aggregates.operations import SumLong
from operators.columns.arrow import column_data
from operators.columns.ranges import State
from operators.columns.records import Records

INT64 = 2**63 - 1


def records_of(**columns: pa.Array) -> Records:
    """Records of one key and one event time."""
    zeros = np.zeros(len(next(iter(columns.values()))), np.int64)
    return Records([b""], zeros, zeros, {name: column_data(array) for name, array in columns.items()}, 0)


def result(aggregate: Aggregate, v: Any, w: Any = None) -> Any:
    """The result of all values of one column, or of two."""
    columns = {"v": v if isinstance(v, pa.Array) else pa.array(v, from_pandas=False)}
    if w is not None:
        columns["w"] = w if isinstance(w, pa.Array) else pa.array(w, from_pandas=False)
    bound = aggregate.bind({name: array.type for name, array in columns.items()})
    states = [op.accumulate(records_of(**columns), np.array([0])) for op in bound.operations]
    (found,) = finished(bound, states).to_pylist()
    return plain(found)


class TestWholeSums:
    """Sums of whole numbers are exact or an error."""

    EXTREMES = st.sampled_from([INT64, -INT64 - 1, INT64 - 1, 2**62, -(2**62), 2**62 - 1, 1, -1, 0]) | LONG

    @given(st.lists(EXTREMES, min_size=1, max_size=12), st.data())
    def test_never_wrapped(self, values: Values, data: st.DataObject) -> None:
        """Sums of ranges and runs are the true ones if all fit into 64 bits, and an error if any does not."""
        lo = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=5))
        hi = [data.draw(st.integers(a + 1, len(values))) for a in lo]
        starts = sorted({0, *data.draw(st.sets(st.integers(0, len(values) - 1)))})
        state = lifted_longs(values)
        ranges = list(zip(lo, hi, strict=True))
        check_sums(
            [sum(values[a:b]) for a, b in ranges], SUM.combine_ranges(state, np.array(lo), np.array(hi))
        )
        runs = list(zip(starts, [*starts[1:], len(values)], strict=True))
        reduced = SUM.reduce(state, np.array(starts))
        check_sums([sum(values[a:b]) for a, b in runs], reduced)
        # What was beyond 64 bits in between is right once it is back.
        whole = np.zeros(1, np.int64), np.full(1, len(starts))
        for total in (
            SUM.combine_ranges(reduced, *whole),
            SUM.reduce(reduced, whole[0]),
            folded(SUM.combine, reduced),
        ):
            check_sums([sum(values)], total)

    @given(st.lists(EXTREMES, min_size=1, max_size=6).flatmap(st.permutations))
    def test_order_is_of_no_account(self, values: Values) -> None:
        """Numbers that add up to 64 bits do so one by one in whatever order."""
        check_sums([sum(values)], folded(SUM.combine, lifted_longs(values)))

    def test_overflow_on_the_way(self) -> None:
        """A sum that is beyond 64 bits for a while, through rows or through panes, is the true one in the end."""
        assert INT64 == result(agg.sum("v"), [INT64, INT64, -INT64])
        assert -INT64 == result(agg.sum("v"), [-INT64, -INT64, INT64])

    def test_prefixes_may_wrap(self) -> None:
        """A range's sum is right though the sum of all that comes before it is beyond 64 bits."""
        state = lifted_longs([INT64] * 100 + [-7, 5] + [-INT64] * 99)
        found = SUM.combine_ranges(state, np.array([100, 0, 99, 0]), np.array([102, 1, 103, 201]))
        assert [-2, INT64, -2, INT64 - 2] == SUM.total(found).tolist()
        assert [INT64 - 2] == SUM.total(SUM.reduce(state, np.array([0]))).tolist()

    def test_many_large_numbers(self) -> None:
        """A hundred thousand numbers of full size that cancel out are summed exactly."""
        rng = np.random.default_rng(1)
        values = rng.integers(-INT64, INT64, 100_000)
        values[1::2] = -values[::2]
        lo, hi = np.array([0, 0, 50_000]), np.array([100_000, 99_999, 50_003])
        expected = [sum(values[a:b].tolist()) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]
        assert expected == SUM.total(SUM.combine_ranges(lifted_longs(values), lo, hi)).tolist()

    def test_error_names_the_column(self) -> None:
        """The error names the column and the way out."""
        with pytest.raises(
            OverflowError, match="column 'v' exceeds 64 bits: cast the column to double or decimal"
        ):
            result(agg.sum("v"), [INT64, 1])


SUM = SumLong("v")


def lifted_longs(values: Any) -> State:
    """The state of each number."""
    return SUM.lift(records_of(v=pa.array(values, pa.int64())))


def check_sums(true: Sequence[int], state: State) -> None:
    """Assert that the sums are the true ones, or an error where one does not fit."""
    if all(-INT64 - 1 <= value <= INT64 for value in true):
        assert list(true) == SUM.total(state).tolist()
    else:
        with pytest.raises(OverflowError, match="exceeds 64 bits"):
            SUM.total(state)


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
            ([1e308, 1e308, -1e308], 1e308),
            ([1e308, 1e308, 1e308, -1e308, -1e308, -1e308, 5.0], 5.0),
            ([1e308, 1e308, -math.inf], -math.inf),
            ([1e308, 1e308, -math.inf, -1e308], -math.inf),
            ([1e308, -math.inf, 1e308], -math.inf),
            ([1e308, 1e308, math.nan, -1e308], math.nan),
            ([1e308, 5.0], 1e308),
            ([5e-324, 5e-324], 1e-323),
            ([1e300, 1.0, -1e300], 1.0),
            ([0.1] * 10, 1.0),
        ],
        ids=str,
    )
    def test_sum(self, values: Values, total: float) -> None:
        """Infinities, NaN, overflow, cancellation and the smallest numbers give the right sum, every way."""
        bound, rows = agg.sum("v").bind({"v": pa.float64()}), len(values)
        pairs = [(op, op.lift(records_of(v=pa.array(values)))) for op in bound.operations]
        ways = {
            "combine": [folded(op.combine, state) for op, state in pairs],
            "reduce": [op.reduce(state, np.array([0])) for op, state in pairs],
            "combined": [op.combine_ranges(state, np.array([0]), np.array([rows])) for op, state in pairs],
        }
        found = {way: finished(bound, states).to_pylist() for way, states in ways.items()}
        assert plain({way: [total] for way in ways}) == plain(found)

    def test_long_windows_do_not_drift(self) -> None:
        """Sums of windows that slide over many numbers of very different size are those of their own rows."""
        rng = np.random.default_rng(2)
        values = rng.normal(size=200_000) * 10.0 ** rng.integers(-8, 12, 200_000)
        lo = np.arange(0, 199_000, 997)
        hi = lo + rng.integers(1, 1_000, len(lo))
        bound = agg.sum("v").bind({"v": pa.float64()})
        records = records_of(v=pa.array(values))
        states = [op.combine_ranges(op.lift(records), lo, hi) for op in bound.operations]
        found = bound.finish(states).to_pylist()
        for a, b, total in zip(lo.tolist(), hi.tolist(), found, strict=True):
            assert total == pytest.approx(math.fsum(values[a:b].tolist()), rel=1e-14, abs=1e-300)

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_long_windows_of_full_numbers_are_exact(self, sign: float) -> None:
        """Sums whose limbs add up to far more than 64 bits are right to the last bit."""
        values = sign * np.random.default_rng(3).uniform(0.5, 4.0, 100_000)
        lo, hi = np.array([0, 1, 50_000, 99_999, 7]), np.array([100_000, 99_999, 90_000, 100_000, 2_000])
        bound = agg.sum("v").bind({"v": pa.float64()})
        states = [op.lift(records_of(v=pa.array(values))) for op in bound.operations]
        halves = [
            op.reduce(state, np.arange(0, 100_000, 2))
            for op, state in zip(bound.operations, states, strict=True)
        ]
        for panes, per_pane in ((states, 1), (halves, 2)):
            ranges = -(-lo // per_pane), hi // per_pane
            combined = [
                op.combine_ranges(state, *ranges) for op, state in zip(bound.operations, panes, strict=True)
            ]
            expected = [
                math.fsum(values[a * per_pane : b * per_pane]) for a, b in zip(*ranges, strict=True) if a < b
            ]
            found = bound.finish(combined).to_pylist()
            assert expected == [value for value, a, b in zip(found, *ranges, strict=True) if a < b]

    @pytest.mark.parametrize("offset", [0.0, 1e6, 1e9, -1e12])
    def test_spread_far_from_zero(self, offset: float) -> None:
        """The variance of numbers that are close together far from zero keeps its digits."""
        values = [offset + step for step in (0.0, 1.0, 2.0, 3.0, 4.0)]
        assert 2.5 == statistics.variance(values) == result(agg.variance("v"), values)
        assert 2.0 == result(agg.var_pop("v"), values)

    @pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf], ids=str)
    def test_spread_of_what_has_none(self, odd: float) -> None:
        """The variance of values with NaN or infinity among them is NaN."""
        for name in ("variance", "stddev", "var_pop", "stddev_pop"):
            assert "NaN" == result(getattr(agg, name)("v"), [1.0, odd, 2.0])

    def test_mean_of_what_has_no_sum(self) -> None:
        """A mean that a double holds is right though the sum is beyond doubles."""
        assert 1e308 == result(agg.avg("v"), [1e308] * 5)
        assert math.inf == result(agg.avg("v"), [1e308, math.inf])

    @pytest.mark.parametrize(
        "value", [0.1, 1 / 3, 1e9 + 0.1, 1e15 + 0.1, 12345.678, 5e-324, 1e-200, 1e-150, 1e150, 1e200, 1.7e308]
    )
    @pytest.mark.parametrize("rows", [2, 7, 10, 1_000])
    def test_spread_of_equal_values(self, value: float, rows: int) -> None:
        """Equal values have no variance at all."""
        assert 0.0 == result(agg.variance("v"), [value] * rows)
        assert 0.0 == result(agg.stddev_pop("v"), [-value] * rows)

    @pytest.mark.parametrize("offset", [1e15, -1e15, 2.0**50])
    def test_spread_of_last_digits(self, offset: float) -> None:
        """Values that differ in their last binary digits only have the variance of these."""
        assert 0.15625 == result(agg.variance("v"), [offset + 0.25 * n for n in range(5)])

    def test_spread_of_the_largest(self) -> None:
        """A variance that a double holds is right though the squares are beyond doubles; one that it does not is infinite."""
        assert 2e300 == pytest.approx(
            result(agg.var_pop("v"), [1e160 + n * 1e150 for n in range(5)]), rel=1e-6
        )
        assert math.inf == result(agg.variance("v"), [1e200, -1e200])
        assert 1e200 == result(agg.stddev_pop("v"), [1e200, -1e200])

    def test_average_of_nothing_but_nan(self) -> None:
        """The mean and the extremes of NaN are NaN, not null."""
        for name in ("avg", "min", "max", "sum", "first", "last"):
            assert "NaN" == result(getattr(agg, name)("v"), [math.nan, math.nan])

    def test_nan_is_the_largest(self) -> None:
        """NaN is larger than infinity: it is the maximum wherever it is, and the minimum only of itself."""
        values = [1.0, math.nan, math.inf, None]
        assert "NaN" == result(agg.max("v"), values) == result(agg.last("v"), values)
        assert 1.0 == result(agg.min("v"), values) == result(agg.first("v"), values)
        assert ["NaN", math.inf] == result(agg.top_n("v", 2), values)
        assert [1.0, math.inf, "NaN"] == result(agg.collect_set("v"), values)
        assert ["b", "a"] == [
            result(getattr(agg, f"{name}_by")("v", "w"), ["a", "b", "c"], [1.0, math.nan, None])
            for name in ("max", "min")
        ]


def folded(combine: Callable[[State, State], State], state: State) -> State:
    """All rows of a state, combined from left to right."""
    total = tuple(column[:1] for column in state)
    for row in range(1, len(state[0])):
        total = combine(total, tuple(column[row : row + 1] for column in state))
    return total


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
        data = pa.array([Decimal(text) for text in texts], pa.decimal128(precision, scale))
        assert Decimal(total) == result(agg.sum("v"), data)

    def test_beyond_38_digits(self) -> None:
        """A sum that does not fit into 38 digits is an error, never another number."""
        data = pa.array([Decimal(10**38 - 1)] * 2, pa.decimal128(38, 0))
        with pytest.raises(OverflowError, match=r"sum\(v\) exceeds 38 digits: cast column 'v' to double"):
            result(agg.sum("v"), data)
        with pytest.raises(OverflowError, match=r"avg\(v\) exceeds the digits of decimal128\(38, 4\)"):
            result(agg.avg("v"), data)

    @pytest.mark.parametrize(
        ("precision", "scale", "texts", "mean"),
        [
            (10, 0, ["1", "1", "0"], "0.6667"),
            (10, 0, ["-1", "-1", "0"], "-0.6667"),
            (38, 37, ["1", "0", "0"], "0." + "3" * 38),
            (38, 37, ["-0.1", "0", "0", "0", "0", "0"], "-0.01" + "6" * 35 + "7"),
            (38, 38, ["1E-38", "0"], "1E-38"),
            (38, 38, ["-1E-38", "0"], "-1E-38"),
            (38, 38, ["1E-38", "0", "0"], "0E-38"),
            (12, 2, ["0.05", "0.00"], "0.025000"),
            (34, 4, ["0.0001", "0"], "0.00005000"),
        ],
    )  # fmt: skip
    def test_mean(self, precision: int, scale: int, texts: list[str], mean: str) -> None:
        """Means have four more digits, as far as there are, and are rounded once, halves away from zero."""
        data = pa.array([Decimal(text) for text in texts], pa.decimal128(precision, scale))
        assert Decimal(mean) == result(agg.avg("v"), data)

    @pytest.mark.slow
    def test_mean_of_what_has_no_sum(self) -> None:
        """A mean that fits is right though the sum has more than 38 digits."""
        data = pa.array([Decimal("9" * 34)] * 10**5, pa.decimal128(38, 0))
        assert Decimal("9" * 34) == result(agg.avg("v"), data)


PAIRS = ("covar_samp", "covar_pop", "corr", "regr_slope", "regr_intercept", "linear_trend")


def pair_results(y: Any, x: Any) -> list[Any]:
    """The results of all aggregates of two columns."""
    return [result(getattr(agg, name)("v", "w"), y, x) for name in PAIRS]


class TestPairs:
    """Aggregates of two columns beyond the ordinary; where not said otherwise, the results are Spark's."""

    NONE = (None,) * 4
    NANS = ("NaN", "NaN", {"slope": "NaN", "intercept": "NaN"})

    @pytest.mark.parametrize(
        ("y", "x", "expected"),
        [
            ([1.0], [2.0], [None, 0.0, *NONE]),
            ([1.0, 3.0], [2.0, 2.0], [0.0, 0.0, *NONE]),
            ([0.1, 0.1, 0.1, 0.2], [0.1] * 4, [0.0, 0.0, *NONE]),
            ([1.0, 1.0], [2.0, 3.0], [0.0, 0.0, None, 0.0, 1.0, {"slope": 0.0, "intercept": 1.0}]),
            ([1.0, math.nan], [2.0, 3.0], ["NaN", "NaN", "NaN", *NANS]),
            ([1.0, 2.0], [2.0, math.inf], ["NaN", "NaN", "NaN", *NANS]),
            ([1.0, 1.0, 1.0], [math.inf, 2.0, 3.0], ["NaN", "NaN", None, *NANS]),
            ([math.inf, 2.0, 4.0], [1.0, 1.0, 1.0], ["NaN", "NaN", *NONE]),
            ([1.0, 2.0, 4.0], [math.inf, 1e200, -math.inf], ["NaN", "NaN", "NaN", *NANS]),
            ([1e200, math.inf, 4.0], [1e200, 1.0, 2.0], ["NaN", "NaN", "NaN", *NANS]),
            (
                [-math.inf, 1.0, 2.0, 3.0],
                [13951467104666946.0, -5.0, 2.0, -27362067134777123.0],
                ["NaN", "NaN", "NaN", *NANS],
            ),
            ([1.0, 2.0], [-math.inf, -math.inf], ["NaN", "NaN", "NaN", *NANS]),
            ([math.nan], [2.0], [None, "NaN", *NONE]),
            ([1.0], [math.nan], [None, "NaN", None, *NANS]),
            ([None, 1.0], [1.0, None], [None, None, *NONE]),
            ([None, 1.0, 3.0], [7.0, 1.0, 2.0], [1.0, 0.5, 1.0, 2.0, -1.0, {"slope": 2.0, "intercept": -1.0}]),
        ],
        ids=str,
    )  # fmt: skip
    def test_edges(self, y: Values, x: Values, expected: Values) -> None:
        """One record, constant columns, NaN, infinity and nulls."""
        y_array, x_array = pa.array(y, pa.float64()), pa.array(x, pa.float64())
        assert expected == pair_results(y_array, x_array)

    @pytest.mark.slow
    @given(
        st.lists(st.tuples(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30)), min_size=1, max_size=4),
        st.sampled_from([math.inf, -math.inf, math.nan]),
        st.booleans(),
        st.data(),
    )
    def test_what_is_not_finite(
        self, pairs: list[tuple[float, float]], odd: float, swaps: bool, data: st.DataObject
    ) -> None:
        """One value that is not finite makes covariances NaN, whatever the others are, and also the line, if there is one."""
        place = data.draw(st.integers(0, len(pairs)))
        pairs.insert(place, (odd, data.draw(st.floats(-1e30, 1e30))))
        y, x = zip(*pairs, strict=True)
        found = pair_results(*((x, y) if swaps else (y, x)))
        assert ["NaN", "NaN"] == found[:2]
        line = {"slope": "NaN", "intercept": "NaN"}
        assert found[3:] in (["NaN", "NaN", line], [None] * 3)
        assert found[2] in ("NaN", None)

    @pytest.mark.parametrize("offset", [1e6, 1e9, -1e12])
    def test_far_from_zero(self, offset: float) -> None:
        """Small steps far from zero keep their digits: the line is the line."""
        y, x = [offset + step for step in (0.0, 2.0, 4.0, 6.0)], [-offset + step for step in range(4)]
        covar_samp, covar_pop, corr, slope, intercept, line = pair_results(y, x)
        assert [10 / 3, 2.5, 1.0, 2.0] == pytest.approx([covar_samp, covar_pop, corr, slope], rel=1e-9)
        assert intercept == pytest.approx(3 * offset, rel=1e-9)
        assert line == {"slope": slope, "intercept": intercept}

    @pytest.mark.parametrize("step", [1.0, 0.25])
    def test_microseconds_of_the_epoch(self, step: float) -> None:
        """Times a microsecond apart have the covariance of their steps, and lie on a line."""
        x = [1.7e15 + step * n for n in range(6)]
        y = [1e15 + 2 * step * n for n in range(6)]
        line = {"slope": 2.0, "intercept": -2.4e15}
        assert [7 * step**2, 7 * step**2 * 5 / 6, 1.0, 2.0, -2.4e15, line] == pair_results(y, x)

    def test_the_largest(self) -> None:
        """Results that a double holds are right though the products are beyond doubles."""
        x, y = [1e200, -1e200, 3e200], [1.0, 2.0, 3.0]
        covar_samp, covar_pop, corr, slope, intercept, _ = pair_results(y, x)
        assert [1e200, 2e200 / 3] == pytest.approx([covar_samp, covar_pop])
        assert [0.5, 2.5e-201, 1.75] == pytest.approx([corr, slope, intercept])
        assert [math.inf, 1.0] == pytest.approx(pair_results([-v for v in x], [-v for v in x])[1:3])

    @pytest.mark.parametrize("value", [0.1, 1 / 3, 1e9 + 0.1, 1e15 + 0.1, 1e-200, 12345.678, 1.1e140, 1e200])
    @pytest.mark.parametrize("rows", [2, 7, 1_000])
    def test_constant_columns(self, value: float, rows: int) -> None:
        """A column of equal values is constant, whatever its rounding: no correlation, no line."""
        rising = [float(n) for n in range(rows)]
        assert self.NONE == tuple(pair_results(rising, [value] * rows)[2:])
        assert 0.0 == pair_results([value] * rows, rising)[3]

    def test_whole_numbers_of_full_size(self) -> None:
        """Integers of 64 bits are taken as doubles, and correlate with themselves."""
        values = [INT64, -INT64, 5]
        assert 1.0 == result(agg.corr("v", "w"), values, values)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1))
def test_products_are_exact(factors: list[tuple[float, float]]) -> None:
    """The pair of a product is the product of the fractions that the factors are."""
    x, y = (np.array(column) for column in zip(*factors, strict=True))
    for a, b, high, low in zip(
        x.tolist(), y.tolist(), *(part.tolist() for part in exact.product(x, y)), strict=True
    ):
        assert Fraction(a) * Fraction(b) == Fraction(high) + Fraction(low)


class TestOrder:
    """Which of several values is taken."""

    def test_ties(self) -> None:
        """Of one event time, or of an equal `by`, the smallest is first, the largest last, and null neither."""
        values = pa.array(["b", None, "a", "c"])
        assert ["a", "c"] == [result(agg.first("v"), values), result(agg.last("v"), values)]
        same = [1, 1, 1, 1]
        assert ["a", "c"] == [
            result(agg.min_by("v", "w"), values, same),
            result(agg.max_by("v", "w"), values, same),
        ]

    def test_null_is_a_value_unless_ignored(self) -> None:
        """The earliest and latest records may be null; with ignore_nulls they do not count."""
        data = records_of(v=pa.array([None, 1, 2, None]))
        data = Records(data.keys, data.key, np.array([0, 1, 2, 3]), data.values, 0)
        found = []
        for aggregate in (
            agg.first("v"),
            agg.last("v"),
            agg.first("v", True),
            agg.last("v", ignore_nulls=True),
        ):
            bound = aggregate.bind({"v": pa.int64()})
            found += finished(
                bound, [op.accumulate(data, np.array([0])) for op in bound.operations]
            ).to_pylist()
        assert [None, None, 1, 2] == found

    def test_empty_is_not_null(self) -> None:
        """Empty texts and bytes are values like any other."""
        for values in (["", "a"], [b"", b"a"]):
            assert values[0] == result(agg.min("v"), values) == result(agg.first("v"), values)
            assert values == result(agg.collect_set("v"), values)
            assert (
                2 == result(agg.count_distinct("v"), values) == result(agg.approx_count_distinct("v"), values)
            )
            assert values[0] == result(agg.max_by("v", "w"), values, [2, 1])
            assert values[::-1] == result(agg.top_n("v", 2), values)

    def test_one_zero_and_one_nan(self) -> None:
        """Minus zero is zero, and all NaN are one, as in Spark."""
        values = [0.0, -0.0, math.nan, -math.nan, math.inf - math.inf]
        assert [0.0, "NaN"] == result(agg.collect_set("v"), values)
        assert 2 == result(agg.count_distinct("v"), values) == result(agg.approx_count_distinct("v"), values)

    @pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0], [-0.0]])
    @pytest.mark.parametrize("name", ["first", "last", "min", "max", "collect_list", "collect_set"])
    def test_minus_zero_comes_out_as_zero(self, name: str, values: Values) -> None:
        """Whichever of the two zeros comes first."""
        for type_ in (pa.float64(), pa.float32()):
            found = result(getattr(agg, name)("v"), pa.array(values, type_))
            assert "0.0" == repr(found) or {"0.0"} == set(map(repr, found))

    def test_extreme_integers(self) -> None:
        """The smallest and the largest integer are values like any other."""
        values = [-INT64 - 1, INT64, None]
        assert [INT64, -INT64 - 1] == result(agg.top_n("v", 5), values)
        assert [-INT64 - 1, INT64] == [result(agg.first("v"), values), result(agg.last("v"), values)]
        by = pa.array(values[:2], pa.int64())
        assert ["a", "b"] == [result(a, ["a", "b"], by) for a in (agg.min_by("v", "w"), agg.max_by("v", "w"))]


@pytest.mark.slow
def test_distinct_values_of_many_long_windows() -> None:
    """Thousands of windows over thousands of values hold the distinct values that sets hold."""
    rng = np.random.default_rng(4)
    values = rng.integers(0, 300, 5_000)
    lo = np.sort(rng.integers(0, 4_900, 3_000))
    hi = lo + rng.integers(1, 3_000, 3_000).clip(max=5_000 - lo)
    expected = [sorted(set(values[a:b].tolist())) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]
    for aggregate, form in ((agg.collect_set("v"), list), (agg.count_distinct("v"), len)):
        bound = aggregate.bind({"v": pa.int64()})
        (operation,) = bound.operations
        state = operation.combine_ranges(operation.lift(records_of(v=pa.array(values))), lo, hi)
        assert list(map(form, expected)) == bound.finish([state]).to_pylist()


def of_kind(kind: str, rng: np.random.Generator, count: int) -> list[Any]:
    """Values of few or of many sorts, some of them null."""
    numbers = rng.integers(-9, 9, count) if "few" in kind else rng.integers(-(2**62), 2**62, count)
    values = {
        "text": lambda: [f"v{number}" for number in numbers.tolist()],
        "float": lambda: [math.nan if n == 3 else n / 4 for n in numbers.tolist()],
        "int": numbers.tolist,
    }[kind.rsplit(maxsplit=1)[-1]]()
    return [None if gone else value for value, gone in zip(values, rng.random(count) < 0.1, strict=True)]


@pytest.mark.parametrize("at_once", [1 << 22, 50])
@pytest.mark.parametrize("kind", ["few int", "many int", "few float", "few text", "many text"])
def test_windows_that_share_panes(monkeypatch: pytest.MonkeyPatch, kind: str, at_once: int) -> None:
    """Sets and top values of hundreds of windows, of two lengths and in any order, computed in parts or all at once."""
    monkeypatch.setattr(distinct_numbers, "_ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(top, "_ITEMS_AT_ONCE", at_once)
    rng = np.random.default_rng(at_once)
    values = of_kind(kind, rng, 300)
    array = pa.array(values, from_pandas=False)
    zeros, time = np.zeros(300, np.int64), np.arange(300)
    records = Records([b""], zeros, time, {"v": column_data(array)}, 0)
    hi = np.arange(1, 151)
    some = rng.integers(0, 150, 40)
    lo = np.concatenate([np.maximum(hi - 7, 0), np.maximum(hi - 90, 0), some])
    hi = np.concatenate([hi, hi, np.minimum(some + rng.integers(1, 60, 40), 150)])
    for aggregate, size in (
        (agg.collect_set("v"), None),
        (agg.top_n("v", 4), 4),
        (agg.count_distinct("v"), 0),
    ):
        bound = aggregate.bind({"v": array.type})
        (operation,) = bound.operations
        state = operation.accumulate(records, np.arange(0, 300, 2))
        found = bound.finish([operation.combine_ranges(state, lo, hi)]).to_pylist()
        for a, b, result in zip(lo.tolist(), hi.tolist(), found, strict=True):
            kept = [value for value in values[2 * a : 2 * b] if value is not None]
            ordered = sorted(kept, key=lambda value: (value != value, 0 if value != value else value))
            if size:
                assert plain(ordered[::-1][:size]) == plain(result)
            else:
                unique = list({plain(value): value for value in ordered}.values())
                assert (len(unique) if size == 0 else plain(unique)) == plain(result)
