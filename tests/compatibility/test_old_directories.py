"""Directories and savepoints of the local runner that an earlier version has written: every operator goes on from them."""

import json
from pathlib import Path

import pytest

from tests.compatibility.archives import CHECKPOINTS, EDITS, OF_SPARK_4_0, SEEDED_SLOTS, SEVERAL_PAGES, unpack
from tests.compatibility.runs import BACKENDS, LOCAL, added, expected, run_locally
from tests.effort import slow_but


@pytest.fixture(scope="module", params=slow_but(["rocksdb"], BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    """The backend that the directories are of."""
    return request.param


@pytest.fixture(scope="module")
def sets(backend: str, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """The stored directories of both sets."""
    name, folder = f"{backend}-directories.tar.gz", tmp_path_factory.mktemp("stored")
    return {of: unpack(of / name, folder / of.name) for of in (CHECKPOINTS, OF_SPARK_4_0)}


@pytest.fixture
def stored(sets: dict[Path, Path], name: str) -> Path:
    """The stored directories that an operator is in."""
    return sets[OF_SPARK_4_0 if name == "rolling" else CHECKPOINTS]


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


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stored directories whose slots follow a hash with a seed."""
    return unpack(SEEDED_SLOTS / "spark-directories.tar.gz", tmp_path_factory.mktemp("seeded"))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL)
def test_directories_with_seeded_slots_go_on(seeded: Path, name: str) -> None:
    """The hash of a key is the same in every process and version."""
    before = json.loads((seeded / "rows.json").read_text())[name]
    after = run_locally(name, seeded / name, "spark", goes_on=True)
    assert expected([name]) == added({name: before}, {name: after})


@pytest.fixture(scope="module", params=["memory", "rocksdb"])
def with_edits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Directories whose changelog has the rows that have changed, and their backend."""
    name = f"{request.param}-directories.tar.gz"
    return unpack(EDITS / name, tmp_path_factory.mktemp("edits")), request.param


@pytest.mark.parametrize("name", LOCAL)
def test_logged_rows_go_on(with_edits: tuple[Path, str], name: str) -> None:
    """A copy that is made from pages and the rows that changed in them goes on."""
    stored, backend = with_edits
    before = json.loads((stored / "rows.json").read_text())[name]
    after = run_locally(name, stored / name, backend, goes_on=True)
    assert expected([name]) == added({name: before}, {name: after})


@pytest.fixture(scope="module", params=["memory", "rocksdb", "spark"])
def with_pages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Directories in which a key has several pages in a segment, and their backend."""
    name = f"{request.param}-directories.tar.gz"
    return unpack(SEVERAL_PAGES / name, tmp_path_factory.mktemp("pages")), request.param


@pytest.mark.parametrize("name", LOCAL)
def test_several_pages_go_on(with_pages: tuple[Path, str], name: str) -> None:
    """Names of pages say where they begin, in the changelog, in snapshots, and in the journal."""
    stored, backend = with_pages
    before = json.loads((stored / "rows.json").read_text())[name]
    after = run_locally(name, stored / name, backend, goes_on=True)
    assert expected([name]) == added({name: before}, {name: after})


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL)
def test_stored_state_is_needed(name: str, tmp_path: Path) -> None:
    """What these tests compare depends on the stored state: without it other rows come."""
    of = OF_SPARK_4_0 if name == "rolling" else CHECKPOINTS
    before = json.loads((unpack(of / "memory-directories.tar.gz", tmp_path) / "rows.json").read_text())
    after = run_locally(name, tmp_path / "new", "memory", goes_on=True)
    assert expected([name]) != added({name: before[name]}, {name: after})
