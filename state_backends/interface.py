"""The interface that every state backend implements: pages of bytes by segment and key, written atomically."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from state_backends.durability.journal import Journal


class StateError(RuntimeError):
    """State that cannot be opened, read or written; the message names what and the way out."""


@dataclass(slots=True)
class WriteBatch:
    """All changes of one micro-batch. Segments below `drop_before` go first, then deletes, then puts.

    Attributes:
        puts: pages to write, by segment and key.
        deletes: keys whose pages go, by segment; a key that is not there is no error.
        drop_before: segments with a lower number go as a whole; None drops nothing.
    """

    puts: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    deletes: dict[int, set[bytes]] = field(default_factory=dict)
    drop_before: int | None = None

    def __bool__(self) -> bool:
        return bool(self.puts or self.deletes or self.drop_before is not None)


class StateBackend(ABC):
    """A local, versioned store of pages. Not thread-safe; one owner at a time.

    Durability is not a backend's job: the changelog restores what a backend loses. A backend promises only that
    after a crash it shows the state after some write, whole, with that write's version, or is empty with version None.

    Attributes:
        resident: whether pages live in the journal itself, so that there is nothing to restore.
        snapshots: whether `snapshot` writes files, most of which are the same from one snapshot to the next. If not, a
            snapshot is all pages.
    """

    resident: ClassVar[bool] = False
    snapshots: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def open(cls, directory: Path, options: Mapping[str, str]) -> "StateBackend":
        """Open the store in a directory of its own, which may be absent or hold an earlier state of this backend.

        Args:
            directory: for this store alone; a backend that keeps nothing on disk ignores it.
            options: this backend's options by short name, as text; unknown names are refused before.

        Raises:
            StateError: the directory holds what this backend cannot read.
        """

    @classmethod
    def known_options(cls) -> Mapping[str, str]:
        """Return this backend's options: short name to one line of help. None by default."""
        return {}

    @classmethod  # noqa: B027 - checking nothing is a good default
    def check_options(cls, options: Mapping[str, str]) -> None:
        """Refuse values that `open` would refuse. Called on the driver; by default every value is good.

        Raises:
            ValueError: names the option, its value and what is wanted.
        """

    @property
    @abstractmethod
    def version(self) -> bytes | None:
        """The version given to the last write that is here, or None for a store without any."""

    @abstractmethod
    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the pages of the keys in the segment, in the order asked, None where there is none."""

    @abstractmethod
    def write(self, batch: WriteBatch, version: bytes) -> None:
        """Apply the changes and the version, all or nothing."""

    @abstractmethod
    def iterate(self, segment: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key and page of the segment, in any order. The store is not written meanwhile."""

    @abstractmethod
    def segments(self) -> list[int]:
        """Return the numbers of the segments that hold a page, ascending."""

    @abstractmethod
    def clear(self) -> None:
        """Drop every page and the version."""

    def attach(self, journal: "Journal") -> None:  # noqa: B027 - most have nothing to do
        """Use the journal of this batch. Called before each batch; for backends that are resident."""

    def snapshot(self, directory: Path) -> None:
        """Write a copy of the store as it is now, with its version, as files of a new directory.

        Files that never change may be hard links. Called on the owner's thread; the files are then read by another.
        """
        raise NotImplementedError(f"{type(self).__name__} writes no snapshots of its own")

    def restore(self, directory: Path) -> None:
        """Become the copy that `snapshot` wrote, and take its files, which may be moved.

        Raises:
            CorruptDataError: the files are no snapshot; the store is empty then.
        """
        raise NotImplementedError(f"{type(self).__name__} writes no snapshots of its own")

    @abstractmethod
    def close(self) -> None:
        """Release everything held. May be called twice; nothing else may be called after."""
