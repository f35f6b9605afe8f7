"""Where a local Spark listens: on this machine only."""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

ADDRESS_KEY = "SPARK_LOCAL_IP"
"""Spark takes its address from here: for the driver, its blocks and its web page, for which there is no conf."""
_ADDRESS = "127.0.0.1"
_LOCAL = re.compile(r"local(\[.*)?")


@contextmanager
def on_loopback(master: str | None) -> Iterator[None]:
    """Have a Spark that starts in the block listen on the loopback interface, if its master is local and nobody says otherwise.

    Args:
        master: as given to the session; None if it is Spark's default.
    """
    if ADDRESS_KEY in os.environ or not _is_local(master):
        yield
        return
    os.environ[ADDRESS_KEY] = _ADDRESS
    try:
        yield
    finally:
        del os.environ[ADDRESS_KEY]


def _is_local(master: str | None) -> bool:
    """Whether a master is local. Without one, it is what the environment or a file of defaults names, or a local one."""
    found = master or _submitted() or os.environ.get("MASTER") or _default() or "local[*]"
    return _LOCAL.fullmatch(found) is not None


def _submitted() -> str | None:
    """The master that the arguments of spark-submit name."""
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    named = [after for word, after in pairwise(words) if word == "--master"]
    return named[-1] if named else None


def _default() -> str | None:
    """The master that Spark's file of defaults names."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and Path(home, "conf"))
    try:
        text = Path(folder, "spark-defaults.conf").read_text("utf-8") if folder else ""
    except (OSError, UnicodeDecodeError):
        return None
    found = re.findall(r"(?m)^[ \t]*spark\.master[ \t=:]+(\S+)", text)
    return str(found[-1]) if found else None
