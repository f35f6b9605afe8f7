"""A disk that forgets: what processes see of files and folders, and what a power loss may leave of them.

Stricter than any journaling file system: of the bytes of a file and the names of a folder, only what an fsync of that very file
or folder covers is safe. Of the rest, any part may be there, in any order; a rename within one folder happens as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

C = TypeVar("C")
Tree = dict[str, bytes | None]
"""Files with their bytes, and folders with None, by path below the root."""


@dataclass(frozen=True)
class Write:
    """Bytes at an offset of a file, or, without bytes, a new size."""

    at: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        """Change the content."""
        if self.data is None:
            del content[self.at :]
        end = self.at if self.data is None else self.at + len(self.data)
        content.extend(bytes(max(0, end - len(content))))
        if self.data is not None:
            content[self.at : end] = self.data

    def blank(self) -> Write:
        """The same with zeros in place of the bytes: the file system knew the size, and the disk got no data."""
        return self if self.data is None else Write(self.at, bytes(len(self.data)))

    def torn(self, size: int) -> Write:
        """The first bytes of it."""
        return self if self.data is None else Write(self.at, self.data[:size])


@dataclass(frozen=True)
class Naming:
    """Names of a folder that change as one: those with None go."""

    names: dict[str, Node | None]

    def apply(self, content: dict[str, Node]) -> None:
        """Change the names."""
        for name, node in self.names.items():
            if node is None:
                content.pop(name, None)
            else:
                content[name] = node


@dataclass(eq=False)
class _Synced(Generic[C]):
    """Something that changes, and is synced."""

    unsafe: list[C] = field(default_factory=list)
    _first: int = 0

    def change(self, change: C) -> None:
        """Make a change, which is not safe yet."""
        self._make(change)
        self.unsafe.append(change)

    def begin_sync(self) -> int:
        """Return up to which change a sync makes all safe that begins now."""
        return self._first + len(self.unsafe)

    def end_sync(self, upto: int) -> None:
        """Make the changes before this one safe."""
        count = max(0, upto - self._first)
        for change in self.unsafe[:count]:
            self._keep(change)
        del self.unsafe[:count]
        self._first += count

    def _make(self, change: C) -> None:
        raise NotImplementedError

    def _keep(self, change: C) -> None:
        raise NotImplementedError


@dataclass(eq=False)
class File(_Synced[Write]):
    """A file: its bytes now, and those that are safe."""

    now: bytearray = field(default_factory=bytearray)
    safe: bytearray = field(default_factory=bytearray)

    def _make(self, change: Write) -> None:
        change.apply(self.now)

    def _keep(self, change: Write) -> None:
        change.apply(self.safe)


@dataclass(eq=False)
class Folder(_Synced[Naming]):
    """A folder: its names now, and those that are safe."""

    now: dict[str, Node] = field(default_factory=dict)
    safe: dict[str, Node] = field(default_factory=dict)

    def _make(self, change: Naming) -> None:
        change.apply(self.now)

    def _keep(self, change: Naming) -> None:
        change.apply(self.safe)


Node = File | Folder


class Loss(Protocol):
    """What a power loss does."""

    def writes(self, file: File) -> Iterator[Write]:
        """Yield the unsafe changes of a file that are there nevertheless, or what is there in their place."""

    def namings(self, folder: Folder) -> Iterator[Naming]:
        """Yield the unsafe changes of a folder that are there nevertheless."""


def after(root: Folder, loss: Loss) -> Tree:
    """Return what is on the disk after a power loss."""
    return dict(_after(root, loss, ""))


def _after(folder: Folder, loss: Loss, path: str) -> Iterator[tuple[str, bytes | None]]:
    names = dict(folder.safe)
    for naming in loss.namings(folder):
        naming.apply(names)
    for name, node in sorted(names.items()):
        if isinstance(node, Folder):
            yield path + name, None
            yield from _after(node, loss, f"{path}{name}/")
        else:
            content = bytearray(node.safe)
            for write in loss.writes(node):
                write.apply(content)
            yield path + name, bytes(content)


@dataclass(frozen=True)
class Uniform:
    """The same for all files, and for all folders.

    Attributes:
        data: "none" of the unsafe bytes is there, "all", "half" of the writes and of the one after, or "zeros" in their place.
        names: whether the unsafe names are there.
    """

    data: str
    names: bool

    def writes(self, file: File) -> Iterator[Write]:
        unsafe = file.unsafe
        if self.data == "half" and unsafe:
            middle = len(unsafe) // 2
            yield from unsafe[:middle]
            yield unsafe[middle].torn(len(unsafe[middle].data or b"") // 2)
        elif self.data != "none":
            yield from (write.blank() for write in unsafe) if self.data == "zeros" else unsafe

    def namings(self, folder: Folder) -> Iterator[Naming]:
        yield from folder.unsafe if self.names else ()


UNIFORM = [Uniform(data, names) for names in (True, False) for data in ("none", "all", "half", "zeros")]
"""Each of them; the second is what a killed process leaves."""


@dataclass(frozen=True)
class Chance:
    """Each change by chance: there, not there, and of writes a part, or zeros."""

    seed: int

    def writes(self, file: File) -> Iterator[Write]:
        chance = self._chance(file.begin_sync() + len(file.safe))
        sort = chance.choice(("none", "all", "in order", "any"))
        most = {"none": 0, "in order": chance.randint(0, len(file.unsafe))}.get(sort, len(file.unsafe))
        for write in file.unsafe[:most]:
            if sort != "any":
                yield write
            elif chance.random() < 0.7:
                size = len(write.data or b"")
                yield chance.choice((write, write, write.blank(), write.torn(chance.randint(0, size))))

    def namings(self, folder: Folder) -> Iterator[Naming]:
        chance = self._chance(folder.begin_sync())
        share = chance.choice((0.2, 0.5, 0.9))
        yield from (naming for naming in folder.unsafe if chance.random() < share)

    def _chance(self, salt: int) -> random.Random:
        return random.Random(self.seed * 1_000_003 + salt)
