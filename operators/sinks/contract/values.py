"""Promises about values: what is read is what was written."""

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from operators.errors import DefinitionError
from operators.sinks.changes import changes_of
from operators.sinks.contract.base import NOT_FINITE, RARE, Contract, check, number_of, tuples
from operators.sinks.interface import Changes, Sink, SinkError

_NOON = dt.datetime(2026, 1, 5, 12)
_ZONED = _NOON.replace(tzinfo=dt.timezone.utc)
_CENTS = pa.decimal128(10, 2)
_US, _UTC_US = pa.timestamp("us"), pa.timestamp("us", "UTC")
ALIKE: Sequence[tuple[pa.DataType, Any, pa.DataType, Any]] = (
    (pa.int32(), 7, pa.int64(), 7),
    (pa.float32(), 0.1, pa.float64(), 0.1),
    (pa.float64(), 1.5, pa.float32(), 1.5),
    (_CENTS, Decimal("1.50"), pa.decimal128(2, 1), Decimal("1.5")),
    (_CENTS, Decimal("2.00"), pa.decimal128(1, 0), Decimal(2)),
    (_UTC_US, _ZONED, pa.timestamp("ms", "Europe/Berlin"), _ZONED),
    (_US, _NOON, pa.timestamp("s"), _NOON),
    (pa.date32(), _NOON.date(), pa.date64(), _NOON.date()),
    (pa.string(), "a", pa.large_string(), "a"),
    (pa.binary(), b"a", pa.large_binary(), b"a"),
)
"""The type of a key column and a value, and the same value as another type has it."""
UNLIKE: Sequence[tuple[pa.DataType, Any, pa.DataType, Any]] = (
    (_CENTS, Decimal("2.00"), pa.int64(), 2),
    (_CENTS, Decimal("1.50"), pa.float64(), 1.5),
    (_CENTS, Decimal("1.50"), pa.string(), "1.5"),
    (pa.float64(), 2.0, pa.int64(), 2),
    (pa.int64(), 1, pa.bool_(), True),
    (pa.int32(), 7, pa.string(), "7"),
    (pa.bool_(), True, pa.int64(), 1),
    (_UTC_US, _ZONED, _US, _NOON),
    (_US, _NOON, _UTC_US, _ZONED),
    (_UTC_US, _ZONED, pa.string(), "2026-01-05T12:00:00Z"),
    (pa.date32(), _NOON.date(), _US, _NOON.replace(hour=0)),
    (pa.string(), "a", pa.binary(), b"a"),
    (pa.binary(), b"a", pa.string(), "a"),
)
"""The same, where another value may be meant."""


def keyed(**columns: pa.Array) -> pa.Table:
    """Return columns with the number of each row as key; shorter ones are filled up with nulls."""
    count = max(map(len, columns.values()))
    filled = {
        name: pa.concat_arrays([column, pa.nulls(count - len(column), column.type)])
        for name, column in columns.items()
    }
    return pa.table({"id": pa.array(range(count), pa.int32()), **filled})


def batch_of(upserts: pa.Table, *keys: str, batch: int = 0) -> Changes:
    """Return a batch that inserts the rows."""
    return Changes("one", batch, upserts.select(keys).slice(0, 0), upserts)


def sorted_rows(table: pa.Table) -> list[str]:
    """Return the rows in a fixed order, as text: NaN is not equal to itself."""
    return sorted(map(repr, tuples(table)))


