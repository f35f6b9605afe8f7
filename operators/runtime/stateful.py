"""One operator over one durable store: what the local runner and each bucket of a streaming query run."""

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from operators.runtime.batch_runner import BatchRunner, read_batch
from operators.runtime.binding import Binding
from operators.runtime.clock_changes import check_clock_changes
from operators.runtime.evolution import StateConversion, conversion_for
from operators.runtime.freed_memory import keep_freed_memory
from operators.runtime.metrics import counted
from operators.runtime.page_rows import changed_pages, check_published
from operators.runtime.processed import Processed
from operators.runtime.restarts import convert_partials, effective_binding
from operators.runtime.savepoint_shares import load_share
from operators.runtime.since import with_begun
from operators.steps.partials import Partials
from operators.steps.plan import Engine
from operators.steps.step import Counters, FailedCall
from state_backends import StateConfig, StateError, WindowStore
from state_backends.checkpoints.savepoint import Savepoint
from state_backends.durability.durable import Alignment, Durable
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.progress import Progress
from state_backends.errors import DamagedCopyError
from state_backends.interface import WriteBatch
from state_backends.journal import Journal
from state_backends.store.schema import StoredSchema

Stored = tuple[dict[str, Any] | None, StoredSchema | None]
"""What a state depends on, and what its entries are; None for a state that was never written."""
_DAMAGED_AGAIN = (
    "a local copy was damaged again right after it was rebuilt: {}. No row is lost, and the query goes on from this batch: "
    "replace the disk, or set spark.windows.state.directory to a directory on another one, then start it again"
)
_LOG = logging.getLogger(__name__)
Result = TypeVar("Result")


def rebuilt_once(attempt: Callable[[bool], Result], undo: Callable[[], None]) -> Result:
    """Return what an attempt returns; if the local copy cannot be read, that of a second one, with a new copy.

    Args:
        attempt: discards the copy on a DamagedCopyError. It is given whether it is the second one: then a snapshot is read
            whole before it is used, since the new copy may have been made of a damaged one. An older one takes its place.
        undo: undoes what the first attempt wrote to the journal.

    Raises:
        StateError: the second copy cannot be read, either.
    """
    try:
        return attempt(False)
    except DamagedCopyError as error:
        _LOG.warning("the worker deletes a damaged local copy and begins the batch again: %s", error)
    undo()
    try:
        return attempt(True)
    except DamagedCopyError as error:
        raise StateError(_DAMAGED_AGAIN.format(error)) from error


