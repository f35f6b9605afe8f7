"""The contract suite: every promise of `StateBackend` as a test, for whoever writes a backend.

    from state_backends.contract import BackendContract

    class TestMyBackend(BackendContract):
        backend_class = MyBackend
        options = {"cacheMb": "1"}

It needs pytest. For readable failures let pytest rewrite its assertions, in a conftest.py:
`pytest.register_assert_rewrite("state_backends.contract")`.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from state_backends.interface import StateBackend, WriteBatch

try:
    import pytest
except ImportError as missing:
    raise ImportError("the contract suite of state backends needs pytest: install pytest") from missing

Pages = dict[int, dict[bytes, bytes]]

AWKWARD_KEYS = [
    b"", b"\x00", b"\0\0", b"a", b"a\x00", b"a\x00\x00", b"ab", b"b", b"\x7f", b"\x80", b"\xfe\xff", b"\xff",
    b"\xff\x00", b"\xff\xff", b"\xff" * 9, b"m:version", b"p", b"q", bytes(range(256)), b"k" * 20_000,
]  # fmt: skip
FAR = 2**62
AWKWARD_SEGMENTS = [-FAR, -(2**32), -256, -255, -2, -1, 0, 1, 255, 256, 2**31, 2**32, FAR - 1, FAR]


class BackendContract:
    """Tests of one backend. Subclass it, with a name that begins with `Test`.

    Attributes:
        backend_class: the backend to be tested.
        options: its options by short name, as text.
        steps: length of the randomized comparison with dictionaries.
        seed: of that comparison; None draws one and prints it.
    """

    backend_class: ClassVar[type[StateBackend]]
    options: ClassVar[Mapping[str, str]] = {}
    steps: ClassVar[int] = 200
    seed: ClassVar[int | None] = None

    def open(self, directory: Path) -> StateBackend:
        """Open the backend under test."""
        return self.backend_class.open(directory, self.options)

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        """A directory that is not there yet."""
        return tmp_path / "a" / "store"

    @pytest.fixture
    def backend(self, directory: Path) -> Iterator[StateBackend]:
        """A new, empty store."""
        backend = self.open(directory)
        yield backend
        backend.close()

    def test_new_store_is_empty(self, backend: StateBackend) -> None:
        """A store in a directory that was not there has no version, no segments and no pages."""
        assert_holds(backend, {}, None)
        assert [None] == backend.get_many(0, [b"a"])

    def test_empty_directory_is_a_new_store(self, directory: Path) -> None:
        """A store in an empty directory has no version, no segments and no pages."""
        directory.mkdir(parents=True)
        with closing(self.open(directory)) as backend:
            assert_holds(backend, {}, None)

    def test_known_options_are_described(self) -> None:
        """Every known option has a line of help; the options of this run are known and their values good."""
        known = self.backend_class.known_options()
        assert all(name and text for name, text in known.items())
        assert set() == set(self.options) - set(known)
        self.backend_class.check_options(self.options)

    def test_stores_are_independent(self, backend: StateBackend, tmp_path: Path) -> None:
        """A store in another directory sees nothing of this one."""
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v1")
        with closing(self.open(tmp_path / "other")) as other:
            assert_holds(other, {}, None)
            other.write(WriteBatch(puts={0: {b"a": b"2"}}), b"v2")
        assert_holds(backend, {0: {b"a": b"1"}}, b"v1")

    def test_get_many_keeps_the_order_asked(self, backend: StateBackend) -> None:
        """Pages come in the order asked, None where there is none; a key may be asked for twice."""
        backend.write(WriteBatch(puts={3: {b"a": b"1", b"b": b"2", b"c": b"3"}}), b"v")
        asked = [b"c", b"x", b"a", b"c", b"", b"b", b"y"]
        assert [b"3", None, b"1", b"3", None, b"2", None] == backend.get_many(3, asked)

    def test_get_many_of_nothing(self, backend: StateBackend) -> None:
        """No keys asked for are no pages, in a segment that is there and in one that is not."""
        backend.write(WriteBatch(puts={3: {b"a": b"1"}}), b"v")
        assert [] == backend.get_many(3, [])
        assert [] == backend.get_many(4, [])

    def test_get_many_looks_in_one_segment(self, backend: StateBackend) -> None:
        """The same key in neighbouring segments is another page."""
        backend.write(WriteBatch(puts={-1: {b"a": b"-"}, 0: {b"a": b"0"}, 1: {b"b": b"+"}}), b"v")
        assert [[b"-"], [b"0"], [None]] == [backend.get_many(segment, [b"a"]) for segment in (-1, 0, 1)]

    def test_get_many_of_many_keys(self, backend: StateBackend) -> None:
        """Ten thousand pages are found at once, and as many that are not there are None."""
        pages = {b"%d" % n: b"page %d" % n for n in range(10_000)}
        backend.write(WriteBatch(puts={0: pages}), b"v")
        asked = [key for n in range(10_000) for key in (b"%d" % n, b"no %d" % n)]
        assert [pages.get(key) for key in asked] == backend.get_many(0, asked)

    def test_last_put_counts(self, backend: StateBackend) -> None:
        """A put replaces the page that was there, by a longer or a shorter one."""
        for number, page in enumerate([b"first", b"", b"the longest of them all", b"2"]):
            backend.write(WriteBatch(puts={0: {b"a": page}}), b"v%d" % number)
            assert_holds(backend, {0: {b"a": page}}, b"v%d" % number)

    def test_drops_come_before_deletes_before_puts(self, backend: StateBackend) -> None:
        """A page that one batch drops or deletes and puts is there; one that it drops and deletes is not."""
        backend.write(
            WriteBatch(puts={3: {b"a": b"old", b"b": b"old"}, 6: {b"a": b"old", b"b": b"old"}}), b"v1"
        )
        batch = WriteBatch(
            puts={3: {b"a": b"new"}, 6: {b"a": b"new"}},
            deletes={3: {b"a", b"b"}, 6: {b"a", b"b"}},
            drop_before=5,
        )
        backend.write(batch, b"v2")
        assert_holds(backend, {3: {b"a": b"new"}, 6: {b"a": b"new"}}, b"v2")

    def test_drop_before_keeps_its_own_segment(self, backend: StateBackend) -> None:
        """Segments with a lower number go as a whole; that number and higher ones stay."""
        backend.write(WriteBatch(puts={n: {b"a": b"1", b"\xff": b"2"} for n in range(-3, 4)}), b"v1")
        for edge in (-9, -1, 0, 3, 9):
            backend.write(WriteBatch(drop_before=edge), b"v2")
            assert_holds(backend, {n: {b"a": b"1", b"\xff": b"2"} for n in range(max(edge, -3), 4)}, b"v2")

    def test_dropped_segments_can_come_back(self, backend: StateBackend) -> None:
        """A put into a segment that was dropped earlier is there, and nothing of what was dropped."""
        backend.write(WriteBatch(puts={1: {b"a": b"1", b"b": b"1"}}), b"v1")
        backend.write(WriteBatch(drop_before=2), b"v2")
        backend.write(WriteBatch(puts={1: {b"b": b"2"}}), b"v3")
        assert_holds(backend, {1: {b"b": b"2"}}, b"v3")

    def test_deletes_of_what_is_not_there(self, backend: StateBackend) -> None:
        """Deleting an absent key, or in an absent segment, is no error and changes nothing."""
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v1")
        backend.write(WriteBatch(deletes={0: {b"b", b""}, 7: {b"a"}, -7: set()}), b"v2")
        assert_holds(backend, {0: {b"a": b"1"}}, b"v2")

    def test_write_leaves_its_batch_alone(self, backend: StateBackend) -> None:
        """The batch is the same after the write, since it goes to the changelog next."""
        batch = WriteBatch(puts={0: {b"a": b"1"}, 1: {}}, deletes={0: {b"a"}, 2: {b"b"}}, drop_before=0)
        backend.write(batch, b"v")
        assert WriteBatch({0: {b"a": b"1"}, 1: {}}, {0: {b"a"}, 2: {b"b"}}, 0) == batch

    def test_version_is_that_of_the_last_write(self, backend: StateBackend) -> None:
        """Any bytes are a version, a batch without changes sets it too, and the same one may come twice."""
        pages = {0: {b"a": b"1"}}
        backend.write(WriteBatch(puts=pages), b"first")
        for version in (b"\x00\xff" * 8, b"\x00", b"first", b"first", b"v" * 1_000):
            backend.write(WriteBatch(), version)
            assert_holds(backend, pages, version)

    def test_keys_of_any_bytes(self, backend: StateBackend) -> None:
        """Keys that are empty, long, prefixes of others or of any bytes are kept apart, in every segment."""
        pages = {n: {key: b"%d %d" % (n, i) for i, key in enumerate(AWKWARD_KEYS)} for n in (-1, 0, 1)}
        backend.write(WriteBatch(puts=pages), b"v1")
        assert_holds(backend, pages, b"v1")
        for key in AWKWARD_KEYS:
            del pages[0][key]
            pages = {n: kept for n, kept in pages.items() if kept}
            backend.write(WriteBatch(deletes={0: {key}}), b"v2")
            assert_holds(backend, pages, b"v2")

    def test_segments_of_any_number(self, backend: StateBackend) -> None:
        """Segments from -(2**62) to 2**62 are kept apart, in order, and dropped by number."""
        pages = {n: {b"": b"%d" % n, b"\xff" * 9: b"%d" % n} for n in AWKWARD_SEGMENTS}
        backend.write(WriteBatch(puts=pages), b"v1")
        assert_holds(backend, pages, b"v1")
        for edge in [*AWKWARD_SEGMENTS, FAR + 1]:
            pages = {n: kept for n, kept in pages.items() if n >= edge}
            backend.write(WriteBatch(drop_before=edge), b"v2")
            assert_holds(backend, pages, b"v2")

    def test_pages_of_any_bytes_and_size(self, backend: StateBackend) -> None:
        """Pages may be empty, of any bytes, and of many MiB."""
        large = random.Random(1).randbytes(1 << 20) * 9
        pages = {
            0: {b"empty": b"", b"zero": b"\x00", b"all": bytes(range(256)), b"large": large},
            1: {b"": large},
        }
        backend.write(WriteBatch(puts=pages), b"v")
        assert_holds(backend, pages, b"v")

    def test_segments_are_ascending(self, backend: StateBackend) -> None:
        """Segments come in the order of their numbers, negative ones first, however they were written."""
        for number in (5, -1, 300, 0, -300, 2):
            backend.write(WriteBatch(puts={number: {b"a": b"1"}}), b"v")
        assert [-300, -1, 0, 2, 5, 300] == backend.segments()

    def test_segments_without_pages_are_not_there(self, backend: StateBackend) -> None:
        """A segment is there from its first put to the delete of its last page."""
        backend.write(WriteBatch(puts={0: {b"a": b"1", b"b": b"1"}, 1: {b"a": b"1"}, 2: {}}), b"v1")
        assert [0, 1] == backend.segments()
        backend.write(WriteBatch(deletes={0: {b"a"}, 1: {b"a"}}), b"v2")
        assert [0] == backend.segments()
        backend.write(WriteBatch(deletes={0: {b"b"}}, puts={0: {b"c": b"1"}}), b"v3")
        assert [0] == backend.segments()
        backend.write(WriteBatch(deletes={0: {b"c"}}), b"v4")
        assert_holds(backend, {}, b"v4")

    def test_iterate_yields_one_segment(self, backend: StateBackend) -> None:
        """Each page of the segment comes once, none of its neighbours', and none from an absent segment."""
        pages = {n: dict.fromkeys(AWKWARD_KEYS, b"%d" % n) for n in (-1, 0, 2)}
        backend.write(WriteBatch(puts=pages), b"v")
        found = list(backend.iterate(0))
        assert len(AWKWARD_KEYS) == len(found)
        assert pages[0] == dict(found)
        assert [] == list(backend.iterate(1))

    def test_iterators_may_be_left_unfinished(self, directory: Path) -> None:
        """An iterator that nobody finishes hinders neither a write, nor a close, nor the next open."""
        with closing(self.open(directory)) as backend:
            backend.write(WriteBatch(puts={0: {b"a": b"1", b"b": b"2"}}), b"v1")
            assert next(backend.iterate(0)) in [(b"a", b"1"), (b"b", b"2")]
            backend.write(WriteBatch(puts={0: {b"c": b"3"}}), b"v2")
            assert {b"a": b"1", b"b": b"2", b"c": b"3"} == dict(backend.iterate(0))
        with closing(self.open(directory)) as backend:
            backend.write(WriteBatch(), b"v3")

    def test_clear_drops_all(self, backend: StateBackend) -> None:
        """After clear the store is like a new one and can be written."""
        backend.clear()
        backend.write(WriteBatch(puts={n: {b"a": b"1"} for n in (-5, 5)}), b"v1")
        backend.clear()
        assert_holds(backend, {}, None)
        backend.write(WriteBatch(puts={5: {b"b": b"2"}}), b"v2")
        assert_holds(backend, {5: {b"b": b"2"}}, b"v2")

    def test_clear_holds_after_reopening(self, directory: Path) -> None:
        """What was cleared does not come back with the next open."""
        with closing(self.open(directory)) as backend:
            backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v1")
            backend.clear()
        with closing(self.open(directory)) as backend:
            assert_holds(backend, {}, None)

    def test_close_twice(self, directory: Path) -> None:
        """A second close is no error."""
        backend = self.open(directory)
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v1")
        backend.close()
        backend.close()

    def test_reopened_store_is_some_version_whole(self, directory: Path) -> None:
        """A store that is closed and opened again shows the state after some write, whole, or is empty."""
        states: dict[bytes | None, Pages] = {None: {}}
        pages: Pages = {}
        for number in range(5):
            with closing(self.open(directory)) as backend:
                pages = {segment: dict(kept) for segment, kept in states[backend.version].items()}
                assert_holds(backend, pages, backend.version)
                for step in range(3):
                    batch = WriteBatch({number: {b"%d" % step: b"page"}}, {number - 1: {b"0"}}, number - 2)
                    pages, version = applied(pages, batch), b"%d-%d" % (number, step)
                    backend.write(batch, version)
                    states[version] = pages

    def test_killed_process_leaves_some_version_whole(self, directory: Path) -> None:
        """A process killed while it writes leaves the state after some write, whole, or an empty store."""
        name = f"{self.backend_class.__module__}:{self.backend_class.__qualname__}"
        if "<locals>" in name:
            pytest.skip("the backend class cannot be imported by another process")
        arguments = f"{name!r}, {str(directory)!r}, {dict(self.options)!r}"
        code = f"from state_backends.contract import write_forever; write_forever({arguments})"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.curdir for entry in sys.path)}
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
        assert child.stdout is not None
        with child.stdout:
            begun = child.stdout.readline()
            child.kill()
        child.wait()
        assert b"writing\n" == begun
        with closing(self.open(directory)) as backend:
            number = -1 if backend.version is None else int(backend.version)
            assert_holds(backend, crash_state(number), backend.version)
            backend.write(WriteBatch(), b"after")

    def test_random_writes(self, directory: Path) -> None:
        """Whatever is written, the store holds what dictionaries hold, through clear, close and reopen."""
        seed = random.randrange(2**32) if self.seed is None else self.seed
        print(f"seed = {seed}")
        rng = random.Random(seed)
        pages: Pages = {}
        version: bytes | None = None
        states: dict[bytes | None, Pages] = {None: {}}
        backend = self.open(directory)
        try:
            for step in range(self.steps):
                chance = rng.random()
                if chance < 0.03:
                    backend.clear()
                    pages, version, states = {}, None, {None: {}}
                elif chance < 0.08:
                    backend.close()
                    backend = self.open(directory)
                    version = backend.version
                    assert version in states
                    pages = states[version]
                else:
                    batch, version = random_batch(rng), b"%d" % step
                    backend.write(batch, version)
                    pages = states[version] = applied(pages, batch)
                assert_holds(backend, pages, version)
        finally:
            backend.close()


