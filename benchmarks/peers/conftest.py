"""Records in files, and the Python of each peer."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.peers.environments import environment
from benchmarks.peers.works import later_records


@pytest.fixture(scope="package")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], Path]:
    """What writes a file of so many records of so many keys, once."""
    folder = tmp_path_factory.mktemp("peers")

    @cache
    def write(count: int, keys: int) -> Path:
        path = folder / f"{count}-{keys}.parquet"
        pq.write_table(later_records(count, keys), path)
        return path

    return write


@pytest.fixture
def python(peer: str, capsys: pytest.CaptureFixture[str]) -> Path:
    """The Python that runs a peer; without one the test is skipped."""
    with capsys.disabled():
        found, problem = environment(peer)
    if found is None:
        pytest.skip(problem)
    return found
