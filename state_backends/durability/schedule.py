"""When the snapshots of one local copy are begun, taken up, and given up.

A snapshot that was begun stands in the pointer as pending. It leaves it

- when it is complete: it is taken up, whoever wrote it;
- some seconds after it was known to have failed, or its process to have ended;
- when nothing of it was stored for a quarter of an hour, and another process writes it. What this process writes is waited for.

Both times double with each failure in a row, up to a limit. While snapshots fail, the changelog grows; when it is several times
as large as the state, a small state is written into the journal.
"""

import logging
import os
import time
from dataclasses import replace
from functools import partial

from serializers import SerializationError
from serializers.changes import encode_changes
from state_backends.durability.changelog import page_bytes
from state_backends.durability.counts import SnapshotCounts
from state_backends.durability.folders import Folder
from state_backends.durability.pages_in_parts import page_parts
from state_backends.durability.pointer import Pending, Pointer, Snapshot
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress
from state_backends.durability.retention import adopt
from state_backends.durability.snapshots import SnapshotFolder
from state_backends.durability.uploads import Uploads, is_dead, this_process
from state_backends.errors import DamagedCopyError, StateError
from state_backends.interface import StateBackend
from state_backends.journal import Journal

LOG_TO_SNAPSHOT = 4
"""A snapshot of all pages waits until the log is this many times as large: snapshots add a quarter to what is written."""
SHORT_LOG = 1 << 20
"""A log of a few times so many bytes takes no room that matters, however small the state is."""
MOST_IN_JOURNAL = 256 << 20
"""A state of more bytes is not written into the journal because its folder fails: it would stop the batch for long."""
_MOST_FAILURES = 20
_AGAIN_SECONDS, _LONGEST_AGAIN_SECONDS = 5.0, 900.0
"""How long the next attempt waits after the first failure in a row, and at most: by then the storage may work again."""
_PATIENCE_SECONDS, _LONGEST_PATIENCE_SECONDS = 900.0, 86_400.0
_LOOK_SECONDS = 60.0
"""How often the folder is asked whether another process still writes to it."""
_LATE = (
    "state %s: snapshot %s is not complete after %d minutes, and the changelog has %d MB since the last one that is. It is "
    "waited for. See whether the snapshot folder is slow, or the state too large for the way to it"
)
_IN_JOURNAL = (
    "state %s: the changelog has %d MB and the snapshot folder fails: a snapshot is written into the checkpoint itself, which "
    "may take seconds. The folder is tried again"
)
_FAILURES = StateError, SerializationError, OSError, RuntimeError, MemoryError
"""What a snapshot can fail with and a batch must not: of the storage, of this machine, and for lack of threads or memory."""
_LOG = logging.getLogger(__name__)


