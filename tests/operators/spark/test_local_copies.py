"""A worker's copy of a bucket is expendable: one that cannot be opened any more is made anew."""

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from operators import TumblingWindows
from operators import aggregates as agg
from operators.spark.processor import drop_copy, open_copy
from state_backends import StateError, resolve
from state_backends.journal import MemoryJournal

TABLE = pa.table({"k": ["a", "b"], "at": pa.array([1, 2], pa.int64())})


def test_a_damaged_copy_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a crash of the machine leaves of RocksDB's files may be anything; the changelog has what counts."""
    config = resolve("rocksdb", {"state.directory": str(tmp_path)})
    op = TumblingWindows(10).group_by("k").aggregate(n=agg.count())
    program, journal = op.program(TABLE.schema, "at", config), MemoryJournal()
    copy = open_copy(program, config, "bucket")
    copy.run([TABLE], (0, 0), journal, copy.open(journal))
    drop_copy(config, "bucket")
    current = next(tmp_path.glob("bucket/*-rocksdb/CURRENT"))
    current.write_text("MANIFEST-of-nothing\n")
    with caplog.at_level(logging.WARNING, "operators"):
        copy = open_copy(program, config, "bucket")
    try:
        done = copy.run([TABLE], (100, 100), journal, copy.open(journal))
    finally:
        drop_copy(config, "bucket")
    assert sorted(done.rows.column("n").to_pylist()) == [1, 1]  # Those of before: the new ones are late.
    assert done.counters.late == 2
    assert "cannot be opened and is made anew" in caplog.text


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Where a file is in the way, nothing is thrown away; the option is named, too."""
    (tmp_path / "here").write_text("a file")
    config = resolve("rocksdb", {"state.directory": str(tmp_path / "here")})
    op = TumblingWindows(10).aggregate(n=agg.count())
    told = f"local state cannot be kept in {tmp_path}/here: .* Set spark.windows.state.directory to a directory that"
    with pytest.raises(StateError, match=told):
        open_copy(op.program(TABLE.schema, "at", config), config, "bucket")
    assert (tmp_path / "here").read_text() == "a file"
