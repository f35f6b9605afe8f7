"""Conformance cases, played by local runners."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows, WindowedAggregation
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.runtime.local import LocalRunner
from operators.steps.emission import RETRACT
from operators.testing import evaluate

Case = dict[str, Any]
"""A case by the README of `cases`: options and records, and what is expected."""
Options = dict[str, Any]
Row = list[Any]
EPOCH = datetime(1970, 1, 1)

WINDOWS: dict[str, Callable[[Options], SlidingWindows | HoppingWindows | SessionWindows]] = {
    "sliding": lambda options: SlidingWindows(options["size"], options["grace"]),
    "hopping": lambda options: HoppingWindows(
        options["size"], options["advance"], options["grace"], options.get("offset", 0)
    ),
    "tumbling": lambda options: TumblingWindows(options["size"], options["grace"], options.get("offset", 0)),
    "session": lambda options: SessionWindows(options["gap"], grace=options["grace"]),
}
AGGREGATES = {
    "count": agg.count(),
    "sum": agg.sum("value"),
    "min": agg.min("value"),
    "max": agg.max("value"),
    "collect": agg.collect_list("value"),
}
FINISH: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": sum,
    "min": min,
    "max": max,
    "collect": sorted,
}


@dataclass(frozen=True)
class Played:
    """What came of a case.

    Attributes:
        emitted: the rows of each record, sorted.
        late: the records that were late as a whole.
        empty: whether nothing is stored once all windows have closed.
    """

    emitted: list[list[Row]]
    late: list[int]
    empty: bool


def play(options: Options, records: list[Row], backend: str = "memory") -> Played:
    """Play records one by one, each a batch of its own."""
    table = record_table(records)
    emitted, late = [], []
    with operator(options).local_runner("time", backend) as runner:
        for number in range(len(table)):
            late_before = runner.counters.late
            emitted.append(rows(runner.process(table.slice(number, 1))))
            late += [number] * (runner.counters.late - late_before)
        close_everything(runner, table)
        return Played(emitted, late, runner.store.is_empty())


def play_by_brute_force(options: Options, records: list[Row]) -> Played:
    """Return what the brute-force evaluator, which judges the property tests, makes of records one by one."""
    finish = FINISH[options["aggregate"]]
    outputs = evaluate(WINDOWS[options["window"]](options), [[(*each,)] for each in records], options["emit"])
    emitted = [
        sorted(
            [
                *([w.key, w.start, w.end, finish([value for _, value in w.content])] for w in output.windows),
                *([w.key, w.start, w.end, None] for w in output.retracted),
            ]
        )
        for output in outputs
    ]
    return Played(emitted, [number for number, output in enumerate(outputs) if output.late], empty=True)


def operator(options: Options) -> WindowedAggregation:
    """The operator that a case's options describe."""
    windows = WINDOWS[options["window"]](options).group_by("key")
    return windows.aggregate(result=AGGREGATES[options["aggregate"]]).emit(options["emit"])


def record_table(records: list[Row]) -> pa.Table:
    """Records as a table; values are doubles if any is a fraction."""
    keys, times, values = zip(*records, strict=True)
    fractions = any(isinstance(value, float) for value in values)
    return pa.table(
        {
            "key": pa.array(keys),
            "time": pa.array(times, pa.timestamp("ms")),
            "value": pa.array(values, pa.float64() if fractions else pa.int64()),
        }
    )


def rows(table: pa.Table) -> list[Row]:
    """Emitted rows in the form of the cases, sorted."""
    return sorted(
        [row["key"], in_ms(row["window"]["start"]), in_ms(row["window"]["end"]), value(row)]
        for row in table.to_pylist()
    )


def in_ms(moment: datetime) -> int:
    """A bound as milliseconds since the epoch."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def value(row: dict[str, Any]) -> Any:
    """A row's value: a collected list is a multiset to the cases, and a retraction has none."""
    if row.get("change") == RETRACT:
        return None
    return sorted(row["result"]) if isinstance(row["result"], list) else row["result"]


def close_everything(runner: LocalRunner, records: pa.Table) -> None:
    """Move stream time beyond every window."""
    runner.process(records.slice(0, 0), stream_time=FAR_FUTURE)
