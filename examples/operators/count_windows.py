"""Windows by count: mean and worst delay of an airport's last flights, at each flight or at each n-th.

    python -m examples.operators.count_windows

An operator on columns: there is no Python loop over flights.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.operators.flights import flights
from operators import NEVER, CallContext, Declaration, Operator, OutputRows, StoredEntries


@dataclass(frozen=True, kw_only=True)
class LastFlights(Operator):
    """The last `n` values of a column by event time, at every `every`-th record of a key.

    A flight waits in the store, with number 0, until no earlier flight can arrive; then it gets its number.
    """

    segment = "1 day"
    n: int
    every: int = 1
    column: str = "dep_delay"

    def declare(self, types: Mapping[str, pa.DataType]) -> Declaration:
        results = {"at": "timestamp_ntz", "number": "bigint", "mean": "double", "worst": "double"}
        return Declaration([self.column], {"value": float, "number": int}, results)

    def due(self, entries: StoredEntries) -> np.ndarray:
        return np.where(entries["number"] == 0, entries.time, NEVER)

    def process_batch(self, context: CallContext) -> None:
        records, value = context.records, context.records.values[self.column].filled(0)
        context.add(context.stored(records.key, records.time, value=value, number=0))

    def fire(self, context: CallContext) -> OutputRows:
        counted, due = context.read(end=context.close_time - 1), context.due
        key, time = np.append(counted.key, due.key), np.append(counted.time, due.time)
        value, number = (np.append(counted[name], due[name]) for name in ("value", "number"))
        order = np.lexsort((value, time, key))
        key, time, value, number = key[order], time[order], value[order], number[order]

        at, first = (
            np.arange(len(key)),
            np.searchsorted(key, key),
        )  # Row numbers, and the first row of each key.
        is_new, number = number == 0, np.maximum(number[first], 1) + at - first
        kept = at >= np.searchsorted(key, key, "right") - self.n
        context.delete(counted)
        context.add(context.stored(key[kept], time[kept], value=value[kept], number=number[kept]))

        shown = np.flatnonzero(is_new & (number % self.every == 0))
        window = at[shown, None] - np.arange(self.n)
        values = np.where(window >= first[shown, None], value[window], np.nan)
        mean, worst = np.nanmean(values, axis=1), np.nanmax(values, axis=1)
        return context.rows(key[shown], at=time[shown], number=number[shown], mean=mean, worst=worst)


def main() -> None:
    """Print the 100 flights in a row of each airport that were the latest on average."""
    with flights() as frame:
        print("Mean delay of 100 flights in a row, the worst of the year")
        windows = LastFlights(n=100, every=10).group_by("origin").apply(frame, event_time="departure")
        for row in worst(windows).collect():
            print(f"{row.origin}: {row.mean:.0f} minutes, {row.worst:.0f} at worst, to {row.at:%d %B %H:%M}")


def worst(windows: DataFrame) -> DataFrame:
    """Return the row of each airport that has the highest mean."""
    found = windows.where("number >= 100").groupBy("origin").agg(F.max_by(F.struct("*"), "mean").alias("row"))
    return found.select("row.*").orderBy("origin")


if __name__ == "__main__":
    main()
