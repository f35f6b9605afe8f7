"""Files of savepoints: what is alike, large or long comes back as it was; what a file claims is not believed."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from operators import SlidingWindows
from operators import aggregates as agg
from operators.runtime.local import LocalRunner
from serializers import CorruptDataError
from state_backends.checkpoints import entries_file, savepoint
from state_backends.checkpoints.entries_file import read_entries, write_file
from state_backends.checkpoints.savepoint import read_header

COLUMNS = pa.schema([("crc", pa.int64()), ("key", pa.binary()), ("c0", pa.int64()), ("c1", pa.binary())])
EVERY = 0, 2**32


def table(crc: Any, key: Any = b"a key", state: Any = b"a state") -> pa.Table:
    """Rows of these CRC-32s, with the same or other keys and states."""
    rows = len(crc)
    binary = [
        pa.array([one], pa.binary()).take(pa.array(np.zeros(rows, np.int64)))
        if isinstance(one, bytes)
        else pa.array(one, pa.binary())
        for one in (key, state)
    ]
    return pa.table([pa.array(crc), binary[0], pa.array(np.zeros(rows, np.int64)), binary[1]], schema=COLUMNS)


def test_states_that_are_much_alike_are_gone_on_from(tmp_path: Path) -> None:
    """A savepoint whose values take many MiB in memory and few bytes in the file starts a runner."""
    windows = SlidingWindows(size=10, grace=100).group_by("k").aggregate(all=agg.collect_list("v"))
    rows = 40 * 500
    names = [f"key {row % 40}" for row in range(rows)]
    texts = [name + "x" * 4_000 for name in names]
    with windows.local_runner("at") as runner:
        batch = pa.table([pa.array(names), pa.array([7] * rows), pa.array(texts)], ["k", "at", "v"])
        runner.process(batch)
        saved = runner.savepoint(tmp_path)
        expected = runner.process(batch.slice(0, 0), 1_000)
    assert (tmp_path / saved.buckets[0].file).stat().st_size < 2 << 20
    with windows.local_runner("at", options={"state.savepoint": saved.uri}) as moved:
        found = moved.process(batch.slice(0, 0), 1_000)
    assert expected.sort_by("k").equals(found.sort_by("k"))
    assert 40 * 500 == sum(map(len, expected["all"].to_pylist()))


def test_many_rows_that_are_alike_come_back(tmp_path: Path) -> None:
    """In parts of which each has all rows of its keys, in whatever groups they were written."""
    path, rows = tmp_path / "file", 2_500_000
    crc = np.repeat(np.array([5, 7, 2**32 - 1]), [rows - 400_000, 200_000, 200_000])
    write_file(path, COLUMNS, [table(crc[at : at + 300_000]) for at in range(0, rows, 300_000)])
    found = list(read_entries(path, rows, COLUMNS, *EVERY))
    assert 1 < len(found)
    assert [5, 7, 2**32 - 1] == [crc for part in found for crc in part["crc"].unique().to_pylist()]
    assert rows == sum(part.num_rows for part in found)
    (some,) = read_entries(path, rows, COLUMNS, 6, 8)
    assert ({7}, 200_000) == (set(some["crc"].to_pylist()), some.num_rows)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of at most 64 kB of keys, and parts of a few rows."""
    monkeypatch.setattr(savepoint, "_KEY_BYTES", 64_000)
    monkeypatch.setattr(entries_file, "_PART_BYTES", 100_000)
    monkeypatch.setattr(entries_file, "_ROW_GROUP", 7)


@pytest.mark.usefixtures("small_parts")
def test_long_keys_and_states_come_in_parts(tmp_path: Path) -> None:
    """The rows of a runner that starts from many small parts are those of one that goes on; no part is large."""
    rng = random.Random(7)
    windows = SlidingWindows(size=50, grace=500).group_by("k")
    operator = windows.aggregate(n=agg.count(), all=agg.collect_list("v"))
    names = [f"{number} " + "k" * rng.choice([5, 10_000, 70_000]) for number in range(30)]
    rows = [(rng.choice(names), rng.randrange(400), "v" * rng.randrange(900)) for _ in range(400)]
    batch = pa.table(dict(zip(("k", "at", "v"), zip(*rows, strict=True), strict=True)))
    with operator.local_runner("at", options={"state.segment": "60 ms"}) as runner:
        runner.process(batch)
        saved = runner.savepoint(tmp_path)
        expected = runner.process(batch.slice(0, 0), 10_000)
    file = pq.ParquetFile(tmp_path / saved.buckets[0].file)
    groups = [file.read_row_group(number)["key"] for number in range(file.num_row_groups)]
    assert all(sum(map(len, keys.to_pylist())) <= 64_000 or len(keys) == 1 for keys in groups)
    parts = [keys for _, keys, _ in read_header(saved.uri).groups(0, 1)]
    assert 5 < len(parts)
    assert len({name for part in parts for name in part}) == sum(map(len, parts))
    with operator.local_runner("at", options={"state.savepoint": saved.uri}) as moved:
        found = moved.process(batch.slice(0, 0), 10_000)
    assert sorted(map(repr, expected.to_pylist())) == sorted(map(repr, found.to_pylist()))


