"""Promises about snapshots: a copy that no later write changes, and that brings back exactly the state.

A backend without snapshots is tested with those of the host: all pages, written back in parts.
"""

import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from serializers import CorruptDataError, SerializationError
from state_backends.contract.base import Contract
from state_backends.contract.states import AWKWARD_KEYS, DAMAGES, FAR, assert_holds, check, fail
from state_backends.durability.pages_in_parts import Pages, fill, page_parts
from state_backends.errors import DamagedCopyError, StateError
from state_backends.interface import StateBackend, WriteBatch

_PAGES = {n: dict.fromkeys(AWKWARD_KEYS, b"%d" % n * 50) for n in (-FAR, -1, 0, 7)}
_BACK = "restore brings back the pages and the version of the snapshot, and nothing else"
_FIXED = "files of a snapshot do not change, whatever happens to the store"
_FAILED = "a snapshot that cannot be written raises StateError or OSError, and leaves the store as it was"
_CHECKED = "what check_snapshot accepts, restore brings back, and it accepts files that are whole"
_MANY = 500
"""Pages of a store whose snapshot is damaged."""
_REFUSED = "restore of files that are not a snapshot raises CorruptDataError and leaves the store empty"


class _Copy:
    """A snapshot of a store, as the host takes it; it may be restored any number of times."""

    def __init__(self, backend: StateBackend, directory: Path) -> None:
        self.directory = directory
        self._version = backend.version
        self._parts: list[Pages] = []
        if not backend.snapshots:
            self._parts += page_parts(backend)
            return
        directory.parent.mkdir(parents=True, exist_ok=True)
        backend.snapshot(directory)
        others = [path.name for path in directory.iterdir() if path.is_symlink() or not path.is_file()]
        check("a snapshot is plain files, without folders and symbolic links", [], others)

    def files(self) -> dict[str, bytes]:
        """What the files hold, by name."""
        return {path.name: path.read_bytes() for path in self.directory.glob("*")}

    def give(self, backend: StateBackend) -> None:
        """Restore the store from it."""
        if backend.snapshots:
            taken = shutil.copytree(self.directory, self.directory.with_name(f"{self.directory.name}-taken"))
            backend.restore(taken)
            shutil.rmtree(taken, ignore_errors=True)
            return
        if self._version is None:
            backend.clear()
        else:
            fill(backend, self._parts, self._version)


