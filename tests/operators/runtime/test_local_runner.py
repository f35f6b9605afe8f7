"""The local runner: what tables it takes, what columns it returns, and where its state lives."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import DefinitionError, SlidingWindows, WindowedAggregation
from operators import aggregates as agg

MS = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1)
BACKENDS = ("memory", "rocksdb", "spark")


def counting(**windows: Any) -> WindowedAggregation:
    """Windows of 10 ms over all records as one group, counted."""
    return SlidingWindows(**{"size": 10, **windows}).aggregate(n=agg.count())


def table(time: list[Any], type_: pa.DataType, **columns: Any) -> pa.Table:
    """Records at these times."""
    return pa.table({"time": pa.array(time, type_), **columns})


def bounds(emitted: pa.Table) -> list[tuple[Any, Any]]:
    """The windows' bounds in order."""
    return sorted((window["start"], window["end"]) for window in emitted.column("window").to_pylist())


def one_batch(operator: WindowedAggregation, batch: pa.Table) -> pa.Table:
    """What an operator emits for a batch, and then when time ends."""
    with operator.local_runner("time") as runner:
        emitted = runner.process(batch)
        after = runner.process(batch.slice(0, 0), stream_time=2**60)
        return pa.concat_tables([emitted, after])


def test_schema_on_close() -> None:
    """Keys as they came, the window as a struct without nulls, and the aggregates by name; counts are never null."""
    operator = (
        SlidingWindows(size=10)
        .group_by("key", "day")
        .aggregate(
            n=agg.count(),
            total=agg.sum("value"),
            low=agg.min("value"),
            mean=agg.avg("value"),
            all=agg.collect_list("value"),
        )
    )
    batch = table(
        [1],
        pa.timestamp("us", "UTC"),
        key=["a"],
        value=pa.array([1], pa.int32()),
        day=pa.array([1], pa.date32()),
    )
    bound = pa.timestamp("us", "UTC")
    expected = pa.schema(
        [
            pa.field("key", pa.string()),
            pa.field("day", pa.date32()),
            pa.field(
                "window",
                pa.struct([pa.field("start", bound, nullable=False), pa.field("end", bound, nullable=False)]),
                nullable=False,
            ),
            pa.field("n", pa.int64(), nullable=False),
            pa.field("total", pa.int64()),
            pa.field("low", pa.int32()),
            pa.field("mean", pa.float64()),
            pa.field("all", pa.list_(pa.int32()), nullable=False),
        ]
    )

    assert expected == one_batch(operator, batch).schema


def test_schema_on_update_has_the_change_last() -> None:
    """On update the last column says what kind of row it is."""
    emitted = one_batch(counting().emit("on_update"), table([1], pa.timestamp("ms")))

    assert ["window", "n", "change", "sequence"] == emitted.column_names
    assert pa.field("change", pa.string(), nullable=False) == emitted.schema.field("change")


def test_schema_of_an_empty_batch_is_the_same() -> None:
    """A batch that emits nothing returns a table without rows, of the same columns."""
    with counting().local_runner("time") as runner:
        empty = runner.process(table([], pa.timestamp("ms")))
        filled = runner.process(table([1], pa.timestamp("ms")), stream_time=100)

    assert (0, 1) == (len(empty), len(filled))
    assert empty.schema == filled.schema


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (pa.timestamp("s"), pa.timestamp("ms")),
        (pa.timestamp("ms"), pa.timestamp("ms")),
        (pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.timestamp("s", "Europe/Berlin"), pa.timestamp("ms", "Europe/Berlin")),
        (pa.int64(), pa.timestamp("ms")),
    ],
    ids=str,
)
def test_bounds_are_of_the_event_times_type(type_: pa.DataType, expected: pa.DataType) -> None:
    """Bounds keep unit and zone of the event time, but for units too coarse to tell ticks apart."""
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
    time = 2 * (1_000 if pa.types.is_int64(type_) else per_second[type_.unit])
    window = one_batch(counting(), table([time], type_)).schema.field("window").type
    emitted = one_batch(counting(), table([time], type_)).column("window").combine_chunks()

    assert [expected, expected] == [window.field("start").type, window.field("end").type]
    unzoned = emitted.field("end").cast(pa.timestamp(expected.unit)).cast(pa.timestamp("ms"))
    assert [EPOCH + timedelta(seconds=2)] == unzoned.to_pylist()


