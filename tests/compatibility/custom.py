"""Custom operators of the stored queries. Their state names them by class, so that names and settings must not change."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from operators import NEVER, Declaration, KeyedOperator, Operator
from tests.compatibility.records import GRACE, GRACE_MS

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reminders(Operator):
    """Emits each record twice, `wait` and two times `wait` after its time: state of all three types, and timers."""

    wait: int = 25_000

    def declare(self, types: Mapping[str, pa.DataType]) -> Declaration:
        state = {"next": int, "left": int, "weight": float, "text": object}
        results = {"at": "timestamp", "left": "bigint", "weight": "double", "text": "string"}
        return Declaration(["i", "s"], state, results)

    def due(self, entries):
        return np.where(entries["left"] > 0, entries["next"], NEVER)

    def process_batch(self, context):
        records = context.records
        weight = records.values["i"].values / 4
        entries = context.stored(
            records.key,
            records.time,
            next=records.time + self.wait,
            left=2,
            weight=weight,
            text=context.column("s"),
        )
        context.add(entries)

    def fire(self, context):
        due, left = context.due, context.due["left"] - 1
        again = context.stored(
            due.key, due.time, next=due["next"] + self.wait, left=left, weight=due["weight"], text=due["text"]
        )
        context.add(again.take(again["left"] > 0))
        return context.rows(
            due.key, at=due["next"], left=left, weight=due["weight"], text=due["text"].tolist()
        )


@dataclass(frozen=True, kw_only=True)
class Silence(KeyedOperator):
    """Emits each record beside the one before, and when a key was silent for long: records that wait, state and timers."""

    longest: int = 15_000

    def schema(self, types: Mapping[str, pa.DataType]) -> Declaration:
        results = {"at": "timestamp", "what": "string", "v": "bigint", "before": "bigint", "seen": "bigint"}
        return Declaration(["v"], results=results)

    def process(self, time: int, record: Row, context: Any) -> Iterable[Row]:
        state = context.value or {"v": None, "seen": 0}
        before, seen = state["v"], state["seen"] + 1
        context.value = {"v": record["v"], "seen": seen}
        context.set_timer(time + self.longest, "silence")
        yield {"at": time, "what": "record", "v": record["v"], "before": before, "seen": seen}

    def on_timer(self, time: int, name: str, context: Any) -> Iterable[Row]:
        yield {"at": time, "what": name, "before": context.value["v"], "seen": context.value["seen"]}


REMINDERS = Reminders(grace=GRACE).group_by("k")
SILENCE = Silence(grace=GRACE).group_by("k")


def expected_reminders(batches: Sequence[pa.Table]) -> list[Row]:
    """Return what `Reminders` emits in all."""
    records, close = _in_time(batches)
    found = []
    for record in records:
        for number in (1, 2):
            time = record["ms"] + number * Reminders.wait
            if time < close:
                row = {"left": 2 - number, "weight": record["i"] / 4, "text": record["s"]}
                found.append({"k": record["k"], "at": time, **row})
    return found


def expected_silence(batches: Sequence[pa.Table]) -> list[Row]:
    """Return what `Silence` emits in all."""
    records, close = _in_time(batches)
    found = []
    for key in {record["k"] for record in records}:
        own = sorted((r for r in records if r["k"] == key and r["ms"] < close), key=lambda r: r["ms"])
        for seen, (record, later) in enumerate(zip(own, [*own, None][1:], strict=True), 1):
            before = own[seen - 2]["v"] if seen > 1 else None
            row = {"what": "record", "v": record["v"], "before": before, "seen": seen}
            found.append({"k": key, "at": record["ms"], **row})
            silent = record["ms"] + Silence.longest
            if silent < (close if later is None else later["ms"]):
                row = {"what": "silence", "v": None, "before": record["v"], "seen": seen}
                found.append({"k": key, "at": silent, **row})
    return found


def _in_time(batches: Sequence[pa.Table]) -> tuple[list[Row], int]:
    """The records that are not late, with their times in milliseconds, and the last close time."""
    records, close = [], -(2**61)
    for batch in batches:
        times = batch.column("at").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        rows = [{**row, "ms": ms} for row, ms in zip(batch.to_pylist(), times, strict=True)]
        records += [row for row in rows if row["ms"] >= close]
        close = max([close, *(ms - GRACE_MS for ms in times)])
    return records, close
