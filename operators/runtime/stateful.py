"""One operator over one durable store: what the local runner and each bucket of a streaming query run."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from operators.runtime.evolution import adaption, settled, spread, stored_change
from operators.runtime.memory import keep_freed_memory
from operators.runtime.metrics import counted
from operators.runtime.program import Program
from operators.steps.emission import Emission
from operators.steps.partials import Partials
from operators.steps.step import Counters, Step
from state_backends import Entries, StateConfig
from state_backends.backends.memory import MemoryBackend
from state_backends.checkpoints.savepoint import Savepoint
from state_backends.durability.durable import Alignment, Durable
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.progress import Progress
from state_backends.journal import Journal


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a batch.

    Attributes:
        rows: to be emitted.
        metrics: by name, as `operators.runtime.metrics` has them.
        late: what is to be told of late and bad records, or None if nobody wants to know.
        counters: what was counted.
        pointer: of the state after it.
    """

    rows: pa.Table
    late: pa.StructArray | None
    counters: Counters
    metrics: dict[str, int]
    pointer: Pointer


class StatefulOperator:
    """A program, a backend in a directory of its own, and the version of the state that the backend is at."""

    def __init__(self, program: Program, config: StateConfig, directory: Path) -> None:
        keep_freed_memory()
        self.program = program
        self.backend = config.open(directory)
        scratch = directory.with_name(f"{directory.name}-snapshots")
        self._durable = Durable(self.backend, config.backend, scratch, config.snapshots)
        self._use(program)
        self._evolution = config.evolution
        self._restoring = 0.0

    def _use(self, working: Program) -> None:
        """Work with a program: the one given, or what became of it beside the state that is there."""
        self._working = working
        self.store = working.store(self.backend)
        self.operator = working.plan.operator(self.store)
        self._ready = False

    def _settle(self, stored_identity: dict[str, Any] | None) -> None:
        working = self.program if stored_identity is None else settled(self.program, stored_identity)
        if working.plan != self._working.plan:
            self._use(working)
        self._working = working

    def takes(self, program: Program) -> bool:
        """Go on with this program if it works on the same state in the same way; return whether it does.

        Functions that Spark sends anew with each batch are never equal, so results are always made by the program given last.
        """
        same = (program.plan, program.identity()) == (self.program.plan, self.program.identity())
        if same:
            self.program = program
        return same

    def open(self, journal: Journal, pointer: Pointer | None = None) -> Pointer:
        """Bring the local copy to what the journal says counts, and return its pointer.

        Raises:
            StateError: the state is another operator's, or cannot be restored.
        """
        began = time.perf_counter()
        pointer = pointer or read_pointer(journal) or Pointer.fresh()
        progress = pointer.progress
        self._settle(progress.identity)
        change = stored_change(self.program, progress, self._evolution)
        done = self._durable.align(journal, pointer)
        if change is not None:
            pointer = self._durable.rewrite(journal, done.pointer, change.pages)
            done = Alignment(pointer, restored=True)
        close = progress.close_time
        # Read anew as a whole: a copy just opened, one that an error left half done, and one that is ahead of what was
        # committed, because the batch failed elsewhere.
        known = self._ready and not done.restored and self.operator.close <= close
        changes = done.replayed if known else None
        self.store.changed_outside(changes)
        self.operator.rebuild(close, changes)
        if change is None and progress.usage is not None:
            self.store.usage.load(progress.usage)
        else:
            self.store.usage.measure(self.backend)
        self._ready = True
        self._restoring += time.perf_counter() - began
        return done.pointer

    def start_from(self, savepoint: Savepoint, bucket: int, buckets: int) -> pa.Table:
        """Take one bucket's share of a savepoint into the empty store, and return the rows that fall due on the way.

        The old query's buckets may have come to different close times: windows of those that lag behind the latest are
        emitted here. The changes are committed with the next batch.

        Args:
            savepoint: of an operator like this one.
            bucket: number of the bucket.
            buckets: how many there are.

        Raises:
            StateError: the savepoint is of another operator; names what differs.
            CorruptDataError: a file of it is damaged; names it.
        """
        self._settle(savepoint.identity)
        program = self._working
        change = adaption(program, savepoint.identity, savepoint.schema, self._evolution, moved=True)
        emitted: list[Emission] = []
        for close, keys, entries in savepoint.groups(bucket, buckets):
            if change is not None:
                entries = Entries(entries.key, tuple(change.columns(entries.columns)))  # noqa: PLW2901
            store = program.store(MemoryBackend())
            store.put_many(keys, entries)
            operator = program.plan.operator(store)
            operator.rebuild(close)
            nothing = program.read([program.empty()])
            emitted += operator.step(nothing, Step(savepoint.close_time, savepoint.close_time))
            for names, left in store.scan():
                self.store.put_many(names, left)
        self.operator.rebuild(savepoint.close_time)
        return program.output.table(emitted)

    def run(
        self,
        tables: Sequence[pa.Table],
        closes: tuple[int, int],
        journal: Journal,
        pointer: Pointer,
        progress: Callable[[], Progress] = Progress,
        clock: int | None = None,
    ) -> Outcome:
        """Take one batch, commit it, and return what came of it.

        Args:
            tables: input rows with the program's input columns, or what a first stage made of some.
            closes: close times in ticks at the start and at the end of the batch.
            journal: the journal that `open` read.
            pointer: the pointer that `open` or the last `run` returned.
            progress: says, after the step, what the host wants to find again in the pointer.
            clock: number of the host's batch, if it has one.
        """
        began = time.perf_counter()
        self._ready = False  # An error from here on leaves a copy that has to be aligned anew.
        sifted = self.program.sifted(tables)
        batch = self.program.read(tables if sifted is None else [sifted.usable])
        if isinstance(batch, Partials):
            batch = spread(batch, self.program, self._working)
        step = Step(*closes, late=None if sifted is None else [])
        emitted = self.operator.step(batch, step)
        rows = self._working.output.table(emitted)
        late = self.program.told(sifted, step)
        host = progress()  # Asks whether the store is empty, while it knows of this batch's changes.
        stepped = time.perf_counter()
        changes = self.store.drain_changes()
        usage = self.store.usage
        reached = replace(
            host,
            identity=self._working.identity(),
            schema=self._working.stored(),
            close_time=self.operator.close,
            usage=usage.plain(),
        )
        pointer = self._durable.commit(journal, pointer, changes, reached, clock)
        self._ready = True
        committed, restoring, self._restoring = time.perf_counter(), self._restoring, 0.0
        read, written, changed = usage.drain_traffic()
        metrics = {
            **counted(self._working, step.counters),
            "live_keys": usage.keys,
            "live_panes": usage.entries,
            "state_bytes": usage.size,
            "pages_read": read,
            "pages_written": written,
            "changed_bytes": changed,
            "step_ms": round(1_000 * (stepped - began)),
            "commit_ms": round(1_000 * (committed - stepped)),
            "restore_ms": round(1_000 * restoring),
        }
        return Outcome(rows, late, step.counters, metrics, pointer)

    def close(self) -> None:
        """Release the backend."""
        self._durable.close()
