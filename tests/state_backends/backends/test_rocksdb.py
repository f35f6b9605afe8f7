"""What RocksDB adds to the contract: key order, foreign and locked directories, crashes of real processes."""

import pickle
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from serializers import CorruptDataError
from state_backends import StateError, WriteBatch
from state_backends.backends.rocksdb import RocksDBBackend, segment_of, segment_prefix
from state_backends.contract import AWKWARD_SEGMENTS, assert_holds, crash_state
from state_backends.errors import DamagedCopyError
from tests.patience import wait_until

ROOT = Path(__file__).parents[3]


def test_segment_prefixes_sort_as_numbers() -> None:
    """The bytes of segments are in the order of their numbers, all of one length, and can be read back."""
    numbers = sorted({*AWKWARD_SEGMENTS, -(2**63), 2**63 - 1})
    prefixes = [segment_prefix(number) for number in numbers]
    assert sorted(prefixes) == prefixes
    assert {9} == {len(prefix) for prefix in prefixes}
    assert numbers == [segment_of(prefix + b"key") for prefix in prefixes]


def test_first_and_last_segment(tmp_path: Path) -> None:
    """The very first and the very last 64-bit segment are segments like any other, also after reopening."""
    pages = {number: {b"": b"1", b"\xff" * 20: b"2"} for number in (-(2**63), 2**63 - 1)}
    with opened(tmp_path) as backend:
        backend.write(WriteBatch(puts=pages), b"v")
        assert_holds(backend, pages, b"v")
    with opened(tmp_path) as backend:
        assert_holds(backend, pages, b"v")


@contextmanager
def opened(directory: Path, **options: str) -> Iterator[RocksDBBackend]:
    """An open store that is closed at the end."""
    backend = RocksDBBackend.open(directory, options)
    try:
        yield backend
    finally:
        backend.close()


def test_clean_close_keeps_the_last_version(tmp_path: Path) -> None:
    """What was written last is there after a clean close, though nothing is logged."""
    pages = {n: {b"%d" % i: b"page" for i in range(50)} for n in range(-5, 5)}
    with opened(tmp_path) as backend:
        backend.write(WriteBatch(puts=pages), b"v1")
        backend.write(WriteBatch(deletes={0: {b"7"}}, drop_segments_below=-2), b"v2")
    del pages[0][b"7"], pages[-5], pages[-4], pages[-3]
    with opened(tmp_path) as backend:
        assert_holds(backend, pages, b"v2")


@pytest.mark.parametrize("change", ["lz4", "zstd", "snappy", "none"])
def test_compression_may_change(tmp_path: Path, change: str) -> None:
    """A store is read whatever compression it was written with."""
    pages = {0: {b"a": b"page" * 10_000}}
    with opened(tmp_path, compression=change) as backend:
        backend.write(WriteBatch(puts=pages), b"v1")
    with opened(tmp_path) as backend:
        assert_holds(backend, pages, b"v1")


def test_state_larger_than_the_memtable(tmp_path: Path) -> None:
    """Pages that went to disk, and their overwrites and drops in other files, are read as one state."""
    pages: dict[int, dict[bytes, bytes]] = {}
    with opened(tmp_path, writeBufferMb="1") as backend:
        for number in range(30):
            for segment in [n for n in pages if n < number - 4]:
                del pages[segment]
            new = {b"%d" % i: b"%d" % (number * i) * 30_000 for i in range(3)}
            pages[number] = new
            backend.write(WriteBatch(puts={number: new}, drop_segments_below=number - 4), b"%d" % number)
        assert_holds(backend, pages, b"29")
    with opened(tmp_path) as backend:
        assert_holds(backend, pages, b"29")


def test_many_keys_are_read_in_the_order_asked(tmp_path: Path) -> None:
    """Pages of more keys than RocksDB is asked for at once come in the order asked, absent and repeated ones too."""
    backend = RocksDBBackend.open(tmp_path, {})
    backend.write(WriteBatch(puts={0: {b"%d" % n: b"page %d" % n for n in range(0, 10_000, 2)}}), b"v")
    asked = random.Random(1).choices(range(10_000), k=20_000)
    found = backend.get_many(0, [b"%d" % n for n in asked])
    assert [None if n % 2 else b"page %d" % n for n in asked] == found
    backend.close()


