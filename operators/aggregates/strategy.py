"""How the states of panes are combined into the state of a window, and why in this way: as values, for `explain`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to compute windows.

    Attributes:
        name: such as "deducting".
        cost: cost of a window of n panes.
        why: what it does, and why it is possible.
    """

    name: str
    cost: str
    why: str


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
ONE_ENTRY = Strategy(
    "joining", "O(1)", "a session is one entry: states are combined when records and sessions meet"
)
EVENT_TIMES = Strategy(
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
BY_COST = (DEDUCT, OVERLAP, RANGES, TWO_STACKS, DOUBLING, KEPT)
"""The strategies over panes, the cheapest first."""
