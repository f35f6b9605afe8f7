"""Rows of any width on their way between Spark and a bucket: what either holds at once is some MiB."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from operators import RollingWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.runtime.binding import Binding
from operators.spark.base.observed import COUNTS
from operators.spark.inputs import blobs
from operators.spark.inputs.blobs import from_blobs, to_batches, to_blobs
from operators.spark.inputs.packing import PACKED, PACKED_COUNTS, PARTIALS, ROWS, Pack
from operators.steps.late_reports import LateSide
from state_backends import resolve

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64()), ("wide", pa.string())])
LABELS = (3, 1, 2)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of some hundred bytes."""
    monkeypatch.setattr(blobs, "BLOB_BYTES", 400)
    monkeypatch.setattr(blobs, "AT_ONCE_BYTES", 2_000)


def rolling() -> Binding:
    """A binding whose rows have all columns."""
    windows = RollingWindows({"5s": "5 seconds"}).group_by("k").aggregate(n=agg.count())
    return windows.bind(SCHEMA, "t", resolve("memory"))


def wide_batches(rows: int, width: int, *, each: int = 7) -> Iterator[pa.RecordBatch]:
    """Records in batches of so many, the rows of a batch as wide as said and then narrower."""
    table = pa.table(
        {
            "k": [n % 5 for n in range(rows)],
            "t": [1_000 * n for n in range(rows)],
            "v": list(range(rows)),
            "wide": ["x" * (width - n % 3) for n in range(rows)],
        },
        SCHEMA,
    )
    yield from table.to_batches(max_chunksize=each)


def aliased(binding: Binding, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches as the first stage gets them."""
    for batch in batches:
        yield pa.RecordBatch.from_arrays(
            [batch[name] for name in binding.inputs.names], list(binding.inputs.aliases.values())
        )


def counted(packed: pa.Table) -> dict[str, int]:
    """What the blobs of a task say of all of them, in sum."""
    told = [counts for counts in packed[COUNTS].to_pylist() if counts is not None]
    return dict(zip(PACKED_COUNTS, list(map(sum, zip(*told, strict=True)))[1:], strict=True))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("width", [3, 100, 399, 401, 5_000])
def test_blobs_and_batches_of_the_first_stage_are_limited_in_bytes(width: int) -> None:
    """No blob is larger than the limit by more than a row, no batch of blobs by more than a blob, and all rows are there."""
    binding = rolling()
    packed = list(Pack(binding, LABELS)(aliased(binding, wide_batches(60, width))))
    found = pa.Table.from_batches(packed, PACKED)
    sent = [blob for blob in found["blob"].to_pylist() if blob is not None]
    assert max(map(len, sent)) <= 400 + width + 1_200  # and Arrow's own bytes
    for batch in packed:
        assert batch.column("blob").nbytes <= 2_000 + max(map(len, sent)) + 64 * batch.num_rows
    rows = pa.concat_tables(from_blobs(sent))
    expected = pa.Table.from_batches(wide_batches(60, width)).select(rows.column_names)
    assert expected.to_pylist() == rows.sort_by("t").to_pylist()
    counts = counted(found)
    assert 60 == counts["rows"] == counts["sent"]
    if width > 100:
        assert len(sent) > 20


@pytest.mark.usefixtures("small")
def test_accumulated_rows_are_cut_too() -> None:
    """Entries with wide states: the counts stand beside the first blob of a bucket, once."""
    operator = TumblingWindows("10 seconds").group_by("k").aggregate(all=agg.collect_list("wide"))
    binding = operator.bind(SCHEMA, "t", resolve("memory"))
    packed = pa.Table.from_batches(
        list(Pack(binding, LABELS)(aliased(binding, wide_batches(600, 50, each=100)))), PACKED
    )
    sent = [row for row in packed.to_pylist() if row["kind"] == PARTIALS]
    assert 3 * len(LABELS) < len(sent)
    counts = counted(packed)
    assert 600 == counts["rows"]
    assert counts["sent"] == sum(table.num_rows for table in from_blobs(row["blob"] for row in sent))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("width", [3, 100, 401, 5_000])
def test_rows_for_spark_come_in_small_batches(width: int) -> None:
    """What a bucket or a bounded frame returns is cut, and is all there; nothing comes of nothing."""
    table = pa.Table.from_batches(list(wide_batches(50, width)))
    for parts in (from_blobs(to_blobs(table)), [pa.Table.from_batches([one]) for one in to_batches(table)]):
        assert table.to_pylist() == pa.concat_tables(parts).to_pylist()
        assert all(part.num_rows == 1 or part.nbytes < 600 for part in parts)
    assert [] == list(to_blobs(table.slice(0, 0))) == list(to_batches(table.slice(0, 0)))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("late", [False, True])
def test_records_with_their_late_side_are_limited_in_bytes(late: bool) -> None:
    """With `apply_with_late` every column goes to the bucket, whatever the operator reads."""
    operator = SlidingWindows("2 seconds", grace="1 second").group_by("k").aggregate(n=agg.count())
    binding = operator.bind(SCHEMA, "t", resolve("memory"))
    binding = binding.reporting(LateSide(SCHEMA, pa.timestamp("us"), 1_000) if late else None)
    packed = pa.Table.from_batches(
        list(Pack(binding, LABELS)(aliased(binding, wide_batches(60, 1_000)))), PACKED
    )
    sent = [row for row in packed.to_pylist() if row["kind"] == ROWS]
    assert late == any(len(row["blob"]) > 1_000 for row in sent)
    assert max(len(row["blob"]) for row in sent) < 4_000
