"""Windows of every kind, and random batches for them: out of order, with ties, and with stream times of all sorts."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from operators import (
    HoppingWindows,
    RollingAggregation,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    WindowedAggregation,
)
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.runtime.batch_runner import Processed
from operators.runtime.stateful import StatefulOperator
from state_backends.durability.progress import Progress
from state_backends.journal import Journal

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("at", pa.timestamp("ms")),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("gap", pa.int64()),
        *((f"from_{phase}", pa.bool_()) for phase in range(6)),
    ]
)
"""Keys, values, gaps, and whether a record is of a phase or of a later one."""
BACKENDS = ("memory", "rocksdb", "spark")
POLICIES = ("on_close", "on_update")
GRACE = 10
KINDS: Mapping[str, Any] = {
    "sliding": SlidingWindows(size=15, grace=GRACE),
    "hopping": HoppingWindows(size=15, advance=4, grace=GRACE, offset=3),
    "tumbling": TumblingWindows(size=12, grace=GRACE),
    "session": SessionWindows(gap=4, grace=GRACE),
    "session of a greatest length": SessionWindows(gap=6, grace=GRACE, max_length=20),
    "session with a gap per record": SessionWindows(gap_column="gap", grace=GRACE),
    "rolling": RollingWindows(15, grace=GRACE),
    "sliding by fold": SlidingWindows(size=15, grace=GRACE),
    "hopping by fold": HoppingWindows(size=15, advance=4, grace=GRACE),
}
Step = tuple[pa.Table, int | None]
"""A batch and its explicit stream time."""


def appended(values: list[int], value: int) -> list[int]:
    """A fold that changes the state that it is given."""
    return [*values, value]


FOLDED = {"folded": agg.fold(list, appended, "v", type="array<bigint>", name="all")}
"""What makes windows be computed by folds."""


def operator(
    kind: str, policy: str, aggregates: Mapping[str, agg.Aggregate]
) -> WindowedAggregation | RollingAggregation:
    """Windows of the kind by key."""
    if kind == "rolling":
        emit: Any = "on_arrival" if policy == "on_update" else policy
        return KINDS[kind].group_by("k").aggregate(**aggregates).emit(emit)
    folded = FOLDED if kind.endswith("by fold") else {}
    return KINDS[kind].group_by("k").aggregate(**folded, **aggregates).emit(policy)


@dataclass(frozen=True)
class Feed:
    """Makes batches.

    Attributes:
        chance: source of randomness.
        keys: how many there are.
    """

    chance: random.Random
    keys: int = 4

    def table(self, number: int, phase: int = 0, schema: pa.Schema = SCHEMA) -> pa.Table:
        """The batch of a number: its event times go on from those of the batches before, with ties and stragglers."""
        chance = self.chance
        size = chance.choice([0, 1, 3, 8, 20])
        ahead = number * 15 + chance.choice([0, 0, 0, 40])
        times = [ahead + chance.randrange(-45, 20) for _ in range(size)]
        rows = {
            "k": [chance.choice([None, *"abcdefghijklmnopqrstuvwxyz"[: self.keys - 1]]) for _ in times],
            "at": times,
            "v": [chance.randrange(-9, 10) for _ in times],
            "x": [chance.choice([0.25, -3.5, 1e6]) for _ in times],
            "gap": [chance.randrange(1, 9) for _ in times],
        }
        rows |= {f"from_{n}": [phase >= n] * size for n in range(6)}
        return pa.table([pa.array(rows[f.name], f.type) for f in schema], schema=schema)

    def steps(self, count: int) -> list[Step]:
        """Batches whose stream time is at times given, before or after what was seen, and one that closes everything."""
        found: list[Step] = []
        for number in range(count):
            lead = self.chance.choice([None, None, None, -30, -5, 0, 5])
            found.append((self.table(number), None if lead is None else number * 15 + lead))
        return [*found, (SCHEMA.empty_table(), FAR_FUTURE)]


def rows(emitted: pa.Table, names: Sequence[str] | None = None) -> list[str]:
    """Rows as texts, in order; with only these results if names are given, and of the records' columns only the key."""
    results = [name for name in emitted.column_names if name in SHARED or name not in SCHEMA.names]
    columns = [name for name in results if names is None or name in (*names, *SHARED)]
    return sorted(map(repr, emitted.select(sorted(columns)).to_pylist()))


SHARED = ("k", "window", "change", "sequence")
"""Columns that all results have."""


def committed(
    operator: StatefulOperator,
    journal: Journal,
    close: int,
    tables: Sequence[pa.Table],
    partials: Sequence[pa.Table] = (),
) -> Processed:
    """Process one batch at a close time and commit it, as a host does."""
    pointer = operator.open(journal)
    processed = operator.step((close, close), tables, partials)
    operator.commit(journal, pointer, Progress())
    return processed
