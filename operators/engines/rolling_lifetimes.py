"""Lifetimes: the panes of a key that no other lookback needs, combined to one, until the key has been idle for too long."""

from collections.abc import Collection

import numpy as np

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints, key_edges
from operators.engines.rolling_rows import chain_starts
from operators.engines.rolling_state import LIFE_PANE_TIME, RollingPaneSchema, last_times
from operators.steps.failed_windows import with_keys
from operators.steps.panes import PaneSchema
from state_backends import Entries, WindowStore
from state_backends.store.entries import merge_entries

_SWEEPS = 8
"""How often idle keys are looked for in the time that a key may be idle."""


class Lifetimes:
    """The lifetime panes of a store, one for each key, in a segment of their own.

    A record that counts is never older than the close time less the longest other lookback, and panes get here when they are.
    So a pause between two panes that are here stays one.

    Args:
        store: has the panes.
        stored: the panes as they are stored.
        empty: a pane of no records.
        lasting: the operations whose states are kept.
        pause: the longest time in ticks between two records of one lifetime; None if there is no limit.
    """

    def __init__(
        self,
        store: WindowStore,
        stored: RollingPaneSchema,
        empty: Entries,
        lasting: Collection[Operation],
        pause: int | None,
    ) -> None:
        self._store, self._stored, self._pause = store, stored, pause
        self._panes = PaneSchema(stored.operations)
        self._segment = store.segment_of(LIFE_PANE_TIME)
        self._nothing = self._panes.states(empty)
        self._lasting = [operation in {*lasting} for operation in stored.operations]

    def fetch(self, keys: list[bytes]) -> Entries:
        """Return the lifetime panes of keys; under the time of their last record, if lifetimes end."""
        entries = self._store.fetch_segment(self._segment, keys)
        return stored_lifetimes(entries, self._stored, self._pause)

    def fold(self, keys: list[bytes], late: Entries, forgotten: int) -> None:
        """Combine panes with the lifetime panes of their keys.

        Args:
            keys: those of a batch.
            late: panes of the batch before `forgotten`.
            forgotten: begin of a segment; the stored panes of earlier ones are combined, too.
        """
        ticks = self._store.segment_ticks
        stored = [n for n in self._store.segments() if (n + 1) * ticks <= forgotten]
        # A pause is found only if the panes of each key come in order of time.
        for segment in sorted({*stored, *np.unique(late.time // ticks).tolist()}):
            added = late.take(late.time // ticks == segment)
            for names, entries in self._store.scan_segment(segment) if segment in stored else ():
                panes = self._stored.panes(entries)
                if len(added):
                    place = _places(keys, names)[added.key]
                    here = np.flatnonzero(place >= 0)
                    here = here[np.argsort(place[here], kind="stable")]
                    mine = Entries(place[here], added.take(here).columns)
                    panes = merge_entries([panes, mine], self._panes.layout)
                    added = added.take(place < 0)
                self._combine(names, panes)
            if len(added):
                self._combine(keys, added)

    def _combine(self, keys: list[bytes], panes: Entries) -> None:
        present = np.flatnonzero(np.bincount(panes.key, minlength=len(keys)))
        names = [keys[number] for number in present.tolist()]
        panes = Entries(np.searchsorted(present, panes.key), panes.columns)
        known, schema, last = self.fetch(names), self._panes, None
        if self._pause is not None:
            known, panes, last = _since_pause(known, panes, self._pause)
        both = merge_entries([_at_life(known), _at_life(panes)], schema.layout)
        with with_keys(names):
            whole = schema.by_time(both)
        states = [
            state if lasting else tuple(np.repeat(column, len(whole)) for column in nothing)
            for state, nothing, lasting in zip(
                schema.states(whole), self._nothing, self._lasting, strict=True
            )
        ]
        kept = self._stored.stored(schema.entries(whole.key, (whole.time,), states))
        self._store.replace_segment(self._segment, names, kept if last is None else with_last(kept, last))

    def forget_idle(self, before: int, close_time: int, forgotten: int) -> None:
        """Delete the panes that nothing can continue any more, some of the close times that pass.

        Rows that come out do not depend on when this is done. O(keys), eight times in each `forget_after`.

        Args:
            before: the close time of the last step.
            close_time: that of this step.
            forgotten: the time of which all earlier panes are combined. So no other pane of a key, and no record, is earlier.
        """
        pause = self._pause
        if pause is None or close_time // (every := -(-pause // _SWEEPS)) == before // every:
            return
        edge, changes = forgotten - pause, []
        for names, entries in self._store.scan_segment(self._segment):
            last = last_times(entries)
            # Nothing is known of panes that were stored before lifetimes had an end: they count as of now.
            unknown = last == LIFE_PANE_TIME
            changed = entries.key[(last < edge) | unknown]
            if len(changed):
                kept = entries.take(unknown)
                kept = Entries(np.searchsorted(changed, kept.key), kept.columns)
                now = with_last(kept, np.full(len(kept), close_time))
                changes.append(([names[number] for number in changed.tolist()], now))
        for keys, kept in changes:
            self._store.replace_segment(self._segment, keys, kept)


def stored_lifetimes(entries: Entries, stored: RollingPaneSchema, pause: int | None) -> Entries:
    """Return stored lifetime panes as panes; under the time of their last record, if lifetimes end."""
    panes = stored.panes(entries)
    return panes if pause is None else Entries(panes.key, (last_times(entries), *panes.columns[1:]))


def with_last(entries: Entries, last: Ints) -> Entries:
    """Return stored lifetime panes with these times of their last records."""
    time, _, *others = entries.columns
    return Entries(entries.key, (time, last, *others))


def _at_life(panes: Entries) -> Entries:
    return Entries(panes.key, (np.full(len(panes), LIFE_PANE_TIME), *panes.columns[1:]))


def _places(keys: list[bytes], names: list[bytes]) -> Ints:
    """The position of each key among names, or -1."""
    place = {name: n for n, name in enumerate(names)}
    return np.array([place.get(key, -1) for key in keys], np.int64)


def _since_pause(life: Entries, panes: Entries, pause: int) -> tuple[Entries, Entries, Ints]:
    """Those of lifetime panes and of later ones that follow the last longer pause of their key, and the last time of each key.

    Args:
        life: the stored lifetimes: at most one for each key, under the time of its last record.
        panes: sorted, some for each key.
        pause: the longest time in ticks between two records of one lifetime.
    """
    key, time = np.concatenate([life.key, panes.key]), np.concatenate([life.time, panes.time])
    order = np.argsort(key, kind="stable")
    _, final = key_edges(key[order])
    starts = chain_starts(key[order], time[order], pause)[final]
    alive = np.zeros(len(key), bool)
    alive[order] = np.arange(len(key)) >= np.repeat(starts, np.diff(final, prepend=-1))
    return life.take(alive[: len(life)]), panes.take(alive[len(life) :]), time[order][final]
