"""Promises about batches: each is written once."""

import pickle
from typing import Any

from operators.sinks.contract.base import Contract, changes, check, number_of, row
from operators.sinks.interface import WrittenBatch


class RepeatContract(Contract):
    """A sink knows which batches of a query it has."""

    def test_a_new_table_has_no_batch(self, place: Any) -> None:
        """Also if the table does not exist, and for queries that it does not know."""
        sink = self.sink(place, "t")
        check("a table that does not exist has no last batch", None, sink.last_batch("one"))
        sink.write(changes(0, [row("a")]))
        check("an unknown query has no last batch", None, sink.last_batch("two"))

    def test_a_check_changes_nothing(self, place: Any) -> None:
        """Neither before the table exists nor after."""
        sink = self.sink(place, "t")
        sink.check()
        check("a check is no batch", None, sink.last_batch("one"))
        sink.write(changes(0, [row("a")]))
        sink.check()
        check("a check changes no rows", {row("a")}, self.rows(place))

    def test_the_last_batch_is_known(self, place: Any) -> None:
        """Also to another sink of the same arguments, as after a restart; numbers may be left out."""
        for batch, fingerprint in ((0, 5), (1, 2**63 - 1), (7, 0)):
            written = changes(batch, [row("a", n=batch)], fingerprint=fingerprint)
            check("a new batch is written", True, self.sink(place, "t").write(written))
            last = self.sink(place, "t").last_batch("one")
            check("the last batch and its fingerprint are known", WrittenBatch(batch, fingerprint), last)

    def test_a_repeated_batch_changes_nothing(self, place: Any) -> None:
        """Nor does an earlier one, whatever their rows and fingerprint."""
        self.sink(place, "t").write(changes(3, [row("a", 1, 1), row("b", 1, 2)], fingerprint=1))
        for batch in (3, 2, 0):
            again = changes(batch, [row("a", 1, 9), row("c", 1, 9)], [row("b", 1)], fingerprint=2)
            check("a batch that was written is not written again", False, self.sink(place, "t").write(again))
            check("a repeated batch changes nothing", {row("a", 1, 1), row("b", 1, 2)}, self.rows(place))
        last = self.sink(place, "t").last_batch("one")
        check("a repeated batch is not the last one", WrittenBatch(3, 1), last)

    def test_queries_are_counted_apart(self, place: Any) -> None:
        """Two queries on one table have their own batches, but the same rows."""
        sink = self.sink(place, "t")
        sink.write(changes(5, [row("a", n=1)], query="one"))
        check(
            "a query's first batch is written", True, sink.write(changes(0, [row("b")], query='two\'s "0"'))
        )
        last = [number_of(sink.last_batch(name)) for name in ("one", 'two\'s "0"')]
        check("each query has its last batch", [5, 0], last)
        sink.write(changes(1, [row("a", n=2)], query='two\'s "0"'))
        check("queries change the same rows", {row("a", n=2), row("b")}, self.rows(place))

    def test_a_sink_can_be_pickled(self, place: Any) -> None:
        """As Spark Connect does, also when it has been used."""
        sink = self.sink(place, "t")
        sink.write(changes(0, [row("a")]))
        copied = pickle.loads(pickle.dumps(sink))  # noqa: S301 - its own bytes
        copied.write(changes(1, [row("b")]))
        check("a sink that was pickled writes to the same table", {row("a"), row("b")}, self.rows(place))
