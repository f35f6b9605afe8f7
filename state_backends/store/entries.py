"""Entries of a store in columns: the key of each as its number in a list, the time, and the other columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from serializers.pages import Column, PageLayout
from state_backends.store.ordering import Runs, append_places, long_runs, row_order, take_runs

Ticks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of several keys, sorted by key number, then by time.

    Attributes:
        key: shape (n,), int64: positions in a list of keys.
        columns: one array of shape (n,) per column of the layout; the first is the time in ticks, int64.
    """

    key: npt.NDArray[np.int64]
    columns: tuple[Column, ...]

    @property
    def time(self) -> Ticks:
        """Times in ticks, int64."""
        return self.columns[0]

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> "Entries":
        """Return the entries at these rows, by mask or by position."""
        return Entries(self.key[rows], tuple(column[rows] for column in self.columns))

    def take_ascending(self, rows: npt.NDArray[np.int64]) -> "Entries":
        """Return the entries at these positions, which ascend. Where runs of them are long, they are copied as slices."""
        runs = long_runs(rows)
        return self.take(rows) if runs is None else self.take_runs(*runs)

    def take_runs(self, begin: npt.NDArray[np.int64], count: npt.NDArray[np.int64]) -> "Entries":
        """Return the entries of runs of rows: so many from each begin on."""
        key, *columns = take_runs([self.key, *self.columns], begin, count)
        return Entries(key, tuple(columns))


def merge_entries(parts: Sequence[Entries], layout: PageLayout) -> Entries:
    """Return the entries of all parts, sorted by key number and time; equal ones stay in the order of the parts.

    Cost: O(entries) if each part continues the one before in time, as segments do; otherwise one sort.
    """
    filled = [part for part in parts if len(part)]
    if not filled:
        columns, _ = layout.decode([])
        return Entries(np.empty(0, np.int64), tuple(columns))
    if len(filled) == 1:
        return filled[0]
    places = append_places([(part.key, part.time) for part in filled])
    if places is not None:
        return _place(filled, places)
    return in_order(_concat(filled))


def in_order(entries: Entries) -> Entries:
    """Return entries sorted by key number and time; equal ones stay in their order."""
    order = row_order(entries.key, entries.time)
    return entries if order is None else entries.take(order)


def _place(parts: Sequence[Entries], places: Sequence[Runs]) -> Entries:
    """Return the entries of all parts, each at its place among all. O(entries)."""
    rows = sum(map(len, parts))
    key, *columns = wholes = [np.empty(rows, np.int64), *(np.empty(rows, c.dtype) for c in parts[0].columns)]
    for part, runs in zip(parts, places, strict=True):
        runs.put([part.key, *part.columns], wholes)
    return Entries(key, tuple(columns))


def _concat(parts: Sequence[Entries]) -> Entries:
    """Return the entries of all parts one after another."""
    columns = zip(*(part.columns for part in parts), strict=True)
    return Entries(np.concatenate([part.key for part in parts]), tuple(map(np.concatenate, columns)))


def contains(pairs: Entries, entries: Entries) -> npt.NDArray[np.bool_]:
    """Return which entries have a key and time that are among the pairs."""
    both = np.concatenate([_pairs(pairs), _pairs(entries)])
    _, numbers = np.unique(both, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    return np.isin(numbers[len(pairs) :], numbers[: len(pairs)])


def _pairs(entries: Entries) -> npt.NDArray[np.int64]:
    return np.stack([entries.key, entries.time], axis=1)


def run_lengths(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the distinct values of a sorted array and how often each occurs."""
    if not len(values):
        return values, np.empty(0, np.int64)
    starts = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
    return values[starts], np.diff(np.append(starts, len(values)))
