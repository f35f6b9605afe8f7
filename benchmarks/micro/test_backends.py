"""What do the calls of the window store cost on each backend?

There are two segments, each with twenty thousand keys with ten entries. Writes are committed; those of the backend `spark` go
to a journal in memory.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measure import Measure
from serializers.pages import PageLayout
from state_backends import Entries, WindowStore, resolve
from state_backends.journal import MemoryJournal

KEYS, EACH, SEGMENT = 20_000, 10, 1_000
ROWS = KEYS * EACH
LAYOUT = PageLayout(("i8", "i8", "f8", "f8", "f8"))
NAMES = [b"\x01key-%06d" % number for number in range(KEYS)]
SECTION = "calls of the window store"


class Filled:
    """A store of one backend that holds the entries of two segments."""

    def __init__(self, backend: str, home: Path) -> None:
        self._backend = resolve(backend).open(home)
        self._backend.attach(MemoryJournal())
        self._versions = iter(range(1, 1_000))
        self.store = WindowStore(self._backend, LAYOUT, SEGMENT)
        for segment in range(2):
            self.put(segment)

    def put(self, segment: int) -> None:
        """Write the entries of a segment, and commit."""
        rng = np.random.default_rng(segment)
        key = np.repeat(np.arange(KEYS), EACH)
        time = segment * SEGMENT + np.tile(np.arange(EACH), KEYS)
        columns = [time, time, *(rng.random(ROWS) for _ in range(3))]
        self.store.put_many(NAMES, Entries(key, tuple(columns)))
        self.commit()

    def commit(self) -> None:
        """Write the staged changes."""
        self._backend.write(self.store.drain_changes(), b"%016d" % next(self._versions))

    def expire(self) -> int:
        """Drop the oldest segment, and commit; return its number."""
        oldest = self.store.segments()[0]
        self.store.expire((oldest + 1) * SEGMENT)
        self.commit()
        return oldest

    def close(self) -> None:
        """Release the backend."""
        self._backend.close()


@pytest.fixture(params=["memory", "rocksdb", "spark"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Filled]]:
    state = Filled(request.param, tmp_path / "store")
    yield request.param, state
    state.close()


def test_put(measure: Measure, filled: tuple[str, Filled]) -> None:
    backend, state = filled
    segments = iter(range(2, 100))
    measure(lambda: state.put(next(segments)), section=SECTION, system=backend, rows=ROWS, call="put")
    assert len(state.store.segments()) == 6


def test_fetch(measure: Measure, filled: tuple[str, Filled]) -> None:
    backend, state = filled
    found = measure(
        lambda: state.store.fetch_many(NAMES, 0, SEGMENT - 1),
        section=SECTION,
        system=backend,
        rows=ROWS,
        call="fetch",
    )
    assert len(found) == ROWS


def test_scan(measure: Measure, filled: tuple[str, Filled]) -> None:
    backend, state = filled
    found = measure(
        lambda: sum(len(entries) for _, entries in state.store.scan()),
        section=SECTION,
        system=backend,
        rows=2 * ROWS,
        call="scan",
    )
    assert found == 2 * ROWS


def test_expire(measure: Measure, filled: tuple[str, Filled]) -> None:
    """The cost of dropping a segment does not depend on its number of entries."""
    backend, state = filled
    for segment in range(2, 6):
        state.put(segment)
    measure(state.expire, section=SECTION, system=backend, rows=ROWS, call="expire")
    assert len(state.store.segments()) == 2
