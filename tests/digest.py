"""Digests of what random runs of all kinds give, by which two checkouts are compared to the bit.

    python -m tests.digest > /tmp/before            in one checkout
    python -m tests.digest --compare /tmp/before    in the other

A refactoring leaves all digests as they are. They are not kept in the repository: doubles may differ from machine to machine.
"""

# ruff: noqa: T201 - a script that prints

import argparse
import hashlib
import logging
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

from operators import LocalRunner, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from state_backends.store import cutting
from tests.faults.runs import Runs
from tests.feeds import FOLDED, GRACE, KINDS, POLICIES, Feed, appended
from tests.scratch import temporary

PARTS = ("rows", "late", "metrics", "entries")
"""What there is a digest of."""
_BATCHES = 12
_MORE_KINDS: dict[str, Any] = {
    "sliding of many segments": SlidingWindows(size=200, grace=GRACE),
    "session of folds": SessionWindows(gap=4, grace=GRACE),
    "rolling of several lookbacks": RollingWindows({"short": 5, "long": 60, "ever": "lifetime"}, grace=GRACE),
    "rolling until forgotten": RollingWindows(
        {"short": 5, "ever": "lifetime"}, grace=GRACE, forget_after=30, closed="left"
    ),
}
_ALL_KINDS = {**KINDS, **_MORE_KINDS, "frames": TumblingWindows(size=12, grace=GRACE)}
_LIFETIMES = ("rolling of several lookbacks", "rolling until forgotten")
_MERGED = {"folded": agg.fold(list, appended, "v", type="array<bigint>", merge=list.__add__)}
_AGGREGATES = {
    "numbers": {"n": agg.count(), "s": agg.sum("v"), "top": agg.max("v"), "mean": agg.avg("x")},
    "objects": {"near": agg.approx_count_distinct("v"), "high": agg.top_n("x", 2), "last": agg.last("k")},
}
_KEEP_VALUES = {
    "distinct": agg.count_distinct("v"),
    "all": agg.collect_list("x"),
    "p": agg.percentile("x", 0.3),
}
"""Not for lifetimes, whose state would grow without end."""


@dataclass(frozen=True)
class Case:
    """A run.

    Attributes:
        kind: of the windows, or "custom".
        policy: when rows come out.
        aggregates: which ones.
        backend: of the state.
        page: how many entries make a page full; None for as many as usual.
        segment: length of a segment.
    """

    kind: str
    policy: str
    aggregates: str
    backend: str
    page: int | None
    segment: str

    @property
    def name(self) -> str:
        """What it is called in the list of digests."""
        return f"{self.kind}, {self.policy}, {self.aggregates}, {self.backend}, {self.page}, {self.segment}"

    @property
    def inputs(self) -> str:
        """What decides the records: runs on several backends have the same ones."""
        return f"{self.kind}, {self.policy}, {self.aggregates}"

    def runner(self, folder: Path) -> Any:
        """Return a runner of the operator."""
        options = {"state.segment": self.segment, "state.snapshots.bytes": "4k"}
        if self.kind == "custom":
            return (
                Runs(grace="10 ms", gap="7 ms")
                .group_by("k")
                .local_runner("at", self.backend, folder, options)
            )
        grouped, aggregates = _ALL_KINDS[self.kind].group_by("k"), _AGGREGATES[self.aggregates]
        if self.aggregates == "objects" and self.kind not in _LIFETIMES:
            aggregates = {**aggregates, **_KEEP_VALUES}
        if self.kind == "frames":
            left, right = {"n": agg.count(), **aggregates}, {"m": agg.min("v")}
            operator = grouped.cogroup(left=left, right=right).emit(self.policy)
            return operator.local_runner("at", self.backend, folder, options)
        rolling = self.kind.startswith("rolling") and self.policy == "on_update"
        folded = (
            FOLDED if self.kind.endswith("by fold") else _MERGED if self.kind.endswith("of folds") else {}
        )
        operator = grouped.aggregate(**folded, **aggregates).emit("on_arrival" if rolling else self.policy)
        return operator.local_runner("at", self.backend, folder, options, late=True)


