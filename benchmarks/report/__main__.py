"""Writes the report of a run: `python -m benchmarks.report RUN.json --out report.html`."""

import argparse
from pathlib import Path

from benchmarks.report.figures import load_run
from benchmarks.report.page import page
from benchmarks.report.picture import write_picture


def main() -> None:
    """Read the run, write the page, and the picture if one is wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("run", type=Path, help="what `make bench` wrote")
    parser.add_argument("--out", type=Path, required=True, help="the page to be written")
    parser.add_argument("--picture", type=Path, help="where the README's picture goes, too: .svg or .png")
    args = parser.parse_args()
    run = load_run(args.run)
    args.out.write_text(page(run))
    if args.picture:
        write_picture(run, args.picture)


if __name__ == "__main__":
    main()
