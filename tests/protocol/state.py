"""The state that the simulated batches change, and a backend whose snapshots are files."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from serializers import pack_value, unpack_value
from state_backends.backends.memory import MemoryBackend
from state_backends.contract import Pages, applied
from state_backends.durability.pages_in_parts import fill
from state_backends.interface import StateBackend, WriteBatch

LARGE = bytes(range(48))
"""A page that never changes, and whose file snapshots share."""


_COUNTS = 1_000
"""The segment whose pages say which batches they have seen."""


class FilesBackend(MemoryBackend):
    """Pages in memory, and snapshots of a file for each segment: the calls that RocksDB has, without its bytes."""

    snapshots = True

    @classmethod
    def open(cls, directory: Path, options: Mapping[str, str]) -> "FilesBackend":
        del directory, options
        return cls()

    def snapshot(self, directory: Path) -> None:
        directory.mkdir()
        (directory / "version").write_bytes(self.version or b"")
        for segment in self.segments():
            pages = [list(pair) for pair in sorted(self.iterate(segment))]
            (directory / f"segment-{segment}").write_bytes(pack_value(pages))

    def restore(self, directory: Path) -> None:
        files = directory.glob("segment-*")
        pages = {int(f.name.partition("-")[2]): dict(unpack_value(f.read_bytes())) for f in files}
        fill(self, [pages], (directory / "version").read_bytes())


BACKENDS: dict[str, type[StateBackend]] = {"memory": MemoryBackend, "files": FilesBackend}


def batch_of(number: int, backend: StateBackend, mark: bytes) -> WriteBatch:
    """The changes of a batch, which follow from the pages before it: done twice, they show.

    Args:
        number: of the batch.
        backend: a copy at the batch before.
        mark: of the attempt. Two attempts of a batch need not do the same: sums of floats depend on the order of rows.
    """
    if number % 5 == 4:
        return WriteBatch()
    key = b"k%d" % (number % 3)
    (before,) = backend.get_many(_COUNTS, [key])
    batch = WriteBatch(
        {
            _COUNTS: {key: (before or b"") + b"%d," % number},
            number: {b"": b"%d" % number},
            _COUNTS + 2: {b"m%d" % (number % 3): mark},
        }
    )
    if number == 1:
        batch.puts[_COUNTS + 1] = {b"large": LARGE}
    if number % 3 == 0:
        batch.deletes = {_COUNTS: {b"k%d" % ((number + 1) % 3)}}
    if number > 2:
        batch.drop_segments_below = number - 1
    return batch


@cache
def folds(batches: int) -> list[Pages]:
    """The pages after each batch, from none on."""
    found: list[Pages] = [{}]
    memory = MemoryBackend()
    for number in range(1, batches + 1):
        batch = batch_of(number, memory, b"")
        found.append(applied(found[-1], batch))
        memory.write(batch, b"fold")
    return found


def pages_of(backend: StateBackend) -> Pages:
    """All pages of a copy."""
    return {segment: dict(backend.iterate(segment)) for segment in backend.segments()}


def without_mark(pages: Pages) -> Pages:
    """The pages that are the same whichever attempts were taken."""
    return {segment: held for segment, held in pages.items() if segment != _COUNTS + 2}
