"""The workloads of each system and their numbers of records, so that each figure takes seconds."""

from dataclasses import dataclass

from benchmarks.data import RECORDS
from benchmarks.peers.works import Workload

AT_ONCE = "polars", "duckdb", "pandas"
"""Peers that get all records at once, as a table."""
STREAMS = "bytewax", "quix"
"""Peers that get records one by one."""
NAMES = {"quix": "Quix Streams"}
"""Full names, if they differ from the name of the script."""
MANY_KEYS = 100_000
USUAL = [
    *(Workload("sliding", per_window) for per_window in (10, 100, 1_000)),
    *(Workload(kind) for kind in ("tumbling", "hopping", "session")),
]
"""Workloads of all systems. With many keys, tumbling and hopping windows would hardly ever end."""
LONG = Workload("sliding", 10_000)
WITH_MANY_KEYS = Workload("sliding", 10, MANY_KEYS)
ROLLING = Workload("rolling", 1_000)
ALSO = {"polars": (LONG, ROLLING)}
"""Further workloads that a target needs."""
FULL = {
    "polars": (WITH_MANY_KEYS,),
    **dict.fromkeys(("duckdb", "pandas"), (LONG, WITH_MANY_KEYS)),
    **dict.fromkeys(STREAMS, (WITH_MANY_KEYS,)),
}
"""Further workloads of the full set. Streams would need many minutes to fill windows of 10,000 records."""
ROWS = {
    ("pandas", "hopping", 0): 200_000,
    ("bytewax", "sliding", 10): 100_000,
    ("bytewax", "sliding", 100): 50_000,
    ("bytewax", "sliding", 1_000): 20_000,
    ("bytewax", "tumbling", 0): 100_000,
    ("bytewax", "hopping", 0): 4_000,
    ("bytewax", "session", 0): 100_000,
    ("quix", "sliding", 10): 3_000,
    ("quix", "sliding", 100): 600,
    ("quix", "sliding", 1_000): 60,
    ("quix", "tumbling", 0): 40_000,
    ("quix", "hopping", 0): 800,
    ("quix", "session", 0): 10_000,
}
"""Records of one round, by peer, kind of work and records per sliding window, if they differ from `at_once`."""
NOTES = {
    ("polars", "sliding"): "left windows only",
    ("duckdb", "sliding"): "left windows only",
    ("pandas", "sliding"): "left windows only",
    ("bytewax", "sliding"): "left windows only, each recomputed from a deque",
    ("quix", "sliding"): "left windows only",
    ("duckdb", "hopping"): "by a join with the partial results of steps",
    ("pandas", "hopping"): "by repeating the partial results of steps",
}
"""Differences from our windows, and workloads for which a system has no operator."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Numbers of records for a figure.

    Attributes:
        rows: records of one round.
        fill: records before them that fill the windows, not measured.
        rounds: number of measured rounds.
        successive: whether a round processes the records after those of the previous one; otherwise all process the same.
    """

    rows: int
    fill: int = 0
    rounds: int = 3
    successive: bool = False

    @property
    def records(self) -> int:
        """Number of records needed."""
        return self.fill + self.rows * (self.rounds if self.successive else 1)


def at_once(work: Workload) -> int:
    """Return a number of records for which most sliding windows are full."""
    return max(RECORDS, 3 * work.per_window * work.keys)


def effort(peer: str, work: Workload) -> Effort:
    """Return the numbers of records for a system.

    The sliding windows of a stream are filled first, since their cost depends on the number of records in them. Event times are
    random, so 5 % more records are used. With a million of them, there is only one round.
    """
    rows = ROWS.get((peer, work.kind, work.per_window), at_once(work))
    if peer in AT_ONCE:
        return Effort(rows)
    fill = work.per_window * work.keys * 21 // 20
    return Effort(rows, fill, rounds=1 if fill > RECORDS else 3, successive=peer == "quix")
