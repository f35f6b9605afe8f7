"""Panes: one entry for each key and time, whatever order records and stored panes come in."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from operators import aggregates as agg
from operators.columns.arrow import column_data
from operators.columns.records import Records
from operators.steps.panes import PaneSchema, merge_panes
from state_backends import Entries
from state_backends.store.entries import merge_entries

Record = tuple[int, int, int | None]
"""Key number, time and value."""

TYPES = {"v": pa.int64()}
AGGREGATES = (agg.count(), agg.sum("v"), agg.max("v"), agg.collect_list("v"))
OPERATIONS = tuple(
    dict.fromkeys(operation for aggregate in AGGREGATES for operation in aggregate.bind(TYPES).operations)
)
SCHEMA = PaneSchema(OPERATIONS)
RECORDS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-6, 6), st.none() | st.integers(-9, 9)), max_size=15
)


def records_of(rows: Sequence[Record]) -> Records:
    """Rows as records of a batch."""
    keys, times = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
    values = column_data(pa.array([row[2] for row in rows], pa.int64()))
    return Records([b"a", b"b", b"c"], keys, times, {"v": values}, 0)


Place = tuple[int, int]
"""Key number and time of a pane."""
Listed = dict[Place, list[int | None]]


def listed(rows: Sequence[Record]) -> Listed:
    """Values by key and time, as a plain loop gathers them."""
    panes: Listed = {}
    for key, time, value in rows:
        panes.setdefault((key, time), []).append(value)
    return panes


def sorted_values(values: Sequence[int | None]) -> list[int | None]:
    """Values of one pane in the order in which it keeps them; it has no place for those that are missing."""
    return sorted(values, key=lambda value: (value is None, value or 0))


def states_of(values: Sequence[int | None]) -> list[object]:
    """What the schema's states are for these values of one pane."""
    there = sorted(value for value in values if value is not None)
    smallest = -(2**63)
    return [len(values), len(there), sum(there), 0, max(there, default=smallest), there]


def accumulated(records: Records) -> Entries:
    """The panes of a batch, one for each event time."""
    return SCHEMA.accumulate(records, records.time).entries


def read(panes: Entries) -> list[tuple[Place, list[object]]]:
    """Panes as their place and their states; lists of one pane in the order of the values."""
    columns = [column.tolist() for state in SCHEMA.states(panes) for column in state]
    *columns, times, values = columns
    assert [[time] * len(cell) for time, cell in zip(panes.time.tolist(), values, strict=True)] == times
    columns.append(values)
    places = zip(panes.key.tolist(), panes.time.tolist(), strict=True)
    return [
        (place, [sorted(cell) if isinstance(cell, list) else cell for cell in cells])
        for place, cells in zip(places, zip(*columns, strict=True), strict=True)
    ]


def panes_of(panes: Listed) -> list[tuple[Place, list[object]]]:
    """What `read` shows for panes that a plain loop gathered."""
    return [(place, states_of(panes[place])) for place in sorted(panes)]


def test_layout_has_time_and_states() -> None:
    """A page of panes has the time, and the columns of all states in turn."""
    assert (*["i8"] * 6, "object", "object") == SCHEMA.layout.codes


@given(RECORDS)
def test_accumulate(rows: list[Record]) -> None:
    """A batch becomes one pane for each key and time, sorted."""
    assert panes_of(listed(rows)) == read(accumulated(records_of(rows)))


@given(RECORDS, st.data())
def test_accumulate_knows_no_order(rows: list[Record], data: st.DataObject) -> None:
    """The order in which a batch's records arrive is of no account."""
    shuffled = data.draw(st.permutations(rows))
    first, second = (accumulated(records_of(some)) for some in (rows, shuffled))
    assert [column.tolist() for column in first.columns] == [column.tolist() for column in second.columns]


@given(RECORDS, RECORDS)
def test_merge(stored: list[Record], arrived: list[Record]) -> None:
    """Stored and new panes become one sorted set, those of one place combined; new ones are marked."""
    old, new = (accumulated(records_of(rows)) for rows in (stored, arrived))
    before = [read(old), read(new)]
    merged = merge_panes(SCHEMA, [old], new)
    was, came = listed(stored), listed(arrived)
    both = sorted({*was, *came})
    assert panes_of(listed([*stored, *arrived])) == read(merged.panes)
    assert [place not in was for place in both] == merged.fresh.tolist()
    assert [place in came for place in both] == merged.changed.tolist()
    assert before == [read(old), read(new)]


@given(RECORDS, RECORDS, RECORDS)
def test_panes_of_one_time_are_combined(
    stored: list[Record], more: list[Record], arrived: list[Record]
) -> None:
    """Several stored panes of one key and time, as there once were, become one, also with new ones."""
    old, other, new = (accumulated(records_of(rows)) for rows in (stored, more, arrived))
    twice = merge_entries([old, other], SCHEMA.layout)
    assert panes_of(listed([*stored, *more])) == read(SCHEMA.by_time(twice))
    merged = merge_panes(SCHEMA, [twice], new)
    assert panes_of(listed([*stored, *more, *arrived])) == read(merged.panes)


@given(RECORDS.filter(bool), st.data())
def test_combined(rows: list[Record], data: st.DataObject) -> None:
    """The states of ranges of panes are those of all their records, lists in order of time."""
    panes = accumulated(records_of(rows))
    lo = data.draw(st.lists(st.integers(0, len(panes) - 1), max_size=5))
    hi = [data.draw(st.integers(a + 1, len(panes))) for a in lo]
    states = SCHEMA.combine_ranges(panes, np.array(lo, np.int64), np.array(hi, np.int64))
    by_operation = dict(zip(OPERATIONS, states, strict=True))
    bound = [aggregate.bind(TYPES) for aggregate in AGGREGATES]
    found = [of.finish([by_operation[operation] for operation in of.operations]).to_pylist() for of in bound]
    gathered = listed(rows)
    covered = [
        [sorted_values(gathered[place]) for place in sorted(gathered)[a:b]]
        for a, b in zip(lo, hi, strict=True)
    ]
    in_order = [[value for values in panes_ for value in values] for panes_ in covered]
    there = [[value for value in values if value is not None] for values in in_order]
    assert [len(values) for values in in_order] == found[0]
    assert [sum(values) if values else None for values in there] == found[1]
    assert [max(values, default=None) for values in there] == found[2]
    assert there == found[3]


def test_states_and_entries_are_inverse() -> None:
    """States put into entries come out as they were, the same columns."""
    panes = accumulated(records_of([(0, 1, 5), (1, 2, None)]))
    again = SCHEMA.entries(panes.key, panes.columns[:1], SCHEMA.states(panes))
    assert all(one is other for one, other in zip(panes.columns, again.columns, strict=True))
    assert [len(operation.codes) for operation in OPERATIONS] == [
        len(state) for state in SCHEMA.states(panes)
    ]
