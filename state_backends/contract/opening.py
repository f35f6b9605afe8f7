"""Promises about opening, options, clearing and closing."""

import random
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from itertools import compress
from pathlib import Path

import pytest

from serializers import SerializationError
from state_backends.contract.base import Contract
from state_backends.contract.states import DAMAGES, assert_holds, check, fail
from state_backends.errors import StateError
from state_backends.interface import StateBackend, WriteBatch

_PAGES = {0: {b"a": b"1"}}
_THREADS = 8
_MANY, _LARGE, _DAMAGES = 500, 50_000, 8
"""Pages of a store that is damaged, the bytes of a file that has many of them, and how often each such file is damaged."""
_NONSENSE = ("", "-1", "no such value", "\N{SUPERSCRIPT TWO}")
_REFUSED = "check_options refuses values that open would refuse"
_NAME_THEM = (
    'Set the attribute `refused` of the test class to options that must be refused, such as [{"depth": "0"}], or to () '
    "if every text is a good value of each option"
)


class OpeningContract(Contract):
    """A store begins empty, is independent of others, and can be cleared and closed."""

    def test_new_store_is_empty(self, backend: StateBackend) -> None:
        """A store in a directory that did not exist has no version, no segments and no pages."""
        assert_holds(backend, {}, None, "a new store is empty")
        check("get_many returns None for a missing page", [None], backend.get_many(0, [b"a"]))

    def test_empty_directory_is_a_new_store(self, directory: Path) -> None:
        """A store in an empty directory has no version, no segments and no pages."""
        directory.mkdir(parents=True)
        with closing(self.open(directory)) as backend:
            assert_holds(backend, {}, None, "a store in an empty directory is empty")

    def test_known_options_are_described(self) -> None:
        """Every known option has a line of help; the options of this run are known, and their values good."""
        known = self.backend_class.known_options()
        without = {name: text for name, text in known.items() if not (name and text)}
        check("every known option has a name and a line of help", {}, without)
        named = {*self.options, *(name for options in self.refused or () for name in options)}
        check("options and refused of the suite name known ones", set(), named - set(known))
        self.backend_class.check_options(self.options)

    def test_bad_options_are_refused(self, tmp_path: Path) -> None:
        """What `refused` names is refused with the option and its value, and nonsense, unless `open` takes it."""
        self._refuses_nonsense(tmp_path)
        for options in self.refused or ():
            if not self._refuses(options):
                fail(_REFUSED, f"it accepted {dict(options)!r}")

    def _refuses_nonsense(self, tmp_path: Path) -> None:
        """What `open` refuses is refused before; and there is an option that does not take everything."""
        tried = [{name: text} for name in self.backend_class.known_options() for text in _NONSENSE]
        taken = [options for options in tried if not self._refuses(options)]
        for number, options in enumerate(taken):
            try:
                self.backend_class.open(tmp_path / "nonsense" / f"{number}", options).close()
            except (ValueError, StateError) as error:
                fail(_REFUSED, f"it accepted {options!r}, and open raised {error!r}. {_NAME_THEM}")
        if self.refused is None and tried and taken == tried:
            fail(_REFUSED, f"it accepted {_NONSENSE!r} for each option. {_NAME_THEM}")

    def _refuses(self, options: Mapping[str, str]) -> bool:
        """Whether check_options refuses one option; if so, it has to name it."""
        try:
            self.backend_class.check_options({**self.options, **options})
        except ValueError as error:
            missing = [text for item in options.items() for text in item if text not in str(error)]
            check(f"a refused option is named, with its value: {error}", [], missing)
            return True
        return False

    def test_options_have_defaults(self, directory: Path) -> None:
        """A store opens without any option, as tools that read a checkpoint open it."""
        self.backend_class.check_options({})
        with closing(self.backend_class.open(directory, {})) as backend:
            assert_holds(backend, {}, None, "a new store that is opened without options is empty")

    def test_stores_are_independent(self, backend: StateBackend, tmp_path: Path) -> None:
        """A store in another directory sees nothing of this one."""
        promise = "stores in two directories have nothing in common"
        backend.write(WriteBatch(puts=_PAGES), b"v1")
        with closing(self.open(tmp_path / "other")) as other:
            assert_holds(other, {}, None, promise)
            other.write(WriteBatch(puts={0: {b"a": b"2"}}), b"v2")
        assert_holds(backend, _PAGES, b"v1", promise)

    def test_another_thread_may_go_on(self, backend: StateBackend) -> None:
        """A store that one thread opened and wrote is read, written and read again by others, one after another."""
        promise = "calls may come from another thread than before, one at a time"
        pages: dict[int, dict[bytes, bytes]] = {0: {}}
        backend.write(WriteBatch(), b"0")

        def go_on(number: int) -> None:
            assert_holds(backend, pages if number else {}, b"%d" % number, promise)
            backend.write(WriteBatch(puts={0: {b"%d" % number: b"page"}}), b"%d" % (number + 1))

        with ExitStack() as all_threads:
            threads = [all_threads.enter_context(ThreadPoolExecutor(1)) for _ in range(_THREADS)]
            for number, thread in enumerate(threads):
                error = thread.submit(go_on, number).exception()
                if error is not None and not isinstance(error, AssertionError):
                    fail(promise, f"it raised {error!r}")
                if error is not None:
                    raise error
                pages[0][b"%d" % number] = b"page"
        assert_holds(backend, pages, b"%d" % _THREADS, promise)

    @pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
    def test_damaged_files_are_refused(self, directory: Path, damage: Callable[[bytes], bytes]) -> None:
        """A store whose files are damaged as a whole is empty, or raises StateError."""
        with closing(self.open(directory)) as backend:
            backend.write(WriteBatch(puts=_PAGES), b"v1")
        for path in [path for path in directory.rglob("*") if path.is_file()]:
            path.write_bytes(damage(path.read_bytes()))
        promise = "a store raises StateError where it cannot read what is there, and nothing else"
        try:
            with closing(self.open(directory)) as backend:
                assert_holds(backend, {}, None, promise)
        except StateError as error:
            check("an error says what is wrong", True, bool(str(error)))
        except AssertionError:
            raise
        except Exception as error:  # noqa: BLE001 - any other error breaks the promise
            fail(promise, f"it raised {error!r}")

    def test_no_read_ends_early(self, directory: Path) -> None:
        """A store of which some bytes have changed gives the keys and pages that it had, by each way to read it, or raises.

        Pages whose bytes have changed are the host's to find: they have a checksum.
        """
        rng = random.Random(1)
        keys = [b"%03d" % number for number in range(_MANY)]
        with closing(self.open(directory)) as backend:
            backend.write(WriteBatch(puts={0: {key: rng.randbytes(200) for key in keys}}), b"v1")
        ways: dict[str, Callable[[StateBackend], list[bytes]]] = {
            "iterate": lambda backend: [key for key, _ in backend.iterate(0)],
            "scan": lambda backend: [key for some, _ in backend.scan(0) for key in some],
            "scan_keys": lambda backend: [key for some in backend.scan_keys(0) for key in some],
            "get_many": lambda backend: list(
                compress(keys, (found is not None for found in backend.get_many(0, keys)))
            ),
        }
        paths = [path for path in directory.rglob("*") if path.is_file()]
        whole = {path.relative_to(directory): path.read_bytes() for path in paths}
        for name, data in whole.items():
            for _ in range(_DAMAGES if len(data) > _LARGE else 0):
                begin, length = rng.randrange(len(data)), rng.choice((1, 16, 512))
                changed = bytes(byte ^ 255 for byte in data[begin : begin + length])
                for way, read in ways.items():
                    shutil.rmtree(directory)
                    for other, as_it_was in whole.items():
                        (directory / other).parent.mkdir(parents=True, exist_ok=True)
                        (directory / other).write_bytes(as_it_was)
                    (directory / name).write_bytes(data[:begin] + changed + data[begin + length :])
                    with suppress(StateError, SerializationError), closing(self.open(directory)) as backend:
                        if backend.version is not None:
                            check(f"no read ends early: keys by {way}", keys, sorted(read(backend)))

    def test_clear_drops_all(self, backend: StateBackend) -> None:
        """After clear the store is like a new one and can be written."""
        backend.clear()
        pages = {n: {b"a": b"1"} for n in (-5, 5)}
        backend.write(WriteBatch(puts=pages), b"v1")
        assert_holds(backend, pages, b"v1")
        backend.clear()
        assert_holds(backend, {}, None, "clear drops every page and the version")
        backend.write(WriteBatch(puts={5: {b"b": b"2"}}), b"v2")
        assert_holds(backend, {5: {b"b": b"2"}}, b"v2", "a cleared store can be written")

    def test_clear_holds_after_reopening(self, directory: Path) -> None:
        """What was cleared does not come back with the next open."""
        with closing(self.open(directory)) as backend:
            backend.write(WriteBatch(puts=_PAGES), b"v1")
            backend.clear()
        with closing(self.open(directory)) as backend:
            assert_holds(backend, {}, None, "what was cleared does not come back with the next open")

    def test_close_twice(self, directory: Path) -> None:
        """A second close is not an error."""
        backend = self.open(directory)
        backend.write(WriteBatch(puts=_PAGES), b"v1")
        backend.close()
        backend.close()
