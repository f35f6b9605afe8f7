"""Every aggregate over some types, and what it is in plain Python; helpers that make records, states and results of rows."""

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from operators import AggregateOperation
from operators import aggregates as agg
from operators.aggregates.definitions import Aggregate, Bound
from operators.aggregates.operation import Operation
from operators.columns.arrow import column_data
from operators.columns.ranges import State
from operators.columns.records import Records
from serializers import PageLayout

Values = list[Any]
WIDE = Context(prec=90, rounding=ROUND_HALF_UP)


class Row(NamedTuple):
    """A record: its event time, two values, and whether it counts where aggregates have `where="ok"`."""

    time: int
    v: Any
    w: Any = None
    ok: bool | None = True


@dataclass(frozen=True)
class Case:
    """An aggregate over columns "v" and "w".

    Attributes:
        type: of the column "v".
        values: makes values of that type, without None.
        reference: the result for rows that count.
        aggregate: of these columns.
        other: type and values of the column "w".
        close: whether results are compared within a relative 1e-9.
    """

    aggregate: Aggregate
    type: pa.DataType
    values: st.SearchStrategy[Any]
    reference: Callable[[list[Row]], Any]
    close: bool = False
    other: tuple[pa.DataType, st.SearchStrategy[Any]] = field(default=(pa.float64(), st.none()))

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The columns."""
        return {"v": self.type, "w": self.other[0], "ok": pa.bool_()}

    @property
    def bound(self) -> Bound:
        """The aggregate bound to the types."""
        return self.aggregate.bind(self.types)

    @property
    def filtered(self) -> "Case":
        """The case with `where`."""
        return replace(self, aggregate=replace(self.aggregate, where="ok"))

    def rows(
        self, times: st.SearchStrategy[int], least: int = 0, most: int = 10
    ) -> st.SearchStrategy[list[Row]]:
        """Rows with many nulls, ties and equal values."""
        row = st.builds(
            Row,
            times,
            st.none() | self.values,
            st.none() | self.other[1],
            st.sampled_from([True, True, False, None]),
        )
        return st.lists(row, min_size=least, max_size=most)

    def records(self, rows: Sequence[Row]) -> Records:
        """Rows as records of one key."""
        columns = {name: [getattr(row, name) for row in rows] for name in self.types}
        values = {
            name: column_data(pa.array(columns[name], type_, from_pandas=False))
            for name, type_ in self.types.items()
        }
        time = np.array([row.time for row in rows], np.int64)
        return Records([b""], np.zeros(len(rows), np.int64), time, values, 0)

    def expected(self, rows: Sequence[Row]) -> Any:
        """What plain Python makes of the rows."""
        return self.reference([row for row in rows if self.aggregate.where is None or row.ok])

    def states(self, runs: Sequence[Sequence[Row]]) -> list[State]:
        """The state of each run of rows, one per operation; runs are not empty, and each is sorted by time."""
        lengths = [len(run) for run in runs]
        records = self.records([row for run in runs for row in run])
        # A key for each run: rows of one key and time are one run to an operation that sorts ties by value.
        records = replace(records, key=np.repeat(np.arange(len(runs)), lengths))
        starts = np.cumsum([0, *lengths])[:-1]
        return [operation.accumulate(records, starts) for operation in self.bound.operations]

    def check(self, rows: Sequence[Sequence[Row]], array: pa.Array) -> None:
        """Assert that results are what plain Python makes of the rows of each, in the type that was promised."""
        assert self.bound.type == array.type
        assert self.bound.nullable or not array.null_count
        array.validate(full=True)
        wanted, found = [self.expected(each) for each in rows], array.to_pylist()
        if self.close:
            assert _plain_keys(found) == [near(value) for value in wanted]
        else:
            assert plain(wanted) == plain(found)


def near(value: Any) -> Any:
    """A value as pytest compares it up to rounding."""
    if isinstance(value, dict):
        return {key: near(item) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):  # a map
        return [(plain(key), near(item)) for key, item in value]
    return None if value is None else pytest.approx(value, rel=1e-9, abs=1e-6, nan_ok=True)


def _plain_keys(found: Values) -> Values:
    """Maps with keys that are comparable."""
    maps = [isinstance(value, list) and all(isinstance(item, tuple) for item in value) for value in found]
    return [
        [(plain(key), item) for key, item in value] if is_map else value
        for value, is_map in zip(found, maps, strict=True)
    ]


def plain(value: Any) -> Any:
    """A value with NaN made comparable."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def finished(bound: Bound, states: Sequence[State]) -> pa.Array:
    """The result of each row of states, as a window that covers that one pane."""
    lo = np.arange(len(states[0][0]))
    return bound.finish(
        [op.combine_ranges(state, lo, lo + 1) for op, state in zip(bound.operations, states, strict=True)]
    )


