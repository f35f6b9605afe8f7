"""Times that no table of SQL has."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from operators.sinks.interface import SinkError
from operators.sinks.nested import inner_values

_DAYS = -719_162, 2_932_896
"""From 0001-01-01 to 9999-12-31, since the epoch."""
_MICROSECONDS = _DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1


def refuse_times(rows: pa.Table) -> None:
    """Refuse times and dates outside of the years 1 to 9999, also in nested values.

    Some databases cannot read them, others write what nobody can read; Python's own times end there, too.

    Raises:
        SinkError: names the column.
    """
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if any(map(_is_out_of_range, column.chunks)):
            raise SinkError(
                f"column {name!r} has times outside of the years 1 to 9999, which tables do not hold: drop or replace "
                "them before the operator"
            )


def _is_out_of_range(values: pa.Array) -> bool:
    type_ = values.type
    if not len(values):
        return False
    if pat.is_nested(type_):
        return any(map(_is_out_of_range, inner_values(values)))
    if pat.is_date(type_):
        first, last, values = *_DAYS, values.cast(pa.date32()).view(pa.int32())
    elif pat.is_timestamp(type_):
        first, last, values = *_MICROSECONDS, values.view(pa.int64())
    else:
        return False
    found = pc.min_max(values).as_py()
    return found["min"] is not None and not first <= found["min"] <= found["max"] <= last
