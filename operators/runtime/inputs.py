"""The columns of a frame that an operator reads, and what each is to it."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pat

from operators.columns.records import RecordColumns
from operators.errors import DefinitionError


@dataclass(frozen=True)
class Inputs:
    """The input columns of an operator.

    Attributes:
        event_time: name of the event-time column.
        keys: names and Arrow types of the key columns.
        values: names and Arrow types of the columns that aggregates, or a custom operator, read.
        tick_us: length of a tick in microseconds.
        reach: ticks from an event time to the bounds of its windows at most.
        gap: name of the column of session gaps, or None.
        others: columns that only late records are reported with, with their types.
        rows: columns of the rows that come out, with their types; none if windows come out.
        clock: what event times are, as `clock_of` returns it.
        given_time: column of event times as they came, if those that are too far ahead of the clock are null in `event_time`.
            It is read to report them.
    """

    event_time: str
    keys: tuple[tuple[str, pa.DataType], ...]
    values: tuple[tuple[str, pa.DataType], ...]
    tick_us: int
    reach: int
    gap: str | None = None
    others: tuple[tuple[str, pa.DataType], ...] = ()
    rows: tuple[tuple[str, pa.DataType], ...] = ()
    clock: str | None = None
    given_time: str | None = None

    @property
    def group_by(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return tuple(name for name, _ in self.keys)

    @property
    def names(self) -> list[str]:
        """Names of all columns, each once."""
        gap = [] if self.gap is None else [self.gap]
        named = [*self.keys, *self.values, *self.rows, *self.others]
        first = [*self.group_by, self.event_time, *gap, *self._reported_time]
        return list(dict.fromkeys([*first, *(name for name, _ in named)]))

    @property
    def _reported_time(self) -> list[str]:
        return [self.given_time] if self.given_time is not None and self.others else []

    @property
    def aliases(self) -> dict[str, str]:
        """Names that any engine takes as they are, for each column."""
        return {name: f"c{number}" for number, name in enumerate(self.names)}

    @property
    def records(self) -> RecordColumns:
        """Which columns make the records."""
        values, rows = (tuple(name for name, _ in columns) for columns in (self.values, self.rows))
        types = tuple(dict([*self.keys, *self.values, *self.rows]).items())
        return RecordColumns(
            self.event_time,
            self.group_by,
            values,
            self.tick_us,
            self.gap,
            self.reach,
            rows,
            types,
            *self._reported_time,
        )

    def empty(self) -> pa.Table:
        """Return a table without rows that can be read."""
        types = {
            **dict(self.others),
            self.event_time: pa.timestamp("us"),
            **dict(self.keys),
            **dict(self.values),
            **dict(self.rows),
        }
        types.update(dict.fromkeys(self._reported_time, types[self.event_time]))
        if self.gap is not None:
            types.setdefault(self.gap, pa.duration("us"))
        return pa.schema([(name, types[name]) for name in self.names]).empty_table()


def clock_of(type_: pa.DataType) -> str | None:
    """Return what event times of a type are: instants, or times on a local clock; None for whole numbers: of either."""
    if not pat.is_timestamp(type_):
        return None
    return "timestamp_ntz" if type_.tz is None else "timestamp"


def check_clock(zone: str | None, clock: str | None, event_time: str) -> str | None:
    """Return the clock. Refuse event times that are local already, where windows are in the calendar of a zone.

    Args:
        zone: the zone, if there is one.
        clock: what event times are, as `clock_of` returns it.
        event_time: their column.

    Raises:
        DefinitionError: names the column, and the way out.
    """
    if zone is not None and clock == "timestamp_ntz":
        raise DefinitionError(
            f"event time {event_time!r} is of type timestamp_ntz, which has no zone, but zone is {zone!r}: cast it to "
            "timestamp, which takes it as a local time of the session's time zone"
        )
    return clock
