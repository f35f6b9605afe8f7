"""The windows of rows as ranges of panes, and the rows with their aggregates as Arrow columns."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from operators.aggregates.definitions import Bound
from operators.aggregates.operation import Operation, part_of
from operators.aggregates.user_functions import AggregateError
from operators.columns.ranges import Ints, Mask, State, run_starts
from operators.columns.records import FAR_PAST, Records
from operators.kinds.rolling import Rolling
from operators.steps.emission import AggregateOutput
from operators.steps.failed_windows import FailedWindow, note_window
from operators.steps.panes import PaneSchema, combined_alone
from operators.steps.since_column import SinceColumn
from serializers.arrays import take_rows, take_values
from state_backends import Entries
from state_backends.store.entries import merge_entries
from state_backends.store.ordering import row_order

_MOST_COORDINATES = 2**62
_MOSTLY_DISTINCT = 0.9


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows by key and time.

    Attributes:
        key, time: shape (n,), int64: sorted.
        rows: n rows.
    """

    key: Ints
    time: Ints
    rows: pa.Table

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: Ints) -> "Waiting":
        """Return the rows at these positions."""
        return Waiting(self.key[rows], self.time[rows], take_rows(self.rows, rows))

    def between(self, since: int, before: int) -> "Waiting":
        """Return the rows with since <= time < before."""
        inside = (self.time >= since) & (self.time < before)
        return self if inside.all() else self.take(np.flatnonzero(inside))

    @staticmethod
    def join(parts: Sequence["Waiting"]) -> "Waiting":
        """Return all rows in order of key and time; rows of one key and time stay in the order of the parts."""
        filled = [part for part in parts if len(part.key)] or list(parts[:1])
        if len(filled) == 1:
            return filled[0]
        key, time = (
            np.concatenate(columns) for columns in ([p.key for p in filled], [p.time for p in filled])
        )
        whole = Waiting(key, time, pa.concat_tables([part.rows for part in filled]))
        order = row_order(key, time)
        return whole if order is None else whole.take(order)

    @classmethod
    def of(cls, records: Records, chosen: Mask) -> "Waiting":
        """Return the rows of sorted records under the mask."""
        assert records.rows is not None  # noqa: S101 - the inputs name them
        assert records.row is not None  # noqa: S101
        at = np.flatnonzero(chosen)
        return cls(records.key[at], records.time[at], take_rows(records.rows, records.row[at]))


@dataclass(frozen=True, slots=True)
class RollingRows:
    """Rows that come out, and their windows.

    Attributes:
        key: shape (n,), int64: each row's key.
        rows: n rows, in the columns of the input.
        window: shape (n,), int64: each row's windows, which it shares with the rows of its key and time.
        end: shape (windows,), int64: the time of the rows of each window, in ticks.
        schema: the schema of the panes.
        panes: the panes that the windows contain, and a last one of no records if a window contains none.
        ranges: for each lookback the first pane of each window, and the one after its last; none is empty.
        retract: always False: rows are final.
    """

    key: Ints
    rows: pa.Table
    window: Ints
    end: Ints
    schema: PaneSchema
    panes: Entries
    ranges: tuple[tuple[Ints, Ints], ...]
    retract: bool = False

    def states(
        self, operations: Sequence[Operation], lookbacks: Sequence[int], part: slice | None = None
    ) -> dict[Operation, State]:
        """Return the states of the windows of several lookbacks, or of a part of them, one lookback after another.

        One pass for all.
        """
        of = dict(zip(self.schema.operations, self.schema.states(self.panes), strict=True))
        chosen = PaneSchema(tuple(operations))
        panes = chosen.entries(self.panes.key, (self.panes.time,), [of[op] for op in operations])
        lo, hi = (np.concatenate(bounds) for bounds in zip(*(self.ranges[n] for n in lookbacks), strict=True))
        if part is not None:
            return dict(zip(operations, combined_alone(chosen, panes, lo[part], hi[part]), strict=True))
        return dict(zip(operations, chosen.combine_ranges(panes, lo, hi), strict=True))

    def failed(self, number: int, lookback: str, keys: Sequence[str]) -> FailedWindow:
        """Return a window for an error.

        Args:
            number: the window's position among the windows of one lookback.
            lookback: the lookback's name.
            keys: the key columns.
        """
        place = int(np.flatnonzero(self.window == number)[0])
        row = self.rows.slice(place, 1)
        known = {name: row.column(name)[0].as_py() for name in keys if name in row.column_names}
        return FailedWindow(known or int(self.key[place]), None, int(self.end[number]), lookback)


class _Ranks:
    """Numbers times so that they fit into one column with the number of their key: ticks, or the times that there are."""

    def __init__(self, times: Ints, keys: int) -> None:
        self._times: Ints | None = None
        self._first = int(times.min()) if len(times) else 0
        self.count = int(times.max()) - self._first + 1 if len(times) else 0
        if (self.count + 2) * (keys + 1) >= _MOST_COORDINATES:
            self._times = np.unique(times)
            self.count = len(self._times)

    def before(self, times: Ints) -> Ints:
        """Return how many numbered times are before each time."""
        if self._times is not None:
            return np.searchsorted(self._times, times, "left")
        return np.minimum(np.maximum(times - self._first, 0), self.count)

    def until(self, times: Ints) -> Ints:
        """Return how many numbered times are not after each time."""
        return self.before(times + 1)


