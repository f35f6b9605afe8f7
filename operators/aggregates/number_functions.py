"""Aggregates of one column of numbers, or of values with an order."""

from typing import TYPE_CHECKING

from operators.aggregates.bits import Bits
from operators.aggregates.decay import Decayed
from operators.aggregates.definitions import Aggregate, Count, CountIf, Extremum, Spread, Truth
from operators.aggregates.products import Product
from operators.aggregates.shape import Shape
from operators.aggregates.sums import Avg, Sum, SumDistinct, TryAvg, TrySum
from operators.columns.durations import Duration
from operators.columns.expressions import named

if TYPE_CHECKING:
    from pyspark.sql import Column


def count(column: "str | Column | None" = None, *, where: "str | Column | None" = None) -> Aggregate:
    """Number of records, as `count("*")`, or of those whose column is not null: bigint, never null. State 8 bytes."""
    return Count(None if isinstance(column, str) and column == "*" else named(column), where=named(where))


def count_if(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Number of records in which a boolean column is true: bigint, never null. As `count(where=column)`. State 8 bytes."""
    return CountIf(named(column), where=named(where))


def sum(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:  # noqa: A001 - the field's name
    """Sum: bigint of whole numbers (an error beyond 64 bits), double, or exact decimal; null without values.

    Only the result has to fit: intermediate sums may exceed 64 bits, or the range of doubles. State 24 bytes, 16 for int and
    smaller types, or an object.
    """
    return Sum(named(column), where=named(where))


def try_sum(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sum as `sum`, with which it shares its state; null if the result does not fit into its type."""
    return TrySum(named(column), where=named(where))


def sum_distinct(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sum of the distinct values: types and errors as `sum`, null without values. Shares the state of `count_distinct`."""
    return SumDistinct(named(column), where=named(where))


def product(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Product of numbers other than decimals: double; null without values. State 32 bytes.

    Only the result has to fit: products on the way may exceed the range of doubles, or be smaller than any double.
    """
    return Product(named(column), where=named(where))


def avg(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Mean: double, or a decimal of four more digits, exact and rounded half up; null without values.

    Finite if the mean is finite, even if the sum exceeds the range of doubles. State as of `sum`; for bigint another 24 bytes.
    """
    return Avg(named(column), where=named(where))


def try_avg(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Mean as `avg`, with which it shares its state; null if a decimal result does not fit into its type."""
    return TryAvg(named(column), where=named(where))


def min(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:  # noqa: A001 - the field's name
    """Smallest value, of its type; NaN only if all are NaN, null without values; 0.0 for -0.0. State 16 bytes, or the value."""
    return Extremum(named(column), largest=False, where=named(where))


def max(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:  # noqa: A001 - the field's name
    """Largest value, of the column's type; NaN if any value is NaN, null without values. -0.0 becomes 0.0.

    State 16 bytes, or the value.
    """
    return Extremum(named(column), largest=True, where=named(where))


def bool_and(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Whether all values of a boolean column are true: boolean; nulls do not count, null without values. State 16 bytes."""
    return Truth(named(column), largest=False, where=named(where))


def bool_or(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Whether any value of a boolean column is true: boolean; nulls do not count, null without values. State 16 bytes."""
    return Truth(named(column), largest=True, where=named(where))


def variance(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sample variance: double; null below two values, exactly 0 where all are equal. State 56 bytes.

    This and the aggregates derived from it are accurate to the last digits, even if values differ only in their last digits.
    The result is infinite only if it exceeds the range of doubles.
    """
    return Spread(named(column), freedom=1, root=False, where=named(where))


def stddev(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sample standard deviation: double; null below two values. Shares the state of `variance`."""
    return Spread(named(column), freedom=1, root=True, where=named(where))


def var_pop(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Population variance: double; null without values. Shares the state of `variance`."""
    return Spread(named(column), freedom=0, root=False, where=named(where))


def stddev_pop(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Population standard deviation: double; null without values. Shares the state of `variance`."""
    return Spread(named(column), freedom=0, root=True, where=named(where))


def skewness(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Skewness of the population: double; null without values, or if all values are equal. State 40 bytes.

    NaN if a value is not finite, or if fourth powers of distances exceed the range of doubles.
    """
    return Shape(named(column), kind="skewness", where=named(where))


def kurtosis(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Kurtosis of the population, less 3: double; null and NaN as `skewness`, with which it shares its state."""
    return Shape(named(column), kind="kurtosis", where=named(where))


def bit_and(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Bits that are set in all values: of the column's type, a whole number; null without values. State 16 bytes."""
    return Bits(named(column), kind="bit_and", where=named(where))


def bit_or(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Bits that are set in any value: of the column's type, a whole number; null without values. State 16 bytes."""
    return Bits(named(column), kind="bit_or", where=named(where))


def bit_xor(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Bits that are set in an odd number of values: of the column's type; null without values. State 16 bytes."""
    return Bits(named(column), kind="bit_xor", where=named(where))


def decayed_count(
    half_life: Duration, column: "str | Column | None" = None, *, where: "str | Column | None" = None
) -> Aggregate:
    """Number of records, each weighing half as much after each half-life: double, never null. State 24 bytes.

    A record of time t weighs 2 ** ((t - T) / half_life) at the end T of the window: the window's end, of a session the time of
    its last record, of a sliding window and beside a record the time of that record, of a label the time of the label. What is
    stored does not depend on T, so that a result does not depend on batches.

    Args:
        half_life: text such as "4 hours", a timedelta, or whole milliseconds. ClickHouse's parameter x of exponential decay
            is not a half-life: half_life = x * ln 2.
        column: only records in which it is not null count; without one, all do.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `half_life` is not a positive length of time.
    """
    return Decayed(named(column), half_life=half_life, kind="decayed_count", where=named(where))


def decayed_sum(
    column: "str | Column", half_life: Duration, *, where: "str | Column | None" = None
) -> Aggregate:
    """Sum of values that lose half of their weight in each half-life, as in `decayed_count`: double, null without values.

    Of numbers other than decimals. Neither ages of years nor half-lives of milliseconds overflow. State 32 bytes.
    """
    return Decayed(named(column), half_life=half_life, kind="decayed_sum", where=named(where))


def decayed_avg(
    column: "str | Column", half_life: Duration, *, where: "str | Column | None" = None
) -> Aggregate:
    """Mean weighted as in `decayed_count`: double, null without values; it does not depend on the end of the window.

    Of numbers other than decimals. Finite and right even where all weights are too small for a double. State 48 bytes.
    """
    return Decayed(named(column), half_life=half_life, kind="decayed_avg", where=named(where))
