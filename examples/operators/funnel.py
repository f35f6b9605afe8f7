"""A funnel over sessions: how aircraft that left New York late get back to their schedule, and how long that takes.

    python -m examples.operators.funnel

A keyed operator: a timer ends a session of departures, which then becomes one row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.operators.flights import flights
from operators import Declaration, KeyContext, KeyedOperator

STEPS = ("left late", "left again", "left on time")


@dataclass(frozen=True, kw_only=True)
class Recovery(KeyedOperator):
    """Sessions of departures at most `gap` apart, and the steps that each session reached, in order."""

    segment = "1 day"
    gap: str = "24 hours"
    late: int = 60
    on_time: int = 5

    def schema(self, types: Mapping[str, pa.DataType]) -> Declaration:
        results = {
            "began": "timestamp_ntz", "flights": "int", "steps": "int", "again_after": "double", "on_time_after": "double",
        }  # fmt: skip
        return Declaration(["dep_delay"], results=results)

    def process(self, time: int, record: dict[str, Any], context: KeyContext) -> None:
        session = context.value = context.value or {"began": time, "flights": 0, "steps": []}
        session["flights"] += 1
        steps, delay = session["steps"], record["dep_delay"]
        if len(steps) == 1:
            steps.append(time)
        if (not steps and delay >= self.late) or (len(steps) == 2 and delay <= self.on_time):
            steps.append(time)
        context.set_timer(time + self.ticks(self.gap))

    def on_timer(self, time: int, name: str, context: KeyContext) -> Iterator[dict[str, Any]]:
        session, context.value = context.value, None
        steps = session["steps"]
        after = [(at - steps[0]) / self.ticks("1 hour") for at in steps[1:]] + [None, None]
        found = {"steps": len(steps), "again_after": after[0], "on_time_after": after[1]}
        yield {"began": session["began"], "flights": session["flights"], **found}


def main() -> None:
    """Print the funnel of the year."""
    with flights() as frame:
        print("\n".join(funnel(Recovery().group_by("tailnum").apply(frame, event_time="departure"))))


def funnel(sessions: DataFrame) -> list[str]:
    """Return a line for each step: the sessions that reached it, and the median of the hours since the first one."""
    counts = [F.count_if(F.col("steps") > step) for step in range(len(STEPS))]
    hours = [F.median(column) for column in ("again_after", "on_time_after")]
    total, first, *others = sessions.agg(F.count("*"), *counts, *hours).first()
    lines = [
        f"{total:,} sessions of departures of one aircraft",
        f"{first:6,}  {STEPS[0]}, by an hour or more",
    ]
    for name, count, median in zip(STEPS[1:], others[:2], others[2:], strict=True):
        lines.append(
            f"{count:6,}  {name}: {count / first:.0%} of these, within {median:.1f} hours for half of them"
        )
    return lines


if __name__ == "__main__":
    main()
