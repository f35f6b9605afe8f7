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
    FOLDER.mkdir(parents=True, exist_ok=True)
    latest, report = FOLDER / "latest.json", FOLDER / "report.html"
    earlier = [
        path for path in (latest, *sorted((HERE / "runs").glob("*.json"), reverse=True)) if path.exists()
    ]
    last_run = [f"--last-run={earlier[0]}"] if earlier else []
    fresh = FOLDER / "fresh.json"
    fresh.unlink(missing_ok=True)
    quiet = "--quiet", "--override-ini=console_output_style=classic", "--benchmark-quiet"
    status = pytest.main([*quiet, f"--benchmark-json={fresh}", *last_run, *options, str(HERE)])
    if fresh.exists():
        fresh.replace(latest)
        report.write_text(page(load_run(latest)))
        print(f"The run is in {latest}, the report in {report}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
