"""Promises about values: what is read is what was written."""

from typing import Any

import pyarrow as pa
import pytest

from operators.sinks.changes import changes_of
from operators.sinks.contract.base import NOT_FINITE, RARE, Contract, check, number_of, tuples
from operators.sinks.interface import Changes, SinkError


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
