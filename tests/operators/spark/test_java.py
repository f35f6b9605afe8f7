"""The launcher of the Java that the extra `java` brings: a program that is run, so that nobody else may choose it."""

import os
from pathlib import Path

import pytest

from operators.spark.base.java import _shim
from tests.operators.spark.test_private_files import belongs_to_another

JAVA = Path("/opt/java/bin/java")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of caches."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / "cache"


def launcher(home: Path) -> Path:
    """The program of a home."""
    return home / "bin" / "java"


def test_a_launcher_is_written_once(cache: Path) -> None:
    """One that is whole stays; one that was cut, is something else or cannot be run is written again."""
    home = _shim(JAVA)
    assert cache in home.parents
    assert "exec /opt/java/bin/java" in launcher(home).read_text()
    before = launcher(home).stat().st_ino
    assert before == launcher(_shim(JAVA)).stat().st_ino
    whole = launcher(home).read_bytes()
    for content in (whole[:20], b"#!/bin/sh\nexec evil\n", b"\xff\xfe"):
        launcher(home).write_bytes(content)
        assert whole == launcher(_shim(JAVA)).read_bytes()
    launcher(home).chmod(0o600)
    assert os.access(launcher(_shim(JAVA)), os.X_OK)


@pytest.mark.parametrize("folder", ["spark-stateful-windows", "a home", "bin"])
def test_a_launcher_in_a_folder_of_another_user_is_not_run(
    folder: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever made the folder first could have put any program there: another place is used."""
    home = _shim(JAVA)
    launcher(home).write_text("#!/bin/sh\nexec evil\n")
    theirs = {"a home": home, "bin": home / "bin"}.get(folder, home.parent)
    belongs_to_another(theirs, monkeypatch)
    found = _shim(JAVA)
    assert cache not in found.parents
    assert "exec /opt/java/bin/java" in launcher(found).read_text()
