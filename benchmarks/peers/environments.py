"""Environments of other systems: separate ones if their dependencies could conflict with ours, otherwise ours."""

import shutil
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".peers"
REQUIREMENTS = {
    "bytewax": ("bytewax==0.21.*", "pyarrow>=18"),
    "flink": ("apache-flink==2.3.*",),
    "quix": ("quixstreams==3.28.*", "pyarrow>=18"),
}
"""What is installed for a peer; one that is not named here comes with the extra `bench`."""


BUILT = "crcmod", "dill", "docopt", "hdfs"
"""Packages without wheels that Flink needs; they are plain Python, or work without a compiler."""


@cache
def environment(peer: str) -> tuple[Path | None, str]:
    """Return the Python that runs a system, or None and the reason why there is no such Python.

    An environment is created once, and again if its requirements or this Python have changed.
    """
    required = REQUIREMENTS.get(peer)
    if required is None:
        return Path(sys.executable), ""
    folder = FOLDER / peer
    stamp, python = folder / "made-of", folder / "bin" / "python"
    made_of = "\n".join([*required, sys.version])
    if stamp.exists() and made_of == stamp.read_text():
        return python, ""
    problem = _make(folder, python, required)
    if problem:
        return (
            None,
            f"{', '.join(required)} could not be installed for Python {sys.version.split()[0]}: {problem}",
        )
    stamp.write_text(made_of)
    return python, ""


def _make(folder: Path, python: Path, required: tuple[str, ...]) -> str:
    """Make an environment, and return what went wrong."""
    print(f"\nMaking {folder.relative_to(FOLDER.parent)} with {', '.join(required)}: once, up to a minute")
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder)
    # Ours installs into theirs: an environment needs no pip. Building what has no wheel would take a compiler and minutes.
    binary = "--only-binary", ":all:", "--no-binary", ",".join(BUILT)
    options = "--quiet", "--disable-pip-version-check", *binary
    pip = sys.executable, "-m", "pip", "--python", str(python), "install"
    done = subprocess.run([*pip, *options, *required], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return errors[-1] if errors else done.stderr.strip()[-500:]
