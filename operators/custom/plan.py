"""A custom operator as a plan over a window store, which the runtime runs."""

import operator
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa

from operators.aggregates.operation import Operation
from operators.aggregates.user_functions import result_type
from operators.columns.durations import tick_length, ticks
from operators.columns.records import FAR_FUTURE, NEVER, Records
from operators.custom.contract import CallContext, CustomOperator, Declaration, Ints, OutputRows, named
from operators.custom.timers import EarliestTimers
from operators.errors import DefinitionError, OperatorError
from operators.kinds.described import WindowsPart, named_values
from operators.steps.lateness import accept
from operators.steps.plan import Plan
from operators.steps.step import Step
from operators.steps.timed_store import Emitted, TimedStore
from serializers import CorruptDataError
from state_backends import Entries, StateError, WindowStore
from state_backends.store.entries import merge_entries
from state_backends.store.page_ids import PageIds
from state_backends.store.schema import FLOAT, NUMBER, TIME, VALUE

KINDS = {int: NUMBER, float: FLOAT, object: VALUE}
"""Kinds of stored columns by their declared type."""
_PLAIN = (bool, int, float, str, bytes, NoneType)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_WHOLE_SEGMENT = 2**59
_MOST_CALLS = 10_000
"""Limit on calls of `fire` at the end of a bounded frame, where each timer that it sets is due at once."""


def _plain(kind: type, name: str, value: Any) -> Any:
    """A setting as a value that can be stored and compared."""
    if type(value) in _PLAIN:
        return value
    text = repr(value)
    if _ADDRESS.search(text):
        raise DefinitionError(
            f"setting {name!r} of {kind.__name__} is {text}, whose text differs between processes: use a plain value, "
            "or omit it from settings() if stored state does not depend on it"
        )
    return text


