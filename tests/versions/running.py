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

from tests.versions.environments import ROOT
from tests.versions.parts import PARTS, WITH_FORMAT_2, is_of

_CONF = ROOT / "tests" / "spark_conf" / "spark-defaults.conf"
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
        """Return whether no test has failed, and some of each part passed or said why they did not."""
        return all(not part.failed and (part.passed or part.skipped) for part in self.parts.values())

    def write(self, path: Path) -> None:
        """Write it into a file."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: Path) -> "Result":
        """Return it from a file."""
        plain = json.loads(path.read_text())
        parts = {name: Outcome(**part) for name, part in plain.pop("parts").items()}
        return cls(**plain, parts=parts)


def today() -> str:
    """Return the date."""
    return datetime.now(timezone.utc).date().isoformat()


def run(python: Path, versions: dict[str, str], folder: Path) -> Result:
    """Run all parts with an interpreter, and return what they found; pytest's own words go into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    began, result = time.monotonic(), Result(versions, today())
    conf = folder / "format-2"
    conf.mkdir(exist_ok=True)
    (conf / _CONF.name).write_text(f"{_CONF.read_text()}\n{_FORMAT_2}")
    result.parts |= _run(python, PARTS, folder / "tests", {})
    result.parts |= _run(
        python, WITH_FORMAT_2, folder / "tests-format-2", {"TESTS_SPARK_CONF_DIR": str(conf)}
    )
    result.minutes = (time.monotonic() - began) / 60
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