def windows_of(
    waiting: Waiting,
    panes: Entries,
    life: Entries | None,
    empty: Entries,
    schema: PaneSchema,
    kind: Rolling,
) -> RollingRows:
    """Return the windows of rows.

    Args:
        waiting: the rows.
        panes: sorted by key and time, in the columns of `schema`.
        life: a pane for each key, older than all others, under the time of its last record; None if there are none.
        empty: a pane of no records.
        schema: the schema of the panes.
        kind: which windows each row has.

    Cost: a binary search for each end of each distinct window.
    """
    key, time = waiting.key, waiting.time
    starts = run_starts(key, time)
    if len(starts) > _MOSTLY_DISTINCT * len(key):
        starts = np.arange(len(key))  # To find a window twice takes less time than to copy all results.
    window = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(key))))
    key_of, time_of = key[starts], time[starts]
    ranks = _Ranks(panes.time, int(max([-1, *key[-1:], *panes.key[-1:]])) + 1)
    # Each key has ranks for its times, and before them one for its pane of the lifetime.
    span = ranks.count + 2
    if life is not None and len(life):
        first = Entries(life.key, (np.full(len(life), FAR_PAST), *life.columns[1:]))
        panes = merge_entries([first, panes], schema.layout)
        place = panes.key * span + np.where(panes.time == FAR_PAST, 0, ranks.before(panes.time) + 1)
    else:
        place = panes.key * span + ranks.before(panes.time) + 1
    base, count = key_of * span, len(panes)
    last = ranks.until(time_of) if kind.closed in ("both", "right") else ranks.before(time_of)
    stop = np.searchsorted(place, base + last, "right")
    ranges, empties = [], False
    edges, pause = None, kind.forget_after
    if pause is not None:
        final = panes.time
        if life is not None and len(life):
            final = final.copy()
            final[panes.time == FAR_PAST] = life.time
        edges = final, chain_starts(panes.key, final, pause)
    for lookback in kind.lookbacks:
        if lookback is None:
            begin = np.searchsorted(place, base, "left")
            if edges is not None:
                begin = _since_pause(begin, stop, time_of, edges, pause or 0)
        else:
            since = kind.since(lookback, time_of)
            skipped = ranks.before(since) if kind.has_start(lookback) else ranks.until(since)
            begin = np.searchsorted(place, base + skipped + 1, "left")
        filled = begin < stop
        if filled.all():
            ranges.append((begin, stop))
        else:
            ranges.append((np.where(filled, begin, count), np.where(filled, stop, count + 1)))
            empties = True
    if empties:
        columns = tuple(np.concatenate(pair) for pair in zip(panes.columns, empty.columns, strict=True))
        panes = Entries(np.append(panes.key, 0), columns)
    return RollingRows(key, waiting.rows, window, time_of, schema, panes, tuple(ranges))


def chain_starts(key: Ints, time: Ints, pause: int) -> Ints:
    """Return for each pane the first one of its key that no longer pause separates from it.

        pause       |-----|
        panes       a b       c   d   e
        starts      a a       c   c   c

    Args:
        key, time: shape (n,), int64: sorted.
        pause: the longest time between two panes of one chain, in ticks.
    """
    begins = np.ones(len(key), bool)
    begins[1:] = (key[1:] != key[:-1]) | (time[1:] - time[:-1] > pause)
    return np.maximum.accumulate(np.where(begins, np.arange(len(key)), 0))


def _since_pause(begin: Ints, stop: Ints, time: Ints, edges: tuple[Ints, Ints], pause: int) -> Ints:
    """Where the lifetimes of windows that end at `stop` begin: after the last longer pause. Empty ones begin at `stop`."""
    final, starts = edges
    filled = np.flatnonzero(begin < stop)
    last = stop[filled] - 1
    found = stop.copy()
    found[filled] = np.where(time[filled] - final[last] <= pause, starts[last], stop[filled])
    return found


def _states_of(
    emission: RollingRows,
    operations: Sequence[Operation],
    lookbacks: Sequence[int],
    window: Callable[[int], FailedWindow],
) -> dict[Operation, State]:
    try:
        return emission.states(operations, lookbacks)
    except AggregateError as error:
        count = len(lookbacks) * len(emission.ranges[0][0])
        note_window(error, lambda a, b: emission.states(operations, lookbacks, slice(a, b)), count, window)
        raise


def _finished(bound: Bound, states: list[State], window: Callable[[int], FailedWindow]) -> pa.Array:
    try:
        return bound.finish(states)
    except AggregateError as error:
        note_window(error, lambda a, b: bound.finish(part_of(states, a, b)), len(states[0][0]), window)
        raise


