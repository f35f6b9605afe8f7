"""Runs all queries on all systems, prints their table, and writes it into docs/benchmarks.md."""

import argparse
import sys

from benchmarks.__main__ import FOLDER, HERE, run
from benchmarks.nexmark import __doc__ as about
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.systems import DELAYED, MEASURED, SYSTEMS
from benchmarks.report.figures import load_run
from benchmarks.report.nexmark import table, with_nexmark

PAGE = HERE.parent / "docs" / "benchmarks.md"


def names() -> list[tuple[str, str, str]]:
    """Return the name, query and system of each test, so that those to be compared run one after the other."""
    rates = [(f"test_bids[{query}-{batch}-{system}]", query, system) for query, batch, system in MEASURED]
    delays = [(f"test_delays[{query}-{system}]", query, system) for query, system in DELAYED]
    return sorted(rates + delays, key=lambda one: list(QUERIES).index(one[1]))


def main() -> int:
    """Run what was asked for, one after the other, and return pytest's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nexmark",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bids", type=int, help="in batches of 500,000; those of 50,000 get half of them")
    parser.add_argument("--seconds", type=int, help="for which bids arrive at a pace")
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    given = parser.parse_args()
    options = [f"--bids={given.bids}"] if given.bids else []
    options += [f"--bid-seconds={given.seconds}"] if given.seconds else []
    tests = [
        f"{HERE / 'nexmark' / 'test_nexmark.py'}::{name}"
        for name, query, system in names()
        if query in given.queries and system in given.systems
    ]
    status = run("nexmark", ["--full", *options, *tests])
    found = FOLDER / "nexmark.json"
    if found.exists():
        measured = load_run(found)
        print(table(measured))
        if given.queries == list(QUERIES) and given.systems == list(SYSTEMS):
            PAGE.write_text(with_nexmark(PAGE.read_text(), measured))
            print(f"The table is in {PAGE}")
    return status


if __name__ == "__main__":
    sys.exit(main())
