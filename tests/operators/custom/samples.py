"""Operators and tables that the tests beside share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from operators import NEVER, Declaration, Operator
from operators.steps.step import Step
from state_backends import resolve

Record = tuple[str, int, float]
FLOAT = pa.float64()


def table(records: list[Record], value_type: pa.DataType = FLOAT) -> pa.Table:
    columns = list(zip(*records, strict=True)) or [(), (), ()]
    types = pa.string(), pa.timestamp("ms"), value_type
    return pa.table({name: pa.array(c, t) for name, c, t in zip("ktv", columns, types, strict=True)})


def plain(rows: pa.Table, result: str = "total") -> list[tuple[Any, ...]]:
    at = [time // 1_000 for time in rows.column("at").cast(pa.int64()).to_pylist()]
    return list(zip(rows.column("k").to_pylist(), at, rows.column(result).to_pylist(), strict=True))


@dataclass(frozen=True, kw_only=True)
class Echo(Operator):
    """Emits each record some times, each `step` ticks after the one before."""

    step: int = 10

    def declare(self, types):
        return Declaration(["v"], {"left": int, "next": int}, {"at": "timestamp", "left": "bigint"})

    def due(self, entries):
        return np.where(entries["left"] > 0, entries["next"], NEVER)

    def process_batch(self, context):
        records = context.records
        left = records.values["v"].values.astype(np.int64)
        context.add(context.stored(records.key, records.time, left=left, next=records.time))

    def fire(self, context):
        due = context.due
        left, next_ = due["left"] - 1, due["next"] + self.step
        context.add(context.stored(due.key, due.time, left=left, next=next_))
        return context.rows(due.key, at=due["next"], left=left)


def stepped(definition: Operator, steps: list[tuple[list[Record], int, int]]) -> list[list[tuple[Any, ...]]]:
    """The rows of each step over one store, of (records, close time at the start, at the end)."""
    engine, binding = own_engine(definition)
    tables = [
        binding.output.table(engine.step(binding.read([table(records)]), Step(*closes)))
        for records, *closes in steps
    ]
    return [sorted(plain(rows, rows.column_names[-1])) for rows in tables]


def own_engine(definition: Operator, backend: Any = None):
    """The engine over a store of its own, and its binding."""
    binding = definition.group_by("k").bind(table([]).schema, "t", resolve("memory"))
    return binding.plan.engine(binding.store(backend or resolve("memory").open(Path()))), binding


@dataclass(frozen=True, kw_only=True)
class Doing(Operator):
    """To be given a `process_batch`."""

    def declare(self, types):
        results = {"at": "timestamp", "n": "bigint", "s": "string"}
        return Declaration(["v"], {"i": int, "f": float, "o": object}, results, ["seen"])

    def process_batch(self, context):
        return None