def test_format_of_another_version_is_refused(tmp_path: Path) -> None:
    """State of another format is refused by directory and format with the way out, and left alone."""
    with opened(tmp_path) as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v")
    with foreign(tmp_path) as db:
        db[b"m:format"] = b"2"
    for _ in range(2):
        with pytest.raises(
            StateError, match=f"{tmp_path} contains state of format b'2', this version reads b'1': delete"
        ):
            RocksDBBackend.open(tmp_path, {})
    with foreign(tmp_path) as db:
        assert b"v" == db[b"m:version"]


@contextmanager
def foreign(directory: Path) -> Iterator[Rdict]:
    """A RocksDB database opened by another program."""
    db = Rdict(str(directory), Options(raw_mode=True))
    try:
        yield db
    finally:
        db.close()


@pytest.mark.parametrize("key", [b"somebody's key", b"p", b"page", b"p" + bytes(8) + b"key"], ids=repr)
def test_database_of_another_program_is_refused(tmp_path: Path, key: bytes) -> None:
    """A RocksDB database that is not ours is refused by its directory, and nothing in it is changed."""
    with foreign(tmp_path) as db:
        db[key] = b"somebody's value"
    with pytest.raises(StateError, match=str(tmp_path)):
        RocksDBBackend.open(tmp_path, {})
    with foreign(tmp_path) as db:
        assert {key: b"somebody's value"} == dict(db.items())


def test_database_of_another_kind_is_refused(tmp_path: Path) -> None:
    """A database with typed keys, as rocksdict makes them by default, is refused by its directory."""
    db = Rdict(str(tmp_path))
    db["name"] = 5
    db.close()
    with pytest.raises(StateError, match=str(tmp_path)):
        RocksDBBackend.open(tmp_path, {})


class Planted:
    """A value that runs code when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.trace.touch, ()


def test_nothing_is_unpickled_whatever_a_database_says_of_itself(tmp_path: Path) -> None:
    """One that rocksdict would unpickle values of is read as bytes: by its own word, or by that of a file put beside ours."""
    trace, theirs, ours, control = (tmp_path / name for name in ("trace", "theirs", "ours", "control"))
    for directory in (theirs, control):
        db = Rdict(str(directory))
        db["name"] = Planted(trace)
        db.close()
    with pytest.raises(StateError, match="of another program"):
        RocksDBBackend.open(theirs, {})
    with opened(ours) as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"\x06" + pickle.dumps(Planted(trace))}}), b"v")
    (ours / "rocksdict-config.json").write_bytes((theirs / "rocksdict-config.json").read_bytes())
    with opened(ours) as backend:
        assert b"\x06" + pickle.dumps(Planted(trace)) == backend.get_many(0, [b"a"])[0]
    assert not trace.exists()
    db = Rdict(str(control))
    _ = db["name"]
    db.close()
    assert trace.exists()


def test_damaged_directory_is_refused(tmp_path: Path) -> None:
    """A directory whose database is damaged is refused by its name with the way out."""
    with opened(tmp_path) as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v")
    (tmp_path / "CURRENT").write_text("nothing of use\n")
    with pytest.raises(
        StateError, match=f"cannot open {tmp_path}.*delete the directory: the state is restored"
    ):
        RocksDBBackend.open(tmp_path, {})


@pytest.mark.parametrize("kind", [5, 6, 7, 8, 11, 200])
def test_a_list_from_which_rocksdb_does_not_come_back_is_damage(
    long_list: Path, tmp_path: Path, kind: int
) -> None:
    """RocksDB reads a record of a recycled log without end, behind others. It is not asked to: the copy is rebuilt."""
    path = copied_manifest(long_list, tmp_path / "store")
    data = path.read_bytes()
    types = manifest_types(data)
    for at in (types[1], random.Random(kind).choice(types), types[-1]):
        path.write_bytes(data[:at] + bytes([kind]) + data[at + 1 :])
        with pytest.raises(
            DamagedCopyError, match=f"{path.name} has a record of type {kind} at byte {at - 6}"
        ):
            RocksDBBackend.open(tmp_path / "store", {})
    path.write_bytes(data)
    with opened(tmp_path / "store") as backend:
        backend.snapshot(tmp_path / "snapshot")
        files = [file.name for file in (tmp_path / "snapshot").iterdir()]
        backend.check_snapshot(tmp_path / "snapshot", files)
        (copied,) = (tmp_path / "snapshot").glob("MANIFEST-*")
        copied.write_bytes(data[: types[1]] + bytes([kind]) + data[types[1] + 1 :])
        with pytest.raises(DamagedCopyError, match=f"has a record of type {kind}"):
            backend.check_snapshot(tmp_path / "snapshot", files)


@pytest.mark.parametrize("size", [7, 512, 4096])
def test_zeros_inside_a_list_of_files_are_damage(long_list: Path, tmp_path: Path, size: int) -> None:
    """RocksDB would go on with the next block, and have none of the files that this one lists."""
    path = copied_manifest(long_list, tmp_path / "store")
    data = path.read_bytes()
    at = manifest_types(data)[20] - 6
    path.write_bytes(data[:at] + bytes(size) + data[at + size :])
    with pytest.raises(DamagedCopyError, match=f"{path.name} has zeros at byte {at}, before other records"):
        RocksDBBackend.open(tmp_path / "store", {})
    path.write_bytes(data + bytes(64 << 10))  # as space that RocksDB reserves
    with opened(tmp_path / "store") as backend:
        assert len(list(backend.iterate(0))) == 300


@pytest.fixture(scope="module")
def long_list(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database whose list of files is longer than a block of 32 KiB."""
    directory = tmp_path_factory.mktemp("long") / "store"
    rng = random.Random(1)
    with opened(directory) as backend:
        for n in range(300):
            backend.write(WriteBatch(puts={0: {rng.randbytes(200): b"1"}}), b"v%d" % n)
            backend._act(backend._db.flush)
    return directory


