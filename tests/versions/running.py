"""Runs the chosen tests in an environment, and keeps what they found as a file of JSON."""

import json
import os
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from tests.versions.environments import ALL, ROOT, Environment
from tests.versions.parts import PARTS, WITH_FORMAT_2, is_of

_CONF = ROOT / "tests" / "spark_conf" / "spark-defaults.conf"
KEPT = Path(__file__).with_name("results")
_FORMAT_2 = "spark.sql.streaming.stateStore.checkpointFormatVersion 2\n"


@dataclass
class Outcome:
    """What the tests of a part have done.

    Attributes:
        passed: how many have passed.
        skipped: why others were skipped, each reason once.
        failed: those that failed.
    """

    passed: int = 0
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass
class Result:
    """What the tests have done in an environment.

    Attributes:
        versions: exact versions of Python and of packages; empty if there is no environment.
        date: when the tests ran, as YYYY-MM-DD.
        minutes: how long they took.
        parts: what became of each part.
        missing: why there is no environment.
    """

    versions: dict[str, str]
    date: str
    minutes: float = 0.0
    parts: dict[str, Outcome] = field(default_factory=dict)
    missing: str = ""

    @property
    def is_good(self) -> bool:
        """Return whether all parts that were run are good."""
        return all(map(self.is_good_in, self.parts))

    def is_good_in(self, part: str) -> bool:
        """Return whether a part was run, no test of it failed, and some passed or said why they did not."""
        found = self.parts.get(part, Outcome())
        return not found.failed and bool(found.passed or found.skipped)

    def write(self, environment: Environment, folder: Path = KEPT) -> None:
        """Keep it as what is known of an environment."""
        folder.mkdir(exist_ok=True)
        (folder / f"{environment.file_name}.json").write_text(
            json.dumps(asdict(self), indent=1) + "\n", "utf-8"
        )

    @classmethod
    def read(cls, path: Path) -> "Result":
        """Return it from a file."""
        plain = json.loads(path.read_text())
        parts = {name: Outcome(**part) for name, part in plain.pop("parts").items()}
        return cls(**plain, parts=parts)


def kept(folder: Path = KEPT) -> dict[Environment, Result]:
    """Return what is known of each environment, of the last time that its tests ran."""
    paths = {environment: folder / f"{environment.file_name}.json" for environment in ALL}
    return {environment: Result.read(path) for environment, path in paths.items() if path.exists()}


def today() -> str:
    """Return the date."""
    return datetime.now(timezone.utc).date().isoformat()


def run(python: Path, versions: dict[str, str], folder: Path, before: Result | None = None) -> Result:
    """Run the tests with an interpreter, and return what they found; pytest's own words go into the folder.

    Args:
        python: the interpreter.
        versions: of it, and of its packages.
        folder: for logs.
        before: what was found with the same versions; only the parts that were not good run again. None runs all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    result = before if before is not None and before.versions == versions else Result(versions, today())
    began, result.date = time.monotonic(), today()
    conf = folder / "format-2"
    conf.mkdir(exist_ok=True)
    (conf / _CONF.name).write_text(f"{_CONF.read_text()}\n{_FORMAT_2}")
    in_format_2 = {"TESTS_SPARK_CONF_DIR": str(conf)}
    for name, parts, more in (("tests", PARTS, {}), ("tests-format-2", WITH_FORMAT_2, in_format_2)):
        wanted = {part: nodes for part, nodes in parts.items() if not result.is_good_in(part)}
        if wanted:
            result.parts |= _run(python, wanted, folder / name, more)
    result.minutes += (time.monotonic() - began) / 60
    return result


def _run(
    python: Path, parts: Mapping[str, Sequence[str]], name: Path, more: Mapping[str, str]
) -> dict[str, Outcome]:
    """Run tests, and return what became of each part."""
    report, log = name.with_suffix(".xml"), name.with_suffix(".log")
    report.unlink(missing_ok=True)
    nodes = [node for nodes in parts.values() for node in nodes]
    options = ["--soak", "-rfEs", "--durations=10", f"--junitxml={report}", "-p", "no:cacheprovider"]
    # An environment is that of its interpreter alone.
    hidden = {"PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "VIRTUAL_ENV"}
    env = {key: value for key, value in os.environ.items() if key not in hidden} | more
    with log.open("wb") as output:
        subprocess.run(
            [python, "-m", "pytest", *options, *nodes],
            cwd=ROOT,
            env=env,
            stdout=output,
            stderr=output,
            check=False,
        )
    if not report.exists():
        return {part: Outcome(failed=[f"pytest did not run: see {log.name}"]) for part in parts}
    return outcomes(report, parts)


def outcomes(report: Path, parts: Mapping[str, Sequence[str]]) -> dict[str, Outcome]:
    """Return what became of each part, from pytest's report in XML."""
    found = {part: Outcome() for part in parts}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest has written it
        test = f"{case.get('classname')}::{case.get('name')}"
        owners = [part for part, nodes in parts.items() if any(is_of(test, node) for node in nodes)]
        for part in (
            owners or parts
        ):  # one that is of no part, such as a file that cannot be imported, fails all
            _count(found[part], test, case)
    return found


def _count(part: Outcome, test: str, case: "ET.Element") -> None:
    skipped = case.find("skipped")
    if case.find("failure") is not None or case.find("error") is not None:
        part.failed.append(test)
    elif skipped is None:
        part.passed += 1
    elif (reason := skipped.get("message", "")) not in part.skipped:
        part.skipped.append(reason)
