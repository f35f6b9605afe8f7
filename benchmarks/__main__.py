"""Runs the benchmarks and writes a run and its report: `python -m benchmarks [--full] [options of pytest]`."""

import sys
from pathlib import Path

import pytest

from benchmarks.report.figures import load_run
from benchmarks.report.page import page

HERE = Path(__file__).parent
FOLDER = Path("build/bench")


def main(options: list[str]) -> int:
    """Run the chosen benchmarks, write the run and its report, and return pytest's exit status."""
    return run("latest", [*options, str(HERE)], report="report")


def run(name: str, options: list[str], report: str | None = None) -> int:
    """Run benchmarks, and write the run and its report by name.

    Args:
        name: of the file of the run, without suffix.
        options: options of pytest, and tests.
        report: name of the report, if it is another.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    latest, written = FOLDER / f"{name}.json", FOLDER / f"{report or name}.html"
    earlier = [
        path for path in (latest, *sorted((HERE / "runs").glob("*.json"), reverse=True)) if path.exists()
    ]
    last_run = [f"--last-run={earlier[0]}"] if earlier else []
    fresh = FOLDER / "fresh.json"
    fresh.unlink(missing_ok=True)
    quiet = "--quiet", "--override-ini=console_output_style=classic", "--benchmark-quiet"
    status = pytest.main([*quiet, f"--benchmark-json={fresh}", *last_run, *options])
    if fresh.exists():
        fresh.replace(latest)
        written.write_text(page(load_run(latest)))
        print(f"The run is in {latest}, the report in {written}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