def bits(states: Sequence[State]) -> list[Any]:
    """States as values that tell every bit apart."""
    return [
        [
            column.view(np.int64).tolist() if column.dtype == np.float64 else plain(column.tolist())
            for column in state
        ]
        for state in states
    ]


def stored(operations: Sequence[Operation], states: Sequence[State]) -> list[State]:
    """States as they come back from a page."""
    layout = PageLayout(("i8", *(code for operation in operations for code in operation.codes)))
    rows = len(states[0][0])
    columns = [np.arange(rows), *(column for state in states for column in state)]
    back, _ = layout.decode(layout.encode(columns, np.ones(rows, np.int64)))
    result, at = [], 1
    for operation in operations:
        result.append(tuple(back[at : at + len(operation.codes)]))
        at += len(operation.codes)
    return result


def place(value: Any) -> tuple[bool, Any]:
    """What orders values, NaN above all."""
    return (value != value, 0 if value != value else value)


def valid(rows: Sequence[Row]) -> Values:
    """The values of "v" that there are."""
    return [row.v for row in rows if row.v is not None]


def of_values(reference: Callable[[Values], Any], empty: Any = None) -> Callable[[list[Row]], Any]:
    """A reference from one for values that are not null, at least one."""
    return lambda rows: reference(valid(rows)) if valid(rows) else empty


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


def exact_decimal(exponent: int, values: Values) -> Decimal:
    """The sum of decimals without a context's rounding."""
    units = sum(int(Fraction(value) / Fraction(10) ** exponent) for value in values)
    return Decimal((units < 0, tuple(map(int, str(abs(units)))), exponent))


def mean_decimal(places: int, values: Values) -> Decimal:
    """The mean of decimals, rounded once, half up."""
    total = Fraction(0)
    for value in values:
        total += Fraction(value)
    units = abs(total / len(values)) * 10**places
    rounded = math.floor(units + Fraction(1, 2))
    return Decimal(rounded if total >= 0 else -rounded).scaleb(-places, WIDE)


def extreme(pick: Callable[..., Any], values: Values) -> Any:
    """The smallest or largest, NaN above all."""
    return pick(values, key=place)


def together(kind: str, rows: list[Row]) -> Any:
    """Covariance and the like of exact fractions of v (y) and w (x)."""
    pairs = [(Fraction(row.v), Fraction(row.w)) for row in rows if row.v is not None and row.w is not None]
    n = len(pairs)
    if not n or kind == "regr_count":
        return n if kind == "regr_count" else None
    y, x = (sum(column) / n for column in zip(*pairs, strict=True))
    xy, xx, yy = (sum((a - y) ** i * (b - x) ** j for a, b in pairs) for i, j in ((1, 1), (0, 2), (2, 0)))
    if kind == "covar_pop":
        return float(xy / n)
    if kind == "covar_samp":
        return float(xy / (n - 1)) if n > 1 else None
    if kind == "corr":
        return float(xy) / math.sqrt(xx * yy) if xx and yy else None
    found: dict[str, Fraction] = {"sxx": xx, "syy": yy, "sxy": xy, "avgx": x, "avgy": y}
    if xx:
        found |= {
            "slope": xy / xx,
            "intercept": y - xy / xx * x,
            "r2": xy * xy / xx / yy if yy else Fraction(1),
        }
    if kind == "linear_trend":
        return {name: float(found[name]) for name in ("slope", "intercept")} if xx else None
    value = found.get(kind.removeprefix("regr_"))
    return None if value is None else float(value)


def picked(by: Callable[[Row], Any], last: bool, nulls: bool, rows: list[Row]) -> Any:
    """The value of the first or last row by something; ties as documented."""
    pick = max if last else min
    rows = [row for row in rows if by(row) is not None and (nulls or row.v is not None)]
    if not rows:
        return None
    best = pick(place(by(row)) for row in rows)
    values = [row.v for row in rows if place(by(row)) == best and row.v is not None]
    return pick(values, key=place) if values else None


