"""The operators of the stored queries, each with a brute-force judge: all kinds of windows, and operators of users."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.testing import expected_rows
from tests.compatibility import custom
from tests.compatibility.records import GRACE, GRACE_MS, batches, many_batches
from tests.compatibility.results import FEW, FOLDED, MANY, MERGED, Judge, Results, Row, of, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Expected = Callable[[Sequence[pa.Table]], list[Row]]


@dataclass(frozen=True)
class Part:
    """An operator.

    Attributes:
        operator: itself, with its keys.
        expected: makes the rows that it has to emit in all, from all batches; their times are in milliseconds.
        batches: makes the batches.
    """

    operator: Any
    expected: Expected
    batches: Callable[[], list[pa.Table]] = batches

    def apply(self, df: "DataFrame", **settings: Any) -> "DataFrame":
        """Return what it makes of a stream."""
        return self.operator.apply(df, "at", **settings)

    def process(self, runner: Any, table: pa.Table) -> pa.Table:
        """Return what its local runner makes of a batch."""
        return runner.process(table)


class CoGrouped(Part):
    """An operator over two frames: the records with a true flag, and those with a false one."""

    def apply(self, df: "DataFrame", **settings: Any) -> "DataFrame":
        return super().apply({"left": df.where("flag"), "right": df.where("not flag")}, **settings)

    def process(self, runner: Any, table: pa.Table) -> pa.Table:
        flag = table.column("flag")
        return super().process(runner, {"left": table.filter(flag), "right": table.filter(pc.invert(flag))})


@dataclass(frozen=True, kw_only=True)
class Beside(Part):
    """An operator whose rows are the records, with results beside them.

    Attributes:
        columns: what is looked at.
    """

    columns: Sequence[str]

    def apply(self, df: "DataFrame", **settings: Any) -> "DataFrame":
        return super().apply(df, **settings).select(*self.columns)

    def process(self, runner: Any, table: pa.Table) -> pa.Table:
        return super().process(runner, table).select(self.columns)


@dataclass(frozen=True, kw_only=True)
class Chain(Part):
    """An operator behind another one.

    Attributes:
        second: counts the first one's windows by their ends.
    """

    second: Any

    def apply(self, df: "DataFrame", *, name: str, **settings: Any) -> "DataFrame":
        from pyspark.sql import functions as F

        first = super().apply(df, name=f"{name}_first", **settings)
        ended = first.select("k", "n", F.window_time("window").alias("at"))
        return self.second.apply(ended, "at", name=name, **settings)


def windowed(windows: Any, results: Results, emit: str = "on_close", keys: Sequence[str] = ("k",)) -> Part:
    """Return windows by keys."""
    operator = windows.group_by(*keys).aggregate(**{name: a for name, (a, _) in results.items()}).emit(emit)
    judges = {name: judge for name, (_, judge) in results.items()}
    return Part(operator, lambda batches: _emitted(windows, batches, judges, emit, keys))


def _emitted(
    windows: Any,
    batches: Sequence[Any],
    judges: Mapping[str, Judge],
    emit: str = "on_close",
    keys: Sequence[str] = ("k",),
) -> list[Row]:
    """What windows by keys have to emit in all."""
    steps = expected_rows(windows, batches, "at", judges, keys=keys, emit=emit)
    return [row for rows in steps for row in rows]


def _rolling() -> Beside:
    """Rolling windows on close: each record waits until its lookbacks are final."""
    windows = RollingWindows({"short": "15 seconds", "ever": "lifetime"}, grace=GRACE)
    results = {name: FEW[name] for name in ("n", "total")}
    judges = {name: judge for name, (_, judge) in results.items()}
    columns = [
        "k",
        "at",
        "batch",
        "v",
        "s",
        *(f"{name}_{since}" for name in results for since in ("short", "ever")),
    ]

    def expected(batches: Sequence[pa.Table]) -> list[Row]:
        return [{name: row[name] for name in columns} for row in _emitted(windows, batches, judges)]

    operator = windows.group_by("k").aggregate(**{name: a for name, (a, _) in results.items()})
    return Beside(operator, expected, columns=columns)


def _side(flag: bool, judge: Judge) -> Judge:
    return lambda rows: judge([row for row in rows if row["flag"] is flag])


def _cogrouped(windows: Any) -> Part:
    left = {"n": FEW["n"], "total": FEW["total"]}
    right = {"m": FEW["n"], "listed": FEW["listed"]}
    judges = {name: _side(True, judge) for name, (_, judge) in left.items()}
    judges |= {name: _side(False, judge) for name, (_, judge) in right.items()}
    sides = {side: {name: a for name, (a, _) in r.items()} for side, r in (("left", left), ("right", right))}

    def expected(batches: Sequence[pa.Table]) -> list[Row]:
        either = [batch.filter(pc.is_valid(batch.column("flag"))) for batch in batches]
        return _emitted(windows, either, judges)

    return CoGrouped(windows.group_by("k").cogroup(**sides), expected)


def _chained(first: Any) -> Part:
    second = TumblingWindows("1 minute")
    aggregates = {"windows": agg.count(), "records": agg.sum("n"), "each": agg.collect_list("n")}
    judges: dict[str, Judge] = {
        "windows": len,
        "records": of("n", sum),
        "each": lambda rows: values(rows, "n"),
    }

    def expected(batches: Sequence[pa.Table]) -> list[Row]:
        rows = _emitted(first, batches, {"n": len})
        at = pa.array([row["window"]["end"] - 1 for row in rows], pa.timestamp("ms", "UTC"))
        table = pa.table({"k": [row["k"] for row in rows], "n": [row["n"] for row in rows], "at": at})
        last = max(pc.max(batch.column("at")).as_py().timestamp() for batch in batches)
        return _emitted(second, [(table, round(last * 1_000) - GRACE_MS)], judges)

    operator = first.group_by("k").aggregate(n=agg.count())
    return Chain(operator, expected, second=second.group_by("k").aggregate(**aggregates))


TUMBLING = TumblingWindows("30 seconds", grace=GRACE)
HOPPING = HoppingWindows("30 seconds", "10 seconds", grace=GRACE)
SLIDING = SlidingWindows("15 seconds", grace=GRACE)
SESSION = SessionWindows("9 seconds", grace=GRACE)
PARTS: Mapping[str, Part] = {
    "tumbling": windowed(TUMBLING, MANY),
    "hopping": windowed(HOPPING, FEW),
    "sliding": windowed(SLIDING, MANY),
    "session": windowed(SESSION, MANY),
    "sliding_fold": windowed(SLIDING, FOLDED),
    "hopping_fold": windowed(HOPPING, FOLDED),
    "session_fold": windowed(SESSION, MERGED),
    "session_longest": windowed(SessionWindows("9 seconds", grace=GRACE, max_length="30 seconds"), FEW),
    "session_own_gap": windowed(SessionWindows(gap_column="gap", grace=GRACE), FEW),
    "tumbling_update": windowed(TUMBLING, FEW, "on_update"),
    "hopping_update": windowed(HOPPING, FEW, "on_update"),
    "sliding_update": windowed(SLIDING, FEW, "on_update"),
    "session_update": windowed(SESSION, FEW, "on_update"),
    "cogroup": _cogrouped(SESSION),
    "reminders": Part(custom.REMINDERS, custom.expected_reminders),
    "silence": Part(custom.SILENCE, custom.expected_silence),
    "chain": _chained(HOPPING),
    "rolling": _rolling(),
    "keys_of_all_types": windowed(TUMBLING, FEW, keys=("k", "i", "x", "d", "flag", "day", "seen")),
    "sliding_many": replace(
        windowed(SlidingWindows("1 second", grace=GRACE), {"total": FEW["total"]}), batches=many_batches
    ),
    "reminders_many": Part(custom.REMINDERS, custom.expected_reminders, many_batches),
    "silence_many": Part(custom.SILENCE, custom.expected_silence, many_batches),
}
"""By name. The order of results in them is part of the state: it must not change."""
