"""Search the commit protocol: python -m tests.protocol {bugs,exhaustive,random}. Figures are of one core's time."""

# ruff: noqa: T201 - a script that prints

import argparse
import sys
import time
from collections import Counter
from collections.abc import Collection

import numpy as np  # noqa: F401 - before the processes with bugs, which need it, too
import pyarrow.fs  # noqa: F401 - as NumPy
import pyspark.sql.streaming  # noqa: F401 - as NumPy

from tests.protocol.bugs import BUGS, in_process, played, searched


def bugs(seconds: float, chosen: Collection[int], *, draw: bool, recorded: bool) -> int:
    """Find each planted bug: by the seed that stands with it, or by a search."""
    missed = 0
    for number, bug in enumerate(BUGS, 1):
        if chosen and number not in chosen:
            continue
        name = f"{number:2}. {bug.mutation.breaks}"
        if recorded:
            failed = in_process(bug.mutation, lambda bug=bug: played(bug.seed, bug.kind)[0])
            missed += failed is None
            print(f"{name}: {failed or 'NOT FOUND'}", flush=True)
            continue
        seed, runs, took, drawn = in_process(
            bug.mutation, lambda bug=bug: searched(seconds, bug.kind, draw=draw)
        )
        missed += seed is None
        print(
            f"{name}: {'NOT FOUND' if seed is None else f'seed {seed}'}, {runs} runs, {took:.1f} s",
            flush=True,
        )
        if draw:
            print(drawn)
    return missed


def every(seconds: float) -> int:
    """Search small worlds through, as far as the seconds last for each; return how many failed or were not searched through."""
    from tests.protocol.runs import drawing, shortest
    from tests.protocol.search import exhaustive
    from tests.protocol.worlds import SMALL

    failed = complete = 0
    for name, scenario in SMALL.items():
        began = time.process_time()
        search = exhaustive(scenario, lambda _, began=began: time.process_time() - began < seconds)
        how = "all of them" if search.complete else "not all"
        complete += search.complete
        took = time.process_time() - began
        print(
            f"{name}: {search.states} states, {how}, {search.runs} runs, {len(search.ends)} ends, {took:.0f} s",
            flush=True,
        )
        if search.failed is not None:
            failed += 1
            print(drawing(shortest(scenario, search.failed)))
    print(f"{complete} of {len(SMALL)} worlds searched through")
    return failed + len(SMALL) - complete


def drawn(seconds: float, first: int) -> int:
    """Play random runs, and tell how often each kind of fault struck where it was planned."""
    from tests.protocol.runs import SCENARIOS, drawing, random_run, shortest

    began, seed, failed = time.process_time(), first, 0
    planned, struck = Counter[str](), Counter[str]()
    kinds = [*SCENARIOS]
    while time.process_time() - began < seconds:
        kind = kinds[seed % len(kinds)]
        scenario = SCENARIOS[kind](seed // len(kinds))
        run = random_run(scenario, seed // len(kinds))
        planned.update(run.planned)
        struck.update(run.struck)
        if run.failure is not None:
            failed += 1
            print(f"{kind}, seed {seed // len(kinds)}:\n{drawing(shortest(scenario, run))}", flush=True)
        seed += 1
    rates = ", ".join(f"{kind} {struck[kind] / planned[kind]:.0%}" for kind in sorted(planned))
    print(f"{seed - first} runs, {failed} failed; struck where planned: {rates}")
    return failed


def main() -> int:
    """Return 1 if a planted bug was not found, a small world was not searched through, or the product has a bug."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol", description=__doc__)
    parser.add_argument("what", choices=["bugs", "exhaustive", "random"])
    parser.add_argument("numbers", type=int, nargs="*", help="of bugs; all by default")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="at most for each bug or world, or for all random runs"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first random run")
    parser.add_argument("--draw", action="store_true", help="draw the run that finds each bug")
    parser.add_argument(
        "--recorded", action="store_true", help="play only the seeds that stand with the bugs"
    )
    given = parser.parse_args()
    if given.what == "bugs":
        bad = bugs(given.seconds, given.numbers, draw=given.draw, recorded=given.recorded)
    else:
        bad = every(given.seconds) if given.what == "exhaustive" else drawn(given.seconds, given.seed)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
