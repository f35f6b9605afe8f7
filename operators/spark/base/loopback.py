"""Where a local Spark listens: on this machine only."""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from threading import Lock

ADDRESS_KEY = "SPARK_LOCAL_IP"
"""The driver, its blocks and its web page listen there. For the web page there is no conf, and a JVM that runs keeps it."""
_ADDRESS = "127.0.0.1"
CONF = {"spark.driver.host": _ADDRESS, "spark.driver.bindAddress": _ADDRESS}
"""What has the driver and its blocks listen on this machine only, also where the JVM runs already."""
_LOCAL = re.compile(r"local(\[.*)?")
_UNKNOWN = "unknown"
_STARTING = Lock()
"""Held while the environment names the address: threads that start Spark at once would take it from one another."""


def stays_local(master: str | None) -> bool:
    """Return whether a session should listen on this machine only: its master is local, and nobody says otherwise.

    Args:
        master: as given to the session; None if it is Spark's default, which is local unless the environment, the arguments of
            spark-submit or a file of defaults name another one.
    """
    if ADDRESS_KEY in os.environ:
        return False
    found = master or os.environ.get("MASTER") or _submitted() or _default() or "local[*]"
    return _LOCAL.fullmatch(found) is not None


@contextmanager
def on_loopback() -> Iterator[None]:
    """Have a JVM that Spark starts in the block listen on the loopback interface. Blocks of other threads wait."""
    with _STARTING:
        os.environ[ADDRESS_KEY] = _ADDRESS
        try:
            yield
        finally:
            del os.environ[ADDRESS_KEY]


def _submitted() -> str | None:
    """The master that the arguments of spark-submit name, or that cannot be told from them; None without any."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _UNKNOWN  # spark-submit has started the JVM.
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "").replace("=", " "))
    if "--properties-file" in words:
        return _UNKNOWN
    named = [after for word, after in pairwise(words) if word in ("--master", "spark.master")]
    return named[-1] if named else None


def _default() -> str | None:
    """The master that Spark's file of defaults names."""
    found: list[str] = []
    for folder in _conf_folders():
        try:
            text = Path(folder, "spark-defaults.conf").read_text("utf-8", "replace")
        except OSError:
            continue
        found += re.findall(r"(?m)^[ \t]*spark\.master[ \t=:]+(\S+)", text)
    return found[-1] if found else None


def _conf_folders() -> Iterator[Path]:
    if "SPARK_CONF_DIR" in os.environ:
        yield Path(os.environ["SPARK_CONF_DIR"])
        return
    installed = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (installed and installed.origin and Path(installed.origin).parent)
    if home:
        yield Path(home, "conf")
