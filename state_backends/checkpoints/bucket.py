"""One bucket's state, opened from its journal alone."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from serializers.pages import Column
from state_backends.checkpoints.forms import sources
from state_backends.durability.durable import Durable
from state_backends.durability.pointer import JOURNAL, Pointer, read_pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.errors import StateError
from state_backends.interface import StateBackend
from state_backends.journal import Journal, MemoryJournal
from state_backends.registry import load_backend
from state_backends.store.schema import StoredSchema

_PAGES_AT_ONCE = 20_000
RESIDENT = "spark"


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """Entries of some keys in one segment.

    Attributes:
        segment: its number.
        keys: distinct keys, encoded.
        key: shape (n,), int64: positions in `keys`.
        columns: one of length n for each of the layout.
        sizes: of each key: the bytes of the key and its page.
    """

    segment: int
    keys: list[bytes]
    key: npt.NDArray[np.int64]
    columns: list[Column]
    sizes: list[int]

    @property
    def size(self) -> int:
        """Bytes of keys and pages."""
        return sum(self.sizes)


@dataclass(frozen=True)
class Bucket:
    """A bucket's state at one version, opened.

    Attributes:
        pointer: of the version.
        schema: of the entries.
        backend: with the pages.
    """

    pointer: Pointer
    schema: StoredSchema
    backend: StateBackend

    @property
    def close_time(self) -> int:
        """The close time reached, in ticks."""
        return self.pointer.progress.close_time

    @property
    def identity(self) -> dict[str, Any]:
        """What the state depends on."""
        return self.pointer.progress.identity or {}

    def entries(self, form: StoredSchema | None = None) -> Iterator[EntryBatch]:
        """Yield all entries, a number of pages at a time. O(entries).

        Args:
            form: the columns that they get, as `common_form` returns them; by default those that the bucket has.

        Raises:
            StateError: the bucket's entries cannot be brought into the form: the query has gone on since it was found.
        """
        columns = None if form is None else sources(form, self.schema)
        if form is not None and columns is None:
            raise StateError("a bucket has states with other columns than before: stop the query first")
        for stored in self._entries():
            if columns is not None:
                stored = replace(stored, columns=[stored.columns[number] for number in columns])  # noqa: PLW2901
            yield stored

    def _entries(self) -> Iterator[EntryBatch]:
        for segment in self.backend.segments():
            pages: dict[bytes, bytes] = {}
            for key, page in self.backend.iterate(segment):
                pages[key] = page
                if len(pages) >= _PAGES_AT_ONCE:
                    yield self._decoded(segment, pages)
                    pages = {}
            if pages:
                yield self._decoded(segment, pages)

    def _decoded(self, segment: int, pages: dict[bytes, bytes]) -> EntryBatch:
        columns, counts = self.schema.layout.decode(list(pages.values()))
        key = np.repeat(np.arange(len(pages)), counts)
        sizes = [len(name) + len(page) for name, page in pages.items()]
        return EntryBatch(segment, list(pages), key, columns, sizes)


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
    name = RESIDENT if pointer.home == JOURNAL else backend or "memory"
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