def by_w(row: Row) -> Any:
    """A row's w."""
    return row.w


def by_time(row: Row) -> Any:
    """A row's event time."""
    return row.time


def listed(rows: list[Row]) -> Values:
    """All values by event time, then by value."""
    rows = [row for row in rows if row.v is not None]
    return [row.v for row in sorted(rows, key=lambda row: (row.time, place(row.v)))]


def by_category(reference: Callable[[list[Row]], Any], rows: list[Row], most: int = 1000) -> Values:
    """What a reference makes of the rows of each w, in order: of those with the most rows, and of ties of the lowest."""
    groups: dict[Any, list[Row]] = {}
    named: dict[Any, Any] = {}
    for row in rows:
        if row.w is not None:
            value = row.w + 0.0 if isinstance(row.w, float) else row.w
            named[plain(value)] = value
            groups.setdefault(plain(value), []).append(row)
    kept = sorted(groups, key=lambda name: (-len(groups[name]), place(named[name])))[:most]
    return [
        (named[name], reference(groups[name])) for name in sorted(kept, key=lambda name: place(named[name]))
    ]


def in_set(rows: list[Row]) -> Values:
    """The distinct values in order."""
    return list({plain(value): value for value in sorted(valid(rows), key=place, reverse=True)}.values())[
        ::-1
    ]


def topmost(size: int, by: Callable[[Row], Any], rows: list[Row]) -> Values:
    """The values with the largest `by`, then the largest."""
    rows = [row for row in rows if row.v is not None and by(row) is not None]
    return [row.v for row in sorted(rows, key=lambda row: (place(by(row)), place(row.v)), reverse=True)][
        :size
    ]


def several_by(size: int, largest: bool, rows: list[Row]) -> Values | None:
    """The values of the rows with the largest or smallest w, nulls among them; ties as documented."""
    rows = [row for row in rows if row.w is not None]
    null = -1 if largest else 2
    ordered = sorted(
        rows,
        key=lambda row: (place(row.w), (null, 0) if row.v is None else place(row.v)),
        reverse=largest,
    )
    return [row.v for row in ordered[:size]] or None


def united(rows: list[Row]) -> Values:
    """The distinct elements of all arrays, in order."""
    return in_set([Row(0, value) for row in rows for value in row.v or () if value is not None])


def quantiles(ranks: Sequence[float], values: Values) -> Values | None:
    """The smallest value of whose rank each is not more."""
    ordered = sorted(value for value in values if value == value)
    if not ordered:
        return None
    return [float(ordered[max(math.ceil(Fraction(rank) * len(ordered)), 1) - 1]) for rank in ranks]


def percentiles(ranks: Sequence[float], values: Values) -> Values | None:
    """The values at ranks, interpolated linearly; NaN last."""
    ordered = sorted(map(float, values), key=place)
    found = []
    for rank in ranks:
        at = rank * (len(ordered) - 1)
        low, high = (ordered[edge] for edge in (math.floor(at), math.ceil(at))) if ordered else (0.0, 0.0)
        same = at == math.floor(at) or low == high
        found.append(low if same else (math.ceil(at) - at) * low + (at - math.floor(at)) * high)
    return found if ordered else None


def shape(power: int, values: Values) -> float | None:
    """Skewness (power 3) or kurtosis (4) of exact fractions."""
    exact = list(map(Fraction, values))
    middle = sum(exact) / len(exact)
    squares, powers = (sum((value - middle) ** n for value in exact) / len(exact) for n in (2, power))
    if not squares:
        return None
    return float(powers) / float(squares) ** (power / 2) - (3 if power == 4 else 0)


def times(values: Values) -> float:
    """The product of whole numbers and fractions, exact."""
    return float(math.prod(map(Fraction, values)))


def counted(most: int, rows: list[Row]) -> list[tuple[Any, int]]:
    """The most frequent values with their counts, in order of the values."""
    counts: dict[Any, int] = {}
    for value in valid(rows):
        counts[plain(value + 0.0 if isinstance(value, float) else value)] = counts.get(plain(value), 0) + 1
    named = {plain(value): value for value in in_set(rows)}
    ordered = sorted(counts, key=lambda name: (-counts[name], place(named[name])))[:most]
    return [(named[name], counts[name]) for name in sorted(ordered, key=lambda name: place(named[name]))]