class SnapshotSchedule:
    """The snapshots of one copy.

    Args:
        backend: the copy.
        uploads: writes and reads its snapshots.
        policy: where snapshots go, and when.
    """

    def __init__(self, backend: StateBackend, uploads: Uploads, policy: SnapshotPolicy) -> None:
        self._backend = backend
        self._uploads = uploads
        self._policy = policy
        self._warned = self._late = ""
        self._looked = "", 0.0
        self._counts = SnapshotCounts()
        self._damage: DamagedCopyError | None = None

    def check_copy(self) -> None:
        """Refuse a copy that could not be read for a snapshot.

        Raises:
            DamagedCopyError: it has to be rebuilt.
        """
        if self._damage is not None:
            raise self._damage

    def drain_counts(self) -> SnapshotCounts:
        """Return what became of snapshots since the last call."""
        counts, self._counts = self._counts, SnapshotCounts(overdue=self._counts.overdue)
        return counts

    def folder(self, pointer: Pointer, snapshot: Snapshot) -> SnapshotFolder:
        """Return the folder of a snapshot: the configured one if the snapshot was moved there, or the one it was written to."""
        if self._policy.folder is not None and self._policy.folder != snapshot.folder:
            moved = SnapshotFolder(Folder(self._policy.folder), pointer.store_id)
            if moved.has(snapshot.name):
                return moved
        return SnapshotFolder(Folder(snapshot.folder, stored=True), pointer.store_id)

    def advance(self, journal: Journal, pointer: Pointer, progress: Progress) -> Pointer:
        """Return the pointer after what is due once a batch was written.

        Args:
            journal: the journal of the state.
            pointer: the pointer at the version of the copy.
            progress: the progress of the operator after the batch.
        """
        pointer = self._settle(journal, pointer)
        if self._is_due(pointer):
            pointer = self._settle(journal, self._begin(journal, pointer))
        if self._fails(pointer) and self._is_too_long(pointer, progress):
            _LOG.warning(_IN_JOURNAL, pointer.store_id, pointer.log_bytes // 10**6)
            pointer = self._write_in_journal(journal, pointer)
        return pointer

    def note(self, pointer: Pointer) -> None:
        """Count the state as overdue if its snapshots fail or take long, once a batch was written."""
        self._counts.overdue = self._fails(pointer)

    def write_now(self, journal: Journal, pointer: Pointer) -> Pointer:
        """Write a snapshot of a state that no log leads to; into the journal if the folder is not writable."""
        pointer = self._begin(journal, pointer)
        if pointer.pending is not None:
            self._uploads.wait()
            pointer = self._settle(journal, pointer)
        complete = pointer.newest.number == pointer.number
        return pointer if complete else self._write_in_journal(journal, pointer)

    def retire(self, pointer: Pointer, host_batch: int) -> Pointer:
        """Record when snapshots were replaced, and remove those that the host can no longer return to."""
        retired = [one if one.retired >= 0 else replace(one, retired=host_batch) for one in pointer.retired]
        gone = [one for one in retired if self._policy.is_over(one.retired, host_batch)]
        kept = [one for one in retired if not self._policy.is_over(one.retired, host_batch)]
        needed = [*pointer.snapshots, *kept, *([pointer.pending.snapshot] if pointer.pending else [])]
        for uri in {one.folder for one in gone}:
            self._uploads.clean(
                SnapshotFolder(Folder(uri, stored=True), pointer.store_id),
                # Of every URI: two URIs may name the same folder.
                {one.name for one in needed},
                {one.name for one in gone if one.folder == uri},
            )
        return replace(pointer, retired=tuple(kept))

    def _is_due(self, pointer: Pointer) -> bool:
        newest, policy = pointer.newest, self._policy
        if pointer.pending is not None or pointer.number == newest.number:
            return False
        shares = self._backend.snapshots and policy.folder is not None
        most = policy.log_bytes(newest.size if shares else 0)
        if not shares:
            most = max(most, LOG_TO_SNAPSHOT * newest.size)
        return pointer.log_bytes > most or pointer.number - newest.number >= policy.batches

    def _fails(self, pointer: Pointer) -> bool:
        """Whether the last snapshot failed, or takes long, and none has been completed since."""
        if self._policy.folder is None:
            return False
        pending = pointer.pending
        if pointer.failures or pending is None or pending.has_failed:
            return pointer.failures > 0 or pending is not None
        seconds = _since(pending.since)
        if seconds < _PATIENCE_SECONDS:
            return False
        if self._late != pending.snapshot.name:
            self._late = pending.snapshot.name
            name = pending.snapshot.name
            _LOG.warning(_LATE, pointer.store_id, name, seconds // 60, pointer.log_bytes // 10**6)
        return True

    def _is_too_long(self, pointer: Pointer, progress: Progress) -> bool:
        """Whether the log takes much more room than the state in the journal would."""
        size = sum(held[3] for held in progress.usage or ())
        most = LOG_TO_SNAPSHOT * max(self._policy.log_bytes(), pointer.newest.size, size, SHORT_LOG)
        return size <= MOST_IN_JOURNAL and pointer.log_bytes > most

    def _begin(self, journal: Journal, pointer: Pointer) -> Pointer:
        """Write a snapshot of the version that was just written, or begin to write it."""
        if self._policy.folder is None:
            return self._write_in_journal(journal, pointer)
        name = f"{pointer.number}-{os.urandom(8).hex()}"
        snapshot = Snapshot(pointer.number, pointer.version, 0, self._policy.folder, name)
        try:
            self._uploads.begin(self.folder(pointer, snapshot), snapshot, pointer.newest)
        except DamagedCopyError:
            raise
        except _FAILURES as error:
            _LOG.warning(
                "state %s: cannot write a snapshot of version %d: %s", pointer.store_id, pointer.number, error
            )
            self._counts.failed += 1
            return replace(pointer, failures=min(pointer.failures + 1, _MOST_FAILURES))
        return replace(pointer, pending=Pending(snapshot, pointer.log_bytes, time.time(), this_process()))

    def _write_in_journal(self, journal: Journal, pointer: Pointer) -> Pointer:
        size = parts = 0
        for puts in page_parts(self._backend):
            journal.put(f"base-{pointer.number}-{parts}", partial(encode_changes, puts, {}, None))
            size, parts = size + page_bytes(puts), parts + 1
        self._counts.written += 1
        return adopt(journal, pointer, Snapshot(pointer.number, pointer.version, size, parts=parts), 0)

    def _settle(self, journal: Journal, pointer: Pointer) -> Pointer:
        """Take up the pending snapshot if it is complete; give it up if it will not be completed."""
        pending = pointer.pending
        if pending is None:
            return pointer
        snapshot, manifest = pending.snapshot, None
        folder = SnapshotFolder(Folder(snapshot.folder, stored=True), pointer.store_id)
        begun = self._uploads.has_begun(snapshot.name)
        try:
            if begun:
                manifest = self._uploads.manifest(snapshot.name)
                if manifest is None:
                    return pointer  # The next one would wait for it, too.
            elif folder.has(snapshot.name):
                folder.confirm(snapshot.name)
                manifest = folder.manifest(snapshot.name)
        except _FAILURES as error:
            self._note_failure(pointer, snapshot.name, error)
            # A snapshot of another process may be complete when the storage is available again.
            if begun or isinstance(error, SerializationError):
                self._counts.failed += not pending.has_failed
                pending = replace(pending, owner="")  # Written to the journal, so that all workers know.
                pointer = replace(pointer, pending=pending)
        if manifest is not None:
            done = replace(snapshot, size=manifest.size)
            self._counts.written += 1
            pointer = replace(pointer, pending=None, failures=0)
            if done.number < pointer.newest.number:  # One in the journal has taken its place.
                return replace(pointer, retired=(*pointer.retired, done))
            return adopt(journal, pointer, done, pending.log_bytes)
        if self._is_awaited(folder, pointer, pending):
            return pointer
        self._counts.failed += not pending.has_failed
        return replace(pointer, pending=None, failures=min(pointer.failures + 1, _MOST_FAILURES))

    def _note_failure(self, pointer: Pointer, name: str, error: Exception) -> None:
        """Say once that a snapshot failed, and not with every batch until the next attempt.

        If a file of the copy is damaged, the next batch begins with a new copy: this batch is written already.
        """
        if isinstance(error, DamagedCopyError):
            self._damage = error
        if self._warned != name:
            _LOG.warning("state %s: snapshot %s was not completed: %s", pointer.store_id, name, error)
        self._warned = name

    def _is_awaited(self, folder: SnapshotFolder, pointer: Pointer, pending: Pending) -> bool:
        """Whether a snapshot that is not complete, and that this copy does not write, stays the pending one."""
        longer = 2 ** min(pointer.failures, _MOST_FAILURES)
        if pending.has_failed or is_dead(pending.owner):
            return _since(pending.since) < min(_AGAIN_SECONDS * longer, _LONGEST_AGAIN_SECONDS)
        patience = min(_PATIENCE_SECONDS * longer, _LONGEST_PATIENCE_SECONDS)
        return _since(pending.since) < patience or self._goes_on(folder, pending.snapshot.name, patience)

    def _goes_on(self, folder: SnapshotFolder, name: str, patience: float) -> bool:
        """Whether a file of the snapshot was stored within so many seconds."""
        looked, when = self._looked
        if looked == name and _since(when) < _LOOK_SECONDS:
            return True
        try:
            stored = folder.last_stored(name)
        except StateError:
            return False
        if stored is None or _since(stored) >= patience:
            return False
        self._looked = name, time.time()
        return True


def _since(when: float) -> float:
    """Seconds between then and now. The clock of another host may be wrong, by more than any patience."""
    return abs(time.time() - when)
