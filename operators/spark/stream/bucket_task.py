"""A task's work on a bucket: what Spark's calls come to, up to the rows that go back."""

import logging
import os
import pickle
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import ArrayType, BinaryType, LongType, StructField, StructType

from operators.errors import DefinitionError
from operators.runtime.batch_clock import Call
from operators.runtime.evolution import stored_change
from operators.runtime.metrics import line, names
from operators.spark.base.failures import MOVE_STATE, located
from operators.spark.base.logs import log_at
from operators.spark.base.observed import COUNTS
from operators.spark.base.task_context import batch_number, query_of_task, run_id
from operators.spark.base.workers import prepare_worker
from operators.spark.inputs.packing import ARRIVED, read_arrivals
from operators.spark.replicas.calls import Blobs, Functions, Origin, Outcome, Request, in_place
from operators.spark.replicas.parents import parent
from operators.spark.replicas.results import remove_unread, sees_files
from operators.spark.replicas.where_held import run_where_held
from operators.spark.stream.job import Job, gauges
from operators.spark.stream.spark_journal import SparkJournal
from state_backends import StateError
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.progress import Progress

_LOG = logging.getLogger(__name__)


RESULT_TYPES = StructType([StructField(COUNTS, ArrayType(LongType())), StructField("blob", BinaryType())])
"""The columns that a bucket returns: the number of its call and its metrics in the order of `names`, and rows as a blob."""


def check_buckets(progress: Progress, buckets: int) -> None:
    """Refuse another number of buckets than that of the stored state.

    Args:
        progress: the progress of the state's pointer.
        buckets: the number of buckets of the query.

    Raises:
        StateError: with both numbers and the ways out.
    """
    before = progress.buckets
    if before not in (None, buckets):
        raise StateError(
            f"the checkpoint has {before} buckets, but this query has {buckets}: set spark.windows.state.buckets and "
            f"spark.sql.shuffle.partitions back to {before}. Or {MOVE_STATE}"
        )


class BucketTask:
    """What a task of Spark does for the buckets that it is called with.

    Args:
        pickled: the job, as the driver sent it.
        digest: the digest of `pickled`.
        name: the name of the operator.
        handle: the handle that Spark gives the task.
        journal: the journal of the bucket that Spark has chosen at the time.
    """

    def __init__(
        self, pickled: bytes, digest: str, name: str, handle: StatefulProcessorHandle, journal: SparkJournal
    ) -> None:
        self._job: Job = pickle.loads(pickled)  # noqa: S301 - from Spark, as all of the task
        self._pickled, self._digest = pickled, digest
        self._name = name
        self._handle, self._journal = handle, journal
        self._metrics = names(self._job.binding.counts)
        prepare_worker()
        log_at(self._job.config.log_level)

    def take(self, key: Any, rows: Any, times: Any) -> Iterator[pd.DataFrame]:
        """Process a bucket's packed rows."""
        arrivals = list[bytes]()

        def parts() -> Iterator[tuple[int, int, bytes | None]]:
            for frame in rows:
                arrivals.extend(frame["blob"][frame["kind"] == ARRIVED])
                yield from zip(frame["place"], frame["kind"], frame["blob"], strict=True)

        blobs = in_place(parts(), self._job.config.directory)
        call = Call.of(times, max_event_times_us=read_arrivals(arrivals))
        return self._run(label_of(key), blobs, call)

    def wake(self, key: Any, times: Any, fired: int) -> Iterator[pd.DataFrame]:
        """Close a bucket's windows, since its timer of this time, in milliseconds, has fired."""
        return self._run(label_of(key), Blobs(), Call.of(times, fired=fired))

    def _run(self, label: int, blobs: Blobs, call: Call) -> Iterator[pd.DataFrame]:
        labels, batch = self._job.labels, batch_number()
        # With another number of buckets, a timer may belong to a bucket that no longer exists.
        bucket = f"bucket {labels.index(label)} of {len(labels)}" if label in labels else "an old bucket"
        with located(f"operator {self._name!r}, {bucket}, batch {batch}"):
            yield from self._batch(label, batch, blobs, call)

    def _batch(self, label: int, batch: int | None, blobs: Blobs, call: Call) -> Iterator[pd.DataFrame]:
        if call.watermark_ms < 0:
            raise DefinitionError(
                "the frame is bounded, but apply was told that it is a stream: give streaming=False"
            )
        job, stored = self._job, read_pointer(self._journal)
        pointer = stored or Pointer.fresh()
        check_buckets(pointer.progress, len(job.labels))
        # The bucket of label 0, which exists with any number of buckets, starts with the first batch: its pointer shows
        # queries with other buckets, or with another operator, that they cannot go on from here.
        begins = stored is None and (job.savepoint is not None or label == 0)
        if job.requests is not None:
            state = query_of_task()
            if label == 0:
                job.requests.announce(state)
            job.requests.note(pointer.progress.forgotten, call.now_ms, label, state)
        clock = job.clock(call, pointer.progress)
        due = clock.is_due or job.forgets(call, pointer, batch)
        if not (blobs or begins or due) and self._fits(pointer):
            # A timer that a later one has replaced, or a call that only starts or checks the bucket.
            remove_unread(job.config.directory / pointer.store_id, call.attempts_at(batch))
            if clock.reports_gauges_only:
                yield from self._results(Outcome((), gauges(pointer), None), _number(label, call))
            return
        in_files = sees_files(job.config.directory, parent())
        request = Request(pointer, label, batch, call, blobs, begins, in_files)
        functions = Functions(Origin(run_id(), self._digest), job.config.log_level, self._pickled)
        number = job.bucket(label) % (job.processes or os.cpu_count() or 1)
        outcome = run_where_held(job, functions, self._journal, request, number)
        self._set_timer(outcome.timer, pointer.progress.timer, call.fired)
        _LOG.info(
            "operator=%s bucket=%d batch=%s %s",
            self._name,
            job.bucket(label),
            batch,
            line(outcome.metrics),
        )
        yield from self._results(outcome, _number(label, call))

    def _fits(self, pointer: Pointer) -> bool:
        """Whether the stored state says all that this operator records, in its form; otherwise the bucket has to be opened.

        Tasks call all buckets in each batch, so that all have the same states after a run's first one, as `common_form` needs
        them. Which batch is a run's first one no task knows for sure: one that runs again may be in a new process.

        Raises:
            StateError: the state belongs to another operator, or the policy forbids to change it.
        """
        binding, progress = self._job.binding, pointer.progress
        return stored_change(binding, progress, self._job.config.evolution) is None

    def _results(self, outcome: Outcome, number: int) -> Iterator[pd.DataFrame]:
        """Yield the result blobs; the first one has the metrics, and the number of the call."""
        counts: list[int] | None = [number, *(outcome.metrics.get(name, 0) for name in self._metrics)]
        for blob in outcome.blobs or (None,):
            yield pd.DataFrame({COUNTS: [counts], "blob": [blob]})
            counts = None

    def _set_timer(self, timer: int | None, before: int | None, fired: int | None) -> None:
        """Have the next move of the watermark call this bucket as long as it has state."""
        if before is not None and before not in (timer, fired):
            self._handle.deleteTimer(before)
        if timer is not None and (timer != before or fired is not None):
            self._handle.registerTimer(timer)


def _number(label: int, call: Call) -> int:
    """A number above 0 of a bucket's call in a batch: one for its rows, one for its timer."""
    return 2 * (label + 2**31) + 1 + (call.fired is not None)


def label_of(key: Any) -> int:
    """Return the bucket of a call. PySpark 4.0 passes it as an integer of NumPy, which no message can hold."""
    return int(key[0])