def frequent(most: int, rows: list[Row]) -> list[dict[str, Any]]:
    """The most frequent values with their counts, these first."""
    found = sorted(counted(most, rows), key=lambda pair: -pair[1])
    return [{"item": value, "count": count} for value, count in found]


def commonest(rows: list[Row]) -> Any:
    """The lowest of the most frequent values."""
    found = counted(1, rows)
    return found[0][0] if found else None


def outermost(size: int, last: bool, distinct: bool, nulls: bool, rows: list[Row]) -> Values:
    """The values of the first or last rows, in ascending order."""

    def nearness(row: Row) -> Any:
        return row.time if not last else -row.time

    there = [row for row in rows if nulls or row.v is not None]
    groups: dict[int, list[Row]] = {}
    for row in there:
        groups.setdefault(nearness(row), []).append(row)
    found: Values = []
    for near in sorted(groups):
        values = sorted((row.v for row in groups[near] if row.v is not None), key=place, reverse=last)
        found += [*values, *(None for row in groups[near] if row.v is None)]
    if distinct:
        found = once(found)
    found = found[:size]
    return found[::-1] if last else found


def once(values: Values) -> Values:
    """Each value where it stands first."""
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(plain(value), value)
    return list(found.values())


def bottommost(size: int, by: Callable[[Row], Any], rows: list[Row]) -> Values:
    """The values with the smallest `by`, then the smallest."""
    rows = [row for row in rows if row.v is not None and by(row) is not None]
    return [row.v for row in sorted(rows, key=lambda row: (place(by(row)), place(row.v)))][:size]


def ranked(ranks: Sequence[float], values: Values) -> Values:
    """The values of rank ceil(p n)."""
    ordered = sorted(map(float, values), key=place)
    return [ordered[max(math.ceil(rank * len(ordered)), 1) - 1] for rank in ranks]


def sketched(aggregate: Aggregate, type_: pa.DataType, rows: list[Row]) -> bytes:
    """The sketch of all values in one pane, in another order."""
    case = Case(aggregate, type_, st.none(), len)
    values = sorted({plain(value): value for value in valid(rows)}.items(), key=repr)
    if not aggregate_counts_once(aggregate):
        values = [(n, value) for n, value in enumerate(sorted(valid(rows), key=place))]
    whole = [Row(0, value) for _, value in values] or [Row(0, None)]
    return bytes(finished(case.bound, case.states([whole])).to_pylist()[0])


def sketch_of(aggregate: Aggregate, count: int) -> bytes:
    """The sketch of so many whole numbers."""
    return sketched(aggregate, pa.int64(), [Row(0, n * n) for n in range(count)])


def aggregate_counts_once(aggregate: Aggregate) -> bool:
    """Whether a value that occurs again changes nothing."""
    return type(aggregate).__name__ in ("HllSketch", "HllUnion")


SMALL = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**52), 2**52)
FLOATS = st.floats(-1e9, 1e9).map(lambda value: round(value, 3))
QUARTERS = st.integers(-4_000, 4_000).map(lambda units: units / 4)
DECIMALS = st.integers(-(10**10) + 1, 10**10 - 1).map(lambda units: Decimal(units).scaleb(-2))
LONG_DECIMALS = st.integers(1 - 10**36, 10**36 - 1).map(lambda units: Decimal(f"{units}E-10"))
TEXT = st.text(max_size=4)
ORDERED: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "bool": (pa.bool_(), st.booleans()),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf, 1.5])),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(timezone.utc))),
    "timestamp_ntz": (pa.timestamp("us"), st.datetimes()),
    "interval": (pa.duration("us"), st.timedeltas(timedelta(days=-(10**8)), timedelta(days=10**8))),
    "decimal": (pa.decimal128(12, 2), DECIMALS),
    "string": (pa.string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=4)),
}
RANKS = (0.0, 0.25, 0.5, 0.9, 1.0)

