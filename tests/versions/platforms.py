"""Environments such as platforms have: Spark is unpacked in a folder that PYTHONPATH names, and pip knows nothing of it."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.versions.environments import ROOT, Environment

PAGE = ROOT / "docs" / "cluster.md"
LEAST = {
    "4.0": {"protobuf": "5.28.3", "pyarrow": "18.0.0", "pandas": "2.2.2", "numpy": "1.26.4"},
    "4.1": {"protobuf": "6.33.0", "pyarrow": "18.0.0", "pandas": "2.2.2", "numpy": "1.26.4"},
    "4.2": {"protobuf": "6.33.5", "pyarrow": "18.0.0", "pandas": "2.2.3", "numpy": "2.1.0"},
    "4.3": {"protobuf": "6.33.5", "pyarrow": "18.0.0", "pandas": "2.2.2", "numpy": "1.26.4"},
}
"""The lowest versions that streams need beside each Spark. pandas 2.2.3 and NumPy 2.1 are the first for Python 3.13, on which
Spark 4.2 is tried."""
LINE = re.compile(r"^pip install --no-deps (spark_stateful_windows-\S+\.whl) (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Platform:
    """A machine's Python, and where its Spark lies.

    Attributes:
        python: the interpreter.
        spark: the home of Spark.
    """

    python: Path
    spark: Path

    def run(self, *command: object, cwd: Path) -> str:
        """Run the interpreter with arguments as the platform does, and return what it printed."""
        hidden = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH"}
        env = {key: value for key, value in os.environ.items() if key not in hidden}
        (py4j,) = (self.spark / "python" / "lib").glob("py4j-*.zip")
        env |= {"SPARK_HOME": str(self.spark), "PYTHONPATH": f"{self.spark / 'python'}:{py4j}"}
        done = subprocess.run(
            [self.python, *map(str, command)],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, (done.stdout + done.stderr)[-4_000:]
        return done.stdout

    def packages(self, cwd: Path) -> dict[str, str]:
        """Return the versions of all packages that pip knows of."""
        listed = json.loads(self.run("-m", "pip", "list", "--format", "json", cwd=cwd))
        return {package["name"]: package["version"] for package in listed}


def make_platform(environment: Environment, python: Path, folder: Path) -> Platform:
    """Return a platform with the Spark of an environment, and the lowest versions of what comes with that Spark.

    Args:
        environment: says which Spark it is.
        python: the environment's interpreter.
        folder: a new one, on the same disk as the environment, whose files are linked.
    """
    subprocess.run([python, "-m", "venv", folder / "python"], check=True)
    found = subprocess.run(
        [python, "-c", "import pyspark; print(pyspark.__path__[0])"],
        capture_output=True,
        text=True,
        check=True,
    )
    inside, spark = Path(found.stdout.strip()), folder / "spark"
    for name in ("bin", "jars", "sbin"):
        shutil.copytree(inside / name, spark / name, copy_function=os.link)
    left_out = shutil.ignore_patterns("jars", "bin", "sbin", "__pycache__", "examples")
    shutil.copytree(inside, spark / "python" / "pyspark", copy_function=os.link, ignore=left_out)
    shutil.copytree(inside / "python" / "lib", spark / "python" / "lib", copy_function=os.link)
    platform = Platform(folder / "python" / "bin" / "python", spark)
    wanted = [f"{name}=={version}" for name, version in LEAST[environment.pyspark].items()]
    platform.run("-m", "pip", "install", "--quiet", "--only-binary", ":all:", *wanted, cwd=folder)
    return platform


def documented_line(wheel: Path) -> list[str]:
    """Return the arguments of pip in the line that the docs have for platforms, with the wheel's path."""
    file, names = LINE.search(PAGE.read_text("utf-8")).groups()
    assert wheel.name == file
    return ["install", "--no-deps", str(wheel), *names.split()]