def assert_holds(backend: StateBackend, pages: Pages, version: bytes | None) -> None:
    """Assert that every read of the backend shows these pages and this version, and no others."""
    assert version == backend.version
    assert sorted(pages) == backend.segments()
    asked = list(dict.fromkeys([*AWKWARD_KEYS, *(key for kept in pages.values() for key in kept)]))
    for segment in {0, *pages}:
        kept = pages.get(segment, {})
        found = list(backend.iterate(segment))
        assert len(kept) == len(found)
        assert kept == dict(found)
        assert [kept.get(key) for key in asked] == backend.get_many(segment, asked)


def applied(pages: Pages, batch: WriteBatch) -> Pages:
    """Return what the pages are after the batch, as plain dictionaries."""
    edge = batch.drop_before
    after = {n: dict(kept) for n, kept in pages.items() if edge is None or n >= edge}
    for segment, keys in batch.deletes.items():
        for key in keys:
            after.get(segment, {}).pop(key, None)
    for segment, puts in batch.puts.items():
        after.setdefault(segment, {}).update(puts)
    return {segment: kept for segment, kept in after.items() if kept}


def random_batch(rng: random.Random) -> WriteBatch:
    """Return a batch over few segments and keys, so that batches meet."""

    def some_keys(most: int) -> list[bytes]:
        return rng.sample(AWKWARD_KEYS, rng.randint(0, most))

    segments = [*range(-3, 4), -FAR, FAR]
    puts = {
        n: {key: rng.randbytes(rng.choice([0, 1, 50])) for key in some_keys(4)}
        for n in rng.sample(segments, 3)
    }
    deletes = {n: set(some_keys(len(AWKWARD_KEYS))) for n in rng.sample(segments, rng.randint(0, 3))}
    return WriteBatch(puts, deletes, rng.choice([None, None, None, rng.randint(-4, 4)]))


def write_forever(name: str, directory: str, options: Mapping[str, str]) -> None:
    """Write the states of `crash_state` one after another until the process is killed."""
    from state_backends.config import load_backend

    backend = load_backend(name).open(Path(directory), options)
    number = 0
    while True:
        backend.write(crash_batch(number), b"%d" % number)
        if number == 200:
            print("writing", flush=True)
        number += 1


def crash_state(number: int) -> Pages:
    """Return the pages after that many writes of `write_forever` and one more."""
    pages: Pages = {}
    for n in range(max(0, number - _CRASH_KEPT), number + 1):
        pages = applied(pages, crash_batch(n))
    return pages


_CRASH_KEPT = 20


def crash_batch(number: int) -> WriteBatch:
    """Pages in two segments, the deletion of an older one, and the drop of what is old."""
    page = random.Random(number).randbytes(4_000)
    return WriteBatch(
        puts={number: {b"a": page, b"b": page}, number - 1: {b"c": page}},
        deletes={number - 2: {b"a"}},
        drop_before=number - _CRASH_KEPT // 2,
    )
