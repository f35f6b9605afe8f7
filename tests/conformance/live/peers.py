"""Other systems, each in a Java process of its own that plays one case after another."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.conformance.play import Options, Row

_HERE = Path(__file__).parent
_FOLDER = _HERE.parents[2] / ".cache" / "live"
_MAVEN = shutil.which("mvn") or ""
_INSTALL = "apt-get install maven openjdk-17-jdk-headless"
_LEAST_JAVA = 17
_SECONDS = 600


class MissingError(Exception):
    """What a peer needs is not here."""


@dataclass(frozen=True)
class System:
    """A system to compare with.

    Attributes:
        name: of the option that sets its version.
        program: the Java class that plays its cases.
        group, artifact: what Maven knows it by.
        version: the newest that was tried.
    """

    name: str
    program: str
    group: str
    artifact: str
    version: str


SYSTEMS = {
    system.name: system
    for system in (
        System("kafka", "KafkaPeer", "org.apache.kafka", "kafka-streams-test-utils", "4.3.0"),
        System("jet", "JetPeer", "com.hazelcast", "hazelcast", "5.5.0"),
    )
}


@dataclass(frozen=True)
class Answer:
    """What a peer made of a case.

    Attributes:
        emitted: the rows of each record; a value is a number, a list of the window's values, or None for a tombstone.
        dropped: the records of which it dropped something, if it says so.
    """

    emitted: list[list[Row]]
    dropped: list[int]


class Peer:
    """A running peer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def play(self, options: Options, records: list[Row]) -> Answer:
        """Return what the peer makes of these records.

        Raises:
            RuntimeError: it failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"options": options, "records": records}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "its process ended"}
        if "error" in answer:
            raise RuntimeError(f"the peer failed: {answer['error']}; options {options}, records {records}")
        return Answer(answer["emitted"], answer.get("late", []))


@contextmanager
def running(system: System, version: str) -> Iterator[Peer]:
    """Run a peer of this version.

    Raises:
        MissingError: Java or Maven is missing, or Maven could not fetch the version.
    """
    missing = why_not()
    if missing:
        raise MissingError(missing)
    jars = _fetched(system, version)
    command = [
        *(_java("java"), "-Xmx512m", "-XX:+UseSerialGC", "-Dhazelcast.logging.type=none"),
        *("-cp", f"{jars}/*", str(_HERE / "java" / f"{system.program}.java")),
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        try:
            yield Peer(process)
        finally:
            process.kill()


@cache
def why_not() -> str:
    """Return why no peer can run here, or nothing."""
    found = shutil.which(_java("javac"))
    if found is None:
        return f"peers run in a Java {_LEAST_JAVA} or newer with its compiler, which this machine lacks: {_INSTALL}"
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"javac (\d+)", said.stdout + said.stderr)
    if version is None or int(version[1]) < _LEAST_JAVA:
        return f"peers need Java {_LEAST_JAVA} or newer, and {found} is {version[1] if version else '?'}: {_INSTALL}"
    return "" if _MAVEN else f"peers are fetched by Maven, which this machine lacks: {_INSTALL}"


def _java(program: str) -> str:
    home = os.environ.get("JAVA_HOME")
    named = Path(home) / "bin" / program if home else None
    return str(named) if named and named.exists() else program


def _fetched(system: System, version: str) -> Path:
    """The folder with the jars of a version, fetched once."""
    folder = _FOLDER / f"{system.name}-{version}"
    if folder.exists():
        return folder
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as partial:
        done = subprocess.run(
            [
                *(
                    _MAVEN,
                    "--quiet",
                    "--batch-mode",
                    "--file",
                    str(_HERE / "pom.xml"),
                    "dependency:copy-dependencies",
                ),
                *(f"-Dpeer.group={system.group}", f"-Dpeer.artifact={system.artifact}"),
                *(f"-Dpeer.version={version}", f"-DoutputDirectory={partial}/jars"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        if done.returncode:
            why = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr)
            raise MissingError(f"Maven could not fetch {system.name} {version}: {why.strip()[:500]}")
        if not folder.exists():
            (Path(partial) / "jars").rename(folder)
    return folder