SQUARES = AggregateOperation(
    name="sum of squares",
    state=(int, "i8"),
    create=lambda: (0, 0),
    accumulate=lambda state, x: (state[0] + 1, state[1] + x * x),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    deduct=lambda a, b: (a[0] - b[0], a[1] - b[1]),
    finish=lambda state: np.ma.array(state[1], mask=state[0] == 0),
    type="bigint",
)
"""An aggregate of a user that can deduct."""
WEIGHTED = AggregateOperation(
    name="weighted mean",
    state=(float, float),
    create=lambda: (0.0, 0.0),
    accumulate=lambda state, x, weight: (state[0] + x * weight, state[1] + weight),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    finish=lambda state: pa.array(state[0] / np.where(state[1] > 0, state[1], 1), mask=state[1] == 0),
    type="double",
)
"""One of two columns that cannot."""
LONGEST = AggregateOperation(
    name="longest text",
    state=(object,),
    create=lambda: ("",),
    accumulate=lambda state, text: (np.where(_longer(text, state[0]), text, state[0]),),
    combine=lambda a, b: (np.where(_longer(b[0], a[0]), b[0], a[0]),),
    finish=lambda state: state[0],
    type="string",
)
"""One of Python objects."""


def _longer(a: Any, b: Any) -> Any:
    return np.frompyfunc(lambda x, y: (len(x), x) > (len(y), y), 2, 1)(a, b).astype(bool)


def weighted(rows: list[Row]) -> float | None:
    """The weighted mean of v with weights w."""
    pairs = [(row.v, row.w) for row in rows if row.v is not None and row.w is not None]
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else None


def _by(
    name: str, kind: str, case: "Case", categories: str = "few texts", most: int = 1000, **options: Any
) -> dict[str, Case]:
    """A case of an aggregate for each value of a column of these values."""
    other = _CATEGORIES.get(categories) or ORDERED[categories]
    reference = partial(by_category, case.reference, most=most)
    aggregate = case.aggregate.by("w", most)
    made = Case(aggregate, case.type, case.values, reference, close=case.close, other=other, **options)
    return {f"{name}.by of {kind}": made}


_CATEGORIES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "few texts": (pa.string(), st.sampled_from(["", "a", "b", "food and drink", "travel\0", "travel"])),
    "few doubles": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, -math.inf, 1.5])),
    "few wholes": (pa.int64(), st.sampled_from([-(2**63), 2**63 - 1, 0, 7])),
}


def _typed(
    name: str, make: Callable[[], Aggregate], reference: Any, types: Iterable[str] = ORDERED, **options: Any
) -> dict[str, Case]:
    """A case of each of these types."""
    return {f"{name} of {n}": Case(make(), *ORDERED[n], reference, **options) for n in types}


