"""Promises about tables with the newest row of each key."""

import random
from typing import Any

import pyarrow as pa

from operators.sinks.changes import changes_of
from operators.sinks.contract.base import Contract, Row, check, tuples
from operators.sinks.interface import Sink

_SCHEMA = pa.schema(
    [("k", pa.string()), ("part", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("n", pa.int64())]
)
_KEYS = ("k", "part")


class LatestContract(Contract):
    """A row is replaced only by one that is not older. A sink whose `keeps_latest` is False makes no such promise."""

    def test_a_newer_row_is_not_replaced(self, place: Any) -> None:
        """Whatever batch or query brings the older one; a row of the same time replaces."""
        sink = self.sink(place, "t")
        if not sink.keeps_latest:
            return
        self._write(sink, 0, [("a", 1, 30, 1), ("b", 1, 10, 1), (None, 1, 30, 1)])
        self._write(sink, 1, [("a", 1, 20, 2), ("b", 1, 20, 2), (None, 1, 20, 2), ("c", None, 5, 2)])
        newest = {("a", 1, 30, 1), ("b", 1, 20, 2), (None, 1, 30, 1), ("c", None, 5, 2)}
        check("an older row of a later batch does not replace a newer one", newest, self._rows(place))
        self._write(sink, 0, [("a", 1, 29, 3), ("c", None, 4, 3)], query="two")
        check("nor does an older row of another query", newest, self._rows(place))
        self._write(sink, 2, [("a", 1, 30, 4), (None, 1, 31, 4)])
        newest = {("a", 1, 30, 4), ("b", 1, 20, 2), (None, 1, 31, 4), ("c", None, 5, 2)}
        check("a row that is not older replaces", newest, self._rows(place))

    def test_null_is_older_than_all_times(self, place: Any) -> None:
        """It is kept where the table has no other row of its key."""
        sink = self.sink(place, "t")
        if not sink.keeps_latest:
            return
        self._write(sink, 0, [("a", 1, None, 1), ("b", 1, 0, 1)])
        self._write(sink, 1, [("a", 1, None, 2), ("b", 1, None, 2)])
        check("null replaces null only", {("a", 1, None, 2), ("b", 1, 0, 1)}, self._rows(place))
        self._write(sink, 2, [("a", 1, -7, 3)])
        check("any time replaces null", {("a", 1, -7, 3), ("b", 1, 0, 1)}, self._rows(place))

    def test_random_rows_end_with_the_newest(self, place: Any) -> None:
        """Batches of random rows, some of which come twice, of two queries."""
        seed = random.randrange(2**32) if self.seed is None else self.seed
        print(f"seed = {seed}")
        rng, model = random.Random(seed), dict[Row, Row]()
        if not self.sink(place, "t").keeps_latest:
            return
        for batch in range(self.batches):
            sink, query = self.sink(place, "t"), rng.choice(["one", "two"])
            rows = [
                (
                    rng.choice(["a", "b", None]),
                    rng.choice([1, 2, None]),
                    rng.choice([None, *range(40)]),
                    batch,
                )
                for _ in range(rng.randrange(8))
            ]
            for one in rows:
                before = model.get(one[:2])
                if before is None or before[2] is None or (one[2] is not None and one[2] >= before[2]):
                    model[one[:2]] = one
            for _ in range(rng.choice([1, 2])):
                self._write(sink, batch, rows, query)
            check(f"batch {batch} leaves each key's newest row", set(model.values()), self._rows(place))

    @staticmethod
    def _write(sink: Sink, batch: int, rows: list[Row], query: str = "one") -> None:
        columns = zip(*rows, strict=True) if rows else [[]] * len(_SCHEMA)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
        sink.write(changes_of(pa.table(arrays, schema=_SCHEMA), _KEYS, query, batch, "at"))

    def _rows(self, place: Any) -> set[Row]:
        found = self.read(place, "t", _SCHEMA)
        at = found.column("at").cast(pa.int64())
        return set(tuples(found.set_column(2, "at", at)))
