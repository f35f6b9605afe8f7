"""A large state, as the engine keeps it: pages of ten panes of a key, written through the changelog."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from serializers.pages import PageLayout
from state_backends import WriteBatch, resolve
from state_backends.durability.durable import Durable
from state_backends.durability.pointer import Pointer
from state_backends.durability.progress import Progress
from state_backends.journal import MemoryJournal

PANES = 10
_LAYOUT = PageLayout(("i8", "i8", "i8", "f8", "f8"))
_AT_ONCE = 100_000


class LargeState:
    """One bucket's state of so many keys with ten panes each, under the default policy but for where snapshots go.

    Attributes:
        journal, pointer: what counts.
        written: bytes put into the journal and into the folder of snapshots by the last commit.
    """

    def __init__(self, home: Path, backend: str, keys: int) -> None:
        self._home = home
        self._backend = backend
        self._folder = home / "snapshots"
        options = {} if backend == "spark" else {"state.snapshots.folder": str(self._folder)}
        self._options = {**options, "state.snapshots.background": "false"}
        self._random = np.random.default_rng(1)
        self._files: dict[str, int] = {}
        self.keys = keys
        self.journal = _CountingJournal()
        self.copy = self.opened("first")
        self.pointer = self.copy.align(self.journal, Pointer.fresh()).pointer
        self.written = 0
        for at in range(0, keys, _AT_ONCE):
            self.commit(np.arange(at, min(at + _AT_ONCE, keys)))

    def opened(self, name: str, **options: object) -> Durable:
        """Return another copy, empty; options are those of snapshots."""
        given = {f"state.snapshots.{option}": value for option, value in options.items()}
        config = resolve(self._backend, {**self._options, **given})
        backend = config.open(self._home / name)
        return Durable(backend, self._backend, self._home / f"{name}-scratch", config.snapshots)

    def snapshot_each_batch(self) -> None:
        """Go on with another copy, whose commits write a snapshot each."""
        self.copy.close()
        self.copy = self.opened("second", batches=1)
        self.pointer = self.copy.align(self.journal, self.pointer).pointer

    def change(self, share: float) -> WriteBatch:
        """Return new pages for a share of the keys, picked at random."""
        keys = self._random.choice(self.keys, int(self.keys * share), replace=False)
        return WriteBatch(puts={0: dict(self._pages(keys))})

    def commit(self, keys: "np.ndarray | WriteBatch") -> None:
        """Commit new pages of these keys."""
        batch = keys if isinstance(keys, WriteBatch) else WriteBatch(puts={0: dict(self._pages(keys))})
        self.journal.bytes = 0
        self.pointer = self.copy.commit(self.journal, self.pointer, batch, Progress())
        files = {str(path): path.stat().st_size for path in self._folder.rglob("*") if path.is_file()}
        new = sum(size for path, size in files.items() if path not in self._files)
        self._files = files
        self.written = self.journal.bytes + new

    def _pages(self, keys: "np.ndarray") -> Iterator[tuple[bytes, bytes]]:
        count = len(keys) * PANES
        time = np.tile(np.arange(PANES) * 1_000, len(keys))
        numbers, floats = self._random.integers(0, 10**6, count), self._random.random(count)
        columns = [time, time, numbers, floats, floats * 2]
        pages = _LAYOUT.encode(columns, np.full(len(keys), PANES))
        return zip((b"\x01key-%09d" % key for key in keys.tolist()), pages, strict=True)


class _CountingJournal(MemoryJournal):
    """Counts the bytes that are put."""

    bytes = 0

    def put(self, name, blob):
        data = blob if isinstance(blob, bytes) else blob()
        self.bytes += len(data)
        super().put(name, data)