@dataclass(frozen=True)
class RollingOutput(AggregateOutput):
    """The rows of a rolling operator: all columns of the input, then the aggregates of each lookback.

    Attributes:
        keys: names and Arrow types of the key columns.
        aggregates: result names and their bound aggregates.
        rows: columns of the input: name, name in the result, and Arrow type.
        suffixes: what follows the name of an aggregate, for each lookback.
        over: the numbers of each aggregate's lookbacks.
        label: a boolean column that is true in rows which come out even if their time cannot be used, with nulls for results;
            None if there are none.
        since: the column that says since when all results count all records, if there is one.
    """

    keys: tuple[tuple[str, pa.DataType], ...]
    aggregates: tuple[tuple[str, Bound], ...]
    rows: tuple[tuple[str, str, pa.DataType], ...]
    suffixes: tuple[str, ...]
    over: tuple[tuple[int, ...], ...]
    label: str | None = None
    since: SinceColumn | None = None

    def aggregates_over(self, lookbacks: Collection[int]) -> list[tuple[str, Bound]]:
        """Return the aggregates that are over any of these lookbacks, with the names of their results."""
        return [one for one, over in zip(self.aggregates, self.over, strict=True) if {*over} & {*lookbacks}]

    @property
    def result_names(self) -> Sequence[Sequence[str]]:
        return [
            [f"{name}{self.suffixes[n]}" for n in over]
            for (name, _), over in zip(self.aggregates, self.over, strict=True)
        ]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of a result."""
        fields = [pa.field(name, type_) for _, name, type_ in self.rows]
        last = [] if self.since is None else [self.since.field]
        return pa.schema([*fields, *(field_ for _, _, field_ in self._results), *last])

    @cached_property
    def _results(self) -> list[tuple[int, int, pa.Field]]:
        """Lookback, aggregate and field of each result."""
        return [
            (
                lookback,
                number,
                pa.field(f"{name}{suffix}", bound.type, nullable=bound.nullable or self.label is not None),
            )
            for lookback, suffix in enumerate(self.suffixes)
            for number, (name, bound) in enumerate(self.aggregates)
            if lookback in self.over[number]
        ]

    def table(self, emissions: Sequence[RollingRows], sequence: int = 0) -> pa.Table:
        """Return emitted rows as a table."""
        tables = [self._table(emission) for emission in emissions if len(emission.key)]
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables) if tables else self.arrow.empty_table()

    def by_row(self, name: str) -> "RollingOutput":
        """Return the output with one column, of whole numbers, in place of those of the input: the first one, of this name."""
        return replace(self, rows=((name, name, pa.int64()),))

    def without_results(self, bad: pa.Table) -> pa.Table:
        """Return those of the rows whose time cannot be used that come out."""
        rows = bad.filter(bad.column(self.label))
        columns = [rows.column(name).cast(type_) for name, _, type_ in self.rows]
        nulls = [pa.nulls(rows.num_rows, field.type) for field in self.arrow][len(columns) :]
        return pa.Table.from_arrays([*columns, *nulls], schema=self.arrow)

    def _table(self, emission: RollingRows) -> pa.Table:
        found: dict[tuple[int, int], pa.Array] = {}
        windows = len(emission.ranges[0][0])
        for numbers, lookbacks in self._groups:
            bounds = {number: self.aggregates[number][1] for number in numbers}
            operations = tuple(dict.fromkeys(op for bound in bounds.values() for op in bound.operations))
            names = [self.suffixes[n].removeprefix("_") for n in lookbacks]

            def window(number: int, names: Sequence[str] = names) -> FailedWindow:
                keys = [name for name, _ in self.keys]
                return emission.failed(number % windows, names[number // windows], keys)

            states = _states_of(emission, operations, lookbacks, window)
            for number, bound in bounds.items():
                results = _finished(bound, [states[op] for op in bound.operations], window)
                for place, lookback in enumerate(lookbacks):
                    part = results.slice(place * windows, windows)
                    found[lookback, number] = (
                        part if bound.at_end is None else bound.at_end(part, emission.end)
                    )
        results = [found[lookback, number] for lookback, number, _ in self._results]
        columns = emission.rows.select([name for name, _, _ in self.rows]).columns
        if windows < len(emission.key):
            results = [take_values(result, emission.window) for result in results]
        columns += results
        columns += [] if self.since is None else [self.since.values(len(emission.key))]
        return pa.Table.from_arrays(columns, schema=self.arrow)

    @cached_property
    def _groups(self) -> Sequence[tuple[list[int], list[int]]]:
        """Aggregates that are computed together, and their lookbacks: those that share an operation, or have the same ones."""
        groups: list[tuple[list[int], set[int]]] = []
        for number, (_, bound) in enumerate(self.aggregates):
            members, lookbacks = [number], set(self.over[number])
            for group in list(groups):
                shares = any(set(bound.operations) & set(self._bound(other).operations) for other in group[0])
                if shares or group[1] == lookbacks:
                    groups.remove(group)
                    members, lookbacks = group[0] + members, group[1] | lookbacks
            groups.append((members, lookbacks))
        return [(members, sorted(lookbacks)) for members, lookbacks in groups]

    def _bound(self, number: int) -> Bound:
        return self.aggregates[number][1]
