"""What tests of Delta and Iceberg need: jars, and a PySpark that both have jars for, beside this interpreter's packages."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock

from examples.kafka.jars import Artifact, MissingError, cache

_NEEDED = Path(__file__).with_name("pyspark.txt")
_READER = "pyiceberg==0.12.0"
PYSPARK = "4.1.4"
_ALL = ("*",)
JARS = (
    Artifact("io.delta", "delta-spark_4.1_2.13", "4.4.0", _ALL),
    Artifact("io.delta", "delta-storage", "4.4.0", _ALL),
    Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0"),
    Artifact("org.xerial", "sqlite-jdbc", "3.46.1.3"),
)
_OURS = ("delta-", "iceberg-spark-runtime", "sqlite-jdbc")


def jars() -> list[Path]:
    """The jars of Delta, Iceberg and its catalog.

    Raises:
        MissingError: Maven is missing, or could not fetch them.
    """
    return sorted(
        {jar.name: jar for one in JARS for jar in one.jars() if jar.name.startswith(_OURS)}.values()
    )


def pyspark() -> Path:
    """The folder that has PySpark; it goes first on the path.

    Raises:
        MissingError: pip could not install it.
    """
    return _installed(f"pyspark-{PYSPARK}", "--no-deps", "--require-hashes", "--requirement", str(_NEEDED))


def pyiceberg() -> Path:
    """The folder that has an engine which reads Iceberg without Spark; it goes last on the path.

    Raises:
        MissingError: pip could not install it.
    """
    return _installed(_READER.replace("==", "-"), _READER)


def _installed(name: str, *wanted: str) -> Path:
    folder = cache().parent / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            _install(folder, *wanted)
    return folder


def _install(folder: Path, *wanted: str) -> None:
    # CI installs all other packages from a folder of wheels.
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PIP_NO_INDEX", "PIP_FIND_LINKS")
    }
    with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            f"{partial}/packages",
            *wanted,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            raise MissingError(f"pip could not install {wanted[-1]}: {done.stderr.strip()[-500:]}")
        shutil.move(f"{partial}/packages", folder)


def environment() -> dict[str, str]:
    """The environment of a process that uses this PySpark with our packages."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(pyspark()), str(root)])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "LAKE_TESTS": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
