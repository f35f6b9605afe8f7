"""An operator of a user's, for queries and local runners that are disturbed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from operators import Declaration, KeyContext, KeyedOperator


@dataclass(frozen=True, kw_only=True)
class Runs(KeyedOperator):
    """Runs of records of a key, each ended by a timer."""

    segment = "1 second"
    gap: str = "300 ms"

    def schema(self, types: Mapping[str, pa.DataType]) -> Declaration:
        results = {"began": "bigint", "ended": "bigint", "n": "bigint", "total": "bigint"}
        return Declaration(["v"], results=results)

    def process(self, time: int, record: dict[str, Any], context: KeyContext) -> None:
        run = context.value = context.value or {"began": time, "n": 0, "total": 0}
        run["n"] += 1
        run["total"] += record["v"] or 0
        context.set_timer(time + self.ticks(self.gap))

    def on_timer(self, time: int, name: str, context: KeyContext) -> Iterator[dict[str, Any]]:
        run, context.value = context.value, None
        yield {**run, "ended": time // self.ticks("1 ms")}