def copied_manifest(directory: Path, to: Path) -> Path:
    """Copy a database, and return the path of the copy's list of files."""
    shutil.copytree(directory, to)
    (path,) = to.glob("MANIFEST-*")
    assert path.stat().st_size > 32 << 10
    return path


def manifest_types(data: bytes) -> list[int]:
    """Return where the types of records stand in a list of files."""
    found, at = [], 0
    while at + 7 <= len(data):
        if at % (32 << 10) > (32 << 10) - 7:  # What is left of a block is too short for a header.
            at += -at % (32 << 10)
            continue
        found.append(at + 6)
        at += 7 + int.from_bytes(data[at + 4 : at + 6], "little")
    return found


def test_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """A file where the directory should be is an error that names it."""
    (tmp_path / "store").write_text("a file")
    with pytest.raises(StateError, match=str(tmp_path / "store")):
        RocksDBBackend.open(tmp_path / "store", {})


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """A directory with files of somebody else is refused, or the files survive all that the store does."""
    (tmp_path / "thesis.txt").write_text("ten years of work")
    try:
        with opened(tmp_path) as backend:
            backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v")
            backend.clear()
    except StateError:
        pass
    assert ["thesis.txt"] == [path.name for path in tmp_path.glob("*.txt")]


@pytest.mark.slow
def test_clear_that_is_lost(tmp_path: Path) -> None:
    """A process that dies right after it cleared leaves the old state, whole, or an empty store."""
    with opened(tmp_path / "store") as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v")
    binding = (
        "import os, pathlib, state_backends.backends.rocksdb as r\n"
        f"r.RocksDBBackend.open(pathlib.Path({str(tmp_path / 'store')!r}), {{}}).clear()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert (
        -signal.SIGKILL == subprocess.run([sys.executable, "-c", binding], cwd=ROOT, check=False).returncode
    )
    with opened(tmp_path / "store") as backend:
        assert_holds(backend, *(({}, None) if backend.version is None else ({0: {b"a": b"1"}}, b"v")))


