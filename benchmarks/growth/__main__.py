"""Runs the benchmarks of how cost grows, and redraws the pictures and rewrites the tables of the documentation.

    python -m benchmarks.growth [--full | --largest] [options of pytest]

The run is `build/bench/growth.json`. The pictures are in docs/images, and the tables in docs/performance.md.
"""

import sys

from benchmarks.__main__ import FOLDER, HERE, run
from benchmarks.report.figures import load_run
from benchmarks.report.picture import write_curves
from benchmarks.report.tables import with_tables

DOCS = HERE.parent / "docs"
TESTS = (
    "growth",
    "operators/test_sliding.py::test_on_close",
    "operators/test_sliding.py::test_long_windows",
    "pipelines/test_batch.py::test_sliding",
    "state/test_changes.py",
    "state/test_many_keys.py",
)
"""What the curves and their targets are of."""


def main(options: list[str]) -> int:
    """Run the benchmarks, write the run, its report, pictures and tables, and return pytest's exit status."""
    status = run("growth", [*options, *(str(HERE / test) for test in TESTS)])
    found, page = FOLDER / "growth.json", DOCS / "performance.md"
    if found.exists():
        measured = load_run(found)
        write_curves(measured, DOCS / "images")
        page.write_text(with_tables(page.read_text(), measured))
        print(f"The figures are in {page}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
