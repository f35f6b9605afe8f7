"""A column that says since when results count all records, for aggregates that are added to a running query."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from operators.columns.arrow import bounds_type
from operators.columns.checks import check_column_name
from operators.steps.since_column import SinceColumn

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


class TellsSince:
    """What operators over aggregates can tell about an aggregate that was added to a running query."""

    __slots__ = ()

    def with_since(self, column: str) -> "Self":
        """Return the operator with a column after the results: since when all of them count all records.

        An aggregate that is added to a running query counts from the restart on. A window that begins at this time or later
        has all its records in all results; one that begins earlier may lack some. The value is null if no aggregate was added
        later, or all were filled from history, and in a bounded frame. The column can be added and dropped at a restart.

        Args:
            column: its name. Its type is a timestamp, like the bounds of windows.

        Raises:
            DefinitionError: the name is not a text, or another column of the result has it.
        """
        check_column_name("with_since", column)
        operator: Any = self
        return replace(operator, since=column).checked()  # type: ignore[no-any-return]


def since_column(name: str | None, event_time: pa.DataType, tick_us: int) -> SinceColumn | None:
    """Return the column of this name; None without a name.

    Args:
        name: its name.
        event_time: the type of the event time.
        tick_us: length of a tick in microseconds.
    """
    return None if name is None else SinceColumn(name, bounds_type(event_time, tick_us), tick_us)
