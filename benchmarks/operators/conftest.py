"""The records of the local runner's benchmarks."""

import pyarrow as pa
import pytest

from benchmarks.data import records


@pytest.fixture(scope="package")
def table() -> pa.Table:
    """The million records."""
    return records()
