"""The state of no record at all."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from operators.aggregates.operation import Operation
from operators.columns.arrow import column_data
from operators.columns.ranges import State
from operators.columns.records import Records

_NEVER = "never"


def empty_state(operation: Operation, types: Mapping[str, pa.DataType]) -> State:
    """Return the state of one row that no record was added to: of a record that `where` leaves out.

    Args:
        operation: whose state.
        types: the types of the input columns.
    """
    nulls = {name: pa.nulls(1, types[name]) for name in operation.inputs}
    values = {name: column_data(pa.chunked_array([array])) for name, array in nulls.items()}
    values[_NEVER] = column_data(pa.chunked_array([pa.array([False])]))
    zero = np.zeros(1, np.int64)
    return replace(operation.base_operation, where=_NEVER).lift(Records([b""], zero, zero, values, 0))
