"""Which windows a bucket closes: by the watermark, and by what the tasks of a batch tell."""

from pathlib import Path

import pyarrow as pa
import pytest

from operators import TumblingWindows, WindowedAggregation
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.stateful import StatefulOperator
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.inputs.blobs import from_blobs, to_blobs
from operators.spark.replicas.calls import Blobs, Outcome, Request
from operators.spark.replicas.copies import drop_copy
from operators.spark.stream.job import Job
from state_backends import resolve
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.journal import MemoryJournal

COUNT = TumblingWindows(10).group_by("k").aggregate(n=agg.count())
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("ms", "UTC"))])


class Bucket:
    """One bucket of windows of 10 ms."""

    def __init__(self, folder: Path, closing: WatermarkRule, op: WindowedAggregation = COUNT) -> None:
        config = resolve("memory", {"state.directory": str(folder)})
        self.job = Job(op.bind(SCHEMA, "at", config), config, (0,), closing)
        self.journal, self.number = MemoryJournal(), -1

    def call(self, watermark: int, times: list[int], *told: int | None) -> tuple[list[int], Outcome | None]:
        """The starts of the windows that a batch with these records emits; no outcome if there is nothing to do."""
        highest = [None if time is None else time * 1_000 for time in told]
        outcome = self.take(watermark, pa.table({"k": ["a"] * len(times), "at": times}, SCHEMA), *highest)
        if outcome is None:
            return [], None
        rows = [row for table in from_blobs(outcome.blobs) for row in table.to_pylist()]
        return sorted(round(row["window"]["start"].timestamp() * 1_000) for row in rows), outcome

    def take(self, watermark: int, table: pa.Table, *highest: int | None) -> Outcome | None:
        """What comes of a batch; None if there is nothing to do."""
        self.number += 1
        pointer = read_pointer(self.journal) or Pointer.fresh()
        call = Call(watermark, self.number, max_event_times_us=highest)
        table = table.rename_columns(list(self.job.binding.inputs.names))
        blobs = Blobs([*to_blobs(table)] if table.num_rows else [])
        if not blobs and not self.job.clock(call, pointer.progress).is_due:
            return None
        outcome = self.job.run(self.journal.get, Request(pointer, 0, self.number, call, blobs)).write_to(
            self.journal
        )
        self.journal.commit()
        return outcome

    def close(self) -> None:
        """Close the copy."""
        pointer = read_pointer(self.journal)
        assert pointer is not None
        drop_copy(self.job.config, pointer.store_id)


def test_a_bucket_closes_with_what_the_tasks_tell(tmp_path: Path) -> None:
    """Also without records of its own; the batch with the watermark that was told already has nothing to do."""
    bucket = Bucket(tmp_path, WatermarkRule(delays_us=(("", 1_000),)))
    emitted, outcome = bucket.call(0, [5, 25], 25)
    assert outcome is not None
    assert ([0], 25) == (emitted, outcome.timer)
    assert ([], None) == bucket.call(24, [])
    assert [20] == bucket.call(24, [], 47)[0]
    bucket.close()


def test_another_input_of_the_query_holds_the_watermark(tmp_path: Path) -> None:
    """Then it alone closes windows, until it has come as far as what was told before."""
    bucket = Bucket(tmp_path, WatermarkRule(delays_us=(("", 1_000),)))
    assert [0] == bucket.call(0, [5, 25], 25)[0]
    emitted, outcome = bucket.call(7, [31, 55], 55)
    assert outcome is not None
    assert ([], 25) == (emitted, outcome.timer), "and the timer waits for it"
    assert [] == bucket.call(12, [56], 56)[0]
    assert [20] == bucket.call(30, [57], 35)[0]
    assert [30] == bucket.call(34, [58], 58)[0]
    bucket.close()


def test_the_slowest_of_several_inputs_counts(tmp_path: Path) -> None:
    """Each input's highest time is kept, also where a batch has records of one of them only."""
    bucket = Bucket(tmp_path, WatermarkRule(delays_us=(("left", 1_000), ("right", 3_000))))
    assert [] == bucket.call(0, [5, 25], 25, None)[0]
    assert [] == bucket.call(0, [], None, 11)[0]
    assert [0] == bucket.call(8, [], None, 14)[0]
    assert [] == bucket.call(11, [], 90, None)[0]
    assert [20] == bucket.call(11, [26], None, 33)[0]
    bucket.close()


