"""What a bucket does in one call of Spark, in whichever process has its copy."""

import logging
from dataclasses import dataclass

import pyarrow as pa

from operators.runtime.binding import Binding
from operators.runtime.metrics import add_metrics
from operators.runtime.stateful import StatefulOperator, rebuilt_once
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.base.logs import warn_once
from operators.spark.base.user_code_lock import in_turn
from operators.spark.inputs import blobs as sizes
from operators.spark.inputs.blobs import from_blobs
from operators.spark.replicas.batch_parts import Part, can_be_parted, in_parts, in_stages
from operators.spark.replicas.calls import Call, Outcome, Request
from operators.spark.replicas.copies import lease_copy, remove_other_copies
from operators.spark.replicas.forget_lookup import Requests
from operators.spark.replicas.results import Results
from state_backends import StateConfig
from state_backends.checkpoints.savepoint import Savepoint
from state_backends.durability.pointer import Pointer
from state_backends.durability.progress import FAR_PAST, Progress
from state_backends.journal import HeldJournal, Journal

LARGE_IN_SPARK = 100_000_000
"""State of a bucket in bytes from which on it should have a snapshot folder."""
_NO_FOLDER = (
    "bucket %d has %d MB of state, and there is no snapshot folder: from time to time all of it is written into Spark's state "
    "store, within a batch, which suits about 100 MB. Set state.snapshots.folder to a folder that all workers can reach"
)
_LOG = logging.getLogger(__name__)


def gauges(pointer: Pointer) -> dict[str, int]:
    """Return the metrics of a bucket that does not work in a batch: how much it holds since the last one in which it did."""
    usage = pointer.progress.usage or []
    size = sum(bytes_ for _, _, _, bytes_, *_ in usage)
    panes = sum(entries for _, _, entries, *_ in usage)
    overdue = int(pointer.failures > 0)
    held = {"live_keys": pointer.progress.keys, "live_panes": panes, "state_bytes": size}
    held["since_ms"] = pointer.progress.since_ms
    return {**held, "max_bucket_bytes": size, "snapshots_overdue": overdue}


