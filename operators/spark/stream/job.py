"""What a bucket does in one call of Spark, in whichever process has its copy."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from operators.runtime.batch_clock import Call, StreamClock
from operators.runtime.binding import Binding
from operators.runtime.metrics import add_metrics
from operators.runtime.stateful import StatefulOperator, rebuilt_once
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.base.forked import end_if_forked
from operators.spark.base.logs import warn_once
from operators.spark.inputs.blobs import BLOB_BYTES
from operators.spark.replicas.calls import Done, Outcome, Request
from operators.spark.replicas.copies import lease_copy, remove_other_copies
from operators.spark.replicas.forget_lookup import Requests
from operators.spark.replicas.held_journal import HeldJournal
from operators.spark.replicas.results import Results
from operators.spark.stream.batch_parts import pieces
from state_backends import StateConfig
from state_backends.checkpoints.savepoint import Savepoint
from state_backends.durability.pointer import Pointer
from state_backends.durability.progress import Progress
from state_backends.journal import Journal

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
        labels: the labels of all buckets, in their order.
        watermark_rule: how close times follow from the watermark.
        savepoint: what a query without a checkpoint starts from.
        requests: to forget keys; None if the query looks for none.
        processes: the number of processes for state of each executor; None for the number of cores of its machine.
    """

    binding: Binding
    config: StateConfig
    labels: tuple[int, ...]
    watermark_rule: WatermarkRule
    savepoint: Savepoint | None = None
    requests: Requests | None = None
    processes: int | None = None

    def bucket(self, label: int) -> int:
        """Return the number of a bucket; 0 for one of a number of buckets that the query had before."""
        return self.labels.index(label) if label in self.labels else 0

    def clock(self, call: Call, progress: Progress) -> StreamClock:
        """Return what time it is in a call of a bucket whose last batch left this progress."""
        return StreamClock(progress, self.watermark_rule, call, self.binding.tick_us)

    def forgets(self, call: Call, pointer: Pointer, batch: int | None) -> bool:
        """Whether a bucket without rows has keys to forget, or has to remove files of a state that had them."""
        forgotten = pointer.progress.forgotten
        if self.requests is not None and self.requests.due(forgotten, call.now_ms):
            return True
        if not forgotten or batch is None:
            return False
        policy = self.config.snapshots
        return any(policy.is_over(one.retired, batch) for one in pointer.retired)

    def run(self, read: Callable[[str], bytes | None], request: Request) -> Done:
        """Work on a bucket with this process's copy.

        Args:
            read: returns a blob of the bucket's journal, or None.
            request: what is to be done.
        """
        journal = HeldJournal(read, self.config.directory)
        outcome = rebuilt_once(lambda again: self._attempt(journal, request, check=again), journal.rollback)
        return Done(journal.changes(), outcome)

    def _attempt(self, journal: Journal, request: Request, *, check: bool) -> Outcome:
        process = os.getpid()
        with lease_copy(self.binding, self.config, request.pointer.store_id) as operator:
            try:
                return self._step(operator, journal, request, check=check)
            finally:
                end_if_forked(process)  # Also before the copy is closed after an error.

    def _step(
        self, operator: StatefulOperator, journal: Journal, request: Request, *, check: bool
    ) -> Outcome:
        process = os.getpid()
        pointer = operator.open(journal, request.pointer, check=check)
        first = []
        if request.begins and self.savepoint is not None:
            number = self.labels.index(request.label)
            first = [*operator.start_from(self.savepoint, number, len(self.labels)).tables()]
        forgotten, keys = self._to_forget(request.call, pointer.progress, request.label)
        if keys:
            operator.forget(keys)
        clock = self.clock(
            request.call, replace(pointer.progress, close_time=operator.engine.state.close_time)
        )
        after = replace(clock.after, buckets=len(self.labels), forgotten=forgotten)
        results = Results(
            self.config,
            self.config.directory / pointer.store_id,
            in_files=request.in_files,
            batch=request.call.attempts_at(request.batch),
        )
        for table in first:
            results.add(table)
        metrics, timer = dict[str, int](), None
        bucket = self.bucket(request.label)
        wide = request.blobs.large and not self.binding.plan.can_be_parted
        for piece in pieces(self.binding, operator.engine, clock.close_times, request.blobs):
            if metrics:  # To the operator, each piece is a batch.
                pointer = operator.open(journal, pointer)
            done = operator.step(piece.close_times, piece.rows, piece.partials, wide=wide)
            # Asked before the commit, while the store knows of this batch's changes.
            timer = None if operator.store.is_empty() else after.timer
            end_if_forked(process)  # Two processes must not write to one copy.
            pointer = operator.commit(journal, pointer, replace(after, timer=timer), request.batch, bucket)
            for table in operator.take_published():
                results.add(table)
            metrics = add_metrics(metrics, operator.drain_metrics(done.counters))
            for table in done.tables(BLOB_BYTES):
                results.add(table)
                request.blobs.unload()
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

    def _to_forget(self, call: Call, progress: Progress, label: int) -> tuple[int, list[bytes]]:
        """The last request that is applied after this call, and the bucket's keys that it and others before it name."""
        if self.requests is None:
            return progress.forgotten, []
        if progress.identity is None and self.savepoint is None:
            # Nothing is stored yet, so that there is nothing to forget.
            return max([0, *(file.number for file in self.requests.due(0, call.now_ms))]), []
        return self.requests.keys(progress.forgotten, call.now_ms, label)
