"""A bounded run says from time to time how far it is."""

import logging

import pyarrow as pa
import pytest

from operators import SlidingWindows
from operators import aggregates as agg
from operators.spark.batch import bounded
from state_backends import resolve


def test_rows_taken_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """With every batch, if that is how often it is wanted; not at the level that hides it."""
    monkeypatch.setattr(bounded, "_LOG_SECONDS", 0.0)
    table = pa.table({"at": pa.array(range(100), pa.int64()), "order": pa.array(range(100), pa.int64())})
    binding = SlidingWindows(10).aggregate(n=agg.count()).bind(table.schema, "at", resolve())
    for level, lines in (("info", 4), ("warning", 0)):
        caplog.clear()
        run = bounded.BoundedRun(binding, bounded.InputRows(binding), "sums", 1_000, level)
        assert sum(batch.num_rows for batch in run(table.to_batches(max_chunksize=25))) == 110
        assert len(caplog.records) == lines
    with caplog.at_level(logging.INFO, "operators"):
        list(
            bounded.BoundedRun(binding, bounded.InputRows(binding), "sums", 1_000, "info")(table.to_batches())
        )
    assert "operator 'sums', a task: 100 rows in 0 s" in caplog.text