class ValueContract(Contract):
    """A table holds every value of the types that the sink accepts, and the sink refuses the others."""

    def test_values_come_back(self, place: Any) -> None:
        """Awkward values of all types, and nulls, inserted and replaced."""
        rows = keyed(**self.held)
        for batch in (0, 1):
            self.sink(place, "t").write(batch_of(rows, "id", batch=batch))
            found = self.read(place, "t", rows.schema)
            for name in rows.column_names:
                expected = sorted_rows(rows.select(["id", name]))
                check(
                    f"values of type {rows.schema.field(name).type} come back",
                    expected,
                    sorted_rows(found.select(["id", name])),
                )

    def test_not_finite_floats_come_back(self, place: Any) -> None:
        """NaN and the infinities, unless the attribute `not_finite` is False."""
        if not self.not_finite:
            pytest.skip("the sink's documentation says that it does not keep them")
        rows = keyed(x=NOT_FINITE, y=NOT_FINITE.cast(pa.float32()))
        self.sink(place, "t").write(batch_of(rows, "id"))
        check(
            "floats that are not finite come back",
            sorted_rows(rows),
            sorted_rows(self.read(place, "t", rows.schema)),
        )

    def test_keys_of_all_atomic_types(self, place: Any) -> None:
        """Rows are replaced and deleted by keys of each type."""
        for name, values in self.held.items():
            if pa.types.is_nested(values.type):
                continue
            kept = pa.table({"key": values, "n": pa.array([1] * len(values), pa.int64())})
            later = kept.set_column(1, "n", pa.array([2] * len(values), pa.int64()))
            sink = self.sink(place, f"t_{name}")
            sink.write(batch_of(kept, "key"))
            sink.write(Changes("one", 1, later.select(["key"]).slice(0, 1), later.slice(1)))
            found = self.read(place, f"t_{name}", kept.schema)
            check(f"values of type {values.type} are keys", sorted_rows(later.slice(1)), sorted_rows(found))

    def test_forgotten_keys_have_the_type_of_their_column(self, place: Any) -> None:
        """A key of another type finds its rows, or is refused. A sink need not be able to forget."""
        if type(self.sink(place, "t")).forget is Sink.forget:
            return
        for number, (type_, value, other, key) in enumerate((*ALIKE, *UNLIKE)):
            table = f"t_{number}"
            rows = pa.table({"k": pa.array([value, None], type_), "n": [1, 2]})
            sink, gone = self.sink(place, table), pa.table({"k": pa.array([key], other)})
            sink.write(batch_of(rows, "k"))
            try:
                deleted = sink.forget(gone)
            except (SinkError, DefinitionError) as refused:
                check(f"a key of {other} is a key of {type_}", False, number < len(ALIKE))
                check("a key that is refused is named", True, "'k'" in str(refused))
                deleted = 0
            else:
                check(f"a key of {other} finds its row among those of {type_}, or is refused", 1, deleted)
            left = sorted_rows(rows.slice(deleted))
            check("all other rows stay", left, sorted_rows(self.read(place, table, rows.schema)))

    def test_nan_is_not_the_null_key(self, place: Any) -> None:
        """Rows of the null key stay when NaN is forgotten."""
        sink = self.sink(place, "t")
        if type(sink).forget is Sink.forget:
            return
        rows = pa.table({"k": pa.array([1.0, None]), "n": [1, 2]})
        sink.write(batch_of(rows, "k"))
        nan = pa.table({"k": pa.array([math.nan])})
        try:
            check("NaN has no rows", 0, sink.forget(nan))
        except SinkError as refused:
            check("a key that is refused is named", True, "'k'" in str(refused))
        check("null stays", sorted_rows(rows), sorted_rows(self.read(place, "t", rows.schema)))

    def test_rare_values_come_back_or_are_refused(self, place: Any) -> None:
        """NUL in text, and times outside of the years 1 to 9999: a sink keeps them, or names the column."""
        for name, values in RARE.items():
            for key in ("id",) if pa.types.is_nested(values.type) else ("id", name):
                self._comes_back_or_is_refused(place, f"t_{name}_{key}", keyed(**{name: values}), key)

    def _comes_back_or_is_refused(self, place: Any, table: str, rows: pa.Table, key: str) -> None:
        name, sink = rows.column_names[1], self.sink(place, table)
        sink.write(batch_of(rows.slice(0, 0), key))
        try:
            for batch in (1, 2):
                sink.write(changes_of(rows, [key], "one", batch))
            held = rows
        except SinkError as refused:
            check("a value is refused by the name of its column", True, f"column {name!r}" in str(refused))
            last = number_of(sink.last_batch("one"))
            check("a batch that was refused is not the last one", True, last in (None, 0))
            held = rows.slice(0, 0)
        found = self.read(place, table, rows.schema).sort_by("id").combine_chunks()
        check(f"values of {name} come back, or change nothing", True, found.equals(held.combine_chunks()))

    def test_zero_is_one_key(self, place: Any) -> None:
        """A key of 0.0 replaces one of -0.0."""
        for number, type_ in enumerate((pa.float64(), pa.float32())):
            schema = pa.schema([("k", type_), ("n", pa.int64())])
            for batch, zero in enumerate((-0.0, 0.0, -0.0)):
                rows = pa.table([pa.array([zero, 1.0], type_), pa.array([batch, batch])], schema=schema)
                self.sink(place, f"t_{number}").write(changes_of(rows, ["k"], "one", batch))
            found = self.read(place, f"t_{number}", schema)
            check("-0.0 and 0.0 are one key", [(0.0, 2), (1.0, 2)], sorted(tuples(found)))

    def test_awkward_names(self, place: Any) -> None:
        """Names of columns are not part of any language."""
        rows = keyed(
            **{
                "select": pa.array([1]),
                "Two words": pa.array([2]),
                'a"b': pa.array([3]),
                "it's %s": pa.array([4]),
            }
        )
        rows = rows.rename_columns({"id": "Order"})
        for batch in (0, 1):
            self.sink(place, "t").write(batch_of(rows, "Order", batch=batch))
            check("names come back", sorted_rows(rows), sorted_rows(self.read(place, "t", rows.schema)))

    def test_many_rows(self, place: Any) -> None:
        """A batch of many rows is written whole."""
        rows = pa.table(
            {"id": pa.array(range(120_000), pa.int64()), "text": pa.array(["some text"] * 120_000)}
        )
        self.sink(place, "t").write(batch_of(rows, "id"))
        found = self.read(place, "t", rows.schema)
        check(
            "a batch of many rows is written whole",
            list(range(120_000)),
            sorted(found.column("id").to_pylist()),
        )

    def test_other_types_are_refused(self, place: Any) -> None:
        """Before anything is written, by the column's name."""
        for type_ in self.refused:
            rows = keyed(n=pa.array([1]), odd=pa.nulls(1, type_))
            with pytest.raises(SinkError, match="'odd'"):
                self.sink(place, "t").write(batch_of(rows, "id"))
            check(
                "a batch that was refused is not the last one", None, self.sink(place, "t").last_batch("one")
            )
