"""Sums of ranges are those of rational numbers, whatever the scales of the summands."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from operators import RollingWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.aggregates.exact import Triple, add, add_triples, square, sum_ranges

RANGES = 30


KINDS = {
    "digits of one scale": lambda rng, n: rng.random(n),
    "cents": lambda rng, n: np.round(rng.random(n) * 1e6, 2),
    "some a thousand times as large": lambda rng, n: (
        rng.random(n) * np.where(rng.random(n) < 0.2, 1024.0, 1.0)
    ),
    "beyond 64 bits": lambda rng, n: rng.integers(-(2**62), 2**62, n).astype(float),
    "the largest": lambda rng, n: (rng.random(n) - 0.5) * 2.0**960,
    "the least": lambda rng, n: (rng.random(n) - 0.5) * 2.0**-700,
    "fifteen decimal places apart": lambda rng, n: rng.random(n) * 10.0 ** rng.integers(-6, 9, n),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lows", [0.0, 0.3, 1.0])
def test_sums_are_exact(kind: str, lows: float) -> None:
    """Of pairs of which none, some or all have a low part, in ranges of one row and of all."""
    rng = np.random.default_rng(len(kind))
    for count in (1, 2, 7, 60, 400):
        high = KINDS[kind](rng, count)
        low = np.where(rng.random(count) < lows, high * 2.0**-54 * rng.random(count), 0.0)
        lo = rng.integers(0, count, RANGES)
        hi = lo + 1 + ((count - lo - 1) * rng.random(RANGES)).astype(np.int64)
        found = sum_ranges((high, low), lo, hi)
        assert found is not None
        both = np.array([Fraction(a) + Fraction(b) for a, b in zip(high.tolist(), low.tolist(), strict=True)])
        for a, b, *pair in zip(lo, hi, *found, strict=True):
            expected = sum(both[a:b].tolist(), Fraction(0))
            assert abs(sum(map(Fraction, map(float, pair))) - expected) <= abs(expected) * Fraction(1, 2**100)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_triples_are_exact(kind: str) -> None:
    """Of squares and of what is still finer, combined in whatever order, as long as 150 binary digits hold it."""
    rng = np.random.default_rng(len(kind))
    values = KINDS[kind](rng, 60) * {"the largest": 2.0**-485, "the least": 2.0**450}.get(kind, 1.0)
    triples = (*square(values), np.zeros(60))
    lo = rng.integers(0, 59, RANGES)
    hi = lo + 1 + ((59 - lo) * rng.random(RANGES)).astype(np.int64)
    found = sum_ranges(triples, lo, hi)
    assert found is not None
    for a, b, *parts in zip(lo.tolist(), hi.tolist(), *found, strict=True):
        expected = sum((Fraction(value) ** 2 for value in values[a:b].tolist()), Fraction(0))
        for total in (parts, folded(triples, rng.permutation(np.arange(a, b)))):
            assert abs(sum(map(Fraction, map(float, total))) - expected) <= expected * Fraction(1, 2**145)


def folded(triples: Triple, rows: npt.NDArray[np.int64]) -> list[float]:
    """Rows of triples, added one by one."""
    total = tuple(np.zeros(1) for _ in triples)
    for row in rows.tolist():
        total = add_triples(total, tuple(part[row : row + 1] for part in triples))
    return [float(part[0]) for part in total]


@pytest.mark.parametrize("values", [[1.0, np.inf], [np.nan], [1e300, 1e-300], [1e308, -1e308]])
def test_what_does_not_lend_itself(values: list[float]) -> None:
    """Numbers that are not finite, too far apart or too large are left to be added pair by pair."""
    pairs = np.array(values), np.zeros(len(values))
    assert None is sum_ranges(pairs, np.zeros(1, np.int64), np.full(1, len(values)))


EDGES = [0.0, 5e-324, 3e-300, -1e-300, 1.0, 1e300, -1e308, 1.7e308, np.inf, -np.inf, np.nan]


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
def test_a_sum_depends_on_no_other_row() -> None:
    """Pairs are added alike, alone and beside pairs that are tiny, that exceed doubles, that are infinite or NaN."""
    high = np.repeat(EDGES, len(EDGES)), np.tile(EDGES, len(EDGES))
    singles = tuple((part, np.zeros(len(part))) for part in high)
    sums = add(*singles)
    for left, right in (singles, (sums, singles[0]), (sums, tuple(part[::-1] for part in sums))):
        together = add(left, right)
        for row in range(len(high[0])):
            alone = add(tuple(p[row : row + 1] for p in left), tuple(p[row : row + 1] for p in right))
            assert [float(p[0]).hex() for p in alone] == [float(p[row]).hex() for p in together]


@pytest.mark.parametrize("windows", [RollingWindows(10), SlidingWindows(10), TumblingWindows(10)])
@pytest.mark.parametrize("large", [1e308, np.inf, 1e280])
def test_sums_and_means_of_a_key_depend_on_no_other_key(windows: object, large: float) -> None:
    """A key of tiny numbers, alone and in a batch with a key of large ones."""
    results = {"total": agg.sum("x"), "mean": agg.avg("x"), "spread": agg.stddev("x")}
    operator = windows.group_by("k").aggregate(**results)  # type: ignore[attr-defined]
    tiny = [3e-300, 1e-300, 2e-300, 1e-300]
    found = []
    for others in ([], [large] * 4):
        values = pa.array(tiny + others)
        keys = ["a"] * 4 + ["b"] * len(others)
        times = pa.array([n % 4 for n in range(len(keys))], pa.int64())
        with operator.local_runner("t") as runner:
            runner.process(pa.table({"k": keys, "t": times, "x": values}))
            rows = runner.process(pa.table({"k": ["c"], "t": [10**6], "x": [0.0]})).to_pylist()
        found.append([row for row in rows if row["k"] == "a"])
    assert found[0] == found[1]
    assert max(row["total"] for row in found[0]) == 7e-300
