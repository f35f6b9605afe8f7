"""How the states of a window's panes become the state of the window, and why in this way."""

from collections.abc import Callable
from typing import Any

from operators.aggregates.definitions import Bound
from operators.aggregates.distinct import Distinct
from operators.aggregates.fold_operation import FoldOperation, MergeableFold
from operators.aggregates.moments import SumsOfProducts
from operators.aggregates.operation import Operation
from operators.aggregates.operations import Collect, CountRows, SumFloat, SumLong
from operators.aggregates.sketches import Sketch
from operators.aggregates.top import Top
from operators.aggregates.user_operation import UserOperation
from operators.explain.parts import AggregatePart, Strategy
from operators.kinds.fold_hopping import FoldHoppingPlan
from operators.kinds.fold_sliding import FoldSlidingPlan
from operators.kinds.sessions import SessionPlan
from operators.runtime.program import Plan
from operators.steps.emission import OutputSchema

DEDUCT = Strategy(
    "deducting",
    "O(1)",
    "a window is the difference of two running totals, which is exact; so it is for doubles, which are cut into whole "
    "numbers (by doubling where some are not finite, or too far apart in size)",
)
OVERLAP = Strategy(
    "two blocks",
    "O(1)",
    "two blocks of panes cover a window; they may overlap, since a pane that is taken twice changes nothing",
)
RANGES = Strategy(
    "ranges",
    "O(1), and its values",
    "panes hold values in order, so that a window is a range of them: nothing is joined until the results are made",
)
TWO_STACKS = Strategy(
    "merging",
    "some 2 calls of merge a pane and window",
    "Python merges panes from both ends of windows that follow one another",
)
DOUBLING = Strategy(
    "doubling",
    "O(log n)",
    "states can be combined and not be taken away again: blocks of 1, 2, 4, ... panes are combined once for all windows, "
    "and a window combines those that make up its length",
)
OWN = Strategy("its own way", "as its `combined` does", "the operation brings a `combined` of its own")
ONE_ENTRY = Strategy(
    "joining", "O(1)", "a session is one entry: states are combined where records and sessions meet"
)
ENTRIES = Strategy(
    "joining",
    "O(n)",
    "a late record can move the cuts between sessions of limited length, so their event times are combined when they come out",
)
FOLD = Strategy(
    "adding",
    "an addition for each record and window",
    "there is a state that cannot be combined, so that there are no panes: each record is added to the state of each window "
    "that holds it (KIP-450)",
)
_FROM_CHEAP_TO_DEAR = (DEDUCT, OVERLAP, RANGES, TWO_STACKS, DOUBLING, OWN)

BY_METHOD: dict[Callable[..., Any], Strategy] = {
    Operation.combined: DOUBLING,
    CountRows.combined: DEDUCT,
    SumLong.combined: DEDUCT,
    SumFloat.combined: DEDUCT,
    SumsOfProducts.combined: DEDUCT,
    Collect.combined: RANGES,
    Distinct.combined: RANGES,
    Top.combined: DOUBLING,
    Sketch.combined: DOUBLING,
    UserOperation.combined: DOUBLING,
    MergeableFold.combined: TWO_STACKS,
}
"""What each method that makes windows of panes does, where the operation is not idempotent."""


def strategy_of(operation: Operation) -> Strategy:
    """Return how windows are made of panes with these states, as `PaneSchema.combined` has them made."""
    if not operation.combines:
        return FOLD
    if operation.idempotent:
        return OVERLAP
    if isinstance(operation, UserOperation) and operation.given.deduct is not None:
        return DEDUCT
    return BY_METHOD.get(type(operation).combined, OWN)


def aggregates_of(plan: Plan, output: OutputSchema) -> tuple[AggregatePart, ...]:
    """Return each result with the strategy by which the plan computes it."""
    unmerged = [op.describe() for op in plan.operations if not op.combines]
    return tuple(_part(plan, name, bound, unmerged) for name, bound in output.aggregates)


def _part(plan: Plan, name: str, bound: Bound, unmerged: list[str]) -> AggregatePart:
    states = tuple(operation.describe() for operation in bound.operations)
    change = None
    if isinstance(plan, SessionPlan):
        strategy = ONE_ENTRY if plan.longest is None else ENTRIES
    elif isinstance(plan, FoldSlidingPlan | FoldHoppingPlan):
        strategy = FOLD
        change = f"a merge for {', '.join(unmerged)} would bring panes"
    else:
        strategy = max(map(strategy_of, bound.operations), key=_FROM_CHEAP_TO_DEAR.index)
        change = _change(bound.operations[-1])
    return AggregatePart(name, str(bound.type), states, strategy, change)


def _change(operation: Operation) -> str | None:
    """What would make an aggregate of one's own cheaper."""
    if isinstance(operation, UserOperation) and operation.given.deduct is None:
        return "an exact deduct would make it O(1)"
    if isinstance(operation, FoldOperation):
        return "an AggregateOperation would work on NumPy columns instead"
    return None