HOLDER = """
import sys
from pathlib import Path
from state_backends.backends.rocksdb import RocksDBBackend
backend = RocksDBBackend.open(Path(sys.argv[1]), {})
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_lock_of_another_process(tmp_path: Path) -> None:
    """A directory that another process holds is refused by its name, until that process ends."""
    with opened(tmp_path) as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v")
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    with holder:
        assert holder.stdout is not None
        assert b"open\n" == holder.stdout.readline()
        with pytest.raises(
            StateError, match=f"cannot open {tmp_path}.*[lL]ock.*If another process uses the directory, stop"
        ):
            RocksDBBackend.open(tmp_path, {})
        holder.kill()
    with opened(tmp_path) as backend:
        assert_holds(backend, {0: {b"a": b"1"}}, b"v")


def test_lock_of_this_process(tmp_path: Path) -> None:
    """A directory that this process has open already is refused by its name, and the first store goes on."""
    with opened(tmp_path) as backend:
        with pytest.raises(StateError, match=f"cannot open {tmp_path}"):
            RocksDBBackend.open(tmp_path, {})
        backend.write(WriteBatch(puts={0: {b"a": b"1"}}), b"v")
        assert_holds(backend, {0: {b"a": b"1"}}, b"v")


WRITER = """
import sys
from state_backends.contract import write_forever
write_forever("rocksdb", sys.argv[1], {"writeBufferMb": "1"})
"""


@pytest.mark.slow
@pytest.mark.kill
def test_killed_process_leaves_a_version_that_went_to_disk(tmp_path: Path) -> None:
    """After SIGKILL in the midst of writes the store shows some version whole and can be written."""
    seen = []
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert child.stdout is not None
        with child.stdout:
            assert b"writing\n" == child.stdout.readline()
            child.send_signal(signal.SIGKILL)
        assert -signal.SIGKILL == child.wait()
        with opened(tmp_path) as backend:
            seen.append(backend.version)
            number = -1 if backend.version is None else int(backend.version)
            assert_holds(backend, crash_state(number), backend.version)
            backend.clear()
    assert any(version is not None for version in seen)


def test_files_that_are_no_snapshot_are_refused(tmp_path: Path) -> None:
    """A snapshot of other files is refused, and the store goes on, empty."""
    with opened(tmp_path / "store") as backend:
        backend.write(WriteBatch(puts={0: {b"a": b"page"}}), b"v1")
        backend.snapshot(tmp_path / "good")
        (tmp_path / "bad").mkdir()
        (tmp_path / "bad" / "CURRENT").write_text("nonsense")
        with pytest.raises(CorruptDataError, match="not a database of this library"):
            backend.restore(tmp_path / "bad")
        assert_holds(backend, {}, None)
        backend.restore(tmp_path / "good")
        assert_holds(backend, {0: {b"a": b"page"}}, b"v1")


@pytest.mark.slow
def test_dropped_segments_free_the_disk(tmp_path: Path) -> None:
    """What lies on disk follows what is live while segments come and go, and is next to nothing when all are gone."""
    rng = random.Random(1)
    with opened(tmp_path, writeBufferMb="4") as backend:
        for number in range(100):
            pages = {b"%d" % n: rng.randbytes(10_000) for n in range(400)}
            backend.write(WriteBatch(puts={number: pages}, drop_segments_below=number - 4), b"v%d" % number)
            shrink_below(5 * 4_000_000 + (64 << 20) + (16 << 20), tmp_path)
        backend.write(WriteBatch(drop_segments_below=100), b"end")
        shrink_below(1 << 20, tmp_path)
        assert_holds(backend, {}, b"end")


def shrink_below(size: int, folder: Path) -> None:
    """Wait until the tables in a folder have fewer bytes: RocksDB removes files when it finds the time."""
    wait_until(
        lambda: disk_bytes(folder) < size, f"tables of less than {size} bytes", lambda: disk_bytes(folder), 20
    )


def disk_bytes(folder: Path) -> int:
    """Bytes of all tables in a folder; RocksDB removes some meanwhile."""
    total = 0
    for path in folder.glob("*.sst"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total
