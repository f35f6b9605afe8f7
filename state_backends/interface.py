"""The interface that every state backend implements: pages of bytes by segment and key, written atomically."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from serializers.edits import PageEdits
from state_backends.chunks import Chunk, chunks, pieces
from state_backends.journal import Journal


@dataclass(frozen=True, slots=True)
class LoggedPages:
    """The pages of a batch as the changelog has them: each either whole, or as an edit of the page that was stored before.

    Attributes:
        whole: pages by segment and key.
        edits: the edits of the other pages, by segment.
    """

    whole: dict[int, dict[bytes, bytes]]
    edits: dict[int, list[PageEdits]]


@dataclass(slots=True)
class WriteBatch:
    """All changes of one micro-batch. Segments below `drop_segments_below` are dropped first, then come deletes, then puts.

    So one batch may drop or delete a segment or a key and put it: it exists afterwards.

    Attributes:
        puts: pages to write, by segment and key; an existing page is replaced. A segment may have no keys.
        deletes: keys whose pages are deleted, by segment; a missing key or segment is not an error.
        drop_segments_below: segments with a lower number are dropped as a whole; None drops nothing.
        logged: `puts` for the changelog, if less than all of their bytes will do. Backends need not look at it.
    """

    puts: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    deletes: dict[int, set[bytes]] = field(default_factory=dict)
    drop_segments_below: int | None = None
    logged: LoggedPages | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        return bool(self.puts or self.deletes or self.drop_segments_below is not None)


class StateBackend(ABC):
    """A local, versioned store of pages: one worker's copy of one bucket's state.

    **What is stored.** A page is bytes under a segment and a key. A backend does not interpret it.

    - Segments are whole numbers from -2**62 to 2**62; event times may be before 1970. `drop_segments_below` may be one more. A
      segment exists as long as it holds a page.
    - Keys are any bytes, from none to 20,000 of them, in no particular order; one may be a prefix of another.
    - Pages are any bytes, from empty to many MiB; most have from 100 bytes to a few KiB.
    - Versions are any 1 to 1,000 bytes. The host creates a new one for each batch, but may pass an earlier one again.

    **Atomicity, not durability.** The host keeps every batch in a changelog and restores what a backend loses. After a crash
    of the process or of the machine, and after a close, a store shows the state after some earlier write, whole and with that
    write's version, or is empty with version None. Writes may be lost also after `write` has returned, the latest ones first.
    Nothing needs to be flushed. A version must never be visible with pages that are not exactly those of that version.

    **Order of calls.** On the driver `known_options` and `check_options`. On a worker `open`; then, with each batch:
    `version`; if that is not the current version, writes of the missing changes, or `clear` or `restore` and
    writes; then reads; then at most one `write`, and perhaps a `snapshot`. `close` comes last. After any error the
    host closes the store and opens it again, or reads `version` and continues. So a store can be used after an error of `write`
    or `snapshot`, and after a CorruptDataError; after others it may raise StateError until it is opened again.

    **Threads and owners.** One call at a time, usually all from one thread, but the owner may continue on another. No two
    owners have the same directory open at the same time.

    **Errors.** No read ends early: what cannot be read to its end, since files are damaged or the disk fails, is a
    `DamagedCopyError`, after which the host deletes the store's directory and fills a new store. Otherwise `StateError`, which
    says what failed, where, and the way out. `close` and `snapshot` raise nothing else (a snapshot may also raise OSError):
    after these the host continues. `restore` may raise `serializers.CorruptDataError`. Other errors fail the batch, which is
    tried again.

    `state_backends.contract.BackendContract` has these promises as tests, docs/writing-a-backend.md an example.

    Attributes:
        resident: whether pages live in the journal itself, so that nothing has to be restored. Reserved for the backend
            `spark`: the host expects the pages in a journal in its form.
        snapshots: whether `snapshot` writes files, most of which are the same from one snapshot to the next. If not, a
            snapshot is all pages, as `iterate` yields them, and any backend can restore it.
    """

    resident: ClassVar[bool] = False
    snapshots: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def open(cls, directory: Path, options: Mapping[str, str]) -> "StateBackend":
        """Open the store in a directory, which may be missing or hold an earlier state of this backend.

        A directory that a killed process left must open, too: an error here fails the batch at each attempt.

        Args:
            directory: this store's own one, on a local disk; it and its parents may have to be created. A backend that
                keeps nothing on disk ignores it. Other files in its parent do not belong to the backend.
            options: this backend's options by short name, as text; unknown names were refused before. Each has a
                default: tools that read a checkpoint pass none.

        Cost: once per worker and bucket; small compared to a batch, whatever the size of the state.

        Raises:
            StateError: the directory holds what this backend cannot read.
        """

    @classmethod
    def known_options(cls) -> Mapping[str, str]:
        """Return this backend's options: short name to one line of help. None by default.

        An option `depth` of a backend named `shelf` is set as `spark.windows.state.shelf.depth`.
        """
        return {}

    @classmethod  # noqa: B027 - checking nothing is a good default
    def check_options(cls, options: Mapping[str, str]) -> None:
        """Refuse values that `open` would refuse. Called on the driver, with known names; by default every value is good.

        Raises:
            ValueError: names the option, its value and the accepted values.
        """

    @property
    @abstractmethod
    def version(self) -> bytes | None:
        """The version given to the last write that is here, or None for a store without any. O(1), several times a batch."""

    @abstractmethod
    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the pages of the keys in the segment, in the order of the keys, None where no page exists.

        Called for each segment that a batch looks into, with up to all keys of the batch, hundreds of thousands; a key may
        come twice, and the segment may be missing. Cost: O(keys), whatever the store holds.
        """

    @abstractmethod
    def write(self, batch: WriteBatch, version: bytes) -> None:
        """Apply the changes and the version, all or nothing.

        A batch without changes sets the version. The batch is left as it is: it goes to the changelog next. If this raises, the
        store shows what it showed before.

        Cost: O(keys of the batch and bytes of its pages). The drop of segments, which comes with most batches, should not cost
        by the page.
        """

    @abstractmethod
    def iterate(self, segment: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key and page of the segment once, in any order; nothing for a missing segment.

        The store is not written meanwhile. An iterator may be left unfinished: it must not block a write or a close.
        Cost: O(pages of the segment) time, and the memory of a few: a segment may be larger than memory. The first page comes
        soon.
        """

    def scan(self, segment: int) -> Iterator[Chunk]:
        """Yield what `iterate` does, as lists of keys and of their pages, a few MiB at a time.

        A restart reads the whole state by it. By default it is made of `iterate`, which costs about as much again.
        """
        return chunks(pieces(self.iterate(segment)))

    def scan_keys(self, segment: int) -> Iterator[list[bytes]]:
        """Yield the keys of a segment in lists, as `scan` does. By default `scan` without its pages."""
        return (keys for keys, _ in self.scan(segment))

    @abstractmethod
    def segments(self) -> list[int]:
        """Return the numbers of the segments that hold a page, ascending. O(segments), not O(pages): called often."""

    @abstractmethod
    def clear(self) -> None:
        """Drop every page and the version, all or nothing; they stay dropped after `close` and `open`."""

    def purge(self) -> None:  # noqa: B027 - what keeps no bytes of deleted pages has nothing to do
        """Remove the bytes of deleted and replaced pages, and of their keys, from the store's files.

        Called after the write of a batch that forgets keys, and before the snapshot of it: no file of that snapshot may have
        them. Cost: may be O(pages). By default nothing, for stores whose files hold only what is stored.

        Raises:
            StateError: says why. The batch fails, and is tried again.
        """

    def attach(self, journal: Journal) -> None:  # noqa: B027 - most have nothing to do
        """Use the journal of this batch. Called before each batch, on backends that are `resident`, and on no others."""

    def snapshot(self, directory: Path) -> None:
        """Write a copy of the store as it is now, with its version, as files of a new directory.

        Only called if `snapshots` is True. Batches wait for it. Once it returns, another thread reads the files, while the
        owner writes, clears, or restores the store: their bytes never change. Files that are as they were in
        the snapshot before are not copied again; a file that the store never changes may be a hard link.

        Args:
            directory: it does not exist, but its parent does, on the same file system as the store. Write plain files
                into it, no folders and no symbolic links.

        Raises:
            StateError, OSError: it could not be written; the store is as before. The host tries again later.
        """
        raise NotImplementedError(f"{type(self).__name__} does not support snapshots")

    def check_snapshot(self, directory: Path, files: Sequence[str]) -> None:  # noqa: B027 - by default all are accepted
        """Refuse a snapshot that cannot be restored, or read to its end, for a damaged file.

        Called before files are stored, on another thread, while batches go on; and before a snapshot is restored in place of
        a copy that could not be read.

        Args:
            directory: what `snapshot` has written. Its files stay as they are.
            files: names of those to read: the storage has the others, which were read before they were stored.

        Raises:
            DamagedCopyError: a file is damaged.
        """

    def restore(self, directory: Path) -> None:
        """Replace all that the store holds by the copy that `snapshot` wrote. The files may be moved.

        Only called if `snapshots` is True; on any worker, perhaps with other options. The host has compared each file's
        SHA-256, and looks at `version` afterwards.

        Raises:
            CorruptDataError: the files are not a snapshot of this backend. The store is then empty, and can be used.
        """
        raise NotImplementedError(f"{type(self).__name__} does not support snapshots")

    @abstractmethod
    def close(self) -> None:
        """Release all resources. May be called twice; no other call may follow."""
