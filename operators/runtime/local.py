"""The local runner: runs an operator without Spark, for tests, for operator authors, and to see what a batch does."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from operators.columns.arrow import plain_table
from operators.columns.records import FAR_PAST, event_ticks
from operators.errors import DefinitionError
from operators.runtime.batch_clock import LocalClock
from operators.runtime.binding import Binding
from operators.runtime.fill import fill_locally, history_of
from operators.runtime.keys_to_forget import Keys, encoded_keys
from operators.runtime.moments import ticks_of
from operators.runtime.open_windows import open_windows
from operators.runtime.processed import Processed
from operators.runtime.stateful import StatefulOperator, rebuilt_once
from operators.steps.step import Counters
from state_backends import StateConfig, StateError, resolve
from state_backends.checkpoints.forms import since_in
from state_backends.checkpoints.open_bucket import open_bucket
from state_backends.checkpoints.savepoint import Savepoint, check_new, read_header, write_bucket, write_header
from state_backends.checkpoints.stored_bucket import Bucket
from state_backends.durability.folders import Folder, absolute
from state_backends.durability.pointer import Pointer, Snapshot, read_pointer
from state_backends.errors import DamagedCopyError
from state_backends.journal import Journal, MemoryJournal
from state_backends.registry import BUILT_IN
from state_backends.sqlite_journal import SqliteJournal

NO_BATCH = "the runner has no state yet: process a batch first, which may be empty"
"""What is said of a runner without state."""
Binder = Callable[[pa.Schema, StateConfig], Binding]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of a batch, its rows with those of a start, its metrics, and the pointer of the state after it."""

    processed: Processed
    rows: pa.Table
    metrics: dict[str, int]
    pointer: Pointer


