"""The base for operators that users write for one key, a record at a time, in plain Python."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa

from operators.base.calendar import NEVER
from operators.base.columnar import Declaration, Ints, Operator, Rows, Stored, Work
from operators.batch import FAR_FUTURE
from operators.durations import tick_length
from operators.errors import DefinitionError
from serializers.pages import fill

_RECORD, _STATE = 0, 1
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Row = Mapping[str, Any]


@dataclass(slots=True)
class Keyed:
    """What one key has, for one call of `process` or `on_timer`.

    Attributes:
        value: the key's state: anything that msgpack holds, with dates, times and decimals; None at first, and to forget it.
        timers: ticks by name; see `set_timer`.
    """

    value: Any = None
    timers: dict[str, int] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def set_timer(self, time: int, name: str = "") -> None:
        """Have `on_timer` called when all records up to this event time, in ticks, were seen. It replaces one of that name."""
        self.timers[name] = int(time)

    def cancel_timer(self, name: str = "") -> None:
        """Forget a timer; one that is not set is no error."""
        self.timers.pop(name, None)

    def count(self, name: str, number: int = 1) -> None:
        """Add to a declared count; a stream tells it beside its own."""
        self._counts[name] = self._counts.get(name, 0) + number

    def counted(self) -> dict[str, int]:
        """Return what was counted, by name."""
        return self._counts


@dataclass(frozen=True, kw_only=True)
class KeyedOperator(Operator):
    """An operator of one's own, for one key, a record at a time. Make it a frozen dataclass: its fields are its settings.

    Records come in order of event time, each key's timers among them: a record is kept in the store until the close time has
    passed it, when none before it can come any more. So results depend neither on the order of arrival nor on how a stream was
    cut into batches. Records of one time come in the order in which they arrived, and before a timer of that time.

    Cost: some 5 us for each record, and as much for each batch in which a key has any.
    """

    @abstractmethod
    def schema(self, types: Mapping[str, pa.DataType]) -> Declaration:
        """Return what the operator reads and makes, without `state`. Called on the driver and in each worker.

        Args:
            types: the frame's columns with their Arrow types.
        """

    @abstractmethod
    def process(self, time: int, record: dict[str, Any], keyed: Keyed) -> Iterable[Row] | None:
        """Take one record, and return the rows to emit, as mappings of the declared results; or yield them.

        Args:
            time: event time in ticks.
            record: the declared inputs, as Python values.
            keyed: the key's state and timers, to be changed.
        """

    def on_timer(self, time: int, name: str, keyed: Keyed) -> Iterable[Row] | None:
        """Take a timer that has come; it is no longer set. Return the rows to emit, or yield them."""
        raise NotImplementedError(f"{type(self).__name__} sets timers and has no on_timer")

    def instant(self, time: int) -> datetime:
        """Return ticks as a datetime with zone UTC, for results of type timestamp."""
        return _EPOCH + timedelta(microseconds=time * tick_length(self.tick))

    def declare(self, types: Mapping[str, pa.DataType]) -> Declaration:
        declared = self.schema(types)
        if declared.state:
            raise DefinitionError(f"{type(self).__name__} keeps its state in keyed.value: declare none")
        state = {"kind": int, "timer": int, "value": object}
        return Declaration(declared.inputs, state, declared.results, declared.counts)

    def due(self, entries: Stored) -> Ints:
        return entries["timer"]

    def take(self, work: Work) -> None:
        """Keep the records until the close time has passed them."""
        records = work.records
        columns = [work.column(name).to_pylist() for name in records.values]
        rows = list(map(list, zip(*columns, strict=True))) if columns else [[]] * len(records)
        time = records.time
        work.add(work.stored(records.key, time, kind=_RECORD, timer=time, value=fill(rows)))

    def fire(self, work: Work) -> Rows | None:
        """Go through what is due, key by key in order of time."""
        found = work.read(FAR_FUTURE, FAR_FUTURE)
        states = dict(zip(found.key.tolist(), found["value"].tolist(), strict=True))
        due = work.due
        kept = due["kind"] == _STATE
        states.update(zip(due.key[kept].tolist(), due["value"][kept].tolist(), strict=True))
        emitted: list[tuple[int, Row]] = []
        left: dict[int, Keyed] = {}
        for key, records in _by_key(due.take(~kept), np.unique(due.key).tolist()):
            keyed = left[key] = Keyed(*states.get(key, ()))
            emitted.extend((key, row) for row in self._walk(records, keyed, work))
            for name, number in keyed.counted().items():
                work.count(name, number)
        self._keep(work, left, found)
        return self._rows(work, emitted) if emitted else None

    def _walk(self, records: list[tuple[int, list[Any]]], keyed: Keyed, work: Work) -> Iterator[Row]:
        """Hand a key's records and timers over in order of time, and yield what they make."""
        names = list(work.inputs)
        for time, values in records:
            yield from self._timers(keyed, time)
            yield from self.process(time, dict(zip(names, values, strict=True)), keyed) or ()
        yield from self._timers(keyed, work.close)

    def _timers(self, keyed: Keyed, before: int) -> Iterator[Row]:
        """Fire the timers before a time; those that they set too."""
        while keyed.timers:
            name, time = min(keyed.timers.items(), key=lambda timer: (timer[1], timer[0]))
            if time >= before:
                return
            del keyed.timers[name]
            yield from self.on_timer(time, name, keyed) or ()
            for other, set_to in keyed.timers.items():
                if set_to <= time and other == name:
                    raise ValueError(
                        f"{type(self).__name__}.on_timer, called for {time}, set its timer {name!r} to {set_to}: "
                        "set it to a later time, or it would be called for ever"
                    )

    @staticmethod
    def _keep(work: Work, left: dict[int, Keyed], found: Stored) -> None:
        """Write the states of keys that have one, and delete those that have none any more."""
        held = {key: keyed for key, keyed in left.items() if keyed.value is not None or keyed.timers}
        values = fill([[keyed.value, keyed.timers] for keyed in held.values()])
        timers = [min(keyed.timers.values(), default=NEVER) for keyed in held.values()]
        if held:
            work.put(work.stored(list(held), FAR_FUTURE, kind=_STATE, timer=timers, value=values))
        gone = np.array([key not in held for key in found.key.tolist()], bool)
        if gone.any():
            work.delete(found.take(gone))

    def _rows(self, work: Work, emitted: Sequence[tuple[int, Row]]) -> Rows:
        known = set(work.results)
        for _, row in emitted:
            if not known >= row.keys():
                unknown = ", ".join(sorted(map(str, row.keys() - known)))
                raise ValueError(
                    f"{type(self).__name__} emits {unknown}, which it did not declare; declared are {', '.join(work.results)}"
                )
        columns = {name: [row.get(name) for _, row in emitted] for name in work.results}
        return work.rows([key for key, _ in emitted], **columns)


def _by_key(records: Stored, keys: Sequence[int]) -> Iterator[tuple[int, list[tuple[int, list[Any]]]]]:
    """Yield each key with its records, in order of time."""
    times, values = records.time.tolist(), records["value"].tolist()
    edges = (np.searchsorted(records.key, keys, side).tolist() for side in ("left", "right"))
    for key, lo, hi in zip(keys, *edges, strict=True):
        yield key, list(zip(times[lo:hi], values[lo:hi], strict=True))
