"""Compares a run with an earlier one: `python -m benchmarks.compare BASE.json [RUN.json]`.

A figure is slower if both its median and its fastest round are slower by more than the noise. The exit status is then 1.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report.figures import Figure, Run, load_run

LATEST = Path("build/bench/latest.json")
NOISE = 1.3
"""Ratio by which two runs of the same code sometimes differ, on a machine with two cores."""


@dataclass(frozen=True, slots=True)
class Change:
    """A figure in both runs, compared by seconds per row: runs may have different numbers of rows."""

    old: Figure
    new: Figure

    @property
    def ratio(self) -> float:
        """New time divided by old time."""
        return self.old.rate / self.new.rate

    @property
    def surest(self) -> float:
        """The same ratio for the fastest rounds, if it is closer to 1."""
        fastest = (self.new.fastest / self.new.rows) / (self.old.fastest / self.old.rows)
        return min(self.ratio, fastest) if self.ratio > 1 else max(self.ratio, fastest)

    def verdict(self, noise: float) -> str:
        """ "SLOWER", "faster", or "" for no change."""
        return "SLOWER" if self.surest > noise else "faster" if self.surest < 1 / noise else ""


def changes(base: Run, run: Run) -> list[Change]:
    """Return the figures that are in both runs."""
    before = {figure.place: figure for figure in base.figures}
    return [Change(before[one.place], one) for one in run.figures if one.place in before]


def table(found: list[Change], noise: float) -> Iterator[str]:
    """Yield the lines of the comparison."""
    named = [(" | ".join(filter(None, change.new.place)), change) for change in found]
    width = max((len(name) for name, _ in named), default=0)
    yield f"{'':{width}} {'old rows/s':>13} {'new rows/s':>13} {'time':>7}"
    for name, change in named:
        line = f"{name:{width}} {change.old.rate:13,.0f} {change.new.rate:13,.0f} {change.ratio:6.2f}x"
        yield f"{line} {change.verdict(noise)}".rstrip()


def main() -> int:
    """Print the comparison and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", type=Path, help="the earlier run")
    parser.add_argument("run", type=Path, nargs="?", default=LATEST, help=f"the later one ({LATEST})")
    parser.add_argument(
        "--noise", type=float, default=NOISE, help=f"ratio of times that counts as no change ({NOISE})"
    )
    args = parser.parse_args()
    base, run = load_run(args.base), load_run(args.run)
    found = changes(base, run)
    if not found:
        print("The runs have no figure in common.")
        return 1
    print("\n".join(table(found, args.noise)))
    if base.about["machine"] != run.about["machine"]:
        print("The runs are from different machines, or versions of Python: read the ratios accordingly.")
    slower = sum(change.verdict(args.noise) == "SLOWER" for change in found)
    print(
        f"{len(found)} figures in both runs, {slower} slower by more than {args.noise:g} x; "
        f"{len(base.figures) - len(found)} only in the earlier one, {len(run.figures) - len(found)} only in the later one."
    )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
