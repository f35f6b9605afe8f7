"""What an operator sends through Spark's shuffle: rows as they are, or what a first stage made of them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat

from operators.custom.plan import CustomPlan
from operators.explain.parts import StagePart
from operators.runtime.program import Program
from operators.steps.partials import TwoStagePlan

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

ENGINE, PYTHON, ROWS, ADAPTIVE = "engine", "python", "rows", "adaptive"


def bounded_stage(program: Program, types: "Mapping[str, DataType]") -> StagePart:
    """Return what a bounded frame sends.

    Args:
        program: bound to it, with the plan for bounded frames.
        types: Spark's type of the event time, by its name.
    """
    from operators.spark.first_stage import obstacle

    sums = ", ".join(op.describe() for op in program.plan.operations)
    why_not = obstacle(program, types)
    if why_not is None:
        return StagePart(
            ENGINE,
            f"Spark's generated code accumulates {sums}: a row for each key and frame goes through the shuffle",
        )
    if isinstance(program.plan, TwoStagePlan) and program.plan.condenses:
        return StagePart(
            PYTHON,
            f"Python workers accumulate {sums}, and entries go through the shuffle; not in generated code: {why_not}",
        )
    return StagePart(ROWS, f"{_rows(program)}; {_why_rows(program)}")


def streamed_stage(program: Program) -> StagePart:
    """Return what a stream sends."""
    if isinstance(program.plan, TwoStagePlan):
        return StagePart(
            ADAPTIVE,
            "each task accumulates its rows if that makes the first of them much fewer, else it sends "
            f"{_rows(program)}; in one blob for each bucket",
        )
    return StagePart(ROWS, f"{_rows(program)}, in one blob for each bucket; {_why_rows(program)}")


def _rows(program: Program) -> str:
    return f"rows as they are, of {', '.join(program.inputs.names)}"


def _why_rows(program: Program) -> str:
    plan = program.plan
    if isinstance(plan, CustomPlan):
        return "an operator of one's own takes records"
    if isinstance(plan, TwoStagePlan):
        return "an entry is one event time, so that little would be saved by accumulating before"
    unmerged = ", ".join(op.describe() for op in plan.operations if not op.combines)
    return f"{unmerged} cannot be combined, so that nothing can be accumulated before"


def spark_types(event_time: pa.DataType, name: str) -> "dict[str, DataType]":
    """Return what Spark has for Arrow's types, as far as `bounded_stage` depends on it.

    Args:
        event_time: Arrow type of the event time.
        name: of the event time.
    """
    from pyspark.sql.types import TimestampNTZType, TimestampType

    zoned = pat.is_timestamp(event_time) and event_time.tz is not None
    return {name: TimestampType() if zoned else TimestampNTZType()}
