"""An operator's rows and its late records, from one Spark plan."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.streaming import DataStreamWriter

from operators.runtime.binding import Runnable
from operators.spark.apply import apply
from operators.spark.inputs.arguments import Arguments
from operators.steps.late_reports import LATE

WriteBoth = Callable[[DataFrame, DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class WithLate:
    """What `apply_with_late` returns: one frame with both, and each alone.

    A stream has one plan with one state: write it with `foreach_batch`, or write `rows` and split them later. Two queries, of
    `windows` and of `late`, would read the source twice and keep two states.

    Attributes:
        rows: the operator's rows, and a row for each late or bad record, in which only the column `late` is not null.
    """

    rows: DataFrame

    @classmethod
    def of(
        cls,
        operator: Runnable,
        df: DataFrame,
        event_time: str | Column,
        arguments: Arguments,
    ) -> "WithLate":
        """Return an operator applied to a frame, as `RunnableOperator.apply_with_late` does."""
        return cls(apply(operator, df, event_time, arguments, with_late=True))

    @property
    def windows(self) -> DataFrame:
        """The operator's rows, as `apply` returns them."""
        return _windows(self.rows)

    @property
    def late(self) -> DataFrame:
        """Late and bad records.

        Columns: `reason`, "late" or what is wrong with the record; `window`, the last one that could have held it, and
        `late_by_ms`, the time from that window's end to the close time that had closed it, both null for bad records; and
        `record`, a struct of all its columns.
        """
        return _late(self.rows)

    def foreach_batch(self, write: WriteBoth) -> DataStreamWriter:
        """Return the writer of a stream that passes the windows and late records of each batch to a function.

        Args:
            write: is called with windows, late records and the number of the batch. A batch that fails is repeated, so what
                it writes should be idempotent. It may read some of the rows only: the rest is computed after it.
        """

        def each(rows: DataFrame, number: int) -> None:
            rows.persist()
            try:
                write(_windows(rows), _late(rows), number)
                # Spark ends the query if the state of any bucket was not committed, as after a limit or show.
                rows.count()
            finally:
                rows.unpersist()

        return self.rows.writeStream.foreachBatch(each)


def _windows(rows: DataFrame) -> DataFrame:
    return rows.where(F.col(LATE).isNull()).drop(LATE)


def _late(rows: DataFrame) -> DataFrame:
    return rows.where(F.col(LATE).isNotNull()).select(f"{LATE}.*")
