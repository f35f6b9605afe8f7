"""The contract suite: every promise of `Sink` as a test, for authors of sinks.

    from operators.sinks.contract import SinkContract

    class TestMySink(SinkContract):
        def sink(self, place, table):
            return MySink(place / "file", table)

        def read(self, place, table, schema):
            ...  # the table's rows as a pyarrow.Table of this schema

`PageContract` is the suite of tables of pages: implement `table`. Both need pytest. A test that fails says which promise is
broken, and what was expected and found.
"""

from operators.sinks.contract.crashes import CrashContract, write_forever
from operators.sinks.contract.latest import LatestContract
from operators.sinks.contract.layouts import LayoutContract
from operators.sinks.contract.pages import PageContract
from operators.sinks.contract.repeats import RepeatContract
from operators.sinks.contract.rows import RowContract
from operators.sinks.contract.values import ValueContract

__all__ = ["PageContract", "SinkContract", "write_forever"]


class SinkContract(RowContract, LatestContract, RepeatContract, ValueContract, LayoutContract, CrashContract):
    """Tests of one sink. Subclass it, with a name that begins with `Test`, and implement `sink` and `read`.

    Attributes:
        not_finite: whether floats keep NaN and the infinities.
        has_keys: whether a table knows its key columns, so that other ones can be refused.
        held: columns of the types that the sink holds, by name; by default all of
            `operators.sinks.contract.base.VALUES`.
        refused: types that the sink refuses.
        batches: length of the randomized comparison with a dictionary.
        kills: how often the writing process is killed.
        seed: the seed of that comparison; None draws one and prints it.
    """
