"""A PostgreSQL server of its own, on a socket in a temporary directory: without TCP, and never as root."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.patience import files, wait_until

_DEBIAN = Path("/usr/lib/postgresql")
_USERS = ("postgres", "nobody")


def programs() -> Path | None:
    """Return the directory of `initdb` and `postgres`, or None: Debian has it outside of PATH."""
    found = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    name = found[-1] if found else shutil.which("initdb")
    return Path(name).parent if name else None


@contextmanager
def postgres_server() -> Iterator[str]:
    """Run a server, and yield how to connect to it; skip the test where none is installed."""
    bin_folder = programs()
    if bin_folder is None:
        pytest.skip("no PostgreSQL server is installed")
    with tempfile.TemporaryDirectory(prefix="pg-") as name:  # short: a socket's path has at most 107 bytes
        folder, user = Path(name), _user()
        if user is not None:
            shutil.chown(folder, user)
        with _running(bin_folder, folder, user) as conninfo:
            yield conninfo


def _user() -> str | None:
    """Return whom the server runs as, or None if that is who we are: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _USERS if name in known)


@contextmanager
def _running(bin_folder: Path, folder: Path, user: str | None) -> Iterator[str]:
    data, log = folder / "data", folder / "log"
    make = [
        bin_folder / "initdb",
        "-D",
        data,
        "-U",
        "windows",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-locale",
        "--no-sync",
    ]
    done = subprocess.run(make, user=user, cwd=folder, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    command = [
        bin_folder / "postgres",
        "-D",
        data,
        "-k",
        folder,
        "-c",
        "listen_addresses=",
        "-c",
        "fsync=off",
    ]
    conninfo = f"host={folder} user=windows dbname=postgres"
    with log.open("wb") as output:
        process = subprocess.Popen(command, user=user, cwd=folder, stdout=output, stderr=output)
    try:
        wait_until(lambda: process.poll() is not None or _answers(conninfo), "the server", files(folder))
        assert process.poll() is None, log.read_text()
        yield conninfo
    finally:
        process.send_signal(signal.SIGQUIT)  # nothing of it is needed any more
        process.wait()


def _answers(conninfo: str) -> bool:
    try:
        psycopg.connect(conninfo).close()
    except psycopg.OperationalError:
        return False
    return True
