"""Feast's feature server, from an environment of its own that pip makes once in a cache of the user's."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from filelock import FileLock

VERSION = "0.67.0"
_SECONDS = 600
_STARTS_IN_S = 120


class MissingError(Exception):
    """Feast is not on this machine and cannot be installed; the message has the command that installs it."""


def environment() -> Path:
    """Return the environment that has Feast, which is made if it is not there.

    Raises:
        MissingError: pip could not install it.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = (
        Path(home) / "spark-stateful-windows" / f"feast-{VERSION}-{sys.version_info[0]}.{sys.version_info[1]}"
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "installed").exists():
            _install(folder)
    return folder


def _install(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    commands = (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", f"feast=={VERSION}"],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        if done.returncode:
            told = (done.stderr.strip().splitlines() or ["nothing was printed"])[-1]
            tried = " && ".join(" ".join(each) for each in commands)
            raise MissingError(f"Feast cannot be installed ({told}): {tried} && touch {folder}/installed")
    (folder / "installed").touch()


@contextmanager
def running_server(repository: Path, log: Path) -> Iterator[str]:
    """Apply a repository of Feast, and run the server over it; gives its address, such as "http://localhost:6566".

    Raises:
        MissingError: Feast cannot be installed.
    """
    feast = str(environment() / "bin" / "feast")
    subprocess.run([feast, "apply"], cwd=repository, check=True, capture_output=True, timeout=_SECONDS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with log.open("wb") as file:
        command = [feast, "serve", "--port", str(port), "--workers", "1"]
        server = subprocess.Popen(
            command, cwd=repository, stdout=file, stderr=file, start_new_session=True, env={**os.environ}
        )
    try:
        address = f"http://localhost:{port}"
        _wait(server, f"{address}/health", log)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=60)


def _wait(server: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    until = time.monotonic() + _STARTS_IN_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urlopen(address, timeout=5):  # noqa: S310 - our own address
                return
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise AssertionError(f"Feast's server did not start: {log.read_text()[-2_000:]}")
