"""A thread that reads batches ahead: order, errors, and an end that leaves nothing behind."""

import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from operators.spark.inputs import blobs
from operators.spark.inputs.packing import gather, read_ahead
from tests.patience import STILL_SECONDS


def batches(count: int, error: Exception | None = None) -> Iterator[pa.RecordBatch]:
    """So many batches of one row, then an error if given."""
    for number in range(count):
        yield pa.record_batch({"n": [number]})
    if error is not None:
        raise error


def readers() -> int:
    """How many threads read."""
    return sum(thread.name == "read-ahead" for thread in threading.enumerate())


@pytest.mark.parametrize("count", [0, 1, 31, 500])
def test_all_batches_come_in_order(count: int) -> None:
    """More batches than are read ahead, fewer, and none."""
    assert list(range(count)) == [batch["n"][0].as_py() for batch in read_ahead(batches(count))]


def test_an_error_comes_after_the_batches_before_it() -> None:
    """What fails in the thread fails where the batches are wanted, as it would without a thread."""
    reading = read_ahead(batches(40, OSError("the pipe broke")))
    assert list(range(40)) == [next(reading)["n"][0].as_py() for _ in range(40)]
    with pytest.raises(OSError, match="the pipe broke"):
        next(reading)


def test_who_stops_early_leaves_no_thread() -> None:
    """A reader whose batches are no longer wanted ends."""
    reading = read_ahead(batches(10_000))
    next(reading)
    reading.close()
    for thread in threading.enumerate():
        if thread.name == "read-ahead":
            thread.join(timeout=STILL_SECONDS)
    assert 0 == readers()


def test_gathered_tables_hold_all_rows() -> None:
    """Tables of so many rows, the last one of what is left, however the rows are cut into batches."""
    whole = pa.table({"n": range(25)})
    for size in (1, 3, 10, 11, 25):
        tables = list(gather(iter(whole.to_batches(size)), 10))
        assert [10, 10, 5] == [table.num_rows for table in tables]
        assert whole == pa.concat_tables(tables).combine_chunks()


def test_gathered_tables_of_wide_rows_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is worked on as a whole, so its bytes are limited, too."""
    monkeypatch.setattr(blobs, "AT_ONCE_BYTES", 48)
    tables = list(gather(batches(25), 10))
    assert 4 < len(tables)
    assert list(range(25)) == pa.concat_tables(tables)["n"].to_pylist()
    rows = pa.table({"text": ["x" * (n % 60) for n in range(200)]})
    cuts = [[table.num_rows for table in gather(iter(rows.to_batches(size)), 10)] for size in (1, 7, 200)]
    assert cuts[0] == cuts[1] == cuts[2]
    assert 200 == sum(cuts[0])


@pytest.mark.parametrize("width", [1, 47, 48, 49, 1_000])
def test_wide_batches_are_not_read_ahead_by_the_dozen(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """What waits has no more bytes than the limit, or is one batch; all come, in order."""
    monkeypatch.setattr(blobs, "AT_ONCE_BYTES", 48)
    begun = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal begun
        for number in range(40):
            begun = number
            yield pa.record_batch(
                {
                    "n": pa.array([number], pa.uint8()),
                    "x": pa.array([b"x" * (width - 1)], pa.binary(width - 1)),
                }
            )

    for number, batch in enumerate(read_ahead(counted())):
        assert number == batch["n"][0].as_py()
        time.sleep(0.001)  # in which the thread would go on
        assert begun - number <= max(1, 48 // width) + 1