@pytest.mark.slow
def test_more_than_two_gib_of_keys_come_back(tmp_path: Path) -> None:
    """Each entry of a file repeats its key, also where all together are more than the offsets of a column reach."""
    operator = SlidingWindows(size=10, grace=10_000).group_by("k").aggregate(n=agg.count())
    names = [letter * (1 << 20) for letter in "abc"]
    batches = [pa.table([names * 250, range(at, at + 750)], ["k", "at"]) for at in (0, 750, 1_500)]
    with operator.local_runner("at") as runner:
        for batch in batches:
            runner.process(batch)
        saved = runner.savepoint(tmp_path)
        expected = times(runner)
    assert 2_250 == sum(one.rows for one in saved.buckets)
    with operator.local_runner("at", options={"state.savepoint": saved.uri}) as moved:
        moved.process(batches[0].slice(0, 0))
        assert expected == times(moved)


def times(runner: LocalRunner) -> dict[bytes, list[int]]:
    """Of each key, by its last letter, the times of the entries that a runner stores."""
    found: dict[bytes, list[int]] = {}
    for keys, entries in runner.store.scan():
        for number, key in enumerate(keys):
            found.setdefault(key[-1:], []).extend(entries.time[entries.key == number].tolist())
    return found


def written(path: Path, rows: pa.Table, **options: Any) -> int:
    """Write a file that nobody padded, and return its rows."""
    pq.write_table(rows, path, compression="zstd", **options)
    return rows.num_rows


LONG = bytes(40 << 20)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (table([1] * 5_000_000), {}, "claims to have 5000000 rows"),
        (table([1, 1], LONG), {"use_dictionary": False}, r"claims to have \d+ bytes, and may have \d+"),
        (table([1, 1], LONG), {}, r"claims to have \d+ bytes, and may have \d+"),
        (
            table([1, 1], LONG),
            {"use_dictionary": False, "column_encoding": {"key": "DELTA_BYTE_ARRAY"}},
            "the encoding 7, which no savepoint has",
        ),
        (table([2, 1]), {}, "rows that are not in the order of their keys"),
        (table([1]).drop_columns(["c1"]), {}, "other columns or rows than its header says"),
    ],
    ids=["rows", "pages", "one value", "encoding", "order", "columns"],
)
def test_what_a_file_claims_is_not_believed(
    tmp_path: Path, rows: pa.Table, options: dict[str, Any], message: str
) -> None:
    """Few bytes that would take much memory are refused before they do, whatever the footer says."""
    number = written(tmp_path / "file", rows, **options)
    with pytest.raises(CorruptDataError, match=message):
        list(read_entries(tmp_path / "file", number, COLUMNS, *EVERY))


def varint(value: int) -> bytes:
    """A positive number in Thrift's compact protocol."""
    value, found = 2 * value, b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def test_a_footer_that_tells_of_few_bytes_is_not_believed(tmp_path: Path) -> None:
    """The sizes of pages count, which say what decoding takes."""
    path = tmp_path / "file"
    written(path, table([1], bytes(100 << 20)), use_dictionary=False)
    group = pq.ParquetFile(path).metadata.row_group(0)
    blob = path.read_bytes()
    for size in (group.total_byte_size, group.column(1).total_uncompressed_size):
        honest = varint(size)
        assert honest in blob
        blob = blob.replace(honest, bytes([0x82, *[0x80] * (len(honest) - 2), 0]))
    path.write_bytes(blob)
    assert pq.ParquetFile(path).metadata.row_group(0).total_byte_size < 1_000
    with pytest.raises(CorruptDataError, match="claims to have 10485"):
        list(read_entries(path, 1, COLUMNS, *EVERY))
