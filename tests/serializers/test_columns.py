"""Columns come back from Arrow as they were."""

import numpy as np
import pyarrow as pa
import pytest

from serializers.arrays import fill
from serializers.columns import ARROW_TYPES, from_arrow, to_arrow
from serializers.pages import Column

COLUMNS = {
    "i8": np.array([-(2**63), 0, 2**63 - 1]),
    "f8": np.array([-0.0, np.inf, 1.5]),
    "object": fill([[1, "a"], None, {"k": b"\x00"}]),
}


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize(("code", "column"), COLUMNS.items())
def test_round_trip(code: str, column: Column, rows: int) -> None:
    """Numbers and objects come back with their type, of no rows as well."""
    array = to_arrow(column[:rows])
    assert ARROW_TYPES[code] == array.type
    back = from_arrow(pa.chunked_array([array]), code)
    assert column.dtype == back.dtype
    assert column[:rows].tolist() == back.tolist()
