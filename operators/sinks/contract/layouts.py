"""Promises about tables that do not fit: a batch is refused whole."""

from typing import Any

import pyarrow as pa
import pytest

from operators.sinks.contract.base import KEYS, Contract, changes, check, number_of, row
from operators.sinks.interface import Changes, SinkError


class LayoutContract(Contract):
    """A table without a column, or with another key, is refused by name, and left as it is."""

    def test_missing_columns_are_named(self, place: Any) -> None:
        """All of them; columns that the rows lack are no problem."""
        sink = self.sink(place, "t")
        sink.write(changes(0, [row("a", n=1)]))
        wide = changes(1, [row("a", n=2)])
        more = wide.upserts.append_column("more", pa.array([1])).append_column("last", pa.array(["x"]))
        with pytest.raises(SinkError, match="more, last"):
            sink.write(Changes("one", 1, wide.deletes, more))
        self._holds_only_the_first(place)
        sink.write(Changes("one", 1, wide.deletes, wide.upserts.drop_columns("x")))
        check("rows may lack columns of the table", {row("a", n=2)}, self.rows(place))

    def test_another_key_is_refused(self, place: Any) -> None:
        """The table's own key is named, unless the attribute `has_keys` is False."""
        if not self.has_keys:
            pytest.skip("the sink's documentation says that its tables know no keys")
        sink = self.sink(place, "t")
        sink.write(changes(0, [row("a", n=1)]))
        other = changes(1, [row("b")])
        for keys in (["k"], [*KEYS, "n"]):
            with pytest.raises(SinkError, match=r"key .*\(k, window_start\)"):
                sink.write(Changes("one", 1, other.upserts.select(keys).slice(0, 0), other.upserts))
        self._holds_only_the_first(place)

    def test_the_order_of_columns_and_keys_is_free(self, place: Any) -> None:
        """Columns are found by name."""
        sink = self.sink(place, "t")
        sink.write(changes(0, [row("a", 1, 1), row("b", 1, 1)]))
        turned = changes(1, [row("a", 1, 2)], [row("b", 1)])
        deletes, upserts = turned.deletes.select(KEYS[::-1]), turned.upserts.select(["n", *KEYS[::-1], "x"])
        sink.write(Changes("one", 1, deletes, upserts))
        check("columns are found by name", {row("a", 1, 2)}, self.rows(place))

    def _holds_only_the_first(self, place: Any) -> None:
        check("a batch that was refused changes nothing", {row("a", n=1)}, self.rows(place))
        last = number_of(self.sink(place, "t").last_batch("one"))
        check("a batch that was refused is not the last one", 0, last)
