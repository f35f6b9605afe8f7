"""How the states of panes are combined into the state of a window, and why in this way."""

from collections.abc import Callable
from typing import Any

from operators.aggregates.definitions import Bound
from operators.aggregates.distinct import Distinct
from operators.aggregates.fold_operation import FoldOperation, KeptFold, MergeableFold
from operators.aggregates.moments import SumsOfProducts
from operators.aggregates.operation import Operation
from operators.aggregates.operations import Collect, CountRows, SumFloat, SumLong
from operators.aggregates.percentiles import Values
from operators.aggregates.quantile_sketches import QuantileSketch
from operators.aggregates.sketches import DistinctSketch
from operators.aggregates.top import Top
from operators.aggregates.user_operation import UserOperation
from operators.engines.fold_engine import FoldPlan
from operators.engines.rolling_rows import RollingOutput
from operators.engines.sessions import SessionPlan
from operators.explain.parts import AggregatePart, Strategy
from operators.steps.emission import AggregateOutput
from operators.steps.plan import Plan

DEDUCT = Strategy(
    "deducting",
    "O(1)",
    "a window is the difference of two running totals. This is exact, also for doubles, which are divided into whole numbers "
    "(doubling is used if values are not finite, or too different in size)",
)
OVERLAP = Strategy(
    "two blocks",
    "O(1)",
    "two blocks of panes cover a window. They may overlap, since combining a pane twice changes nothing",
)
RANGES = Strategy(
    "ranges",
    "O(1), and its values",
    "panes hold values in order, so that a window is a range of them. They are joined only when results are made",
)
TWO_STACKS = Strategy(
    "merging",
    "about 2 calls of merge per pane and window",
    "Python merges panes from both ends of consecutive windows",
)
DOUBLING = Strategy(
    "doubling",
    "O(log n)",
    "states can be combined but not deducted. Blocks of 1, 2, 4, ... panes are combined once for all windows, and a window "
    "combines the blocks that make up its length",
)
CUSTOM = Strategy("custom", "as its `combine_ranges`", "the operation defines its own `combine_ranges`")
ONE_ENTRY = Strategy(
    "joining", "O(1)", "a session is one entry: states are combined when records and sessions meet"
)
ENTRIES = Strategy(
    "joining",
    "O(n)",
    "a late record can move the bounds between sessions of limited length, so event times are combined when these are emitted",
)
FOLD = Strategy(
    "adding",
    "one addition per record and window",
    "a state cannot be combined, so that there are no panes: each record is added to the state of each window that contains "
    "it (KIP-450)",
)
KEPT = Strategy(
    "adding again",
    "one addition per record and window",
    "a state cannot be combined, so that panes keep the values of their records, and each window adds those that it contains",
)
_BY_COST = (DEDUCT, OVERLAP, RANGES, TWO_STACKS, DOUBLING, CUSTOM, KEPT)

BY_METHOD: dict[Callable[..., Any], Strategy] = {
    Operation.combine_ranges: DOUBLING,
    CountRows.combine_ranges: DEDUCT,
    SumLong.combine_ranges: DEDUCT,
    SumFloat.combine_ranges: DEDUCT,
    SumsOfProducts.combine_ranges: DEDUCT,
    Collect.combine_ranges: RANGES,
    Distinct.combine_ranges: RANGES,
    Values.combine_ranges: RANGES,
    Top.combine_ranges: RANGES,
    QuantileSketch.combine_ranges: RANGES,
    DistinctSketch.combine_ranges: RANGES,
    UserOperation.combine_ranges: DOUBLING,
    MergeableFold.combine_ranges: TWO_STACKS,
    KeptFold.combine_ranges: KEPT,
}
"""The strategy of each `combine_ranges`, for operations that are not idempotent."""


def strategy_of(operation: Operation) -> Strategy:
    """Return how `PaneSchema.combine_ranges` combines panes with this state into windows."""
    if not operation.combines:
        return FOLD
    if operation.idempotent:
        return OVERLAP
    if isinstance(operation, UserOperation) and operation.definition.deduct is not None:
        return DEDUCT
    return BY_METHOD.get(type(operation).combine_ranges, CUSTOM)


def aggregates_of(plan: Plan, output: AggregateOutput) -> tuple[AggregatePart, ...]:
    """Return each result with the strategy that computes it."""
    unmerged = [op.describe() for op in plan.operations if not op.combines]
    names = [name for name, _ in output.aggregates]
    if isinstance(output, RollingOutput):
        names = [
            ", ".join(f"{name}{output.suffixes[n]}" for n in over)
            for name, over in zip(names, output.over, strict=True)
        ]
    return tuple(
        _part(plan, name, bound, unmerged) for name, (_, bound) in zip(names, output.aggregates, strict=True)
    )


def _part(plan: Plan, name: str, bound: Bound, unmerged: list[str]) -> AggregatePart:
    states = tuple(operation.describe() for operation in bound.operations)
    change = None
    if isinstance(plan, SessionPlan):
        strategy = ONE_ENTRY if plan.longest is None else ENTRIES
    elif isinstance(plan, FoldPlan):
        strategy = FOLD
        change = f"a merge for {', '.join(unmerged)} would allow panes"
    else:
        strategy = max(map(strategy_of, bound.operations), key=_BY_COST.index)
        change = _change(bound.operations[-1])
    return AggregatePart(name, str(bound.type), states, strategy, change)


def _change(operation: Operation) -> str | None:
    """What would make a custom aggregate cheaper."""
    if isinstance(operation, UserOperation) and operation.definition.deduct is None:
        return "an exact deduct would make this O(1)"
    if isinstance(operation, FoldOperation):
        return "an AggregateOperation would use NumPy columns instead"
    return None
