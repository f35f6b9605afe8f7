"""What an operator sends through Spark's shuffle: input rows, or the panes of a partial aggregation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.state_words import listed
from operators.explain.parts import StagePart
from operators.runtime.binding import Binding

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_SORTS = (
    "Rows come out of a shuffle in any order, so each task sorts its rows first, to send the same if it has to run again: 0.1 "
    "to 0.8 microseconds a row"
)
ENGINE, PYTHON, ROWS, ADAPTIVE = "engine", "python", "rows", "adaptive"


def bounded_stage(binding: Binding, types: "Mapping[str, DataType]", *, shuffled: bool = False) -> StagePart:
    """Return what a bounded frame sends.

    Args:
        binding: the binding for the bounded frame.
        types: Spark's type of the event time, by its name.
        shuffled: whether its rows come out of a shuffle of Spark.
    """
    from operators.spark.batch.first_stage import obstacle

    sums = listed(op.describe() for op in binding.plan.operations)
    why_not = obstacle(binding, types)
    if why_not is None:
        return StagePart(
            ENGINE,
            f"Spark's generated code computes {sums}, and sends one row for each key and pane",
        )
    plan = binding.plan.first_stage
    if plan is not None and plan.condenses:
        return StagePart(
            PYTHON,
            f"Python workers compute {sums}, and send one row for each key and pane; not in generated code: {why_not}"
            f"{_sorts(shuffled)}",
        )
    return StagePart(ROWS, f"{_rows(binding)}; {binding.plan.why_rows}")


def streamed_stage(binding: Binding, *, shuffled: bool = False) -> StagePart:
    """Return what a stream sends.

    Args:
        binding: the binding of the stream.
        shuffled: whether its rows come out of a shuffle of Spark.
    """
    sorts = _sorts(shuffled)
    if binding.plan.first_stage is not None:
        return StagePart(
            ADAPTIVE,
            "each task aggregates its rows partially if this makes its first rows much fewer; otherwise it sends "
            f"{_rows(binding)}. One blob for each bucket{sorts}",
        )
    return StagePart(ROWS, f"{_rows(binding)}, one blob for each bucket; {binding.plan.why_rows}{sorts}")


def _sorts(shuffled: bool) -> str:
    return f". {_SORTS}" if shuffled else ""


def _rows(binding: Binding) -> str:
    return f"input rows with the columns {', '.join(binding.inputs.names)}"


def spark_types(event_time: pa.DataType, name: str) -> "dict[str, DataType]":
    """Return Spark's type of the event time, by its name.

    Args:
        event_time: Arrow type of the event time.
        name: name of the event-time column.
    """
    from pyspark.sql.types import TimestampNTZType, TimestampType

    zoned = pat.is_timestamp(event_time) and event_time.tz is not None
    return {name: TimestampType() if zoned else TimestampNTZType()}