@pytest.mark.parametrize(
    ("unit", "time", "end"), [("us", 1_999, 1), ("us", -1, -1), ("ns", 1_999_999, 1), ("ns", -1_000_001, -2)]
)
def test_event_times_are_floored_to_ticks(unit: str, time: int, end: int) -> None:
    """Finer times are floored to milliseconds, also before the epoch."""
    emitted = one_batch(counting(), table([time], pa.timestamp(unit)))

    assert [(EPOCH + (end - 10) * MS, EPOCH + end * MS)] == bounds(emitted)


def test_tick_of_a_microsecond() -> None:
    """With tick="1 us" a right window begins a microsecond after its record."""
    operator = counting(size="10 us", tick="1 us")
    emitted = one_batch(operator, table([0, 4], pa.timestamp("us")))
    microsecond = timedelta(microseconds=1)

    assert pa.timestamp("us") == emitted.schema.field("window").type.field("end").type
    expected = [(-10, 0), (-6, 4), (1, 11)]
    assert [(EPOCH + a * microsecond, EPOCH + b * microsecond) for a, b in expected] == bounds(emitted)


@pytest.mark.parametrize("tick", ["1 ms", "1 us"])
def test_whole_numbers_are_ticks(tick: str) -> None:
    """An event time of type int64 counts ticks since the epoch."""
    operator = counting(size=1, tick=tick)
    length = MS if tick == "1 ms" else timedelta(microseconds=1)
    emitted = one_batch(operator, table([5000], pa.int64()))

    assert [(EPOCH + 5000 * length - MS, EPOCH + 5000 * length)] == bounds(emitted)


def test_input_may_be_a_record_batch_in_chunks_or_dictionary_encoded() -> None:
    """How Arrow holds the rows is of no account."""
    operator = (
        SlidingWindows(size=10)
        .group_by("key")
        .aggregate(total=agg.sum("value"), last=agg.max("day"), days=agg.collect_list("day"))
    )
    days = pa.array([1, None, 0], pa.date32())
    plain = table([1, 2, 3], pa.timestamp("ms"), key=["a", "b", "a"], value=[1, 2, None], day=days)
    encoded = pa.table(
        {name: plain.column(name).combine_chunks().dictionary_encode() for name in plain.column_names}
    )
    encoded = encoded.set_column(0, "time", plain.column("time"))
    chunked = pa.concat_tables([plain.slice(n, 1) for n in range(3)])

    expected = one_batch(operator, plain)
    assert expected == one_batch(operator, chunked)
    assert expected == one_batch(operator, plain.combine_chunks().to_batches()[0])
    assert expected == one_batch(operator, encoded)


def test_columns_that_nobody_reads_are_passed_over() -> None:
    """Other columns may be there, of any type, and come and go."""
    with counting().emit("on_update").local_runner("time") as runner:
        runner.process(table([1], pa.int64(), more=[[{"a": 1}]]))
        assert [2] == runner.process(table([1], pa.int64())).column("n").to_pylist()


