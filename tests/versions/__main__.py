"""Runs chosen tests on each version of PySpark and Python, and writes the tables of docs/versions.md.

An environment takes some minutes to make, 1 GB, and 10 to 25 minutes of tests. What was found is kept beside this module, so
that environments can be run one by one. Pythons are those that are found on PATH, or that uv can download.
"""
# ruff: noqa: T201 - a script that prints

import argparse
import sys
from pathlib import Path

from tests.versions import page
from tests.versions.environments import ALL, ROOT, Environment, MissingError, installed, make, remove
from tests.versions.running import Result, kept, run, today


def main() -> int:
    """Run the tests in each environment that was asked for, and return 1 if any failed or could not run."""
    options = _options()
    folder: Path = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for number, environment in enumerate(options.environments, 1):
        print(f"[{number}/{len(options.environments)}] {environment}: installing", flush=True)
        result = _result(environment, folder, kept().get(environment) if options.again else None)
        result.write(environment)
        if options.discard:
            remove(environment, folder)
        _tell(environment, result)
    results = kept()
    page.write(results)
    print(f"\n{page.tables(results)}\nwritten into {page.PAGE.relative_to(ROOT)}")
    chosen = [results[environment] for environment in options.environments]
    return 0 if all(result.is_good and not result.missing for result in chosen) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.versions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "environments",
        nargs="*",
        type=Environment.of,
        default=ALL,
        metavar="ENVIRONMENT",
        help=f"by default all: {' '.join(map(str, ALL))}; `lowest` has the lowest versions of our dependencies",
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".cache" / "versions", help="for environments and logs"
    )
    parser.add_argument("--again", action="store_true", help="run only what failed last time")
    parser.add_argument("--discard", action="store_true", help="delete each environment after its tests")
    return parser.parse_args()


def _result(environment: Environment, folder: Path, before: Result | None) -> Result:
    try:
        python = make(environment, folder)
    except MissingError as error:
        return Result({}, today(), missing=str(error))
    versions = installed(python)
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    print(f"  {shown}: testing; logs in {_logs(environment, folder)}", flush=True)
    return run(python, versions, _logs(environment, folder), before)


def _tell(environment: Environment, result: Result) -> None:
    if result.missing:
        print(f"  {environment} cannot be made: {result.missing}", flush=True)
    for part, outcome in result.parts.items():
        skipped = f", skipped: {'; '.join(outcome.skipped)}" if outcome.skipped else ""
        failed = f", FAILED: {', '.join(outcome.failed)}" if outcome.failed else ""
        print(f"  {part}: {outcome.passed} passed{skipped}{failed}", flush=True)


def _logs(environment: Environment, folder: Path) -> Path:
    return folder / "logs" / environment.file_name


if __name__ == "__main__":
    sys.exit(main())
