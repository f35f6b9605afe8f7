"""Random cases, played by Kafka Streams and by Jet, and by local runners on memory and rocksdb: make live.

Differences that are known deviations are counted; any other ends the run with the smallest case that shows it. To try the next
version of a peer: make live ARGS="--kafka 4.3.0". A version is fetched once, by Maven, into .cache/live.
"""

# ruff: noqa: T201 - a script that prints

import argparse
import random
import sys
import time

from tests.conformance.live.compare import Comparison, DifferenceError, compare
from tests.conformance.live.peers import SYSTEMS, MissingError, running, why_not


def main() -> int:
    """Compare with each peer that was asked for, and return 1 if any differs, or 2 if a version could not be had."""
    options = _options()
    if why_not():
        print(f"skipped: {why_not()}")
        return 0
    print(f"seed {options.seed}", flush=True)
    return max(_compare(name, options) for name in options.peer or SYSTEMS)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.live",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--peer", action="append", choices=SYSTEMS, help="may be repeated; by default all")
    parser.add_argument("--cases", type=int, default=300, help="of each peer at most")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each peer at most")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of all random choices")
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to repeat one")
    for system in SYSTEMS.values():
        parser.add_argument(f"--{system.name}", metavar="VERSION", help=f"by default {system.version}")
    return parser.parse_args()


def _compare(name: str, options: argparse.Namespace) -> int:
    system, asked = SYSTEMS[name], getattr(options, name)
    version, so_far = asked or system.version, Comparison()
    end = time.monotonic() + options.seconds
    try:
        with running(system, version) as peer:
            for number in range(options.first, options.first + options.cases):
                if time.monotonic() > end:
                    break
                compare(name, peer, options.seed, number, so_far)
    except MissingError as error:
        print(f"{name} {version} skipped: {error}")
        return 2 if asked else 0
    except DifferenceError as error:
        print(
            f"{name} {version}: after {so_far}\n{error}\nAgain: --peer {name} --seed {options.seed} --first {number} --cases 1"
        )
        return 1
    print(f"{name} {version}: {so_far}; no other difference", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
