"""Object stores that are slow, that are overloaded, or whose lists are late."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from s3_server import S3

from state_backends.durability.folders import Folder
from state_backends.durability.snapshots import SnapshotFolder
from tests.state_backends.durability.snapshot_store import Store


def requests(s3: S3, act: Callable[[], object]) -> dict[str, int]:
    """What the store is asked meanwhile, by methods."""
    before = Counter(s3.asked())
    act()
    return dict(Counter(s3.asked()) - before)


def test_requests_of_a_small_file(s3: S3) -> None:
    """It is written by one request, read by two, and looked for by one."""
    folder = Folder(s3.uri("bucket/requests"))
    assert {"PUT": 1} == requests(s3, lambda: folder.write("a/b", bytes(1_000)))
    assert {"HEAD": 1, "GET": 1} == requests(s3, lambda: folder.read("a/b"))
    assert {"HEAD": 1} == requests(s3, lambda: folder.has("a/b"))


@pytest.mark.slow
def test_a_late_answer_is_waited_for(s3: S3) -> None:
    """A store that answers after four seconds is asked once."""
    folder = Folder(s3.uri("bucket/late"))
    folder.write("a/b", b"1")
    s3.switch(delay=4)
    try:
        assert {"HEAD": 1, "GET": 1} == requests(s3, lambda: folder.read("a/b"))
    finally:
        s3.switch()


@pytest.mark.slow
def test_throttling_slows_and_does_not_fail(s3: S3, tmp_path: Path) -> None:
    """Of all requests, a third is refused for now: files are written, listed, read, copied and removed."""
    folder, data = Folder(s3.uri("bucket/throttled")), os.urandom(6 << 20)
    s3.switch(fail=0.33, status=503)
    try:
        folder.write("a/b", data)
        assert folder.copy("a/b", "a/c")
        assert {"a/b", "a/c"} == {one.name for one in folder.list("a")}
        assert folder.fetch("a/c", tmp_path / "c", len(data), bytes)
        folder.remove("a/c")
    finally:
        s3.switch()
    assert (True, False) == (folder.has("a/b"), folder.has("a/c"))
    assert data == (tmp_path / "c").read_bytes()


def test_a_late_list_takes_no_file_from_a_snapshot(s3: S3, tmp_path: Path) -> None:
    """A snapshot that the list leaves out keeps the file that it shares with one that is removed."""
    shared, store = os.urandom(1 << 20), SnapshotFolder(Folder(s3.uri("bucket/late-list")), "store")
    first = store.write("1-first", b"1", "rocksdb", [("large", shared)], None)
    s3.switch(late=True)
    second = store.write("2-second", b"2", "rocksdb", [("large", shared), ("new", b"2")], first)
    assert first.parts[0].file == second.parts[0].file
    store.clean({"2-second"}, {"1-first"})
    s3.switch()
    assert not store.has("1-first")
    store.fetch(store.manifest("2-second"), tmp_path / "fetched")
    assert shared == (tmp_path / "fetched" / "large").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "rocksdb"])
def test_lists_that_are_always_late(tmp_path: Path, s3: S3, opened: Callable[..., Store], kind: str) -> None:
    """Snapshots of a state are written, replaced and restored while lists leave out what is new."""
    store = opened(tmp_path, s3.uri(f"bucket/late-{kind}"), bytes=20_000)
    copy = store.copy(kind)
    try:
        for _ in range(4):
            s3.switch(late=True)
            store.snapshots(copy, 3)
            store.assert_restores(kind)
    finally:
        s3.switch()
    store.assert_restores("memory")