class SnapshotContract(Contract):
    """What `snapshots` promises; if it is False, that the host's snapshots work."""

    def test_snapshot_brings_the_store_back(self, backend: StateBackend, tmp_path: Path) -> None:
        """A new store that is restored from a snapshot is equal to the old one, which a snapshot leaves as it is."""
        backend.write(WriteBatch(puts=_PAGES), b"v1")
        copy = _Copy(backend, tmp_path / "copies" / "1")
        assert_holds(backend, _PAGES, b"v1", "a snapshot leaves the store as it is")
        with closing(self.open(tmp_path / "restored")) as restored:
            copy.give(restored)
            assert_holds(restored, _PAGES, b"v1", _BACK)

    def test_snapshot_without_pages(self, backend: StateBackend, tmp_path: Path) -> None:
        """A store whose pages are all gone has a snapshot too: its version."""
        backend.write(WriteBatch(puts=_PAGES), b"v1")
        backend.write(WriteBatch(drop_segments_below=FAR), b"v2")
        copy = _Copy(backend, tmp_path / "copies" / "1")
        with closing(self.open(tmp_path / "restored")) as restored:
            copy.give(restored)
            assert_holds(restored, {}, b"v2", _BACK)

    def test_later_writes_leave_snapshots_alone(self, directory: Path, tmp_path: Path) -> None:
        """Writes, drops, later snapshots, clear and close change no file of a snapshot, and so nothing that it restores."""
        with closing(self.open(directory)) as backend:
            backend.write(WriteBatch(puts=_PAGES), b"v1")
            first = _Copy(backend, tmp_path / "copies" / "1")
            files = first.files()
            changes = WriteBatch({0: {b"a": b"2"}, 9: {b"b": b"2"}}, {7: set(AWKWARD_KEYS)}, -1)
            later = {-1: _PAGES[-1], 0: {**_PAGES[0], b"a": b"2"}, 9: {b"b": b"2"}}
            backend.write(changes, b"v2")
            second = _Copy(backend, tmp_path / "copies" / "2")
            check(_FIXED, files, first.files())
            backend.clear()
            check(_FIXED, files, first.files())
        check(_FIXED, files, first.files())
        with closing(self.open(tmp_path / "restored")) as restored:
            first.give(restored)
            assert_holds(restored, _PAGES, b"v1", _BACK)
            second.give(restored)
            assert_holds(restored, later, b"v2", "restore replaces all that the store held")

    def test_failed_snapshot_changes_nothing(self, backend: StateBackend, tmp_path: Path) -> None:
        """A snapshot that cannot be written raises StateError or OSError, and the store goes on; without snapshots none can."""
        backend.write(WriteBatch(puts=_PAGES), b"v1")
        if not backend.snapshots:
            with pytest.raises(NotImplementedError):
                backend.snapshot(tmp_path / "1")
            assert_holds(backend, _PAGES, b"v1", _FAILED)
            return
        (tmp_path / "file").write_text("no folder")
        try:
            backend.snapshot(tmp_path / "file" / "1")
        except (StateError, OSError):
            assert_holds(backend, _PAGES, b"v1", _FAILED)
        except Exception as error:  # noqa: BLE001 - any other error breaks the promise
            fail(_FAILED, f"it raised {error!r}")
        else:
            fail(_FAILED, "it raised nothing")
        backend.write(WriteBatch(drop_segments_below=0), b"v2")
        left = {number: pages for number, pages in _PAGES.items() if number >= 0}
        copy = _Copy(backend, tmp_path / "copies" / "1")
        copy.give(backend)
        assert_holds(backend, left, b"v2", _FAILED)

    def test_damaged_files_are_not_stored(self, backend: StateBackend, tmp_path: Path) -> None:
        """A snapshot of which a file has changed, or was cut, is refused by check_snapshot, or is restored as a whole."""
        page = random.Random(1).randbytes
        pages = {0: {b"%03d" % number: page(200) for number in range(_MANY)}}
        backend.write(WriteBatch(puts=pages), b"v1")
        copy = _Copy(backend, tmp_path / "copies" / "1")
        files = copy.files()
        self._check(backend, copy, None)
        for number, (name, data) in enumerate(sorted(files.items())):
            middle = len(data) // 2
            for how in (
                data[:middle]
                + bytes(byte ^ 255 for byte in data[middle : middle + 16])
                + data[middle + 16 :],
                data[:middle],
            ):
                if how == data:
                    continue
                (copy.directory / name).unlink()  # It may be a link to a file of the store.
                (copy.directory / name).write_bytes(how)
                if self._check(backend, copy, name):
                    self._comes_back(copy, tmp_path / f"restored-{number}-{len(how)}", pages, name)
                (copy.directory / name).write_bytes(data)

    def _check(self, backend: StateBackend, copy: "_Copy", damaged: str | None) -> bool:
        """Whether the snapshot is accepted."""
        try:
            backend.check_snapshot(copy.directory, list(copy.files()))
        except DamagedCopyError as error:
            if damaged is None:
                fail(_CHECKED, f"it refused a snapshot that is whole: {error}")
            return False
        except Exception as error:  # noqa: BLE001 - any other error breaks the promise
            fail(_CHECKED, f"it raised {error!r}")
        return True

    def _comes_back(self, copy: "_Copy", place: Path, pages: Pages, damaged: str) -> None:
        """The snapshot is restored to these pages."""
        promise = f"{_CHECKED}: {damaged} is damaged"
        with closing(self.open(place)) as restored:
            try:
                copy.give(restored)
                assert_holds(restored, pages, b"v1", promise)
            except (StateError, SerializationError) as error:
                fail(promise, f"it raised {error!r}")

    def test_restored_store_goes_on(self, backend: StateBackend, tmp_path: Path) -> None:
        """A restored store can be written, closed and opened again, and is then some version, whole."""
        backend.write(WriteBatch(puts=_PAGES), b"v1")
        copy = _Copy(backend, tmp_path / "copies" / "1")
        place, more = tmp_path / "restored", {**_PAGES, 8: {b"a": b"1"}}
        with closing(self.open(place)) as restored:
            restored.write(WriteBatch(puts={5: {b"a": b"gone"}}), b"before")
            copy.give(restored)
            restored.write(WriteBatch(puts={8: {b"a": b"1"}}), b"v2")
            assert_holds(restored, more, b"v2", "a restored store can be written")
        with closing(self.open(place)) as again:
            states = {None: {}, b"v1": _PAGES, b"v2": more}
            promise = "a restored store that is opened again shows the snapshot, or a later write, whole, or is empty"
            if again.version not in states:
                fail(promise, f"its version is {again.version!r}")
            assert_holds(again, states[again.version], again.version, promise)

    @pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
    def test_restore_refuses_what_is_no_snapshot(
        self, backend: StateBackend, tmp_path: Path, damage: Callable[[bytes], bytes]
    ) -> None:
        """Files of other bytes are refused, and leave an empty store that can be restored; without snapshots all are."""
        pages = {0: {b"a": b"1"}}
        backend.write(WriteBatch(puts=pages), b"v1")
        if not backend.snapshots:
            with pytest.raises(NotImplementedError):
                backend.restore(tmp_path)
            assert_holds(backend, pages, b"v1")
            return
        copy = _Copy(backend, tmp_path / "copies" / "1")
        damaged = tmp_path / "copies" / "damaged"
        damaged.mkdir()
        for name, data in copy.files().items():
            (damaged / name).write_bytes(damage(data))
        try:
            backend.restore(damaged)
        except CorruptDataError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it is another than the one promised
            fail(_REFUSED, f"it raised {error!r}")
        else:
            fail(_REFUSED, "it raised nothing")
        assert_holds(backend, {}, None, _REFUSED)
        copy.give(backend)
        assert_holds(backend, pages, b"v1", "a store that refused such files can be restored from one")
