"""Environments of Python that hosts may have, and what is sent to hosts that lack something."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.faults.processes import ROOT
from tests.versions.platforms import documented_line

_WITH_SPARK = ("numpy", "pandas", "protobuf", "pyarrow")
"""What comes with Spark on platforms."""
_OURS = ("filelock", "msgpack", "rocksdict", "zstandard")
_PACKER = "venv-pack"


@dataclass(frozen=True)
class Shipped:
    """Interpreters, and what can be sent to them.

    Attributes:
        bare: an interpreter without packages.
        dependencies: one that has what this library needs, and not the library itself.
        complete: one that has both.
        archive: the environment of the last one, packed.
        library: a zip file of this library's packages alone.
    """

    bare: Path
    dependencies: Path
    complete: Path
    archive: Path
    library: Path

    @classmethod
    def made(cls, folder: Path) -> "Shipped":
        """Make all of them in a new folder, as the page On a cluster says, with the versions that this process has."""
        wheels = folder / "wheels"
        _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels)
        (wheel,) = wheels.iterdir()
        library = folder / "windows.zip"
        shutil.copy(wheel, library)
        bare, dependencies, complete = (folder / name for name in ("bare", "dependencies", "complete"))
        _run(sys.executable, "-m", "venv", "--without-pip", bare)
        for environment in (dependencies, complete):
            _run(sys.executable, "-m", "venv", environment)
            ours = () if environment is complete else _OURS
            wanted = [f"{name}=={version(name)}" for name in (*_WITH_SPARK, *ours)]
            _pip(environment, "install", *wanted)
        same = [f"{name}=={version(name)}" if name in _OURS else name for name in documented_line(wheel)]
        _pip(complete, *same)
        _pip(complete, "install", _PACKER)
        archive = folder / "windows-env.tar.gz"
        _run(complete / "bin" / _PACKER, "--prefix", complete, "-q", "-o", archive)
        interpreters = (environment / "bin" / "python" for environment in (bare, dependencies, complete))
        return cls(*interpreters, archive, library)


def _pip(environment: Path, *arguments: object) -> None:
    _run(environment / "bin" / "pip", *arguments, "--quiet")


def _run(*command: object) -> None:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [*map(str, command)], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, (done.stdout + done.stderr)[-4_000:]