def test_later_table_without_a_column_is_refused() -> None:
    """Every table has the columns that the first one was bound by."""
    operator = SlidingWindows(size=10).group_by("key").aggregate(total=agg.sum("value"))
    with operator.local_runner("time") as runner:
        runner.process(table([1], pa.int64(), key=["a"], value=[1]))
        with pytest.raises(DefinitionError, match=r"the table lacks the columns key, value; it has time"):
            runner.process(table([1], pa.int64()))


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"value": [2.7]}, "value"),
        ({"value": ["2"]}, "value"),
        ({"key": [7]}, "key"),
        ({"time": ["x"]}, "time"),
    ],
    ids=["value", "value as text", "key", "time"],
)
def test_later_table_of_other_types_is_refused(changed: dict[str, list[Any]], name: str) -> None:
    """A column that changes its type is an error that names it; its values are never bent into the old type."""
    operator = SlidingWindows(size=10).group_by("key").aggregate(total=agg.sum("value")).emit("on_update")
    first = {"time": [1], "key": ["a"], "value": [1]}
    with operator.local_runner("time") as runner:
        runner.process(pa.table(first))
        with pytest.raises(DefinitionError, match=name):
            runner.process(pa.table({**first, **changed}))


def test_store_is_none_before_the_first_batch() -> None:
    """Before the first batch nothing is known of the columns, so there is no store."""
    with counting().local_runner("time") as runner:
        assert runner.store is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_that_fails_leaves_no_trace(backend: str, tmp_path: Path) -> None:
    """After an error, state and counters are what they were: the next batch finds nothing of the one that failed."""
    operator = SlidingWindows(size=10).aggregate(total=agg.sum("value"), n=agg.count()).emit("on_update")
    digits = pa.decimal128(38, 0)
    largest = Decimal(9 * 10**37)
    with operator.local_runner("time", backend, tmp_path) as runner:
        runner.process(table([1], pa.int64(), value=pa.array([1], digits)))
        with pytest.raises((ArithmeticError, pa.ArrowInvalid)):
            runner.process(table([1, 1], pa.int64(), value=pa.array([largest, largest], digits)))
        emitted = runner.process(table([1], pa.int64(), value=pa.array([2], digits)))
        counted = runner.counters.rows

    assert ([Decimal(3)], [2], 2) == (emitted["total"].to_pylist(), emitted["n"].to_pylist(), counted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_new_runner_on_the_same_directory_goes_on(backend: str, tmp_path: Path) -> None:
    """State, stream time and highest event time outlive the runner; counters don't."""
    batch = table([0], pa.int64())
    with counting(grace=5).local_runner("time", backend, tmp_path) as runner:
        runner.process(batch)
        runner.process(table([100], pa.int64()), stream_time=5)
    with counting(grace=5).local_runner("time", backend, tmp_path) as runner:
        assert [2] == runner.process(table([0, 100], pa.int64()), stream_time=6).column("n").to_pylist()
        assert [2] == runner.process(table([], pa.int64()), stream_time=106).column("n").to_pylist()
        assert (2, 0) == (runner.counters.rows, runner.counters.late)


def test_state_is_dropped_with_a_runner_that_has_no_directory() -> None:
    """Without a directory each runner begins anew."""
    for _ in range(2):
        with counting().emit("on_update").local_runner("time") as runner:
            assert [1] == runner.process(table([0], pa.int64())).column("n").to_pylist()


@pytest.mark.parametrize("lost", ["MANIFEST-*", "*.sst", "CURRENT"])
def test_damaged_copy_makes_way_for_a_new_one(lost: str, tmp_path: Path) -> None:
    """A power loss can take files of a database: the state is restored, and continues as if nothing had been."""
    op = SlidingWindows(size=10, grace=50).group_by("k").aggregate(n=agg.count())
    rows = pa.table([["a", "b"], [1, 2]], ["k", "at"])
    with op.local_runner("at", "rocksdb", tmp_path) as runner:
        runner.process(rows)
    found = list((tmp_path / "state-rocksdb").glob(lost))
    for path in found:
        path.unlink()
    with op.local_runner("at", "rocksdb", tmp_path) as runner:
        assert found
        assert runner.process(rows, 100)["n"].to_pylist() == [2, 2]
