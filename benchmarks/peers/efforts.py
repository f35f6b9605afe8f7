"""Which peer does which work, and on how many records, so that every figure takes seconds."""

from dataclasses import dataclass

from benchmarks.data import RECORDS
from benchmarks.peers.works import Work

AT_ONCE = "polars", "duckdb", "pandas"
"""Peers that get all records at once, as a table."""
STREAMS = "bytewax", "quix"
"""Peers that get records one by one."""
NAMES = {"quix": "Quix Streams"}
"""How peers are called in full, where that is something else."""
MANY_KEYS = 100_000
USUAL = [
    *(Work("sliding", per_window) for per_window in (10, 100, 1_000)),
    *(Work(kind) for kind in ("tumbling", "hopping", "session")),
]
"""What all peers do. With many keys, tumbling and hopping windows would hardly ever end."""
LONG = Work("sliding", 10_000)
WITH_MANY_KEYS = Work("sliding", 10, MANY_KEYS)
ALSO = {"polars": (LONG,)}
"""What some do besides, because a target is about it."""
FULL = {
    "polars": (WITH_MANY_KEYS,),
    **dict.fromkeys(("duckdb", "pandas"), (LONG, WITH_MANY_KEYS)),
    **dict.fromkeys(STREAMS, (WITH_MANY_KEYS,)),
}
"""What they do in the full set too: to fill windows of 10,000 records would take streams many minutes."""
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
"""Records of one round, by peer, kind of work and records per sliding window, where they are not those of `at_once`."""
NOTES = {
    ("polars", "sliding"): "left windows only",
    ("duckdb", "sliding"): "left windows only",
    ("pandas", "sliding"): "left windows only",
    ("bytewax", "sliding"): "left windows only, each made anew from a deque",
    ("quix", "sliding"): "left windows only",
    ("duckdb", "hopping"): "by a join with the partial results of steps",
    ("pandas", "hopping"): "by repeating the partial results of steps",
}
"""What is not the same as ours, or not an operator of the peer's own."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How many records a peer gets for a figure.

    Attributes:
        rows: records of one round.
        fill: records before them that fill the windows, not clocked.
        rounds: how many are clocked.
        successive: whether a round takes the records after those of the last one; else all take the same.
    """

    rows: int
    fill: int = 0
    rounds: int = 3
    successive: bool = False

    @property
    def records(self) -> int:
        """How many records there have to be."""
        return self.fill + self.rows * (self.rounds if self.successive else 1)


def at_once(work: Work) -> int:
    """Return how many records make a table in which most sliding windows are full."""
    return max(RECORDS, 3 * work.per_window * work.keys)


def effort(peer: str, work: Work) -> Effort:
    """Return how many records a peer gets.

    A stream's sliding windows are filled first: its cost depends on how many records they hold. Event times are drawn at
    random, so a twentieth more than that many are taken. Where they are a million, it is done once.
    """
    rows = ROWS.get((peer, work.kind, work.per_window), at_once(work))
    if peer in AT_ONCE:
        return Effort(rows)
    fill = work.per_window * work.keys * 21 // 20
    return Effort(rows, fill, rounds=1 if fill > RECORDS else 3, successive=peer == "quix")
