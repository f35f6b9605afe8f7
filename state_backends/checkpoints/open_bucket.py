"""Opens the state of a bucket as its journal has it, beside the query that it belongs to."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from state_backends.checkpoints.stored_bucket import RESIDENT, Bucket
from state_backends.durability.durable import Durable
from state_backends.durability.pointer import JOURNAL, read_pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.errors import StateError
from state_backends.journal import Journal, MemoryJournal
from state_backends.registry import load_backend


def journal_from_parts(blobs: Iterable[tuple[str, int, bytes]]) -> MemoryJournal:
    """Return a journal of blobs that come in parts: name, number of the part, and bytes of each."""
    parts: dict[str, dict[int, bytes]] = {}
    for name, part, blob in blobs:
        parts.setdefault(name, {})[part] = blob
    journal = MemoryJournal()
    for name, numbered in parts.items():
        journal.put(name, b"".join(numbered[part] for part in sorted(numbered)))
    journal.commit()
    return journal


@contextmanager
def open_bucket(journal: Journal, backend: str | None, snapshots: str | None) -> Iterator[Bucket]:
    """Open a bucket's state in a temporary place; the journal is not changed.

    Args:
        journal: as the last commit left it.
        backend: name of the backend to open it with; None for one that can open it.
        snapshots: folder to look for snapshots in before the one that they were written to.

    Raises:
        StateError, CorruptDataError: as `Durable.align`.
    """
    pointer = read_pointer(journal)
    if pointer is None or pointer.progress.schema is None:
        raise StateError(
            "a bucket of the checkpoint has no state pointer: give the checkpoint of a query with an operator of this "
            "library, or restore it from a copy"
        )
    schema = pointer.progress.schema
    # Pages in the journal stay there: moved out, they would be written to the folder of snapshots.
    name = RESIDENT if pointer.page_location == JOURNAL else backend or "memory"
    directory = Path(tempfile.mkdtemp(prefix="windows-state-"))
    with ExitStack() as after:
        after.callback(shutil.rmtree, directory, ignore_errors=True)
        after.callback(journal.rollback)
        copy = Durable(
            load_backend(name).open(directory / "state", {}),
            name,
            directory / "snapshots",
            SnapshotPolicy(snapshots, retain=2**62),
        )
        after.callback(copy.close)
        copy.align(journal, pointer)
        yield Bucket(pointer, schema, copy.backend)
