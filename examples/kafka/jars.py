"""Jars that Maven fetches once into a cache of the user's."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

INSTALL = "apt-get install maven openjdk-17-jre-headless"
_POM = Path(__file__).with_name("pom.xml")
_SECONDS = 600


class MissingError(Exception):
    """What is needed to run is not on this machine; the message says what to install."""


@dataclass(frozen=True)
class Artifact:
    """What Maven fetches, with all that it depends on.

    Attributes:
        group, name, version: its coordinates.
        provided: groups whose jars are left out, since the program that loads the others has them.
        classifier: of a jar that is fetched alone, without what it depends on, such as "tests".
    """

    group: str
    name: str
    version: str
    provided: tuple[str, ...] = ()
    classifier: str | None = None

    def jars(self) -> list[Path]:
        """Return the jars, which are fetched if they are not in the cache.

        Raises:
            MissingError: Maven is missing, or could not fetch them.
        """
        folder = cache() / "-".join(filter(None, (self.name, self.version, self.classifier)))
        cache().mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                self._fetch(folder)
        return sorted(folder.glob("*.jar"))

    def _fetch(self, folder: Path) -> None:
        maven = shutil.which("mvn")
        if maven is None:
            raise MissingError(f"{self.name} is fetched by Maven, which is not installed: {INSTALL}")
        with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
            if self.classifier:
                one = f"{self.group}:{self.name}:{self.version}:jar:{self.classifier}"
                goal = ["dependency:copy", f"-Dartifact={one}"]
            else:
                without = f"-DexcludeGroupIds={','.join(self.provided)}"
                goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", without]
            command = [
                *(maven, "--quiet", "--batch-mode", "--file", str(_POM), *goal),
                *(f"-Dwanted.group={self.group}", f"-Dwanted.artifact={self.name}"),
                *(f"-Dwanted.version={self.version}", f"-DoutputDirectory={partial}/jars"),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
            if done.returncode:
                why = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr)
                raise MissingError(f"Maven could not fetch {self.name} {self.version}: {why.strip()[:500]}")
            (Path(partial) / "jars").rename(folder)


def java_program(name: str = "java") -> str:
    """Return the path of a program of Java: of JAVA_HOME, or else on PATH.

    Raises:
        MissingError: it is not there.
    """
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/{name}" if home else shutil.which(name)
    if found is None:
        raise MissingError(f"Kafka runs in Java 17 or newer, and {name} is not installed: {INSTALL}")
    return found


def cache() -> Path:
    """Return the folder of all jars."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "spark-stateful-windows" / "jars"


_OF_SPARK = (
    "org.scala-lang",
    "org.scala-lang.modules",
    "org.slf4j",
    "com.google.code.findbugs",
    "org.apache.hadoop",
)
BROKER = Artifact("org.apache.kafka", "kafka_2.13", "4.3.1")
LOGGING = Artifact("org.slf4j", "slf4j-simple", "1.7.36")
CONNECTOR = Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", _OF_SPARK)
AVRO = Artifact("org.apache.spark", "spark-avro_2.13", "4.1.1", _OF_SPARK)
