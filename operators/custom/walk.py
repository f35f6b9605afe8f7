"""Runs an operator for one key at a time: its records and timers in order of event time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from operators.aggregates.user_functions import error_text
from operators.columns.record_text import record_text
from operators.columns.records import FAR_FUTURE
from operators.custom.contract import CallContext, OutputRows
from operators.custom.key_context import KeyContext
from operators.errors import OperatorError
from serializers import CorruptDataError
from state_backends import StateError

MOST_TIMERS = 1_000_000
"""Limit on timers of a key after the last record of a bounded frame, where each timer is due at once."""
Row = Mapping[str, Any]
Place = tuple[str, int]
"""A method, and the event time for which it was called."""
Timer = tuple[str, int]
"""Its name and time."""


class KeyFunctions(Protocol):
    """The functions of an operator for one key. See `operators.KeyedOperator`."""

    def process(self, time: int, record: dict[str, Any], context: KeyContext) -> Iterable[Row] | None:
        """Process one record."""

    def on_timer(self, time: int, name: str, context: KeyContext) -> Iterable[Row] | None:
        """Process a timer that fired."""

    def instant(self, time: int) -> datetime:
        """Return ticks as a datetime."""


class Walk:
    """Calls `process` and `on_timer` in order of time, key by key, and collects the rows."""

    def __init__(self, definition: KeyFunctions, context: CallContext) -> None:
        self._definition = definition
        self._context = context
        self._names = list(context.inputs)
        self._rows: list[Row] = []
        self._numbers: list[int] = []
        self._at: Place = ("process", 0)

    def go(
        self, number: int, times: Sequence[int], records: Sequence[list[Any]], key_context: KeyContext
    ) -> None:
        """Process the records and timers of a key."""
        process, names, before = self._definition.process, self._names, len(self._rows)
        values: list[Any] | None = None
        try:
            for time, values in zip(times, records, strict=True):
                if key_context.timers:
                    self._timers(key_context, time)
                self._at = "process", time
                rows = process(time, dict(zip(names, values, strict=True)), key_context)
                if rows is not None:
                    self._collect(rows)
            values = None
            if key_context.timers:
                self._timers(key_context, self._context.close_time)
            for name, counted in key_context.counts.items():
                self._context.count(name, counted)
        except (OperatorError, StateError, CorruptDataError):
            raise
        except Exception as error:
            called_for = (
                None if values is None or self._at[0] == "on_timer" else dict(zip(names, values, strict=True))
            )
            about = record_text(key_context.key, values=called_for)
            raise OperatorError(f"{failure(self._definition, self._at, error)}{about}") from error
        self._numbers.extend([number] * (len(self._rows) - before))

    def _timers(self, key_context: KeyContext, before: int) -> None:
        """Fire the timers before a time, also those that are set meanwhile."""
        on_timer = self._definition.on_timer
        for name, time in self._due(key_context, before):
            del key_context.timers[name]
            key_context.fired = time
            self._at = "on_timer", time
            rows = on_timer(time, name, key_context)
            if rows is not None:
                self._collect(rows)
        key_context.fired = None

    @staticmethod
    def _due(key_context: KeyContext, before: int) -> Iterator[Timer]:
        """Yield the timers before a time, the next one after each was removed. Timers without end are refused."""
        fired = 0
        while key_context.timers:
            name, time = key_context.next_timer()
            if time >= before:
                break
            yield name, time
            fired += 1
            if fired > MOST_TIMERS and before >= FAR_FUTURE:
                raise ValueError(
                    f"more than {MOST_TIMERS:,} timers after the last record of a bounded frame: "
                    "stop setting timers at some point"
                )

    def _collect(self, rows: Iterable[Row]) -> None:
        if isinstance(rows, dict):
            raise TypeError("expected a list of rows, got a single row: return [row], or yield row")
        before = len(self._rows)
        self._rows.extend(rows)
        if len(self._rows) == before:
            return
        known = self._context.declared.results.keys()
        for row in self._rows[before:]:
            if not isinstance(row, Mapping):
                raise TypeError(f"a row must be a mapping of result names to values, got {row!r}")
            if not known >= row.keys():
                unknown = ", ".join(sorted(map(str, row.keys() - known)))
                raise ValueError(
                    f"unknown result columns: {unknown}; declared result columns: {', '.join(known)}"
                )

    def emitted(self) -> OutputRows | None:
        """Return the rows of all keys."""
        if not self._rows:
            return None
        columns = {name: [row.get(name) for row in self._rows] for name in self._context.declared.results}
        return self._context.rows(self._numbers, **columns)


def failure(definition: KeyFunctions, at: Place, error: Exception) -> str:
    """Return what is said of an error of a user's function: the method, its event time, and the error."""
    method, time = at
    try:
        moment = definition.instant(time).isoformat()
    except OverflowError:
        moment = "not a date"
    where = f"{type(definition).__name__}.{method} at event time {time} ({moment})"
    return f"{where} failed: {error_text(error)}"
