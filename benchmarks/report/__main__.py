"""Writes the report of a run: `python -m benchmarks.report RUN.json --out report.html`."""

import argparse
from pathlib import Path

from benchmarks.report.figures import load_run
from benchmarks.report.page import page
from benchmarks.report.picture import write_curves, write_picture
from benchmarks.report.tables import with_tables


def main() -> None:
    """Read the run, and write what the options name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("run", type=Path, help="a file that `make bench` wrote")
    parser.add_argument("--out", type=Path, help="the page to write")
    parser.add_argument("--picture", type=Path, help="the picture of the README to write: .svg or .png")
    parser.add_argument(
        "--pictures", type=Path, help="the folder for the pictures of how cost grows: docs/images"
    )
    parser.add_argument(
        "--tables", type=Path, help="the page whose tables of these are rewritten: docs/performance.md"
    )
    args = parser.parse_args()
    run = load_run(args.run)
    if args.out:
        args.out.write_text(page(run))
    if args.picture:
        write_picture(run, args.picture)
    if args.pictures:
        write_curves(run, args.pictures)
    if args.tables:
        args.tables.write_text(with_tables(args.tables.read_text(), run))


if __name__ == "__main__":
    main()
