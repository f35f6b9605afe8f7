"""Partial aggregation: the records of a batch accumulated into entries of the window store, wherever that is done.

The first stage runs where the records are read, before the shuffle: it sends an entry for each pane, not for each record.
The second stage joins the entries of all tasks. (Hazelcast Jet's two-stage aggregation)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints, rows_of_ranges
from operators.columns.records import Records
from operators.errors import OperatorError
from operators.steps.step import LateRecords, Step
from serializers.arrays import one_array
from serializers.columns import from_arrow, to_arrow
from serializers.pages import PageLayout
from state_backends import Entries

KEY, TIME, _RECORDS = "key", "c0", "records"
"""Columns of entries as a table: the encoded key, and the time that sorts them."""


@dataclass(frozen=True, slots=True)
class Partials:
    """Accumulated records.

    Attributes:
        keys: the distinct keys, encoded.
        entries: the panes, in columns of the plan's layout, sorted by key and time.
        records: shape (n,), int64: how many records are in each entry.
        bad: records left out, as in `Records`.
        order: shape (records,), int64: the records' positions before they were sorted like the entries; None if they were
            sorted already, or if the positions are not known.
    """

    keys: list[bytes]
    entries: Entries
    records: Ints
    bad: int = 0
    order: Ints | None = None

    def __len__(self) -> int:
        return len(self.records)

    def check_order(self, *, distinct: bool) -> None:
        """Refuse entries that are not sorted by key and time: an operator would compute wrong windows from them. O(entries).

        Args:
            distinct: whether no two entries may have the same key and time.

        Raises:
            OperatorError: names the first entry that is out of order.
        """
        key, time = self.entries.key, self.entries.time
        later = time[1:] > time[:-1] if distinct else time[1:] >= time[:-1]
        ordered = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & later)
        if not ordered.all():
            raise OperatorError(
                f"entry {int(np.argmin(ordered)) + 1} of {len(self)} is out of order: entries must be sorted by key and "
                "time, and combined, before an operator processes them. This is a bug of the library: please report it"
            )

    def count_rows(self, step: Step) -> None:
        """Count the records of all entries."""
        step.count_rows(self.entries.key, self.bad, self.records)

    def report_late(self, step: Step, late: LateRecords) -> None:
        """Report the records of entries as late.

        Args:
            step: where to.
            late: positions of the entries, and the last window that each could have been in.
        """
        if step.late is None:
            step.counters.late += int(self.records[late.row].sum())
            return
        ends = np.cumsum(self.records)[late.row]
        entry, place = rows_of_ranges(ends - self.records[late.row], ends)
        row = place if self.order is None else self.order[place]
        step.report_late(replace(late, row=row, start=late.start[entry], end=late.end[entry]))


class TwoStagePlan(Protocol):
    """A plan whose operations can all be combined."""

    @property
    def condenses(self) -> bool:
        """Whether an entry stands for a span of time, so that entries are few even if records are many."""

    @property
    def layout(self) -> PageLayout:
        """The layout of stored entries."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations whose states are stored."""

    def accumulate(self, records: Records) -> Partials:
        """Return records as entries, as few as possible."""

    def reduce(self, partials: Partials) -> Partials:
        """Return the entries sorted by key and time, those of the same key and time combined."""


def join(plan: TwoStagePlan, parts: Sequence[Partials]) -> Partials:
    """Return the entries of all parts as one, keys numbered in order of first appearance."""
    if len(parts) == 1:
        return parts[0]
    number: dict[bytes, int] = {}
    keys = []
    for part in parts:
        local = np.fromiter(
            (number.setdefault(key, len(number)) for key in part.keys), np.int64, len(part.keys)
        )
        keys.append(local[part.entries.key])
    columns = tuple(
        np.concatenate(column) for column in zip(*(part.entries.columns for part in parts), strict=True)
    )
    records = np.concatenate([part.records for part in parts])
    bad = sum(part.bad for part in parts)
    return plan.reduce(Partials(list(number), Entries(np.concatenate(keys), columns), records, bad))


def column_names(count: int) -> list[str]:
    """Return the columns of entries of so many columns as a table."""
    return [KEY, _RECORDS, *(f"c{n}" for n in range(count))]


def to_table(partials: Partials, rows: Ints | slice) -> pa.Table:
    """Return the entries in these rows as a table."""
    used, local = np.unique(partials.entries.key[rows], return_inverse=True)
    keys = pa.DictionaryArray.from_arrays(
        pa.array(local, pa.int32()), pa.array([partials.keys[n] for n in used.tolist()], pa.binary())
    )
    columns = [to_arrow(column[rows]) for column in partials.entries.columns]
    columns = [keys, pa.array(partials.records[rows]), *columns]
    return pa.table(columns, column_names(len(partials.entries.columns)))


def from_table(table: pa.Table, layout: PageLayout) -> Partials:
    """Return a table's entries."""
    keys = one_array(pa.chunked_array(map(_plain_keys, table.column(KEY).chunks), pa.large_binary()))
    keys = keys.dictionary_encode()
    key = keys.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    columns = tuple(from_arrow(table.column(n + 2), code) for n, code in enumerate(layout.codes))
    return Partials(keys.dictionary.to_pylist(), Entries(key, columns), table.column(_RECORDS).to_numpy())


def _plain_keys(keys: pa.Array) -> pa.LargeBinaryArray:
    """Keys of a table, each as often as it has entries: more than an array of `binary` may hold."""
    if isinstance(keys, pa.DictionaryArray):
        return keys.dictionary.cast(pa.large_binary()).take(keys.indices)
    return keys.cast(pa.large_binary())
