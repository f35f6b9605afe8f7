"""State of a bounded frame, without Spark: whoever starts from it goes on as one long stream does."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators.runtime.binding import Binding
from operators.spark.batch.bounded import BoundedRun
from operators.spark.state.bootstrap import PAGES, OpenPages, WritePages
from state_backends import resolve
from state_backends.checkpoints.labels import partition_labels
from state_backends.checkpoints.saved_files import SavedFile
from state_backends.checkpoints.savepoint import write_header
from state_backends.durability.folders import Folder
from tests.effort import examples, few
from tests.operators.spark.bounded_frames import FAR, IN_ORDER, RESULTS, SCHEMA, Frame, InOrder, frames, plain

BACKENDS = ("memory", "rocksdb", "spark")
KINDS: dict[str, Any] = {
    "sliding": SlidingWindows("3 ms", grace="2 ms"),
    "sliding by microseconds": SlidingWindows("700 us", grace="300 us", tick="1 us"),
    "hopping": HoppingWindows("6 ms", "4 ms", grace="1 ms", offset="1 ms"),
    "hopping by microseconds": HoppingWindows("300 us", "200 us", grace="100 us", tick="1 us"),
    "tumbling": TumblingWindows("4 ms", grace="3 ms"),
    "session": SessionWindows("2 ms", grace="2 ms"),
    "session of gaps": SessionWindows(gap_column="gap", grace="1 ms"),
    "session up to a length": SessionWindows("2 ms", max_length="3 ms", grace="1 ms"),
}
LOOKBACKS = {"short": "1 ms", "long": "5 ms", "ever": "lifetime"}
ROLLING = RollingWindows(LOOKBACKS, grace="2 ms").group_by("k")
BESIDE = {name: one for name, one in RESULTS.items() if name != "values"}
OPERATORS = {
    **{f"{kind}, {policy}": windows.group_by("k").aggregate(**RESULTS).emit(policy)
       for kind, windows in KINDS.items() for policy in ("on_close", "on_update")},
    **{f"{kind}, fold": KINDS[kind].group_by("k").aggregate(values=IN_ORDER)
       for kind in ("sliding by microseconds", "hopping by microseconds")},
    "rolling, on_close": ROLLING.aggregate(**BESIDE),
    "rolling, on_arrival": ROLLING.aggregate(**BESIDE).emit("on_arrival"),
    "keyed": InOrder(tick="1 us").group_by("k"),
}  # fmt: skip


def parts(table: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches(max_chunksize=size))


def saved(frame: Frame, binding: Binding, close: int, files: int, folder: Path) -> None:
    """What the two halves of a bootstrap write, with Spark's sort between them done here."""
    rows, source = frame.ordered(binding)
    labels = tuple(partition_labels(files))
    run = OpenPages(binding, source, "windows", frame.step, close_time=close, labels=labels)
    entries = pa.Table.from_batches(run(parts(rows, frame.batch)), PAGES)
    order = [(name, "ascending") for name in ("label", "crc")]
    written = list(
        WritePages(str(folder), labels, binding.plan.layout, close)(
            parts(entries.sort_by(order), frame.batch)
        )
    )
    files_ = [SavedFile(**row) for batch in written for row in batch.to_pylist()]
    origin = {"stream_time": close + binding.grace, "sequence": 1}
    write_header(Folder(str(folder)), binding.identity(), binding.stored_schema(), close, files_, origin)


@pytest.mark.slow
@pytest.mark.parametrize("name", few(OPERATORS, 4))
@given(frame=frames(), data=st.data())
@examples(0.5)
def test_a_stream_goes_on_from_a_frame(name: str, frame: Frame, data: st.DataObject) -> None:
    """Cut anywhere, closed at any time: the final rows of the frame, then batch by batch those of one long stream."""
    op, config = OPERATORS[name], resolve("memory")
    binding = op.bind(SCHEMA, "t", config)
    cuts = sorted(data.draw(st.lists(st.integers(1, len(frame.rows)), min_size=3, max_size=3)))
    first, *rest = [
        replace(frame, rows=frame.rows[a:b]) for a, b in zip([0, *cuts], [*cuts, None], strict=True)
    ]
    micros = data.draw(st.integers(-1_000, 60_000), "close time")
    close, files = micros // binding.tick_us, data.draw(st.integers(1, 4))
    with TemporaryDirectory() as folder, op.local_runner("t") as long:
        at_first = long.process(first.table, stream_time=close + binding.grace)
        if op.final:
            plan = op.bounded().bind(SCHEMA, "t", config).plan
            rows, source = first.ordered(binding)
            run = BoundedRun(replace(binding, plan=plan), source, "windows", frame.step, close_time=close)
            final = pa.Table.from_batches(run(parts(rows, frame.batch)), binding.rows)
            assert plain(at_first) == plain(final)
        saved(first, binding, close, files, Path(folder))
        options = {
            "state.savepoint": folder,
            "state.segment": data.draw(st.sampled_from(["7 ms", "1 minute"])),
        }
        with op.local_runner("t", data.draw(st.sampled_from(BACKENDS)), options=options) as runner:
            for batch in [*(each.table for each in rest), SCHEMA.empty_table()]:
                time = data.draw(st.integers(-1_000, 60_000), "stream time") if len(batch) else FAR
                assert plain(long.process(batch, time)) == plain(runner.process(batch, time))
            assert long.counters.late == runner.counters.late
