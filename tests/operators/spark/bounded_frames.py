"""Bounded frames without Spark, for property tests: what Spark does between the two stages is done on Arrow tables.

Rows of all tasks come in any order, and are sorted by the number that `operators.spark.batch.sorting` makes of them, in which
a group of keys and a millisecond look the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from operators import (
    Declaration,
    HoppingWindows,
    KeyedOperator,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.runtime.binding import Binding
from operators.spark.batch.bounded import BoundedRun, FirstStage, FirstStageRows, InputRows, Source
from operators.spark.batch.sorting import ORDER
from operators.steps.late_reports import LateSide
from operators.steps.partials import KEY, TIME
from serializers import decode_keys
from state_backends import resolve

SCHEMA = pa.schema(
    [("k", pa.int64()), ("t", pa.timestamp("us")), ("v", pa.int64()), ("gap", pa.duration("us"))]
)
FAR = 10**15
Row = tuple[int, int, int, int]
"""Key, event time and gap in microseconds, value."""


@dataclass(frozen=True, kw_only=True)
class InOrder(KeyedOperator):
    """Emits with each record all values of its key so far, in the order in which they came."""

    def schema(self, types):
        return Declaration(["v"], results={"at": "timestamp", "values": "array<bigint>"})

    def process(self, time, record, context):
        context.value = [*(context.value or []), record["v"]]
        yield {"at": self.instant(time), "values": context.value}


WINDOWS = {
    "sliding": SlidingWindows("3 ms"),
    "sliding by microseconds": SlidingWindows("700 us", tick="1 us"),
    "hopping": HoppingWindows("6 ms", "4 ms", offset="1 ms"),
    "hopping by microseconds": HoppingWindows("300 us", "200 us", tick="1 us"),
    "tumbling": TumblingWindows("4 ms"),
    "tumbling by microseconds": TumblingWindows("100 us", tick="1 us"),
    "session": SessionWindows("2 ms"),
    "session by microseconds": SessionWindows("150 us", tick="1 us"),
    "session of gaps": SessionWindows(gap_column="gap"),
    "session up to a length": SessionWindows("2 ms", max_length="3 ms"),
    "session of gaps up to a length": SessionWindows(gap_column="gap", max_length="3 ms"),
}
RESULTS = {
    "n": agg.count(),
    "total": agg.sum("v"),
    "low": agg.min("v"),
    "last": agg.last("v"),
    "spread": agg.variance("v"),
    "values": agg.collect_list("v"),
}
IN_ORDER = agg.fold("", lambda text, v: f"{text},{v}", "v", type="string")
OPERATORS = {
    **{kind: windows.group_by("k").aggregate(**RESULTS) for kind, windows in WINDOWS.items()},
    **{
        f"fold, {kind}": WINDOWS[kind].group_by("k").aggregate(values=IN_ORDER)
        for kind in ("sliding by microseconds", "hopping by microseconds", "tumbling by microseconds")
    },
    "keyed": InOrder(tick="1 us").group_by("k"),
}


@dataclass(frozen=True)
class Frame:
    """Rows of a bounded frame, and how they go through it.

    Attributes:
        rows: those of the frame.
        tasks: how many tasks read them.
        groups: the group of the sort order that each key is in.
        step: rows of a step.
        batch: rows of an Arrow batch.
    """

    rows: Sequence[Row]
    tasks: int
    groups: dict[int, int]
    step: int
    batch: int

    @property
    def table(self) -> pa.Table:
        columns = list(zip(*self.rows, strict=True)) or [()] * len(SCHEMA)
        return pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)

    def emitted(self, name: str, *, late: bool = False) -> pa.Table:
        """What the operator makes of the frame."""
        operator = OPERATORS[name]
        binding = operator.bind(SCHEMA, "t", resolve("memory"))
        if late:
            binding = binding.reporting(LateSide(SCHEMA, pa.timestamp("us"), binding.tick_us))
        plan = operator.bounded().bind(SCHEMA, "t", resolve("memory")).plan
        rows, source = self.ordered(binding)
        run = BoundedRun(replace(binding, plan=plan), source, "windows", self.step)
        return pa.Table.from_batches(run(rows.to_batches(max_chunksize=self.batch)), binding.rows)

    def ordered(self, binding: Binding) -> tuple[pa.Table, Source]:
        """The rows as they come to a task, and how it reads them."""
        if (plan := binding.plan.two_stages) is not None and plan.condenses and binding.late is None:
            return self._first_stage(binding), FirstStageRows(binding)
        return self.plain(binding), InputRows(binding)

    def plain(self, binding: Binding) -> pa.Table:
        key, time = (self.table.column(name).cast(pa.int64()).to_numpy() for name in ("k", "t"))
        return self._ordered(self.table.select(binding.inputs.names), key, time)

    def _first_stage(self, binding: Binding) -> pa.Table:
        parts = []
        for task in range(self.tasks):
            rows = self.table.select(binding.inputs.names).take(
                pa.array(range(task, len(self.rows), self.tasks), pa.int64())
            )
            parts += FirstStage(binding, "windows", self.step)(rows.to_batches(max_chunksize=self.batch))
        entries = pa.Table.from_batches(parts)
        keys = decode_keys(entries.column(KEY).to_pylist(), [pa.int64()])[0].to_numpy()
        return self._ordered(entries, keys, entries.column(TIME).to_numpy() * binding.tick_us)

    def _ordered(self, rows: pa.Table, key: np.ndarray, time: np.ndarray) -> pa.Table:
        group = np.array([self.groups[n] for n in key.tolist()], np.int64)
        order = (group << 43) + 2**42 + (time >> 10)
        shuffled = np.random.default_rng(len(order)).permutation(len(order))
        place = shuffled[np.argsort(order[shuffled], kind="stable")]
        return rows.append_column(ORDER, pa.array(order)).take(pa.array(place))


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Small keys beside large ones, which come first, last or between them in the sort order; no ties of key and time."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.sampled_from([1, 3, 8, 40, 120]), min_size=1, max_size=6))
    rows, groups = [], {}
    for key, size in enumerate(sizes):
        groups[key] = draw(st.integers(0, 3))
        times = chance.choice(size * draw(st.sampled_from([1, 20, 1_000])), size, replace=False)
        values, gaps = chance.integers(-9, 9, size), chance.integers(1_000, 3_000, size)
        rows += zip([key] * size, times.tolist(), values.tolist(), gaps.tolist(), strict=True)
    chance.shuffle(rows)
    steps = st.integers(1, 50)
    return Frame(
        list(map(tuple, rows)), draw(st.integers(1, 3)), groups, draw(steps), draw(st.integers(1, 20))
    )


def plain(table: pa.Table) -> list[str]:
    """Rows as texts, in order."""
    return sorted(map(repr, table.to_pylist()))
