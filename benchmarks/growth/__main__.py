"""Runs the benchmarks of how cost grows and redraws the pictures of the documentation.

    python -m benchmarks.growth [--full] [options of pytest]

The run is `build/bench/growth.json`, the pictures are in docs/images.
"""

import sys
from pathlib import Path

from benchmarks.__main__ import FOLDER, HERE, run
from benchmarks.report.figures import load_run
from benchmarks.report.picture import write_curves

IMAGES = HERE.parent / "docs" / "images"
TESTS = (
    "growth",
    "operators/test_sliding.py::test_on_close",
    "operators/test_sliding.py::test_long_windows",
    "pipelines/test_batch.py::test_sliding",
    "state/test_changes.py",
    "state/test_many_keys.py",
)
"""What the curves and their targets are of."""


def main(options: list[str], folder: Path = IMAGES) -> int:
    """Run the benchmarks, write the run, its report and the pictures, and return pytest's exit status."""
    status = run("growth", [*options, *(str(HERE / test) for test in TESTS)])
    found = FOLDER / "growth.json"
    if found.exists():
        for path in write_curves(load_run(found), folder):
            print(f"Drawn: {path}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
