"""Records accumulated by the tasks that read them, and joined after: the windows of records that were sent as they are."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.runtime.binding import Binding
from operators.spark.inputs.blobs import from_blobs
from operators.spark.inputs.packing import CALL, PACKED_COUNTS, PARTIALS, Pack
from operators.steps.partials import from_table, to_table
from operators.steps.step import Counters, Step
from state_backends import resolve
from state_backends.backends.memory import MemoryBackend
from tests.effort import examples

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("other", pa.int64()),
        ("time", pa.timestamp("ms")),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("gap", pa.int64()),
    ]
)
WINDOWS = {
    "sliding": SlidingWindows(size=5, grace=3),
    "hopping": HoppingWindows(6, 4, grace=3, offset=1),
    "tumbling": TumblingWindows(4),
    "session": SessionWindows(2, grace=3),
    "session of gaps": SessionWindows(gap_column="gap", grace=3),
    "session up to a length": SessionWindows(2, grace=3, max_length=3),
    "session of gaps up to a length": SessionWindows(gap_column="gap", grace=3, max_length=3),
}
RESULTS = {
    "n": agg.count(),
    "total": agg.sum("v"),
    "mean": agg.avg("x"),
    "low": agg.min("x"),
    "spread": agg.variance("v"),
    "listed": agg.collect_list("v"),
}
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(0, 1),
        st.none() | st.integers(-12, 12),
        st.none() | st.integers(-9, 9),
        st.none() | st.integers(-40, 40).map(lambda n: n / 8),
        st.none() | st.integers(0, 5),
    ),
    max_size=25,
)
LABELS = (7, 3, 11)


def binding_of(kind: str) -> Binding:
    """An operator of that kind on both keys."""
    operator = WINDOWS[kind].group_by("key", "other").aggregate(**RESULTS).emit("on_update")
    return operator.bind(SCHEMA, "time", resolve("memory", {}))


def table(rows: Sequence[tuple[Any, ...]], binding_: Binding) -> pa.Table:
    """Rows as the operator's input columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    whole = pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)
    return whole.select(binding_.inputs.names)


def emitted(
    binding_: Binding, batches: Sequence[tuple[list[pa.Table], list[pa.Table], int]]
) -> tuple[list[Any], Counters]:
    """What the operator emits for batches of rows and of entries at their close times, and what it counts."""
    operator, counters, found = binding_.plan.engine(binding_.store(MemoryBackend())), Counters(), []
    for tables, partials, close in batches:
        emissions = operator.step(binding_.read(tables, partials), Step(close, close, counters))
        found.append(sorted(map(repr, binding_.output.table(emissions).to_pylist())))
    return found, counters


@pytest.mark.slow
@pytest.mark.parametrize("kind", WINDOWS)
@examples(0.6)
@given(
    st.lists(st.tuples(ROWS, st.lists(st.integers(0, 25), max_size=3), st.integers(-9, 12)), max_size=4),
    st.data(),
)
def test_stages_give_the_windows_of_plain_rows(
    kind: str, steps: list[tuple[list[Any], list[int], int]], data: st.DataObject
) -> None:
    """A batch cut into tasks, of which each sends rows or entries, gives the rows and counts of the whole batch."""
    binding_ = binding_of(kind)
    whole, parted, close = [], [], -100
    for rows, cuts, later in steps:
        close = max(close, later)
        edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
        tables, entries = [], []
        for a, b in pairwise(edges):
            part = table(rows[a:b], binding_)
            partials = binding_.plan.accumulate(binding_.inputs.records.read(part))
            if data.draw(st.booleans()) and not partials.bad:
                sent = to_table(partials, slice(None))
                assert len(partials) == len(from_table(sent, binding_.plan.layout))
                entries.append(sent)
            else:
                tables.append(part)
        whole.append(([table(rows, binding_)], [], close))
        parted.append((tables, entries, close))
    end = ([table([], binding_)], [], FAR_FUTURE)
    expected, expected_counters = emitted(binding_, [*whole, end])
    found, counters = emitted(binding_, [*parted, end])
    assert expected == found
    assert expected_counters == counters


def packed(kind: str, rows: list[Any], *, sorts: bool = False) -> tuple[Binding, list[dict[str, Any]]]:
    """What one task sends; that it calls all buckets is left out."""
    binding_ = binding_of(kind)
    batches = table(rows, binding_).rename_columns(list(binding_.inputs.aliases.values())).to_batches()
    sent = [row for batch in Pack(binding_, LABELS, sorts=sorts)(batches) for row in batch.to_pylist()]
    assert list(LABELS) == [row["bucket"] for row in sent[-len(LABELS) :] if row["kind"] == CALL]
    return binding_, sent[: -len(LABELS)]


def totals(sent: list[dict[str, Any]]) -> dict[str, int]:
    """What a task counted of what it sent."""
    counted = [row["counts"] for row in sent if row["counts"] is not None]
    return dict(zip(PACKED_COUNTS, list(map(sum, zip(*counted, strict=True)))[1:], strict=True))


@pytest.mark.parametrize("kind", WINDOWS)
def test_many_records_in_few_panes_are_sent_as_entries(kind: str) -> None:
    """A task whose records share panes sends these, says how many records they are, and loses none."""
    rows = [("ab"[n % 2], 0, n % 3, n, n / 8, 2) for n in range(600)]
    binding_, sent = packed(kind, rows)
    tables = from_blobs(row["blob"] for row in sent)

    assert all(row["kind"] == PARTIALS for row in sent)
    counts = totals(sent)
    assert (600, 0) == (counts["rows"], counts["bad"])
    assert sum(table_.num_rows for table_ in tables) == counts["sent"] <= 6
    assert sum(len(row["blob"]) for row in sent) == counts["sent_bytes"] < counts["row_bytes"]
    assert emitted(binding_, [([table(rows, binding_)], [], 0)]) == emitted(binding_, [([], tables, 0)])


def test_records_with_panes_of_their_own_are_sent_as_they_are() -> None:
    """Where nothing is saved by it, nothing is accumulated before the shuffle."""
    _, sent = packed("sliding", [("a", 0, n, n, 0.5, 2) for n in range(600)])

    assert PARTIALS not in {row["kind"] for row in sent}
    assert [600, 600] == [totals(sent)[name] for name in ("rows", "sent")]


@pytest.mark.parametrize("kind", ["hopping", "sliding"])
def test_the_time_of_a_sort_is_told(kind: str) -> None:
    """Where rows come out of a shuffle; it is not in what is sent."""
    rows = [("ab"[n % 2], 0, n % 7, n, n / 8, 2) for n in range(600)]
    plain, sorted_ = (packed(kind, rows, sorts=sorts)[1] for sorts in (False, True))
    assert totals(plain)["sort_ms"] == 0 < totals(sorted_)["sort_ms"]
    again = packed(kind, rows[::-1], sorts=True)[1]
    assert [row["blob"] for row in again] == [row["blob"] for row in sorted_]


def test_bad_rows_are_told_beside_the_entries() -> None:
    """Rows without a time are counted where they are read, and are not in what is sent."""
    rows = [("a", 0, None if n % 5 == 0 else 3, n, 0.5, 2) for n in range(100)]
    _, sent = packed("hopping", rows)

    assert [80, 20] == [totals(sent)[name] for name in ("rows", "bad")]