def cases() -> list[Case]:
    """Return all runs."""
    stores = [
        ("memory", None, "40 ms"),
        ("memory", 2, "25 ms"),
        ("rocksdb", 2, "40 ms"),
        ("rocksdb", None, "1 second"),
    ]
    many = [Case(*one, *store) for one in product(_ALL_KINDS, POLICIES, _AGGREGATES) for store in stores]
    return [*many, *(Case("custom", "on_close", "numbers", *store) for store in stores)]


def line(case: Case, values: Iterable[tuple[str, Any]]) -> str:
    """Return the name of a case and the digest of each part, given what `seen` yields."""
    found = {part: hashlib.sha256() for part in PARTS}
    for part, value in values:
        found[part].update(repr(value).encode() + b"\n")
    return "\t".join([case.name, *(digest.hexdigest()[:16] for digest in found.values())])


def seen(case: Case) -> Iterator[tuple[str, Any]]:
    """Run a case, and yield what came of each batch: the part and the value.

    Some batches have an attempt before them that is never committed, some come after a restart, and one forgets a key.
    """
    chance = random.Random(case.inputs)
    feed = Feed(chance, keys=5)
    with temporary("digest") as folder, _pages_of(case.page), case.runner(Path(folder)) as runner:
        for number in range(_BATCHES):
            table = feed.table(number)
            fails, restarts = chance.random() < 0.2, chance.random() < 0.2
            if isinstance(runner, LocalRunner):
                if fails:
                    runner.abort(feed.table(number))
                if restarts:
                    runner.restart()
            yield from _batch(runner, table, number)
        yield from _batch(runner, table.slice(0, 0), None)


def _batch(runner: Any, table: pa.Table, number: int | None) -> Iterator[tuple[str, Any]]:
    """Process one batch; without a number, all windows close."""
    if not isinstance(runner, LocalRunner):
        sides = {"left": table.slice(0, len(table) // 2), "right": table.slice(len(table) // 2)}
        rows, inner = runner.process(sides, FAR_FUTURE if number is None else None), runner.runner
    else:
        forget = [{"k": "a"}] if number == _BATCHES // 2 else None
        rows = runner.process(table, FAR_FUTURE if number is None else None, forget=forget)
        inner = runner
    yield "rows", rows.to_pylist()
    yield "late", [] if inner.late is None else inner.late.to_pylist()
    yield "metrics", {name: value for name, value in inner.metrics.items() if not name.endswith("_ms")}
    for keys, entries in inner.store.scan():
        order = sorted(range(len(entries)), key=lambda row: (keys[entries.key[row]], row))
        columns = [entries.columns[n].tolist() for n in range(len(entries.columns))]
        yield "entries", [(keys[entries.key[row]], *(column[row] for column in columns)) for row in order]


@contextmanager
def _pages_of(entries: int | None) -> Iterator[None]:
    """Let so many entries make a page full."""
    before = cutting.PAGE_ENTRIES
    cutting.PAGE_ENTRIES = before if entries is None else entries
    try:
        yield
    finally:
        cutting.PAGE_ENTRIES = before


def differences(before: Iterable[str], now: Iterable[str]) -> list[str]:
    """Return which parts of which cases differ, given the lines of two checkouts."""
    known = {name: values for name, *values in (one.split("\t") for one in before)}
    found = []
    for name, *values in (one.split("\t") for one in now):
        if name not in known:
            found.append(f"{name}: the other checkout does not have it")
        elif others := [part for part, a, b in zip(PARTS, known[name], values, strict=True) if a != b]:
            found.append(f"{name}: {', '.join(others)}")
    return found


def main() -> int:
    """Write the digests, or compare them, and return 1 if any differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.digest", description=__doc__.partition("\n")[0])
    parser.add_argument("--compare", type=Path, help="digests that another checkout has written")
    parser.add_argument("--only", default="", help="cases by a part of their name")
    parser.add_argument("--show", action="store_true", help="write all that the digests are of, instead")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    wanted = [case for case in cases() if chosen.only in case.name]
    if chosen.show:
        for case in wanted:
            for part, value in seen(case):
                print(case.name, part, value)
        return 0
    lines = (line(case, seen(case)) for case in wanted)
    if chosen.compare is None:
        for one in lines:
            print(one, flush=True)
        return 0
    found = differences(chosen.compare.read_text().splitlines(), lines)
    print(*found, f"{len(wanted)} cases, {len(found)} differ", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
