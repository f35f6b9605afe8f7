"""The aggregates of the stored queries, each with a judge: what it makes of a window's records, by brute force."""

import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from operators import AggregateOperation
from operators import aggregates as agg

Row = dict[str, Any]
Judge = Callable[[list[Row]], Any]
Results = dict[str, tuple[agg.Aggregate, Judge]]


def values(rows: list[Row], column: str) -> list[Any]:
    """Return the values of a column but for null."""
    return [row[column] for row in rows if row[column] is not None]


def of(column: str, judge: Callable[[list[Any]], Any]) -> Judge:
    """Return what a judge of values makes of a column; null where there are none."""
    return lambda rows: judge(found) if (found := values(rows, column)) else None


def variance(found: list[float]) -> float | None:
    """Return the sample variance."""
    return float(statistics.variance(map(Fraction, found))) if len(found) > 1 else None


def covariance(rows: list[Row]) -> float | None:
    """Return the population covariance of x and v."""
    both = [(Fraction(r["x"]), r["v"]) for r in rows if r["x"] is not None and r["v"] is not None]
    if not both:
        return None
    xs, vs = zip(*both, strict=True)
    return float(sum(x * v for x, v in both) / len(both) - statistics.mean(xs) * Fraction(sum(vs), len(both)))


def smallest_by(rows: list[Row]) -> str | None:
    """Return s of the smallest x."""
    found = [(row["x"], row["s"]) for row in rows if row["x"] is not None]
    return min(found)[1] if found else None


def largest(rows: list[Row]) -> list[str]:
    """Return s of the two largest i."""
    return [s for _, s in sorted(((row["i"], row["s"]) for row in rows), reverse=True)[:2]]


def quantile(found: list[float]) -> list[float]:
    """Return the lower one of two neighbours in the middle, as the approximate median of few values."""
    return [sorted(found)[(len(found) - 1) // 2]]


def appended(state: list[int], v: int | None) -> list[int]:
    """A fold that keeps its values."""
    return state if v is None else [*state, v]


SQUARES = AggregateOperation(
    name="sum of squares",
    state=(int, float, object),
    create=lambda: (0, 0.0, ""),
    accumulate=lambda state, i, s: (state[0] + 1, state[1] + i * i, np.maximum(state[2], s)),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1], np.maximum(a[2], b[2])),
    finish=lambda state: pa.array(
        [f"{n} {squares:.0f} {s}" for n, squares, s in zip(*(c.tolist() for c in state), strict=True)]
    ),
    type="string",
)
"""An aggregate of a user, with a state of all three types."""


def squares(rows: list[Row]) -> str:
    """Return what the aggregate of a user does."""
    return f"{len(rows)} {sum(row['i'] ** 2 for row in rows)} {max(row['s'] for row in rows)}"


def fold(merge: Any = None) -> agg.Aggregate:
    """A fold that keeps its values in order."""
    return agg.fold(list, appended, "v", type="array<bigint>", merge=merge, finish=sorted, name="all of v")


FEW: Results = {
    "n": (agg.count(), len),
    "first_batch": (agg.min("batch"), of("batch", min)),
    "last_batch": (agg.max("batch"), of("batch", max)),
    "total": (agg.sum("v"), of("v", sum)),
    "listed": (agg.collect_list("v"), lambda rows: values(rows, "v")),
}
"""First and last batch say which windows are of stored state and of new records."""
MANY: Results = FEW | {
    "valid": (agg.count("x"), lambda rows: len(values(rows, "x"))),
    "small_total": (agg.sum("i"), of("i", sum)),
    "float_total": (agg.sum("x"), of("x", sum)),
    "exact_total": (agg.sum("d"), of("d", sum)),
    "flagged_total": (agg.sum("i", where="flag"), lambda rows: of("i", sum)([r for r in rows if r["flag"]])),
    "mean": (agg.avg("x"), of("x", lambda found: sum(found) / len(found))),
    "whole_mean": (agg.avg("v"), of("v", lambda found: sum(found) / len(found))),
    "least": (agg.min("x"), of("x", min)),
    "highest": (agg.max("s"), of("s", max)),
    "all_flags": (agg.bool_and("flag"), of("flag", all)),
    "spread": (agg.variance("x"), of("x", variance)),
    "together": (agg.covar_pop("x", "v"), covariance),
    "earliest": (agg.first("x"), lambda rows: rows[0]["x"]),
    "latest": (agg.last("s"), lambda rows: rows[-1]["s"]),
    "smallest_by": (agg.min_by("s", "x"), smallest_by),
    "distinct": (agg.count_distinct("s"), lambda rows: len({row["s"] for row in rows})),
    "different": (agg.collect_set("i"), lambda rows: sorted({row["i"] for row in rows})),
    "top": (agg.top_n("s", 2, by="i"), largest),
    "about_distinct": (agg.approx_count_distinct("s"), lambda rows: len({row["s"] for row in rows})),
    "about_median": (agg.approx_quantiles("x", [0.5]), of("x", quantile)),
    "squares": (SQUARES("i", "s"), squares),
    "merged": (fold(list.__add__), lambda rows: sorted(values(rows, "v"))),
}
FOLDED: Results = FEW | {"folded": (fold(), lambda rows: sorted(values(rows, "v")))}
MERGED: Results = FEW | {"merged": MANY["merged"]}
