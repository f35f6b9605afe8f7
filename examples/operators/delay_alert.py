"""Alerts: an airport's mean delay over the last hour rises above a limit, and later falls below another.

    python -m examples.operators.delay_alert

A keyed operator with timers: an alert is also cleared if no more flights leave.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from examples.operators.flights import flights
from operators import Declaration, KeyContext, KeyedOperator


@dataclass(frozen=True, kw_only=True)
class DelayAlert(KeyedOperator):
    """Fires at a mean delay above `above` minutes over at least `least` flights, and clears below `below` minutes."""

    segment = "1 day"  # A batch spans days, and should touch few segments.
    size: str = "60 minutes"
    least: int = 10
    above: float = 60.0
    below: float = 45.0

    def schema(self, types: Mapping[str, pa.DataType]) -> Declaration:
        results = {
            "change": "string", "at": "timestamp_ntz", "flights": "int", "mean": "double", "minutes": "double",
        }  # fmt: skip
        return Declaration(["dep_delay"], results=results)

    def process(self, time: int, record: dict[str, Any], context: KeyContext) -> None:
        state = context.value = context.value or {"window": [], "since": None}
        state["window"].append((time, record["dep_delay"]))
        context.set_timer(
            time
        )  # It fires after all flights of this minute, so that their order does not matter.

    def on_timer(self, time: int, name: str, context: KeyContext) -> Iterator[dict[str, Any]]:
        size = self.ticks(self.size)
        window = [(t, delay) for t, delay in context.value["window"] if t >= time - size]
        since, context.value["window"] = context.value["since"], window
        mean = sum(delay for _, delay in window) / len(window) if window else None
        if window:
            context.set_timer(window[0][0] + size + 1)  # When the first flight leaves the window.
        if since is None and len(window) >= self.least and mean > self.above:
            context.value["since"] = time
            yield {"change": "fired", "at": time, "flights": len(window), "mean": mean}
        elif since is not None and (len(window) < self.least or mean < self.below):
            context.value["since"] = None
            minutes = (time - since) / self.ticks("1 minute")
            yield {"change": "cleared", "at": time, "flights": len(window), "mean": mean, "minutes": minutes}
        if not window:
            context.value = None  # Nothing is stored for an airport without flights in the last hour.


def main() -> None:
    """Run the year as a stream, and print the alerts of each batch."""
    with flights(streaming=True) as frame:
        alerts = DelayAlert(grace="24 hours").group_by("origin").apply(frame, event_time="departure")
        alerts.writeStream.foreachBatch(show).trigger(availableNow=True).start().awaitTermination()


def show(alerts: DataFrame, batch: int) -> None:
    """Print the number of alerts that a batch cleared, and the longest."""
    cleared = alerts.where("change = 'cleared'").orderBy("minutes", ascending=False).collect()
    if cleared:
        one = cleared[0]
        lasted = f"{one.minutes // 60:.0f} h {one.minutes % 60:02.0f} min"
        print(
            f"batch {batch:2}: {len(cleared):3} alerts, the longest at {one.origin}: {lasted} to {one.at:%d %B %H:%M}"
        )


if __name__ == "__main__":
    main()