class StatefulOperator:
    """An operator over a durable store: a backend in its own directory, and the version of the state that it holds.

    Args:
        binding: the binding of the operator.
        config: the configuration of the state.
        directory: the backend's directory.

    Attributes:
        binding: the one given last: batches are read by it. What runs is `effective_binding` of it and the stored state.
        store: the window store over the backend.
        engine: over the store.
    """

    def __init__(self, binding: Binding, config: StateConfig, directory: Path) -> None:
        keep_freed_memory()
        self.binding = binding
        self.backend = config.open(directory)
        self._directory = directory
        scratch = directory.with_name(f"{directory.name}-snapshots")
        self._durable = Durable(self.backend, config.backend, scratch, config.snapshots)
        self._build(binding)
        self._adopted_by: Binding | None = None
        # No state has it: the first one is adopted, if only as one that was never written.
        self._own: Stored = {}, None
        self._evolution = config.evolution
        self._sequence = 0
        self.since: dict[str, int] = {}
        """Since when states that were added later count all records, in ticks, by name."""
        self._failed_at_start: list[FailedCall] = []
        self._forgets = False
        self._restoring = self._stepping = self._committing = 0.0
        self._published: pa.Table | None = None

    @classmethod
    def open_copy(
        cls, binding: Binding, config: StateConfig, directory: Path, *lost: type[Exception]
    ) -> "StatefulOperator":
        """Open a local copy. After one of these errors it is deleted: the changelog has all that it had."""
        try:
            return cls(binding, config, directory)
        except lost as error:
            if not directory.exists():
                raise
            _LOG.warning("the worker cannot open a local copy, and rebuilds it from the changelog: %s", error)
            shutil.rmtree(directory, ignore_errors=True)
            return cls(binding, config, directory)

    def _build(self, effective: Binding) -> None:
        """Make store and engine of a binding."""
        self.store: WindowStore = effective.store(self.backend)
        self.engine: Engine = effective.plan.engine(self.store)
        self._runner = BatchRunner(effective, self.engine)
        self._ready = False

    def _adopt(
        self, identity: dict[str, Any] | None, schema: StoredSchema | None, *, moved: bool = False
    ) -> StateConversion | None:
        """Go on with a stored state, and return how it has to be converted; None if it fits as it is.

        What the last commit wrote is the operator's own: it is adopted once, until another binding or another state comes.

        Raises:
            StateError: as `conversion_for`.
        """
        if (identity, schema) == self._own:
            if self._adopted_by is not self.binding:
                self._use_binding(identity, moved=moved)
            return None
        self._use_binding(identity, moved=moved)
        effective = self._runner.binding
        own = effective.identity()
        self._own = own, effective.stored_schema()
        if identity is None:
            return None
        return conversion_for(effective, own, identity, schema, self._evolution, moved=moved)

    def _use_binding(self, stored_identity: dict[str, Any] | None, *, moved: bool) -> None:
        """Use the binding as it goes on with a stored state, over the engine that there is if its plan is the same."""
        self._adopted_by = self.binding
        effective, before = self.binding, self._runner.binding
        if stored_identity is not None:
            effective = effective_binding(self.binding, stored_identity, moved=moved)
        if (effective.plan, effective.segment) != (before.plan, before.segment):
            self._build(effective)
        self._runner = BatchRunner(effective, self.engine)

    def try_update_binding(self, binding: Binding) -> bool:
        """Switch to this binding if it works on the same state in the same way; return whether it does.

        Functions that Spark sends again with each batch are never equal, so results are always made by the binding given last.
        """
        same = binding.shares_state_with(self.binding)
        if same:
            self.binding = binding
        return same

    def open(self, journal: Journal, pointer: Pointer | None = None, *, check: bool = False) -> Pointer:
        """Bring the local copy to the version that the journal points to, and return the pointer.

        Args:
            journal: the journal of the state.
            pointer: that of the journal, if it was read.
            check: as for `Durable.align`.

        Raises:
            StateError: the state belongs to another operator, or cannot be restored.
        """
        began = time.perf_counter()
        pointer = pointer or read_pointer(journal) or Pointer.fresh()
        progress = pointer.progress
        self._sequence, self._forgets = progress.sequence, False
        change = self._adopt(progress.identity, progress.schema)
        done = self._durable.align(journal, pointer, check=check)
        if change is not None:
            done = self._rewrite(journal, done.pointer, change)
        self._refresh(done, progress, rewritten=change is not None)
        self._note_since(progress.since, change, progress.close_time)
        self._restoring += time.perf_counter() - began
        return done.pointer

    def _note_since(
        self, since: dict[str, int] | None, change: StateConversion | None, close_time: int
    ) -> None:
        """Note since when parts of the state count all records, for metrics and for rows that say it."""
        binding = self._runner.binding
        self.since = with_begun(since or {}, change, binding, self.store, close_time)
        self._runner = BatchRunner(binding.counting_since(self.since), self.engine)

    def _rewrite(self, journal: Journal, pointer: Pointer, change: StateConversion) -> Alignment:
        """Write the whole state in the form that this operator has it in."""
        pointer = self._durable.rewrite(journal, pointer, change.pages)
        columns = ", ".join(name for name, _ in self._runner.binding.plan.head)
        _LOG.info("state %s was rewritten: before the states, entries have %s", pointer.store_id, columns)
        if change.waiting.told:
            _LOG.warning("state %s was rewritten: %s", pointer.store_id, "; ".join(change.waiting.told))
        return Alignment(pointer, current=False)

    def _refresh(self, done: Alignment, progress: Progress, *, rewritten: bool) -> None:
        """Make what is in memory anew from the pages, unless it is right: what the store knows of pages, timers, sums.

        It is right as long as nobody else writes: not for a copy just opened, for one that lacked batches, for one that an
        error left half done, and for one that is ahead of what was committed, because the batch failed elsewhere.
        """
        state = self.engine.state
        if self._ready and done.current and state.close_time <= progress.close_time:
            # Batches without changes, elsewhere, have no version of their own.
            state.timers.close_time = progress.close_time
        else:
            self.store.changed_outside()
            if rewritten or progress.usage is None:
                self.store.usage.measure(self.backend)
            else:
                self.store.usage.load(progress.usage, progress.keys)
            state.rebuild(progress.close_time)
        if progress.identity is not None:
            check_clock_changes(self._runner.binding, self.store, progress.identity, progress.close_time)
        self._ready = True

    def start_from(self, savepoint: Savepoint, bucket: int, buckets: int) -> Processed:
        """Load one bucket's share of a savepoint into the empty store, and return what becomes due by it.

        The buckets of the old query may have reached different close times: windows of those that lag behind the latest are
        emitted here. The changes are committed with the next batch.

        Args:
            savepoint: a savepoint of an operator like this one.
            bucket: number of the bucket.
            buckets: how many there are.

        Raises:
            StateError: the savepoint belongs to another operator; names what differs.
            CorruptDataError: a file of the savepoint is damaged; names it.
        """
        change = self._adopt(savepoint.identity, savepoint.schema, moved=True)
        self._sequence = savepoint.sequence
        self._failed_at_start = []
        emitted = load_share(
            self._runner.binding,
            change,
            savepoint,
            (bucket, buckets),
            self._failed_at_start,
            self.store.put_many,
        )
        check_clock_changes(self._runner.binding, self.store, savepoint.identity, savepoint.close_time)
        self.engine.state.rebuild(savepoint.close_time)
        self._note_since(savepoint.origin.get("since"), change, savepoint.close_time)
        binding = self._runner.binding
        with binding.windows_named():
            return Processed(binding, binding.table(emitted, self._sequence), Counters())

    def forget(self, keys: list[bytes]) -> None:
        """Delete all that is stored of keys before the next step, which begins with rows that retract their open windows.

        With the next commit, log and snapshots begin with the state after it: O(state).

        Args:
            keys: distinct encoded keys; they need not be stored.
        """
        self._ready = False
        self._forgets = True
        self.engine.state.forget(keys)

    def step(
        self,
        close_times: tuple[int, int],
        rows: Sequence[pa.Table],
        partials: Sequence[pa.Table] = (),
        *,
        wide: bool = False,
    ) -> Processed:
        """Process one batch. Nothing of it counts before `commit`.

        Args:
            close_times: the close times at the start and at the end of the batch, in ticks.
            rows: tables of records, in the binding's input columns; none for a batch without records.
            partials: tables of what a first stage made of records.
            wide: whether columns that come out as they are may be too large for memory.
        """
        began = time.perf_counter()
        self._ready = False  # An error from here on leaves a copy that has to be aligned again.
        rows = rows if rows or partials else [self.binding.inputs.empty()]
        batch = read_batch(self.binding, rows, partials)
        if isinstance(batch.records, Partials):
            batch = replace(
                batch, records=convert_partials(batch.records, self.binding, self._runner.binding)
            )
        failed, self._failed_at_start = self._failed_at_start, []
        processed = self._runner.run(batch, close_times, self._sequence, failed, wide=wide)
        self._stepping = time.perf_counter() - began
        return processed

    def commit(
        self,
        journal: Journal,
        pointer: Pointer,
        progress: Progress,
        host_batch: int | None = None,
        bucket: int = 0,
    ) -> Pointer:
        """Make the last step count, and return the pointer of the state after it.

        Args:
            journal: the journal that `open` read.
            pointer: the pointer that `open` or the last `commit` returned.
            progress: what the host will read from the pointer in its next batch.
            host_batch: number of the host's batch, if it has one.
            bucket: number of the bucket, for the pages that are published.
        """
        began = time.perf_counter()
        changes = self.store.drain_changes()
        identity, schema = self._own
        progress = replace(
            progress,
            identity=identity,
            schema=schema,
            close_time=self.engine.state.close_time,
            usage=self.store.usage.plain(),
            keys=self.store.usage.keys,
            sequence=self._sequence + 1,
            since=self.since,
        )
        if self.binding.publishes:
            self._published = self._changed_pages(changes, bucket, pointer.number + 1)
        pointer = self._durable.commit(journal, pointer, changes, progress, host_batch, forgets=self._forgets)
        self._ready, self._forgets = True, False
        self._committing = time.perf_counter() - began
        return pointer

    def take_published(self) -> list[pa.Table]:
        """Return the pages that the last commit changed, once, if they are published."""
        table, self._published = self._published, None
        return [] if table is None else [table]

    def _changed_pages(self, changes: WriteBatch, bucket: int, sequence: int) -> pa.Table:
        """The pages that a batch changes, for a table whose readers have the binding given last."""
        check_published(self._runner.binding.stored_schema(), self.binding.stored_schema())
        return changed_pages(self.engine.state, self.binding.plan.summed, changes, bucket, sequence)

    def drain_metrics(self, counters: Counters) -> dict[str, int]:
        """Return what is reported of the last step and its commit, by the names of `METRICS`.

        Args:
            counters: the counters of the step.
        """
        usage, restoring = self.store.usage, self._restoring
        self._restoring = 0.0
        traffic = usage.drain_traffic()
        working_ms = round(1_000 * (self._stepping + self._committing + restoring))
        snapshots = self._durable.drain_snapshot_counts()
        return {
            **counted(self._runner.binding, counters),
            "live_keys": usage.keys,
            "live_panes": usage.entries,
            "state_bytes": usage.size,
            "pages_read": traffic.pages_read,
            "pages_written": traffic.pages_written,
            "changed_bytes": traffic.bytes_written,
            "logged_bytes": self._durable.logged_bytes,
            "step_ms": round(1_000 * self._stepping),
            "commit_ms": round(1_000 * self._committing),
            "restore_ms": round(1_000 * restoring),
            "snapshots": snapshots.written,
            "snapshot_failures": snapshots.failed,
            "snapshots_overdue": int(snapshots.overdue),
            "max_bucket_ms": working_ms,
            "max_bucket_bytes": usage.size,
            "max_page_bytes": traffic.largest_page,
            "since_ms": max([0, *self.since.values()]) * self.binding.tick_us // 1_000,
        }

    def discard(self) -> None:
        """Delete the local copy, which cannot be read: the changelog has all that counts."""
        self.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def close(self) -> None:
        """Release the backend. If it fails to close, nothing is lost: the changelog has all that counts."""
        try:
            self._durable.close()
        except StateError as error:
            _LOG.warning("a local copy could not be closed: %s", error)