class LocalRunner:
    """Feeds batches to an operator and returns what it emits. Use it as a context manager.

    The operator is bound to the columns of the first table. With a directory, state outlives the runner: a new runner on
    the same directory goes on from the last commit. `abort` and `restart` do what happens to operators on Spark.

    Args:
        bind: returns the binding for the columns of the first table.
        config: the configuration of the state.
        directory: where state and changelog are kept; None for a temporary one.
        bind_closing: returns the binding that emits the open windows; by default `bind`.
        markers: if the rows are those of several inputs, for each the column that is true in its rows. Each input has its own
            highest event time, and the least of them is the stream time.
    """

    def __init__(
        self,
        bind: Binder,
        config: StateConfig,
        directory: str | Path | None,
        bind_closing: Binder | None = None,
        markers: Mapping[str, str] | None = None,
    ) -> None:
        self._bind = bind
        self._bind_closing = bind_closing or bind
        self._markers = markers or {}
        self._config = config
        self._temporary = directory is None
        self._directory = Path(tempfile.mkdtemp(prefix="windows-") if directory is None else directory)
        self._journal: Journal = (
            MemoryJournal()
            if directory is None
            else _journal_of(self._directory / "journal", waits=config.waits_for_disk)
        )
        self._safe: tuple[Snapshot, ...] | None = None
        self._binding: Binding | None = None
        self._schema: pa.Schema = pa.schema([])
        self._types: dict[str, pa.DataType] = {}
        self._operator: StatefulOperator | None = None
        self.counters = Counters()
        """Rows, late and bad rows, and windows since the runner was made."""
        self.metrics: dict[str, int] = {}
        """Metrics of the last batch, by the names that a stream has in `<name>_out`."""
        self.close_time = FAR_PAST
        """Close time in ticks after the last batch: the stream time of a runner that takes this one's rows."""
        self.late: pa.Table | None = None
        """The last batch's late and bad records, if `local_runner(late=True)`: reason, window, late_by_ms, record."""

    def __enter__(self) -> "LocalRunner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def store(self) -> Any:
        """The window store, or None before the first batch."""
        return self._operator.store if self._operator else None

    def process(
        self, table: pa.Table, stream_time: int | datetime | None = None, *, forget: Keys | None = None
    ) -> pa.Table:
        """Process one batch and return the rows that the operator emits.

        Args:
            table: input rows; it may be empty. Event time is a timestamp, or int64 ticks.
            stream_time: stream time after this batch, in ticks since the epoch or as a datetime. It closes windows, and decides
                what is late in later batches. By default the highest event time so far, with this batch; of several inputs, the
                least of theirs. It never goes back.
            forget: keys to forget before the batch, as for `forget`; its records of these keys are the first ones.

        Raises:
            DefinitionError: a column is missing or of a wrong type.
        """
        outcome = self._attempt(table, stream_time, self._journal, forget)
        self.counters.add(outcome.processed.counters)
        self.metrics = outcome.metrics
        self.close_time = outcome.pointer.progress.close_time
        reports = outcome.processed.reports
        self.late = None if reports is None else pa.Table.from_struct_array(reports)
        if forget is not None and isinstance(self._journal, SqliteJournal):
            self._journal.shrink()
        return outcome.rows

    def forget(self, keys: Keys) -> pa.Table:
        """Delete all that is stored of keys, as a batch without records, and return rows that retract open windows.

        Nothing of the keys is left in the runner's directory, but for snapshots in a folder of their own: replaced ones go
        after the batches that `state.snapshots.retain` says. Later records of the keys are the first ones. Stream time stays.

        Args:
            keys: rows of the key columns: a table, or a dictionary for each row. They need not be stored.

        Raises:
            DefinitionError: the keys are not the operator's; says why.
            StateError: no batch was processed yet.
        """
        pointer = read_pointer(self._journal)
        if self._binding is None or pointer is None:
            raise StateError(NO_BATCH)
        return self.process(self._schema.empty_table(), pointer.progress.stream_time, forget=keys)

    def abort(
        self, table: pa.Table, stream_time: int | datetime | None = None, *, forget: Keys | None = None
    ) -> pa.Table:
        """Process one batch that is never committed, like an attempt that Spark gives up, and return its rows.

        The local copy has what the batch wrote, the journal has not: the next batch finds the copy ahead of the journal and
        restores it. Its rows are those that it would have without this one, and nothing is counted.

        Args:
            table, stream_time, forget: as for `process`.

        Raises:
            DefinitionError: as `process`.
        """
        try:
            return self._attempt(table, stream_time, _NeverCommitted(self._journal), forget).rows
        finally:
            self._journal.rollback()

    def _attempt(
        self, table: pa.Table, stream_time: int | datetime | None, journal: Journal, forget: Keys | None
    ) -> _Outcome:
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if not isinstance(table, pa.Table):
            raise DefinitionError(
                f"process takes a pyarrow.Table, not a {type(table).__name__}: make one with pa.Table.from_pandas, "
                "pa.Table.from_pylist or pa.table"
            )
        table = plain_table(table)
        if self._binding is None:
            self._schema = table.schema
            self._binding = self._bind(table.schema, self._config)
            self._types = {name: table.schema.field(name).type for name in self._binding.inputs.names}
        self._check_columns(table.schema)
        gone = [] if forget is None else encoded_keys(forget, pa.schema(list(self._binding.output.keys)))
        binding = self._binding

        def attempt(check: bool) -> _Outcome:
            try:
                if isinstance(self._journal, SqliteJournal):
                    # From the first read on: another runner's batch in between would be lost.
                    self._journal.begin()
                return self._step(self._open(binding), table, stream_time, journal, gone, check=check)
            except BaseException as error:
                journal.rollback()
                if isinstance(error, DamagedCopyError) and self._operator is not None:
                    self._operator.discard()
                    self._operator = None
                raise

        return rebuilt_once(attempt, journal.rollback)

    def _step(
        self,
        operator: StatefulOperator,
        table: pa.Table,
        stream_time: int | datetime | None,
        journal: Journal,
        forgotten: list[bytes],
        *,
        check: bool,
    ) -> _Outcome:
        binding = operator.binding
        begins = self._config.savepoint is not None and read_pointer(journal) is None
        pointer = operator.open(journal, check=check)
        progress, first = pointer.progress, []
        if begins and self._config.savepoint is not None:
            savepoint = read_header(self._config.savepoint)
            before, latest, inputs = (
                savepoint.origin.get(name) for name in ("stream_time", "highest", "inputs")
            )
            progress = replace(progress, stream_time=before, max_event_time=latest, inputs=inputs)
            first = [operator.start_from(savepoint, 0, 1).rows]
        if forgotten:
            operator.forget(forgotten)
        asked = None if stream_time is None else ticks_of(stream_time, binding.tick_us, "stream_time")
        told = self._max_event_times(table, binding)
        clock = LocalClock(progress, binding.grace, told, bool(self._markers), asked)
        done = operator.step(clock.close_times, [table])
        pointer = operator.commit(journal, pointer, clock.after)
        self._sync(pointer)
        metrics = operator.drain_metrics(done.counters)
        done.counters.windows += sum(table.num_rows for table in first)
        rows = pa.concat_tables([*first, done.rows, *operator.take_published()])
        return _Outcome(done, rows, metrics, pointer)

    def _max_event_times(self, table: pa.Table, binding: Binding) -> dict[str, int | None]:
        """The highest event time of each input in a batch, in ticks, by name."""
        if not self._markers:
            return {"": _max_event_time(table, binding)}
        return {
            name: _max_event_time(table.filter(table.column(marker)), binding)
            for name, marker in self._markers.items()
        }

    def _sync(self, pointer: Pointer) -> None:
        """Pass the journal to the disk if its snapshots have changed.

        If batches do not wait for the disk, a power loss takes the last ones. No pointer may come back that names snapshots
        which are removed later.
        """
        if isinstance(self._journal, SqliteJournal) and self._safe != pointer.snapshots:
            self._journal.sync()
            self._safe = pointer.snapshots

    def savepoint(self, folder: str | Path, running: Savepoint | None = None) -> Savepoint:
        """Write the state after the last batch to a new folder; or that of `running`, with added aggregates filled from this.

        Raises:
            StateError: no batch was processed yet, the folder has a savepoint already, or `running` cannot be filled.
        """
        target = Folder(absolute(folder))
        check_new(target)
        if running is not None and self._binding is not None:
            return fill_locally(self._binding, running, self.savepoint(history_of(target)), target)
        with self._stored() as bucket:
            saved = write_bucket(target, 0, bucket)
            progress = bucket.pointer.progress
            origin = {
                "stream_time": progress.stream_time,
                "highest": progress.max_event_time,
                "inputs": progress.inputs,
                "sequence": progress.sequence,
                **since_in([bucket.pointer]),
            }
            return write_header(target, bucket.identity, bucket.schema, bucket.close_time, saved, origin)

    def open_windows(self) -> pa.Table:
        """Return the rows of the windows that are open after the last batch: what would come out if no record followed.

        Nothing is changed. Without `change`, if the operator emits on update: these are all windows that may still change.

        Raises:
            StateError: no batch was processed yet.
        """
        if self._binding is None:
            raise StateError(NO_BATCH)
        closing = self._bind_closing(self._schema, self._config)
        with self._stored() as bucket:
            return open_windows(self._binding, closing, bucket)

    def _stored(self) -> AbstractContextManager[Bucket]:
        """The state after the last batch, as a copy."""
        if read_pointer(self._journal) is None:
            raise StateError(NO_BATCH)
        backend = None if self._config.backend in BUILT_IN else self._config.backend
        return open_bucket(self._journal, backend, self._config.snapshots.folder)

    def _check_columns(self, schema: pa.Schema) -> None:
        missing = [name for name in self._types if name not in schema.names]
        if missing:
            raise DefinitionError(
                f"the table lacks the columns {', '.join(missing)}; it has {', '.join(schema.names)}"
            )
        for name, type_ in self._types.items():
            if schema.field(name).type != type_:
                raise DefinitionError(
                    f"column {name!r} is of type {schema.field(name).type}, but was {type_} in the first table: cast it"
                )

    def _open(self, binding: Binding) -> StatefulOperator:
        if self._operator is None:
            # Each backend has its own directory: `restart` may change it.
            name = f"state-{self._config.backend.replace(':', '.').replace('/', '.')}"
            self._operator = StatefulOperator.open_copy(
                binding, self._config, self._directory / name, DamagedCopyError
            )
        return self._operator

    def restart(self, backend: str | None = None) -> None:
        """Drop everything in memory; the next batch opens the state from disk and changelog.

        Args:
            backend: name of the backend to go on with, to which the state moves; by default the present one.

        Raises:
            ValueError: an unknown backend, or one that lacks an option of the present one.
        """
        if backend is not None:
            self._config = resolve(backend, dict(self._config.options))
        operator, self._operator = self._operator, None
        if operator is not None:
            operator.close()

    def close(self) -> None:
        """Release the backend, and remove the directory if it is temporary."""
        self.restart()
        if isinstance(self._journal, SqliteJournal):
            self._journal.close()
        if self._temporary:
            shutil.rmtree(self._directory, ignore_errors=True)


def _journal_of(path: Path, *, waits: bool) -> SqliteJournal:
    """The journal of a directory. If it has no pointer, it must be a new one."""
    journal = SqliteJournal(path, waits=waits)
    try:
        if journal.get("pointer") is None:
            journal.check_empty()
    except BaseException:
        journal.close()
        raise
    return journal


class _NeverCommitted:
    """A journal whose changes are there until they are rolled back."""

    def __init__(self, journal: Journal) -> None:
        self.get, self.put, self.remove = journal.get, journal.put, journal.remove
        self.rollback = journal.rollback

    def commit(self) -> None:
        """Leave the changes uncommitted."""


def _max_event_time(table: pa.Table, binding: Binding) -> int | None:
    ticks, usable = event_ticks(
        table.column(binding.inputs.event_time), binding.tick_us, binding.plan.max_bound_offset
    )
    ticks = ticks if usable is None else ticks[usable]
    return int(ticks.max()) if len(ticks) else None
