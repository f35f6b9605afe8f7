"""A durable backend: the changes of every batch go to a journal, from which any local copy can be updated.

The journal holds
    pointer   which version counts, with the operator's progress (see `pointer`)
    log-N     the changes that lead from version N - 1 to version N (see `changelog`)
    base-N-I  part I of a snapshot of version N, where snapshots have no folder (see `snapshots`)

A version is a number and a random token. A local copy counts only if both agree with the journal, so a copy that a
failed, retried or speculative attempt left behind is detected and restored.

A resident backend keeps its pages in the journal, and has no log.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from serializers import CorruptDataError
from state_backends.backends.memory import MemoryBackend
from state_backends.backends.spark_state import SparkStateBackend
from state_backends.durability.changelog import (
    base_parts,
    change_bytes,
    entries,
    missing_entries,
    put_entry,
    replay,
)
from state_backends.durability.counts import SnapshotCounts
from state_backends.durability.pages_in_parts import Pages, fill, page_parts, put
from state_backends.durability.pointer import (
    COPIES,
    JOURNAL,
    NO_VERSION,
    Pointer,
    Snapshot,
    new_version,
)
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress
from state_backends.durability.retention import drop_damaged, start_over, trim_log
from state_backends.durability.schedule import SnapshotSchedule
from state_backends.durability.uploads import Uploads
from state_backends.errors import CHECKPOINT_CHANGED, StateError, pages_of_copy
from state_backends.interface import StateBackend, WriteBatch
from state_backends.journal import Journal

KEPT_ENTRIES = 8
"""Log entries kept for copies that are a little behind."""
_RESTORED = "state %s: version %d was restored from the snapshot of version %d and the log after it"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Alignment:
    """What `Durable.align` did to the local copy.

    Attributes:
        pointer: what the next commit starts from.
        current: whether the copy had that version already, so that what its operator knows of its pages is right.
    """

    pointer: Pointer
    current: bool


class Durable:
    """One local copy of a store, kept in step with a journal.

    Args:
        backend: the copy.
        kind: the backend's name in the configuration.
        scratch: local directory for temporary files of snapshots.
        policy: where snapshots go, and when.
    """

    def __init__(
        self, backend: StateBackend, kind: str, scratch: Path, policy: SnapshotPolicy | None = None
    ) -> None:
        self.backend = backend
        self._policy = policy or SnapshotPolicy()
        self._uploads = Uploads(backend, kind, scratch, background=self._policy.background)
        self._schedule = SnapshotSchedule(backend, self._uploads, self._policy)
        self.logged_bytes = 0
        """What the last commit added to the changelog, in bytes before compression."""

    def drain_snapshot_counts(self) -> SnapshotCounts:
        """Return what became of snapshots since the last call."""
        return self._schedule.drain_counts()

    def close(self) -> None:
        """Wait for a snapshot that is being written, and release the backend."""
        self._uploads.close()
        self.backend.close()

    def align(self, journal: Journal, pointer: Pointer, *, check: bool = False) -> Alignment:
        """Bring the local copy to the pointer's version.

        Args:
            journal: the journal of the state.
            pointer: what counts.
            check: whether to read a snapshot whole before it is used, since a copy was damaged. Cost: O(state).

        Cost: nothing if it is there already; the missing log entries if it is behind; otherwise a snapshot and the log.

        Raises:
            StateError: an entry is missing in the journal, or storage fails.
            DamagedCopyError: the copy has to be deleted and opened anew.
            CorruptDataError: an entry is damaged, or every snapshot that leads to the pointer's version; names them.
        """
        backend = self.backend
        self._schedule.check_copy()
        if backend.resident:
            return self._align_resident(journal, pointer)
        if pointer.page_location == JOURNAL:
            return self._move_out(journal, pointer)
        if backend.version == pointer.version or (backend.version is None and not pointer.number):
            return Alignment(pointer, current=True)
        missing = missing_entries(journal, backend.version, pointer)
        if missing is not None:
            try:
                replay(backend, missing)
            except CorruptDataError as error:
                _LOG.warning("state %s: %s. Trying a snapshot", pointer.store_id, error)
            else:
                _LOG.info(
                    "state %s: a local copy was brought up to version %d", pointer.store_id, pointer.number
                )
                return Alignment(pointer, current=False)
        return Alignment(self._restore(journal, pointer, check=check), current=False)

    def _restore(self, journal: Journal, pointer: Pointer, *, check: bool) -> Pointer:
        """Load the newest valid snapshot that has a log to the pointer's version, and replay the log.

        Damaged snapshots are retired: the next snapshot must not share their files.
        """
        found = [one for one in pointer.snapshots if one.number >= pointer.oldest - 1]
        if pointer.oldest == 1:
            found.append(Snapshot(0, NO_VERSION, 0))
        problems: list[CorruptDataError] = []
        if not found:
            begins = f"the log begins at {pointer.oldest}"
            problems.append(CorruptDataError(f"no snapshot leads to version {pointer.number}, and {begins}"))
        for snapshot in found:
            try:
                self._load(journal, pointer, snapshot, check=check)
                found_entries = entries(journal, snapshot.number, snapshot.version, pointer)
                log_bytes = replay(self.backend, found_entries)
            except CorruptDataError as error:
                problems.append(error)
                _LOG.warning("state %s: %s. Trying an older snapshot", pointer.store_id, error)
                continue
            if self.backend.version != pointer.version:
                self.backend.write(WriteBatch(), pointer.version)
            _LOG.info(_RESTORED, pointer.store_id, pointer.number, snapshot.number)
            return drop_damaged(pointer, len(problems), log_bytes) if problems else pointer
        raise CorruptDataError(
            "the state cannot be restored: "
            + "; ".join(map(str, problems))
            + ". Restore the files, go back to an earlier checkpoint, or start with a new one"
        ) from problems[-1]

    def _load(self, journal: Journal, pointer: Pointer, snapshot: Snapshot, *, check: bool) -> None:
        if snapshot.name:
            self._uploads.restore(self._schedule.folder(pointer, snapshot), snapshot, check=check)
            return
        if not snapshot.number:
            self.backend.clear()
            return
        fill(self.backend, base_parts(journal, snapshot), snapshot.version)

    def _align_resident(self, journal: Journal, pointer: Pointer) -> Alignment:
        backend, known = self.backend, self.backend.version
        if pointer.page_location == COPIES and pointer.number:
            return self._move_in(journal, pointer)
        backend.attach(journal)
        if backend.version != (pointer.version if pointer.number else None):
            raise StateError(
                f"the pages in the journal have another version than the pointer: {CHECKPOINT_CHANGED}"
            )
        return Alignment(pointer, current=known == backend.version)

    def _move_in(self, journal: Journal, pointer: Pointer) -> Alignment:
        """Move the pages of local copies into the journal."""
        memory = MemoryBackend()
        other = Durable(memory, "memory", self._uploads.scratch.parent, self._policy)
        other.align(journal, pointer)
        self.backend.attach(journal)
        # A segment at a time: each slot is written once.
        parts = ({segment: dict(memory.iterate(segment))} for segment in memory.segments())
        fill(self.backend, parts, pointer.version)
        other.close()
        return Alignment(self._without_history(journal, pointer), current=False)

    def _move_out(self, journal: Journal, pointer: Pointer) -> Alignment:
        """Move the pages of a resident backend out of the journal."""
        resident = SparkStateBackend.open(self._uploads.scratch.parent, {})
        resident.attach(journal)
        fill(self.backend, page_parts(resident), pointer.version)
        resident.clear()
        return Alignment(self._without_history(journal, pointer), current=False)

    def rewrite(
        self, journal: Journal, pointer: Pointer, change: Callable[[list[bytes]], list[bytes]]
    ) -> Pointer:
        """Replace every page, and return the new pointer. The copy must be aligned.

        Args:
            journal, pointer: as given to `align`.
            change: returns the new pages for old ones, given a few MiB at a time.

        Raises:
            DamagedCopyError: a page of the copy is damaged.

        Cost: O(state), twice: a snapshot of it is written.
        """
        pointer = self._next_version(pointer)
        put(self.backend, self._change_pages(change), pointer.version)
        return self._without_history(journal, pointer)

    def _next_version(self, pointer: Pointer) -> Pointer:
        """Return the pointer of a version that is about to be written, and whose pages are where this backend keeps them."""
        number = pointer.number + 1
        return replace(pointer, page_location=self._location, number=number, version=new_version(number))

    def _without_history(self, journal: Journal, pointer: Pointer) -> Pointer:
        """Return the pointer of the backend's pages without log and snapshots, which lead to other pages."""
        pointer = start_over(journal, replace(pointer, page_location=self._location))
        return pointer if self.backend.resident else self._schedule.write_now(journal, pointer)

    @property
    def _location(self) -> str:
        return JOURNAL if self.backend.resident else COPIES

    def _change_pages(self, change: Callable[[list[bytes]], list[bytes]]) -> Iterator[Pages]:
        """Yield all pages, changed, in parts. A segment is read before any of it is written."""
        for segment in self.backend.segments():
            for part in list(page_parts(self.backend, [segment])):
                pages = part[segment]
                with pages_of_copy(resident=self.backend.resident):
                    changed = change(list(pages.values()))
                yield {segment: dict(zip(pages, changed, strict=True))}

    def commit(
        self,
        journal: Journal,
        pointer: Pointer,
        batch: WriteBatch,
        progress: Progress,
        host_batch: int | None = None,
        *,
        forgets: bool = False,
    ) -> Pointer:
        """Write one batch to the local copy and to the journal, and return the pointer that now counts.

        The copy must be aligned. A batch without changes costs one small blob.

        Args:
            journal: the changes are written to it, and committed.
            pointer: what `align` or the last commit returned.
            batch: the changes.
            progress: the progress of the operator after the batch.
            host_batch: number of the host's batch, by which replaced snapshots are kept; by default that of the version.
            forgets: whether nothing that this batch deletes, and nothing that was deleted before, may stay in the log or in the
                newest snapshot. Cost: O(state), since a snapshot is written at once.
        """
        resident = self.backend.resident
        self.logged_bytes = 0
        if forgets:
            pointer = self._start_without(journal, pointer, batch)
        elif batch:
            before, pointer = pointer.version, self._next_version(pointer)
            self.backend.write(batch, pointer.version)
            if not resident:
                put_entry(journal, before, pointer.version, batch)
                self.logged_bytes = change_bytes(batch)
                pointer = replace(pointer, log_bytes=pointer.log_bytes + self.logged_bytes)
        host_batch = pointer.number if host_batch is None else host_batch
        if resident:
            pointer = replace(pointer, oldest=pointer.number + 1)
        else:
            pointer = self._schedule.advance(journal, pointer, progress)
            pointer = trim_log(journal, pointer, KEPT_ENTRIES)
        pointer = self._schedule.retire(pointer, host_batch)
        self._schedule.note(pointer)
        pointer = replace(pointer, progress=progress)
        journal.put("pointer", pointer.encode())
        journal.commit()
        return pointer

    def _start_without(self, journal: Journal, pointer: Pointer, batch: WriteBatch) -> Pointer:
        """Write a batch, and let log and snapshots begin with the state after it: earlier ones have what it deletes."""
        pointer = self._next_version(pointer)
        self.backend.write(batch, pointer.version)
        self.backend.purge()
        return self._without_history(journal, pointer)
