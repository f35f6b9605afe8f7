"""What a rolling operator stores: panes, and rows that wait until their windows are closed."""

from typing import Any, ClassVar

import numpy as np

from operators.columns.ranges import Ints, Mask, run_starts
from operators.columns.records import FAR_FUTURE, NEVER, event_ticks
from operators.engines.rolling_rows import Waiting
from operators.steps.panes import PaneSchema
from serializers.arrays import fill
from serializers.rows import RowCodec
from state_backends import Entries
from state_backends.store.entries import merge_entries
from state_backends.store.ordering import row_order
from state_backends.store.schema import NUMBER, TIME, VALUE

LIFE_PANE_TIME = 2**61
"""The time under which a key's oldest panes are stored, combined to one: after all event times, so that it never expires."""
_TIME, _SINCE, _WAITING, _ROWS = range(4)


class RollingPaneSchema(PaneSchema):
    """Panes as they are stored if no rows wait."""

    def panes(self, entries: Entries) -> Entries:
        """Return the panes among stored entries, without the columns of waiting rows."""
        return entries

    def stored(self, panes: Entries) -> Entries:
        """Return panes as they are stored."""
        return panes


class WaitingSchema(RollingPaneSchema):
    """Panes and waiting rows as they are stored together: rows of one key, segment and batch are one entry.

    `waiting` says how many rows an entry holds, which are in `rows`, from `since` to `time`; it is 0 for panes. Of a pane of a
    lifetime that ends, `since` is the time of the last record in it, or LIFE_PANE_TIME if that is not known.
    """

    head: ClassVar[tuple[tuple[str, str], ...]] = (
        ("time", TIME),
        ("since", TIME),
        ("waiting", NUMBER),
        ("rows", VALUE),
    )

    def panes(self, entries: Entries) -> Entries:
        columns = entries.columns
        panes = Entries(entries.key, (columns[_TIME], *columns[_ROWS + 1 :]))
        rows = columns[_WAITING] > 0
        return panes.take(~rows) if rows.any() else panes

    def stored(self, panes: Entries) -> Entries:
        time, *states = panes.columns
        none = np.full(len(time), None, object)
        return Entries(panes.key, (time, time, np.zeros(len(time), np.int64), none, *states))

    @staticmethod
    def waiting(entries: Entries) -> Entries:
        """Return the entries of waiting rows among stored entries."""
        return entries.take(entries.columns[_WAITING] > 0)

    @staticmethod
    def across(entries: Entries, segment_ticks: int) -> Mask:
        """Return which entries have waiting rows of several segments."""
        first, last = entries.columns[_SINCE] // segment_ticks, entries.time // segment_ticks
        return (entries.columns[_WAITING] > 0) & (first < last)

    @staticmethod
    def out(waiting: Entries, close_time: int) -> Mask:
        """Return which entries have no row any more that waits at a close time."""
        return waiting.time < close_time

    @staticmethod
    def head_without_rows(time: Ints) -> dict[str, Any]:
        """Return the columns after the time of panes that were stored without them, since rows came out on arrival."""
        none = np.full(len(time), None, object)
        return {"since": time, "waiting": np.zeros(len(time), np.int64), "rows": none}

    @staticmethod
    def due(entries: Entries, close_time: int) -> Ints:
        """Return the time of the first row of each entry that waits at a close time, or an earlier one, or NEVER."""
        waits = (entries.columns[_WAITING] > 0) & (entries.time >= close_time)
        return np.where(waits, np.maximum(entries.columns[_SINCE], close_time), NEVER)

    @staticmethod
    def pack(rows: Waiting, codec: RowCodec, segment_ticks: int, empty: Entries) -> Entries:
        """Return rows as entries, one for each page; `empty` has the states of no records."""
        starts = run_starts(rows.key, rows.time // segment_ticks)
        ends = np.append(starts[1:], len(rows.key))[: len(starts)]
        blobs = fill(codec.encode(rows.rows, starts) if len(starts) else [])
        head = (rows.time[ends - 1], rows.time[starts], ends - starts, blobs)
        return Entries(
            rows.key[starts], (*head, *(np.repeat(column, len(starts)) for column in empty.columns[1:]))
        )

    @staticmethod
    def unpack(waiting: Entries, codec: RowCodec, times: tuple[str, int], since: int, before: int) -> Waiting:
        """Return the rows with since <= time < before.

        Args:
            waiting: entries of waiting rows.
            codec: the codec of the rows.
            times: their event-time column, and the length of a tick in microseconds.
            since, before: ticks.
        """
        chosen = waiting.take((waiting.time >= since) & (waiting.columns[_SINCE] < before))
        table = codec.decode(chosen.columns[_ROWS].tolist())
        time, _ = event_ticks(table.column(times[0]), times[1])
        key = np.repeat(chosen.key, chosen.columns[_WAITING])
        found = Waiting(key, time, table).between(since, before)
        order = row_order(found.key, found.time)
        return found if order is None else found.take(order)

    def cut(
        self,
        entries: Entries,
        segment_ticks: int,
        close_time: int,
        codec: RowCodec,
        times: tuple[str, int],
        empty: Entries,
    ) -> Entries:
        """Return stored entries with those of waiting rows cut where segments of this length begin.

        Args:
            entries: stored entries, sorted.
            segment_ticks: the length.
            close_time: close time in ticks: earlier rows have come out.
            codec, times, empty: as for `pack` and `unpack`.
        """
        across = self.across(entries, segment_ticks)
        if not across.any():
            return entries
        rows = self.unpack(entries.take(across), codec, times, close_time, FAR_FUTURE)
        return merge_entries(
            [entries.take(~across), self.pack(rows, codec, segment_ticks, empty)], self.layout
        )


def last_times(entries: Entries) -> Ints:
    """Return the time of the last record of each stored lifetime pane, or LIFE_PANE_TIME if it is not known."""
    return entries.columns[_SINCE]
