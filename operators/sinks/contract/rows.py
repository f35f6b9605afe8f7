"""Promises about rows: what is inserted, replaced and deleted."""

import random
from typing import Any

import pyarrow as pa

from operators.sinks.contract.base import KEYS, Contract, Row, changes, check, number_of, row
from operators.sinks.interface import Sink, SinkError


class RowContract(Contract):
    """A table has the last row of each key, without those that were deleted."""

    def test_a_batch_without_rows_creates_the_table(self, place: Any) -> None:
        """A reader finds the table from the first batch on."""
        check("the first batch is written", True, self.sink(place, "t").write(changes(0)))
        check("a batch without rows creates the table", set(), self.rows(place))

    def test_rows_are_inserted_replaced_and_deleted(self, place: Any) -> None:
        """Rows of other keys stay as they are; a row that does not exist need not be deleted."""
        sink = self.sink(place, "t")
        sink.write(changes(0, [row("a", 1, 1), row("a", 2, 2), row("b", 1, 3)]))
        check("rows are inserted", {row("a", 1, 1), row("a", 2, 2), row("b", 1, 3)}, self.rows(place))
        sink.write(changes(1, [row("a", 1, 4), row("c", 1, None, 0.5)], [row("b", 1), row("b", 2)]))
        expected = {row("a", 1, 4), row("a", 2, 2), row("c", 1, None, 0.5)}
        check("rows are replaced, inserted and deleted in one batch", expected, self.rows(place))

    def test_null_is_a_key_like_others(self, place: Any) -> None:
        """A row whose key has a null is replaced and deleted like any other."""
        sink = self.sink(place, "t")
        sink.write(changes(0, [row(None, 1, 1), row(None, 2, 2), row("", 1, 3)]))
        sink.write(changes(1, [row(None, 1, 4)]))
        check("null is equal to null", {row(None, 1, 4), row(None, 2, 2), row("", 1, 3)}, self.rows(place))
        sink.write(changes(2, [], [row(None, 2), row("", 1)]))
        check("null is deleted by null", {row(None, 1, 4)}, self.rows(place))

    def test_a_deleted_row_may_come_back(self, place: Any) -> None:
        """It is a new row."""
        sink = self.sink(place, "t")
        for batch, (upserts, deletes) in enumerate(
            [([row("a")], []), ([], [row("a")]), ([row("a", n=2)], [])]
        ):
            sink.write(changes(batch, upserts, deletes))
        check("a row that was deleted can be inserted again", {row("a", n=2)}, self.rows(place))

    def test_all_rows_of_keys_can_be_forgotten(self, place: Any) -> None:
        """Whatever their windows; null is a key, other keys and the number of the batch stay. A sink need not be able to."""
        sink = self.sink(place, "t")
        if type(sink).forget is Sink.forget:
            return
        gone = pa.table({"k": pa.array(["a", None, "nobody"], pa.string())})
        check("a table that does not exist has no rows of them", 0, sink.forget(gone))
        sink.write(changes(0, [row("a", 1, 1), row("a", 2, 2), row("b", 1, 3), row(None, 1), row("", 1, 5)]))
        check("the number of deleted rows is returned", 3, sink.forget(gone))
        check("keys without rows are no error", 0, sink.forget(gone))
        check("all rows of the keys go, and no others", {row("b", 1, 3), row("", 1, 5)}, self.rows(place))
        check("the last batch stays", 0, number_of(sink.last_batch("one")))
        check("the batch is not written again", False, sink.write(changes(0, [row("a", 1, 1)])))
        sink.write(changes(1, [row("a", 3, 7)]))
        later = {row("b", 1, 3), row("", 1, 5), row("a", 3, 7)}
        check("later rows of the keys are written", later, self.rows(place))
        try:
            sink.forget(pa.table({"other": ["a"]}))
        except SinkError as error:
            check("what cannot be forgotten is named", True, "other" in str(error))
        else:
            check("keys of columns that the table lacks are refused", "SinkError", None)
        check("what cannot be forgotten changes nothing", later, self.rows(place))

    def test_tables_are_independent(self, place: Any) -> None:
        """A query that writes to two tables has its batches in both."""
        for table, key in (("t", "a"), ("other", "b")):
            check(
                "each table has its own batches", True, self.sink(place, table).write(changes(0, [row(key)]))
            )
        check(
            "tables have their own rows",
            [{row("a")}, {row("b")}],
            [self.rows(place), self.rows(place, "other")],
        )

    def test_random_batches_end_like_a_dictionary(self, place: Any) -> None:
        """Batches of random changes, some of which come twice, on a sink that is opened anew now and then."""
        seed = random.randrange(2**32) if self.seed is None else self.seed
        print(f"seed = {seed}")
        rng, model, sink = random.Random(seed), dict[Row, Row](), self.sink(place, "t")
        for batch in range(self.batches):
            rows = [row(rng.choice(["a", "b", None]), rng.randrange(20), rng.randrange(9)) for _ in range(20)]
            latest = {one[: len(KEYS)]: one for one in rows[: rng.randrange(20)]}
            gone = {
                one[: len(KEYS)]: one for one in rows if rng.random() < 0.3 and one[: len(KEYS)] not in latest
            }
            written = changes(batch, list(latest.values()), list(gone.values()))
            sink.write(written)
            model = {key: one for key, one in {**model, **latest}.items() if key not in gone}
            if rng.random() < 0.3:
                sink = self.sink(place, "t")
                sink.write(written)
            check(f"batch {batch} changes what it should", set(model.values()), self.rows(place))