class CustomPlan(Plan):
    """An operator with its declaration for a frame.

    Args:
        definition: the operator.
        declaration: what it declares for the columns of the frame.
        inputs: the declared inputs with their Arrow types.
        keys: the key columns with their Arrow types.
        grace: grace in ticks.
        whole: whether it runs on a bounded frame. Its times may span many segments, so that longer segments are used.
    """

    operations: tuple[Operation, ...] = ()
    reports_inputs_only = True
    keeps_state = True

    def __init__(
        self,
        definition: CustomOperator,
        declaration: Declaration,
        inputs: tuple[tuple[str, pa.DataType], ...],
        keys: tuple[tuple[str, pa.DataType], ...],
        grace: int,
        *,
        whole: bool = False,
    ) -> None:
        self.definition = definition
        self.declaration = declaration
        self.inputs = dict(inputs)
        self.keys = dict(keys)
        self.grace = grace
        self.whole = whole

    def __eq__(self, other: object) -> bool:
        """Plans are equal if they have the same class, settings, declaration, inputs, keys, grace and `on_error`.

        Spark sends the operator again with each batch. In a worker it is an instance of the same class as before, even if the
        class was defined in a notebook. A class that was defined again is another class, since its methods may differ.
        """
        return isinstance(other, CustomPlan) and self._same == other._same

    def __hash__(self) -> int:
        return hash(self.head)

    @property
    def _same(self) -> tuple[Any, ...]:
        return (
            type(self.definition),
            self.describe(),
            self.declaration,
            self.inputs,
            self.keys,
            self.grace,
            self.definition.skips_errors,
        )

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        """The stored columns: the time, and the declared ones."""
        return ("time", TIME), *((name, KINDS[type_]) for name, type_ in self.declaration.state.items())

    @property
    def max_bound_offset(self) -> int:
        """Always 0: the plan does not know which event times a custom operator reads."""
        return 0

    @cached_property
    def delay(self) -> int:
        """By how many ticks results may lie before the close time."""
        return ticks(self.declaration.delay, tick_length(self.definition.tick), "delay", 0)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The declared columns of the state."""
        return tuple(self.declaration.state)

    @property
    def why_rows(self) -> str:
        return "a custom operator processes single records"

    def windows(self, tick_us: int, gap: str | None) -> WindowsPart:
        kind = type(self.definition)
        settings = {name: repr(value) for name, value in self.describe()["settings"].items()}
        results = {name: result_type(type_) for name, type_ in self.declaration.results.items()}
        lines = [
            ("settings", named_values(settings, " = ") or "none"),
            ("reads", named_values(self.inputs) or "key and event time only"),
            ("results", named_values(results)),
        ]
        if self.declaration.counts:
            lines.append(("counts", ", ".join(self.declaration.counts)))
        late = "a record before the time that `late_before` gives"
        return WindowsPart(
            f"{kind.__name__}, a custom operator, version {kind.version}",
            "as the operator defines them",
            late if kind.judges_late else "a record before the close time",
            "entries whose timer is before the close time go to `fire`" if kind.timed else "no timers",
            kind.entry,
            "entries",
            None,
            None,
            settings=tuple(lines),
        )

    @property
    def has_timers(self) -> bool:
        return self.definition.timed

    def late_before(self, close_time: int) -> int:
        """Return the time before which a record is late, as the operator says."""
        with self.calling("late_before"):
            return operator.index(self.definition.late_before(close_time))

    def next_due(self, entries: Entries, close_time: int) -> Ints:
        """Return when each entry is to be fired, as the operator says, or NEVER."""
        del close_time
        with self.calling("due"):
            due = np.asarray(self.definition.due(named(entries, self.names)))
            if due.shape != (len(entries),) or (len(due) and due.dtype.kind not in "iu"):
                raise ValueError(
                    f"expected one tick for each of {len(entries)} entries, got {due.dtype} of shape {due.shape}"
                )
        return due.astype(np.int64, copy=False)

    @contextmanager
    def calling(self, method: str) -> Iterator[None]:
        """Raise what a user's method raises as an `OperatorError` that names the method. Errors of the state pass unchanged."""
        try:
            yield
        except (OperatorError, StateError, CorruptDataError):
            raise
        except Exception as error:
            name = f"{type(self.definition).__name__}.{method}"
            raise OperatorError(f"{name} failed: {type(error).__name__}: {error}") from error

    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on.

        Raises:
            DefinitionError: the text of a setting differs between processes.
        """
        kind = type(self.definition)
        settings = self.definition.settings()
        return {
            "operator": kind.__name__,  # Pickled by value, a class loses the rest of its qualified name.
            "version": kind.version,
            "settings": {name: _plain(kind, name, value) for name, value in settings.items()},
            "stored": [f"{name}: {kind_}" for name, kind_ in self.head],
            "inputs": list(self.inputs) if kind.keeps_inputs else None,
            "state": [],
        }

    def engine(self, store: WindowStore) -> "CustomEngine":
        """Return the engine over a store."""
        if self.whole:
            store = WindowStore(store.backend, store.layout, _WHOLE_SEGMENT)
        return CustomEngine(self, store)


class CustomEngine:
    """Runs a custom operator over one store: separates late records, calls the operator's methods, and fires its timers.

    Args:
        plan: what is run.
        store: has the entries.
    """

    def __init__(self, plan: CustomPlan, store: WindowStore) -> None:
        self.plan = plan
        self.state = TimedStore(store, plan, queue=EarliestTimers())
        if plan.has_timers:
            store.on_write = self._set_written_timers

    def _set_written_timers(self, segment: int, names: Sequence[bytes], entries: Entries) -> None:
        if len(entries):
            self.state.timers.set_pages(segment, names, entries)

    def step(self, batch: Records, step: Step) -> Sequence[Emitted]:
        """Process one batch and return the rows to emit."""
        self.state.begin(step)
        since, emitted = step.close_time_start, list[OutputRows]()
        if since > self.state.close_time:
            emitted += self._fire_due(step, since)
        records = accept(batch, self.plan, step)
        if len(records):
            nothing = merge_entries([], self.state.store.layout)
            context = self._call_context(records.keys, records, nothing, since, step)
            emitted += self._call("process_batch", context)
        emitted += self._fire_due(step, step.close_time_end)
        return self.state.end(step, emitted)

    def _fire_due(self, step: Step, close_time: int) -> Iterator[OutputRows]:
        """Remove the entries whose timers are before the close time from the store and fire them, until none is left."""
        # The earliest timer of each call must be later than that of the previous call, or the loop would not end.
        latest, calls = -NEVER, 0
        while self.plan.has_timers:
            keys, entries = self._take_entries(close_time)
            if not len(entries):
                return
            first = int(self.plan.next_due(entries, close_time).min())
            calls += 1
            if first <= latest or (close_time >= FAR_FUTURE and calls > _MOST_CALLS):
                raise OperatorError(self._endless(first, latest))
            latest = first
            yield from self._call(
                "fire", self._call_context(keys, _no_records(keys), entries, close_time, step)
            )

    def _endless(self, first: int, latest: int) -> str:
        name = type(self.plan.definition).__name__
        if first <= latest:
            return (
                f"{name}.fire wrote an entry with timer {first}, which is not later than {latest}, the timer that fired: "
                "write entries with a later timer, or NEVER"
            )
        return (
            f"{name}.fire set timers more than {_MOST_CALLS:,} times after the last record of a bounded frame: "
            "stop setting timers at some point"
        )

    def _take_entries(self, close_time: int) -> tuple[list[bytes], Entries]:
        """Remove the entries that fire from the store, and return them with their keys."""
        touched, parts = self.state.touch([], close_time), []
        keys = touched.keys
        for segment, due in touched.due.items():
            pages = self.state.store.pages(segment, keys, np.unique(due.key))
            pages = pages.take(touched.is_due(segment, pages))
            parts.append(self._pop(segment, keys, pages, close_time))
        entries = merge_entries(parts, self.state.store.layout)
        # A timer may be early: keys without an entry that fires are left out.
        begins = np.diff(entries.key, prepend=-1) > 0
        names = [keys[n] for n in entries.key[begins].tolist()]
        return names, Entries(np.cumsum(begins) - 1, entries.columns)

    def _pop(self, segment: int, keys: list[bytes], pages: PageIds, close_time: int) -> Entries:
        """Remove the entries that fire from the pages, and set the timers of the rest of the pages again."""
        names = pages.names(keys)
        entries = self.state.store.read_names(segment, names)
        fires = self.plan.next_due(entries, close_time) < close_time
        touched = np.zeros(len(names), bool)
        touched[entries.key[fires]] = True
        kept = entries.take(~fires & touched[entries.key])
        self.state.write(segment, keys, pages.take(touched), Entries(pages.key[kept.key], kept.columns))
        self.state.timers.set_pages(segment, names, entries.take(~touched[entries.key]))
        fired = entries.take(fires)
        return Entries(pages.key[fired.key], fired.columns)

    def _call_context(
        self, keys: list[bytes], records: Records, due: Entries, close_time: int, step: Step
    ) -> CallContext:
        plan = self.plan
        stored = named(due, plan.names)
        return CallContext(
            keys,
            records,
            stored,
            close_time,
            plan.grace,
            self.state.store,
            plan.declaration,
            plan.inputs,
            plan.keys,
            step,
        )

    def _call(self, method: str, context: CallContext) -> list[OutputRows]:
        """Call `process_batch` or `fire`, and return the rows that it emits, if any."""
        with self.plan.calling(method):
            rows = getattr(self.plan.definition, method)(context)
            if not isinstance(rows, OutputRows | None):
                raise TypeError(f"expected context.rows(...) or None, got {type(rows).__name__}")
        return [] if rows is None else [replace(rows, since=self.state.close_time - self.plan.delay)]


def _no_records(keys: list[bytes]) -> Records:
    nothing = np.empty(0, np.int64)
    return Records(keys, nothing, nothing, {}, 0)
