"""Panes: one entry for each key, time and visibility, whatever order records and stored panes come in."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from operators import aggregates as agg
from operators.columns.arrow import column_data
from operators.columns.records import Records
from operators.kinds.panes import VisiblePaneSchema, merge_panes, seen_from, visible
from state_backends import Entries

Record = tuple[int, int, int | None]
"""Key number, time and value."""

TYPES = {"v": pa.int64()}
AGGREGATES = (agg.count(), agg.sum("v"), agg.max("v"), agg.collect_list("v"))
OPERATIONS = tuple(
    dict.fromkeys(operation for aggregate in AGGREGATES for operation in aggregate.bind(TYPES).operations)
)
SCHEMA = VisiblePaneSchema(OPERATIONS)
RECORDS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-6, 6), st.none() | st.integers(-9, 9)), max_size=15
)


def records_of(rows: Sequence[Record]) -> Records:
    """Rows as records of a batch."""
    keys, times = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
    values = column_data(pa.array([row[2] for row in rows], pa.int64()))
    return Records([b"a", b"b", b"c"], keys, times, {"v": values}, 0)


Listed = dict[tuple[int, int, int], list[int | None]]


def listed(rows: Sequence[Record], close: int) -> Listed:
    """Values by key, time and visibility, as a plain loop gathers them."""
    panes: Listed = {}
    for key, time, value in rows:
        panes.setdefault((key, time, max(time, close)), []).append(value)
    return panes


def sorted_values(values: Sequence[int | None]) -> list[int | None]:
    """Values of one pane in the order in which it keeps them; it has no place for those that are missing."""
    return sorted(values, key=lambda value: (value is None, value or 0))


def states_of(values: Sequence[int | None]) -> list[object]:
    """What the schema's states are for these values of one pane."""
    there = sorted(value for value in values if value is not None)
    smallest = -(2**63)
    return [len(values), len(there), sum(there), 0, max(there, default=smallest), there]


def accumulated(records: Records, close: int) -> Entries:
    """The panes of a batch, one for each event time."""
    return seen_from(SCHEMA.accumulate(records, records.time).entries, close)


def read(panes: Entries) -> list[tuple[tuple[int, int, int], list[object]]]:
    """Panes as their place and their states; lists of one pane in the order of the values."""
    columns = [column.tolist() for state in SCHEMA.states(panes) for column in state]
    *columns, times, values = columns
    assert [[time] * len(cell) for time, cell in zip(panes.time.tolist(), values, strict=True)] == times
    columns.append(values)
    places = zip(panes.key.tolist(), panes.time.tolist(), visible(panes).tolist(), strict=True)
    return [
        (place, [sorted(cell) if isinstance(cell, list) else cell for cell in cells])
        for place, cells in zip(places, zip(*columns, strict=True), strict=True)
    ]


def panes_of(panes: Listed) -> list[tuple[tuple[int, int, int], list[object]]]:
    """What `read` shows for panes that a plain loop gathered."""
    return [(place, states_of(panes[place])) for place in sorted(panes)]


def test_layout_has_time_visibility_and_states() -> None:
    """A page of panes has the time, the tick of visibility, and the columns of all states in turn."""
    assert (*["i8"] * 7, "object", "object") == SCHEMA.layout.codes


@given(RECORDS, st.integers(-8, 8))
def test_accumulate(rows: list[Record], close: int) -> None:
    """A batch becomes one pane for each key and time, sorted, visible from its time or the close time on."""
    assert panes_of(listed(rows, close)) == read(accumulated(records_of(rows), close))


@given(RECORDS, st.data())
def test_accumulate_knows_no_order(rows: list[Record], data: st.DataObject) -> None:
    """The order in which a batch's records arrive is of no account."""
    shuffled = data.draw(st.permutations(rows))
    first, second = (accumulated(records_of(some), 0) for some in (rows, shuffled))
    assert [column.tolist() for column in first.columns] == [column.tolist() for column in second.columns]


@given(RECORDS, RECORDS, st.integers(-8, 2), st.integers(0, 6))
def test_merge(stored: list[Record], arrived: list[Record], close: int, later: int) -> None:
    """Stored and new panes become one sorted set, those of one place combined; new ones are marked."""
    old = accumulated(records_of(stored), close)
    new = accumulated(records_of(arrived), close + later)
    before = [read(old), read(new)]
    merged = merge_panes(SCHEMA, [old], new)
    was, came = listed(stored, close), listed(arrived, close + later)
    both = {place: [*was.get(place, []), *came.get(place, [])] for place in {*was, *came}}
    assert panes_of(both) == read(merged.panes)
    assert [place not in was for place in sorted(both)] == merged.fresh.tolist()
    assert [place in came for place in sorted(both)] == merged.changed.tolist()
    assert before == [read(old), read(new)]


@given(RECORDS, RECORDS, st.integers(-8, 2), st.integers(0, 6))
def test_by_time(stored: list[Record], arrived: list[Record], close: int, later: int) -> None:
    """Panes of one key and time become one, whatever they are visible from."""
    old = accumulated(records_of(stored), close)
    new = accumulated(records_of(arrived), close + later)
    panes = SCHEMA.by_time(merge_panes(SCHEMA, [old], new).panes)
    gathered: dict[tuple[int, int], list[int | None]] = {}
    for key, time, value in [*stored, *arrived]:
        gathered.setdefault((key, time), []).append(value)
    found = [(place[:2], states) for place, states in read(panes)]
    assert [(place, states_of(gathered[place])) for place in sorted(gathered)] == found


@given(RECORDS.filter(bool), st.data())
def test_combined(rows: list[Record], data: st.DataObject) -> None:
    """The states of ranges of panes are those of all their records, lists in order of time."""
    panes = accumulated(records_of(rows), 0)
    lo = data.draw(st.lists(st.integers(0, len(panes) - 1), max_size=5))
    hi = [data.draw(st.integers(a + 1, len(panes))) for a in lo]
    states = SCHEMA.combine_ranges(panes, np.array(lo, np.int64), np.array(hi, np.int64))
    by_operation = dict(zip(OPERATIONS, states, strict=True))
    bound = [aggregate.bind(TYPES) for aggregate in AGGREGATES]
    found = [of.finish([by_operation[operation] for operation in of.operations]).to_pylist() for of in bound]
    gathered = listed(rows, 0)
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
    panes = accumulated(records_of([(0, 1, 5), (1, 2, None)]), 0)
    again = SCHEMA.entries(panes.key, panes.columns[:2], SCHEMA.states(panes))
    assert all(one is other for one, other in zip(panes.columns, again.columns, strict=True))
    assert [len(operation.codes) for operation in OPERATIONS] == [
        len(state) for state in SCHEMA.states(panes)
    ]
