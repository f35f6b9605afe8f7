"""Directories and savepoints of the local runner that an earlier version has written: every operator goes on from them."""

import json
from pathlib import Path

import pytest

from tests.compatibility.archives import CHECKPOINTS, unpack
from tests.compatibility.runs import BACKENDS, LOCAL, added, expected, run_locally
from tests.effort import slow_but


@pytest.fixture(scope="module", params=slow_but(["rocksdb"], BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    """The backend that the directories are of."""
    return request.param


@pytest.fixture(scope="module")
def stored(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stored directories."""
    return unpack(CHECKPOINTS / f"{backend}-directories.tar.gz", tmp_path_factory.mktemp("stored"))


@pytest.mark.parametrize("name", LOCAL)
def test_directories_go_on(stored: Path, backend: str, name: str) -> None:
    """Rows from before and after are those of all records, none lost and none twice."""
    before = json.loads((stored / "rows.json").read_text())[name]
    after = run_locally(name, stored / name, backend, goes_on=True)
    assert expected([name]) == added({name: before}, {name: after})


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL)
def test_savepoints_are_started_from(stored: Path, backend: str, name: str, tmp_path: Path) -> None:
    """A runner of the next backend goes on from a savepoint."""
    before = json.loads((stored / "rows.json").read_text())[name]
    other = BACKENDS[BACKENDS.index(backend) - 1]
    after = run_locally(name, tmp_path, other, goes_on=True, savepoint=stored / "savepoints" / name)
    assert expected([name]) == added({name: before}, {name: after})


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL)
def test_stored_state_is_needed(name: str, tmp_path: Path) -> None:
    """What these tests compare depends on the stored state: without it other rows come."""
    before = json.loads(
        (unpack(CHECKPOINTS / "memory-directories.tar.gz", tmp_path) / "rows.json").read_text()
    )
    after = run_locally(name, tmp_path / "new", "memory", goes_on=True)
    assert expected([name]) != added({name: before[name]}, {name: after})
