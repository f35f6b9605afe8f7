"""Virtual environments, each with a version of PySpark and of Python. uv makes them, from a cache that they share."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
FIRST_PYTHON = {"4.0": "3.10", "4.1": "3.10", "4.2": "3.10", "4.3": "3.11"}
"""Of each version of PySpark, the first Python that it and this library run on."""
_PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "protobuf")
_TELL = (
    "import json, platform, importlib.metadata as m; "
    f"print(json.dumps({{'python': platform.python_version(), **{{n: m.version(n) for n in {_PACKAGES}}}}}))"
)


class MissingError(Exception):
    """An environment that cannot be made: there is no such Python, or the packages do not go together."""


@dataclass(frozen=True)
class Environment:
    """A version of PySpark and one of Python.

    Attributes:
        pyspark: minor version of PySpark, such as "4.0"; its latest patch is taken.
        python: minor version of Python.
        lowest: whether our other dependencies have the lowest versions that the project admits, in place of the highest.
    """

    pyspark: str
    python: str
    lowest: bool = False

    @classmethod
    def of(cls, text: str) -> "Environment":
        """Return the environment of a text such as "4.0/3.10" or "4.0/3.10/lowest"."""
        pyspark, python, *more = text.split("/")
        if more not in ([], ["lowest"]) or python not in pythons(pyspark):
            raise ValueError(text)
        return cls(pyspark, python, bool(more))

    def __str__(self) -> str:
        return f"{self.pyspark}/{self.python}{'/lowest' if self.lowest else ''}"

    @property
    def file_name(self) -> str:
        """Return its name where no slash can be."""
        return str(self).replace("/", "-")


def pythons(pyspark: str) -> Sequence[str]:
    """Return the Pythons that go together with a version of PySpark."""
    first = FIRST_PYTHON.get(pyspark)
    return () if first is None else PYTHONS[PYTHONS.index(first) :]


ALL = [
    *(Environment(pyspark, python) for pyspark in FIRST_PYTHON for python in pythons(pyspark)),
    Environment("4.0", "3.10", lowest=True),
]


def make(environment: Environment, folder: Path) -> Path:
    """Return the interpreter of an environment, with the project and the extra `test`; it is made if it is not there.

    Args:
        environment: what to make.
        folder: where environments lie.

    Raises:
        MissingError: it cannot be made.
    """
    home = folder / environment.file_name
    python = home / "bin" / "python"
    done = home / "done"
    if not done.exists():
        uv = _uv(folder)
        shutil.rmtree(home, ignore_errors=True)
        _run([uv, "venv", "--python", environment.python, str(home)])
        resolution = ["--resolution", "lowest-direct"] if environment.lowest else []
        wanted = ["--editable", f"{ROOT}[test]", f"pyspark=={environment.pyspark}.*"]
        _run([uv, "pip", "install", "--python", str(python), *resolution, *wanted])
        done.touch()
    return python


def installed(python: Path) -> dict[str, str]:
    """Return the exact versions of Python and of what matters in its environment."""
    found: dict[str, str] = json.loads(_run([str(python), "-c", _TELL]))
    return found


def remove(environment: Environment, folder: Path) -> None:
    """Delete an environment."""
    shutil.rmtree(folder / environment.file_name, ignore_errors=True)


def _uv(folder: Path) -> str:
    """The path of uv, which is installed into the folder if there is none."""
    found = shutil.which("uv")
    if found is None:
        home = folder / "uv"
        found = str(home / "bin" / "uv")
        if not os.access(found, os.X_OK):
            _run([sys.executable, "-m", "venv", str(home)])
            _run([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"])
    return found


def _run(command: Sequence[str]) -> str:
    """What a command prints.

    Raises:
        MissingError: it failed, with the end of what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(done.stderr.strip()[-2_000:])
    return done.stdout