def test_without_delays_the_watermark_alone_counts(tmp_path: Path) -> None:
    """Of an operator that reads the rows of another one, and of united streams with watermarks of their own."""
    bucket = Bucket(tmp_path, WatermarkRule())
    assert [] == bucket.call(0, [5, 25], 25)[0]
    assert [0] == bucket.call(24, [26], 95)[0]
    bucket.close()


def test_close_times_of_a_stream_are_whole_milliseconds(tmp_path: Path) -> None:
    """Also with ticks of a microsecond: records of the last millisecond still count, which are late for a local runner."""
    op = TumblingWindows("100 us", tick="1 us").group_by("k").aggregate(n=agg.count())
    bucket = Bucket(tmp_path, WatermarkRule(delays_us=(("", 1_000),)), op)
    batches = [5_750], [4_950, 5_050, 5_850]
    told, watermark = [], 0
    with op.local_runner("at", "memory") as runner:
        for times in batches:
            table = pa.table({"k": ["a"] * len(times), "at": pa.array(times, pa.timestamp("us", "UTC"))})
            runner.process(table)
            outcome = bucket.take(watermark, table, max(times))
            assert outcome is not None
            told.append((outcome.metrics["late"], runner.counters.late))
            watermark = max(times) // 1_000 - 1
    assert [(0, 0), (1, 2)] == told
    bucket.close()


def test_what_a_bucket_without_state_writes_for_the_clock(tmp_path: Path) -> None:
    """Its pointer with each batch, of heartbeats, too, and nothing that adds up."""
    rule = WatermarkRule(delays_us=(("", 1_000),), idle_ms=30, open_us=1_000)
    bucket, sizes = Bucket(tmp_path, rule), []
    for number in range(1, 60):
        told = [] if number > 40 else [number + 1]
        if number == 41:
            bucket.number += 100
        assert bucket.call(min(number, 40), [], *told)[1] is not None
        sizes.append({name: len(blob) for name, blob in bucket.journal._blobs.items()})
    assert [{"pointer"}] * len(sizes) == [{*one} for one in sizes]
    assert max(one["pointer"] for one in sizes) < 1_000
    bucket.close()


@pytest.mark.parametrize("begun", [True, False], ids=["after a record", "before the first record"])
def test_what_the_clock_makes_late_does_not_depend_on_the_bucket(tmp_path: Path, begun: bool) -> None:
    """A bucket without state follows the clock as one with state does: a key can be in either."""
    rule = WatermarkRule(delays_us=(("", 1_000),), idle_ms=30, open_us=1_000)
    told = [5] if begun else []
    buckets = [Bucket(tmp_path / name, rule) for name in ("busy", "empty")]
    for bucket, times in zip(buckets, (told, []), strict=True):
        bucket.call(0, times, *told)
        bucket.number = 99
        assert [0] * len(times) == bucket.call(0, [])[0]
        _, outcome = bucket.call(0, [20, 75], 75)
        assert outcome is not None
        assert (1, 1) == (outcome.metrics["late"], outcome.metrics["live_panes"]), (
            "the clock has closed up to 70"
        )
        bucket.close()


def test_what_is_due_by_a_savepoint_has_the_column_of_late_records(tmp_path: Path) -> None:
    """As all that comes out of an operator that reports them."""
    op = TumblingWindows(10).group_by("k").aggregate(n=agg.count())
    with op.local_runner("at", late=True) as runner:
        runner.process(pa.table({"k": ["a"], "at": [1]}, SCHEMA))
        savepoint = runner.savepoint(tmp_path / "saved")
        assert runner._binding is not None
        binding = runner._binding
    operator = StatefulOperator(binding, resolve("memory"), tmp_path / "copy")
    assert [binding.rows] == [table.schema for table in operator.start_from(savepoint, 0, 1).tables()]
    assert binding.rows != binding.output.arrow
    operator.close()