@dataclass(frozen=True)
class Job:
    """What is the same in all calls of an operator's buckets in a run of a query.

    Attributes:
        binding: what is run.
        config: the backend.
        labels: of all buckets, in their order.
        watermark_rule: how close times follow from the watermark.
        savepoint: what a query without a checkpoint starts from.
        requests: to forget keys; None if the query looks for none.
    """

    binding: Binding
    config: StateConfig
    labels: tuple[int, ...]
    watermark_rule: WatermarkRule
    savepoint: Savepoint | None = None
    requests: Requests | None = None

    def forgets(self, call: Call, pointer: Pointer, batch: int | None) -> bool:
        """Whether a bucket without rows has keys to forget, or has to remove files of a state that had them."""
        forgotten = pointer.progress.forgotten
        if self.requests is not None and self.requests.due(forgotten, call.now_ms):
            return True
        if not forgotten or batch is None:
            return False
        policy = self.config.snapshots
        return any(policy.is_over(one.retired, batch) for one in pointer.retired)

    def is_due(self, call: Call, progress: Progress) -> bool:
        """Whether a bucket without rows has work to do."""
        if call.fired is not None:
            return call.fired == progress.timer
        if self.watermark_rule.chained:  # To know the close time of the batch before in the next one.
            return True
        if self.watermark_rule.idle_ms is not None:
            # Without state, too: what the clock has closed is late in all buckets.
            if call.arrived or progress.last_active_ms is None:
                return True
        elif progress.timer is None:  # It has no state.
            return False
        elif call.arrived and self._inputs(call, progress) != progress.inputs:
            return True
        return self._close_times(call, progress, progress.close_time)[1] > progress.close_time

    @staticmethod
    def rests(call: Call, progress: Progress) -> bool:
        """Whether a bucket that has nothing to do now has state, and will not work in this batch."""
        return call.fired is None and progress.timer is not None and progress.timer > call.watermark_ms

    def run(self, journal: Journal, request: Request) -> Outcome:
        """Work on a bucket with this process's copy, when no other bucket is worked on in this process.

        Args:
            journal: of the bucket; it is written and committed.
            request: what is to be done.
        """
        held = HeldJournal(journal)
        with in_turn():
            outcome = rebuilt_once(lambda: self._attempt(held, request), held.rollback)
        held.pass_on()
        return outcome

    def _attempt(self, journal: Journal, request: Request) -> Outcome:
        with lease_copy(self.binding, self.config, request.pointer.store_id) as operator:
            return self._step(operator, journal, request)

    def _step(self, operator: StatefulOperator, journal: Journal, request: Request) -> Outcome:
        call = request.call
        pointer = operator.open(journal, request.pointer)
        first = self._begin_with_savepoint(operator, request.label) if request.begins else []
        forgotten, keys = self._to_forget(call, pointer.progress, request.label)
        if keys:
            operator.forget(keys)
        close_times = self._close_times(call, pointer.progress, operator.engine.state.close_time)
        last_active_ms = self._last_active_ms(call, pointer.progress)
        next_watermark = self._next_watermark(call, pointer.progress)
        inputs = self._inputs(call, pointer.progress)
        behind = None if self.watermark_rule.chained else self.watermark_rule.behind_us
        blobs, metrics = request.blobs, dict[str, int]()
        whole = Part(close_times, from_blobs(blobs.rows), from_blobs(blobs.partials))
        bucket_dir = self.config.directory / pointer.store_id
        attempts = call.attempts_at(request.batch)
        results = Results(self.config, bucket_dir, in_files=request.in_files, batch=attempts)
        for table in first:
            results.add(self.binding.with_late_rows(table, None))
        wide = blobs.large and not can_be_parted(self.binding)
        parts = in_parts(self.binding, whole) if blobs.large and not wide else iter([whole])
        timer = None
        for part in parts:
            for stage in in_stages(operator.engine, part):
                if metrics:  # To the operator, each part is a batch.
                    pointer = operator.open(journal, pointer)
                rows = stage.rows or ([] if stage.partials else [self.binding.inputs.empty()])
                if wide:
                    tables, counters = operator.step_wide(
                        stage.close_times, rows, stage.partials, sizes.BLOB_BYTES
                    )
                else:
                    done = operator.step(stage.close_times, rows, stage.partials)
                    tables, counters = (
                        iter([self.binding.with_late_rows(done.rows, done.late)]),
                        done.counters,
                    )
                # Asked before the commit, while the store knows of this batch's changes.
                timer = None if operator.store.is_empty() else next_watermark + 1
                host = Progress(
                    buckets=len(self.labels),
                    timer=timer,
                    last_active_ms=last_active_ms,
                    behind=behind,
                    forgotten=forgotten,
                    inputs=inputs,
                )
                pointer = operator.commit(journal, pointer, host, request.batch)
                metrics = add_metrics(metrics, operator.drain_metrics(counters))
                for table in tables:
                    results.add(table)
                    blobs.unload()
        metrics["windows"] += sum(table.num_rows for table in first)
        if keys:
            remove_other_copies(self.config, pointer.store_id)
        self._warn_if_large(operator, request.label)
        return Outcome(results.blobs, metrics, timer)

    def _warn_if_large(self, operator: StatefulOperator, label: int) -> None:
        """Say where the state is, if it goes as a whole into Spark's state store from time to time, and is large for that."""
        size = operator.store.usage.size
        if size > LARGE_IN_SPARK and self.config.snapshots.folder is None and not operator.backend.resident:
            bucket = self.labels.index(label) if label in self.labels else label
            warn_once(_LOG, _NO_FOLDER, bucket, size // 10**6)

    def _begin_with_savepoint(self, operator: StatefulOperator, label: int) -> list[pa.Table]:
        """Start from the savepoint, if there is one; return the rows that become due."""
        if self.savepoint is None:
            return []
        return [operator.start_from(self.savepoint, self.labels.index(label), len(self.labels))]

    def _to_forget(self, call: Call, progress: Progress, label: int) -> tuple[int, list[bytes]]:
        """The last request that is applied after this call, and the bucket's keys that it and others before it name."""
        if self.requests is None:
            return progress.forgotten, []
        if progress.identity is None and self.savepoint is None:
            # Nothing is stored yet, so that there is nothing to forget.
            return max([0, *(file.number for file in self.requests.due(0, call.now_ms))]), []
        return self.requests.keys(progress.forgotten, call.now_ms, label)

    def _close_times(self, call: Call, progress: Progress, close_time: int) -> tuple[int, int]:
        """Close times in ticks at the start and at the end of the batch; they never go back behind that of earlier ones."""
        start, end = self.watermark_rule.close_times(
            call.watermark_ms, self.binding.tick_us, self._max_event_times_us(call, progress)
        )
        start = max(start, close_time)
        return start, max(start, end, self._by_clock(call, progress))

    def _max_event_times_us(self, call: Call, progress: Progress) -> dict[str, int]:
        """The highest event time of each input with this batch, in microseconds, by name, as far as it is known.

        None as long as the watermark is behind what earlier batches told, because another input of the query holds it, which
        this operator does not read: then the watermark alone says what is late and what is closed, in all buckets alike.
        """
        expected = 0 if progress.timer is None else progress.timer - 1
        if not self.watermark_rule.chained and call.watermark_ms < expected:
            return {}
        return self.watermark_rule.max_event_times_us(
            call.max_event_times_us, progress.inputs, self.binding.tick_us
        )

    def _next_watermark(self, call: Call, progress: Progress) -> int:
        """The watermark of the next batch in milliseconds, as far as it is known; never before what was told already."""
        told = self.watermark_rule.next_watermark_ms(
            call.watermark_ms, self._max_event_times_us(call, progress)
        )
        return max(told, 0 if progress.timer is None else progress.timer - 1)

    def _inputs(self, call: Call, progress: Progress) -> dict[str, int] | None:
        """The same of several inputs, in ticks: only the watermark of the slowest one will be known in the next batch."""
        if len(self.watermark_rule.delays_us) < 2:
            return None
        known = self.watermark_rule.max_event_times_us(
            call.max_event_times_us, progress.inputs, self.binding.tick_us
        )
        return {name: time // self.binding.tick_us for name, time in known.items()}

    def _by_clock(self, call: Call, progress: Progress) -> int:
        """The close time that follows from the clock, if the stream is quiet."""
        last_active_ms = self._last_active_ms(call, progress)
        if last_active_ms is None:
            return FAR_PAST
        return self.watermark_rule.by_clock(call.now_ms, last_active_ms, self.binding.tick_us)

    def _last_active_ms(self, call: Call, progress: Progress) -> int | None:
        """The clock of the last batch with records; that of the first one that the bucket worked in, if there was none."""
        if self.watermark_rule.idle_ms is None:
            return None
        return call.now_ms if call.arrived or progress.last_active_ms is None else progress.last_active_ms
