"""Runs an operator for one key at a time, and goes on without the records and timers whose function raises."""

import logging
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.user_functions import reason_with_place
from operators.custom.contract import CallContext, OutputRows
from operators.custom.key_context import KeyContext
from operators.custom.output import CustomOutput
from operators.custom.walk import KeyFunctions, Row, Walk, failure
from operators.errors import OperatorError
from serializers import CorruptDataError
from state_backends import StateError

_FATAL = (OperatorError, StateError, CorruptDataError, MemoryError)
"""Errors that end the query all the same: an operator may raise an `OperatorError` for that."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of `process` with the values of a record, or of `on_timer` with the name of a timer."""

    time: int
    values: list[Any] | None = None
    timer: str = ""


class SkippingWalk(Walk):
    """A walk that skips the calls which raise: the state is as before the call, and no row of it is emitted.

    A function may have changed the state before it raised. So the state is made again, by the calls since the last one that
    raised, from a copy of the state of that moment. A key's calls run twice at most, and once if none raises.

    Args:
        definition: the operator.
        context: the call of `fire`.
        results: Arrow types of the results by name: a row that does not have them is an error of its call.
        tick_us: length of a tick in microseconds.
    """

    def __init__(
        self, definition: KeyFunctions, context: CallContext, results: dict[str, pa.DataType], tick_us: int
    ) -> None:
        super().__init__(definition, context)
        self._output = CustomOutput((), tuple(results.items()), tick_us, type(definition).__name__)
        self._copies_inputs = any(map(pat.is_nested, context.inputs.values()))
        self._copies_rows = any(map(pat.is_nested, results.values()))
        self._number = 0
        self._base = KeyContext()
        self._since: list[_Call] = []
        self._first = ""
        self.skipped = 0

    def go(
        self, number: int, times: Sequence[int], records: Sequence[list[Any]], key_context: KeyContext
    ) -> None:
        """Process the records and timers of a key."""
        self._number, before = number, len(self._rows)
        self._keep_base(key_context)
        for time, values in zip(times, records, strict=True):
            if key_context.timers:
                self._timers(key_context, time)
            self._try(_Call(time, values), key_context)
        if key_context.timers:
            self._timers(key_context, self._context.close_time)
        for name, counted in key_context.counts.items():
            self._context.count(name, counted)
        self._numbers.extend([number] * (len(self._rows) - before))

    def emitted(self) -> OutputRows | None:
        """Return the rows of all keys, and warn of what was skipped."""
        if self.skipped:
            _LOG.warning(
                "%d calls of functions raised and were skipped; the first: %s", self.skipped, self._first
            )
        return super().emitted()

    def _timers(self, key_context: KeyContext, before: int) -> None:
        for name, time in self._due(key_context, before):
            self._try(_Call(time, timer=name), key_context)

    def _try(self, call: _Call, key_context: KeyContext) -> None:
        rows = len(self._rows)
        try:
            self._make(call, key_context)
        except _FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            del self._rows[rows:]
            self._report(call, error)
            self._restore(key_context)
            if call.values is None:
                key_context.timers.pop(call.timer, None)
            self._keep_base(key_context)
        else:
            self._since.append(call)

    def _make(self, call: _Call, key_context: KeyContext) -> None:
        """Call the function, and collect its rows."""
        if call.values is None:
            del key_context.timers[call.timer]
            key_context.fired = call.time
            rows = self._definition.on_timer(call.time, call.timer, key_context)
        else:
            values = deepcopy(call.values) if self._copies_inputs else call.values
            record = dict(zip(self._names, values, strict=True))
            rows = self._definition.process(call.time, record, key_context)
        if rows is not None:
            self._collect(rows)
        key_context.fired = None

    def _collect(self, rows: Iterable[Row]) -> None:
        before = len(self._rows)
        # Rows may hold parts of the state, which a later call may change before it raises.
        copied = self._copies_rows and not isinstance(rows, dict)
        super()._collect(map(deepcopy, rows) if copied else rows)
        if len(self._rows) > before:
            try:
                self._output.check(self._rows[before:])
            except OperatorError as error:
                raise TypeError(str(error)) from None

    def _keep_base(self, key_context: KeyContext) -> None:
        self._since.clear()
        self._base = KeyContext(
            deepcopy(key_context.value), dict(key_context.timers), counts=dict(key_context.counts)
        )

    def _restore(self, key_context: KeyContext) -> None:
        """Make the state as it was after the last call that did not raise."""
        base, rows = self._base, len(self._rows)
        key_context.value, key_context.fired = base.value, None
        key_context.timers, key_context.counts = base.timers, base.counts
        for call in self._since:
            self._repeat(call, key_context)
        del self._rows[rows:]

    def _repeat(self, call: _Call, key_context: KeyContext) -> None:
        try:
            self._make(call, key_context)
        except Exception as error:
            raise OperatorError(
                f"{failure(self._definition, self._place_of(call), error)}. It did not fail when it was called before with "
                "the same record and state, so that a failed record cannot be skipped: with on_error='skip', functions must "
                "depend on their arguments only"
            ) from error

    @staticmethod
    def _place_of(call: _Call) -> tuple[str, int]:
        return "process" if call.values is not None else f"on_timer({call.timer!r})", call.time

    def _report(self, call: _Call, error: Exception) -> None:
        reason = reason_with_place(failure(self._definition, self._place_of(call), error), error)
        self._first = self._first or reason
        self.skipped += 1
        time = None if call.values is None else call.time
        self._context.report_failed(reason, self._number, time, call.values)
