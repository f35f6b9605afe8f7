"""Many kills, of queries whose input grows: python -m tests.faults.soak --kills 200 --backend rocksdb."""

# ruff: noqa: T201 - a script that prints

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.faults.plans import ALL_KINDS, BACKENDS, Feed, plans_for
from tests.faults.processes import is_exact
from tests.faults.torment import Torment, victims

_WORKERS_PER_DRIVER = 9
_KILLS_A_ROUND = 100
"""Then new queries begin, of other kinds."""


def main() -> int:
    """Kill as often as was asked, say what was done, and return 1 if a row is missing, wrong or there twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument(
        "--kills", type=int, default=200, help="how often to kill; one in ten kills the driver"
    )
    parser.add_argument("--backend", choices=BACKENDS, help="one state backend; by default all, side by side")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(2**32), help="seed of all random choices"
    )
    options = parser.parse_args()
    backends = [options.backend] if options.backend else BACKENDS
    exact = is_exact("soak", lambda folder, mark: soak(folder, backends, options.kills, options.seed, mark))
    return 0 if exact else 1


def soak(folder: Path, backends: list[str], kills: int, seed: int, mark: str) -> bool:
    """Torment queries of all kinds, a few of them at a time, and return whether all ended with their rows."""
    exact = True
    for number, first in enumerate(range(0, kills, _KILLS_A_ROUND)):
        at = (seed + number * len(backends)) % len(ALL_KINDS)
        kinds = (*ALL_KINDS[at:], *ALL_KINDS[:at])[: len(backends)]
        count = min(_KILLS_A_ROUND, kills - first)
        exact &= tormented(folder / str(number), backends, kinds, count, seed + number, mark)
    return exact


def tormented(
    folder: Path, backends: list[str], kinds: Sequence[str], kills: int, seed: int, mark: str
) -> bool:
    """Torment queries, one for each backend, and return whether they ended with their rows."""
    queries = ", ".join(f"{kind} on {backend}" for kind, backend in zip(kinds, backends, strict=True))
    print(f"{kills} kills, {queries}, seed {seed}", flush=True)
    began = time.monotonic()
    feed = Feed(folder, files=20 + 8 * kills, rows=300, seed=seed)
    torment = Torment(folder, plans_for(folder, backends, kinds=kinds), feed, seed, mark)
    drivers = -(-kills // (_WORKERS_PER_DRIVER + 1))
    for number, victim in enumerate(victims(kills - drivers, drivers, seed), 1):
        done = torment.kill_driver() if victim == "driver" else torment.kill_workers()
        elapsed = time.monotonic() - began
        print(f"{elapsed:6.0f} s  kill {number}: {done}; batches {torment.batches}", flush=True)
    verdicts = torment.finish()
    exact = all(verdict["rows"] and not verdict["missing"] and not verdict["extra"] for verdict in verdicts)
    for verdict in verdicts:
        if verdict["shown"]:
            print(f"{verdict['query']}: {verdict['missing']} missing, {verdict['extra']} extra, such as")
            print(*verdict["shown"], sep="\n")
    for error, times in Counter(error.partition("\n")[0][:300] for error in torment.errors).items():
        print(f"{times} times: {error}")
    sorts = ", ".join(f"{sort} {times}" for sort, times in sorted(torment.kills.items()))
    batches, rows = sum(torment.batches), sum(verdict["rows"] for verdict in verdicts)
    print(
        f"{torment.kills.total()} kills ({sorts}), {torment.lost_tasks()} lost tasks, {torment.starts} starts, "
        f"{batches} batches, {rows} rows, {feed.given} files, {queries}, seed {seed}, "
        f"{time.monotonic() - began:.0f} s: {'exact' if exact else 'NOT EXACT'}"
    )
    return exact


if __name__ == "__main__":
    sys.exit(main())
