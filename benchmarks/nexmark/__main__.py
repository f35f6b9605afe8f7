"""Prints a table of all queries on all systems."""

import argparse

from benchmarks.nexmark import __doc__ as about
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.streams import CORES
from benchmarks.nexmark.systems import SYSTEMS, figures, has


def main() -> None:
    """Run what was asked for, one after the other."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nexmark",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bids", type=int, default=6_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    given = parser.parse_args()
    print(
        "| query | system | bids/s per core | bids per processor second | MB of state | batch s: median, slowest, first |\n"
        "|---|---|---|---|---|---|"
    )
    for query in given.queries:
        for system in given.systems:
            if not has(system, query):
                continue
            found = figures(system, query, given.bids, given.batch)
            batches = [found[name] for name in ("batch_s", "slow_batch_s", "first_batch_s") if name in found]
            print(
                f"| {query} | {system} | {found['per_second'] / CORES:,.0f} | {found['per_processor_second']:,.0f} | "
                f"{found['state_bytes'] / 1e6:.1f} | {', '.join(f'{one:.2f}' for one in batches)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
