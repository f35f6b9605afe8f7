"""A Redis server of its own, on a socket in a temporary directory, without TCP."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from tests.patience import files, wait_until


@contextmanager
def redis_server(*arguments: str) -> Iterator[str]:
    """Run a server with further arguments, and yield its URL; skip the test where none is installed."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no Redis server is installed: apt-get install redis-server")
    with tempfile.TemporaryDirectory(prefix="redis-") as name:  # short: a socket's path has at most 107 bytes
        folder = Path(name)
        command = [
            program,
            "--port",
            "0",
            "--unixsocket",
            str(folder / "socket"),
            "--dir",
            name,
            "--save",
            "",
        ]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*command, *arguments], stdout=log, stderr=log)
        url = f"unix://{folder / 'socket'}"
        try:
            wait_until(lambda: process.poll() is not None or _answers(url), "the server", files(folder))
            assert process.poll() is None, (folder / "log").read_text()
            yield url
        finally:
            process.kill()  # nothing of it is needed any more
            process.wait()


def _answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False