MORE_OF_PAIRS = ("regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy", "regr_r2")
_SOME = ("long", "double", "string", "binary", "decimal")
_DOUBLES: Mapping[str, Any] = {"other": (pa.float64(), QUARTERS | st.just(math.nan))}
CASES: dict[str, Case] = {
    "count(*)": Case(agg.count(), pa.int64(), LONG, len),
    "count": Case(agg.count("v"), pa.string(), TEXT, of_values(len, 0)),
    "sum of int": Case(agg.sum("v"), pa.int32(), SMALL, of_values(sum)),
    "sum of long": Case(agg.sum("v"), pa.int64(), LONG, of_values(sum)),
    "sum of float": Case(
        agg.sum("v"), pa.float32(), st.floats(-1e6, 1e6, width=32), of_values(math.fsum), close=True
    ),
    "sum of double": Case(agg.sum("v"), pa.float64(), FLOATS, of_values(math.fsum), close=True),
    "sum of decimal": Case(
        agg.sum("v"), pa.decimal128(12, 2), DECIMALS, of_values(partial(exact_decimal, -2))
    ),
    "sum of long decimal": Case(
        agg.sum("v"), pa.decimal128(38, 10), LONG_DECIMALS, of_values(partial(exact_decimal, -10))
    ),
    "avg of int": Case(agg.avg("v"), pa.int32(), SMALL, of_values(mean), close=True),
    "avg of long": Case(
        agg.avg("v"), pa.int64(), st.integers(-(2**63), 2**63 - 1), of_values(mean), close=True
    ),
    "avg of double": Case(agg.avg("v"), pa.float64(), FLOATS, of_values(mean), close=True),
    "avg of decimal": Case(agg.avg("v"), pa.decimal128(12, 2), DECIMALS, of_values(partial(mean_decimal, 6))),
    "avg of fractions": Case(
        agg.avg("v"),
        pa.decimal128(38, 36),
        st.integers(1 - 10**36, 10**36 - 1).map(lambda units: Decimal(f"{units}E-36")),
        of_values(partial(mean_decimal, 38)),
    ),
    "variance of int": Case(
        agg.variance("v"), pa.int32(), SMALL, of_values(partial(spread, 1, False)), close=True
    ),
    "variance of double": Case(
        agg.variance("v"), pa.float64(), FLOATS, of_values(partial(spread, 1, False)), close=True
    ),
    "stddev of double": Case(
        agg.stddev("v"), pa.float64(), FLOATS, of_values(partial(spread, 1, True)), close=True
    ),
    "var_pop of double": Case(
        agg.var_pop("v"), pa.float64(), FLOATS, of_values(partial(spread, 0, False)), close=True
    ),
    "stddev_pop of int": Case(
        agg.stddev_pop("v"), pa.int16(), st.integers(-9, 9), of_values(partial(spread, 0, True)), close=True
    ),
    **{
        kind: Case(
            getattr(agg, kind)("v", "w"),
            pa.float64(),
            QUARTERS,
            partial(together, kind),
            close=True,
            other=(pa.int32(), st.integers(-1_000, 1_000)),
        )
        for kind in (
            "covar_samp",
            "covar_pop",
            "corr",
            "regr_slope",
            "regr_intercept",
            "linear_trend",
            *MORE_OF_PAIRS,
        )
    },
    "bool_and": Case(agg.bool_and("v"), pa.bool_(), st.booleans(), of_values(all)),
    "bool_or": Case(agg.bool_or("v"), pa.bool_(), st.booleans(), of_values(any)),
    **_typed("min", lambda: agg.min("v"), of_values(partial(extreme, min))),
    **_typed("max", lambda: agg.max("v"), of_values(partial(extreme, max))),
    **_typed("first", lambda: agg.first("v"), partial(picked, by_time, False, True)),
    **_typed("last", lambda: agg.last("v"), partial(picked, by_time, True, True), _SOME),
    "first valid": Case(
        agg.first("v", ignore_nulls=True), pa.string(), TEXT, partial(picked, by_time, False, False)
    ),
    "last valid": Case(
        agg.last("v", ignore_nulls=True), pa.float64(), st.floats(), partial(picked, by_time, True, False)
    ),
    **_typed("min_by", lambda: agg.min_by("v", "w"), partial(picked, by_w, False, True), **_DOUBLES),
    **{
        f"max_by {n}": Case(
            agg.max_by("v", "w"), pa.string(), TEXT, partial(picked, by_w, True, True), other=ORDERED[n]
        )
        for n in ORDERED
    },
    **{
        f"max_by with k of {n}": Case(
            agg.max_by("v", "w", 2), *ORDERED[n], partial(several_by, 2, True), other=ORDERED["double"]
        )
        for n in ("string", "long", "double")
    },
    "min_by with k": Case(
        agg.min_by("v", "w", 3),
        pa.float64(),
        st.floats(),
        partial(several_by, 3, False),
        other=ORDERED["byte"],
    ),
    **{
        f"collect_union of {n}": Case(
            agg.collect_union("v"), pa.list_(type_), st.lists(st.none() | values, max_size=3), united
        )
        for n, (type_, values) in ORDERED.items()
    },
    **_typed("collect_list", lambda: agg.collect_list("v"), listed),
    **_typed("collect_set", lambda: agg.collect_set("v"), in_set),
    **_typed("count_distinct", lambda: agg.count_distinct("v"), lambda rows: len(in_set(rows)), _SOME),
    **_typed("top_n", lambda: agg.top_n("v", 3), lambda rows: topmost(3, lambda row: row.v, rows), _SOME),
    **{
        f"top_n by {n}": Case(
            agg.top_n("v", 2, by="w"), pa.string(), TEXT, partial(topmost, 2, by_w), other=ORDERED[n]
        )
        for n in _SOME
    },
    **_typed(
        "approx_count_distinct", lambda: agg.approx_count_distinct("v"), lambda rows: len(in_set(rows)), _SOME
    ),
    "approx_quantiles of double": Case(
        agg.approx_quantiles("v", RANKS), pa.float64(), st.floats(), of_values(partial(quantiles, RANKS))
    ),
    "approx_quantiles of int": Case(
        agg.approx_quantiles("v", [0.5]), pa.int32(), SMALL, of_values(partial(quantiles, [0.5]))
    ),
    "percentile of double": Case(
        agg.percentile("v", RANKS), pa.float64(), st.floats(), of_values(partial(percentiles, RANKS))
    ),
    "percentile of decimal": Case(
        agg.percentile("v", [0.3]),
        pa.decimal128(12, 2),
        DECIMALS,
        of_values(partial(percentiles, [0.3])),
        close=True,
    ),
    "median of long": Case(
        agg.median("v"),
        pa.int64(),
        st.integers(-(2**63), 2**63 - 1),
        of_values(lambda values: percentiles([0.5], values)[0]),
    ),
    "count_if": Case(agg.count_if("v"), pa.bool_(), st.booleans(), of_values(sum, 0)),
    "try_sum of long": Case(agg.try_sum("v"), pa.int64(), LONG, of_values(sum)),
    "try_avg of decimal": Case(
        agg.try_avg("v"), pa.decimal128(12, 2), DECIMALS, of_values(partial(mean_decimal, 6))
    ),
    "sum_distinct of long": Case(
        agg.sum_distinct("v"), pa.int64(), st.integers(-3, 3) | LONG, of_values(lambda values: sum({*values}))
    ),
    "sum_distinct of double": Case(
        agg.sum_distinct("v"),
        pa.float64(),
        QUARTERS,
        of_values(lambda values: math.fsum({*values})),
        close=True,
    ),
    "sum_distinct of decimal": Case(
        agg.sum_distinct("v"),
        pa.decimal128(12, 2),
        DECIMALS,
        of_values(lambda values: exact_decimal(-2, [*{*values}])),
    ),
    "product of double": Case(agg.product("v"), pa.float64(), QUARTERS, of_values(times), close=True),
    "product of int": Case(agg.product("v"), pa.int32(), SMALL, of_values(times), close=True),
    "skewness": Case(agg.skewness("v"), pa.float64(), QUARTERS, of_values(partial(shape, 3)), close=True),
    "kurtosis": Case(
        agg.kurtosis("v"), pa.int32(), st.integers(-1_000, 1_000), of_values(partial(shape, 4)), close=True
    ),
    **{
        f"{name} of {kind}": Case(
            getattr(agg, name)("v"),
            type_,
            values,
            of_values(partial(functools.reduce, getattr(operator, f"{how}"))),
        )
        for name, how in (("bit_and", "and_"), ("bit_or", "or_"), ("bit_xor", "xor"))
        for kind, (type_, values) in {n: ORDERED[n] for n in ("long", "byte")}.items()
    },
    **_typed("histogram", lambda: agg.histogram("v"), partial(counted, 1000), _SOME),
    "histogram of few": Case(agg.histogram("v", most=2), pa.string(), TEXT, partial(counted, 2)),
    **_typed("mode", lambda: agg.mode("v"), commonest, _SOME),
    **_typed("approx_top_k", lambda: agg.approx_top_k("v", 2), partial(frequent, 2), _SOME),
    **_typed("bottom_n", lambda: agg.bottom_n("v", 3), partial(bottommost, 3, lambda row: row.v), _SOME),
    "bottom_n by double": Case(
        agg.bottom_n("v", 2, by="w"), pa.string(), TEXT, partial(bottommost, 2, by_w), other=ORDERED["double"]
    ),
    **_typed("first_n", lambda: agg.first_n("v", 3), partial(outermost, 3, False, False, True), _SOME),
    **_typed("last_n", lambda: agg.last_n("v", 3), partial(outermost, 3, True, False, True), _SOME),
    "first_n distinct": Case(
        agg.first_n("v", 2, True, distinct=True),
        pa.int64(),
        st.integers(0, 3),
        partial(outermost, 2, False, True, False),
    ),
    "last_n distinct": Case(
        agg.last_n("v", 2, distinct=True),
        pa.float64(),
        st.sampled_from([0.0, -0.0, math.nan, 1.5]),
        partial(outermost, 2, True, True, True),
    ),
    "last_n distinct of text": Case(
        agg.last_n("v", 3, distinct=True),
        pa.string(),
        st.sampled_from("abcde"),
        partial(outermost, 3, True, True, True),
    ),
    "listagg": Case(
        agg.listagg("v", ","),
        pa.string(),
        TEXT,
        lambda rows: ",".join(listed(rows)) if listed(rows) else None,
    ),
    "listagg of binary": Case(
        agg.listagg("v", b"|"),
        pa.binary(),
        st.binary(max_size=3),
        lambda rows: b"|".join(listed(rows)) if listed(rows) else None,
    ),
    "listagg_distinct": Case(
        agg.listagg_distinct("v"),
        pa.string(),
        TEXT,
        lambda rows: "".join(in_set(rows)) if in_set(rows) else None,
    ),
    "percentile_disc of int": Case(
        agg.percentile_disc("v", RANKS), pa.int32(), SMALL, of_values(partial(ranked, RANKS))
    ),
    **{
        f"hll_sketch_agg of {name}": Case(
            agg.hll_sketch_agg("v", size),
            *ORDERED[name],
            partial(sketched, agg.hll_sketch_agg("v", size), ORDERED[name][0]),
        )
        for name, size in (("string", 4), ("long", 7), ("binary", 12), ("byte", 8))
    },
    "kll_sketch_agg_double": Case(
        agg.kll_sketch_agg_double("v"),
        pa.float64(),
        st.floats(),
        partial(sketched, agg.kll_sketch_agg_double("v"), pa.float64()),
    ),
    "kll_sketch_agg_float": Case(
        agg.kll_sketch_agg_float("v"),
        pa.float32(),
        st.floats(width=32),
        partial(sketched, agg.kll_sketch_agg_float("v"), pa.float32()),
    ),
    "kll_sketch_agg_bigint": Case(
        agg.kll_sketch_agg_bigint("v"),
        *ORDERED["long"],
        partial(sketched, agg.kll_sketch_agg_bigint("v"), pa.int64()),
    ),
    "hll_union_agg": Case(
        agg.hll_union_agg("v", 5),
        pa.binary(),
        st.sampled_from([0, 1, 5, 40, 500]).map(partial(sketch_of, agg.hll_sketch_agg("v", 6))),
        partial(sketched, agg.hll_union_agg("v", 5), pa.binary()),
    ),
    **{
        f"kll_merge_agg_{item}": Case(
            merge("v"),
            pa.binary(),
            st.sampled_from([0, 1, 2, 3]).map(partial(sketch_of, make("v"))),
            partial(sketched, merge("v"), pa.binary()),
        )
        for item, make, merge in (
            ("double", agg.kll_sketch_agg_double, agg.kll_merge_agg_double),
            ("float", agg.kll_sketch_agg_float, agg.kll_merge_agg_float),
            ("bigint", agg.kll_sketch_agg_bigint, agg.kll_merge_agg_bigint),
        )
    },
    "user's squares": Case(
        SQUARES("v"),
        pa.int32(),
        st.integers(-(2**28), 2**28),
        of_values(lambda values: sum(value * value for value in values)),
    ),
    "user's weighted mean": Case(
        WEIGHTED("v", "w"),
        pa.float64(),
        QUARTERS,
        weighted,
        close=True,
        other=(pa.float64(), QUARTERS.map(abs)),
    ),
    "user's longest text": Case(
        LONGEST("v"), pa.string(), TEXT, of_values(lambda values: max(values, key=lambda v: (len(v), v)), "")
    ),
}
WHOLES = Case(agg.count(), pa.int64(), LONG, len)
CASES |= {
    **_by("count", "texts", WHOLES),
    **_by("count", "few", WHOLES, most=2),
    **_by("count", "doubles", WHOLES, "few doubles", most=3),
    **{name: one for kind in ORDERED for name, one in _by("count", kind, WHOLES, kind).items()},
    **{
        name: one
        for short in (
            "count",
            "sum of int",
            "sum of long",
            "sum of double",
            "sum of decimal",
            "avg of decimal",
            "variance of double",
            "min of string",
            "max of double",
            "bool_or",
            "first of string",
            "last of decimal",
            "first_n of string",
            "last_n distinct of text",
            "collect_list of double",
            "count_distinct of string",
            "collect_set of long",
            "histogram of few",
            "mode of double",
            "approx_top_k of string",
            "approx_count_distinct of string",
            "hll_sketch_agg of string",
            "kll_sketch_agg_double",
            "approx_quantiles of double",
            "percentile of double",
            "top_n of string",
            "listagg",
            "product of double",
            "skewness",
            "bit_xor of long",
            "sum_distinct of long",
            "user's squares",
            "user's longest text",
        )
        for name, one in _by(
            short.split()[0] if not short.startswith("user") else short.replace(" ", "-"),
            short.partition(" of ")[2] or short,
            CASES[short],
            ("few texts", "few doubles", "few wholes")[len(short) % 3],
        ).items()
    },
}
