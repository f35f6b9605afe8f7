"""Snapshots that take long, break off, or fail for long: nothing is sent twice, and the changelog stays bounded."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from s3_server import S3

from state_backends import WriteBatch
from state_backends.durability import pages_in_parts, schedule
from state_backends.durability.counts import SnapshotCounts
from state_backends.durability.durable import Durable
from state_backends.durability.pointer import Pending, Snapshot
from state_backends.durability.progress import Progress
from tests.state_backends.durability.snapshot_store import Store, names

LARGE = 1 << 20
"""Files of so many bytes are not written again where they can be had."""
DIGEST = "0a" * 32


def begun(store: Store, copy: Durable) -> Pending:
    """The snapshot that the copy begins as soon as one is due."""
    while store.pointer.pending is None:
        store.commit(copy)
    return store.pointer.pending


def manifests(store: Store) -> set[str]:
    """The complete snapshots in the folder."""
    found = [one.name for one in store.folder.folder.list(store.pointer.store_id)]
    return {Path(name).stem for name in found if name.endswith(".json")}


@pytest.mark.slow
def test_a_long_upload_is_waited_for(
    tmp_path: Path,
    opened: Callable[..., Store],
    s3: S3,
    clock: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    """However long it takes: the copy that writes it begins no other one, and after a quarter of an hour says so."""
    store = opened(tmp_path, s3.uri(f"bucket/long-{kind}"), bytes=20_000, background=True)
    copy = store.copy(kind)
    s3.switch(delay=0.7, methods="PUT,POST")
    pending = begun(store, copy)
    for seconds, overdue in ((890, False), (20, True), (100_000, True), (10_000_000, True)):
        clock.now += seconds
        store.commit(copy)
        assert pending == store.pointer.pending
        assert SnapshotCounts(0, 0, overdue=overdue) == copy.drain_snapshot_counts()
    told = [
        record.getMessage() for record in caplog.records if "is not complete after" in record.getMessage()
    ]
    assert 1 == len(told)
    assert f"{pending.snapshot.name} is not complete after 15 minutes" in told[0]
    s3.switch()
    copy._uploads.wait()
    assert {pending.snapshot.name} == manifests(store)
    store.commit(copy)
    assert pending.snapshot.name in {one.name for one in store.pointer.snapshots}
    assert SnapshotCounts(1, 0, overdue=False) == copy.drain_snapshot_counts()
    store.assert_restores("memory")


@pytest.mark.parametrize("owner", ["living", "another-host:1"])
@pytest.mark.parametrize(
    ("name", "stored", "failures", "waits"),
    [
        ("0-x", 0, 0, True),
        ("0-x", 890, 0, True),
        ("0-x", 910, 0, False),
        ("0-x", 910, 1, True),
        ("0-x", -890, 0, True),
        ("0-x", -10_000_000, 0, False),
        ("0-y", 0, 0, False),
    ],
)
def test_another_process_is_waited_for_as_long_as_it_stores_files(
    tmp_path: Path,
    opened: Callable[..., Store],
    clock: SimpleNamespace,
    living: str,
    owner: str,
    name: str,
    stored: int,
    failures: int,
    *,
    waits: bool,
) -> None:
    """A quarter of an hour is counted from the last file, whatever hours the snapshot takes."""
    store = opened(tmp_path)
    copy = store.copy("memory")
    pending = Pending(Snapshot(0, bytes(16), 0, store.uri, "0-x"), 0, clock.now - 30_000, owner)
    if owner == "living":
        pending = Pending(pending.snapshot, 0, pending.since, living)
    file = store.files / "files" / f"{DIGEST}-{name}"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"a part")
    os.utime(file, (clock.now - stored,) * 2)
    store.pointer = replace(store.pointer, pending=pending, failures=failures)
    for _ in range(2):
        store.commit(copy)
        assert waits == (store.pointer.pending == pending)
    assert waits == copy.drain_snapshot_counts().overdue
    clock.now += 100_000
    store.commit(copy)
    assert None is store.pointer.pending


@pytest.mark.parametrize("failures", [8, 10**4])
def test_after_a_long_outage_snapshots_are_tried_every_quarter_of_an_hour(
    tmp_path: Path, opened: Callable[..., Store], clock: SimpleNamespace, failures: int
) -> None:
    """However many failed before."""
    store = opened(tmp_path)
    pending = Pending(Snapshot(0, bytes(16), 0, store.uri, "0-x"), 0, clock.now, "")
    store.pointer = replace(store.pointer, pending=pending, failures=failures)
    copy = store.copy("memory")
    clock.now += 890
    store.commit(copy)
    assert pending == store.pointer.pending
    clock.now += 20
    store.commit(copy)
    assert (None, 2) == (store.pointer.pending, store.pointer.newest.number)


def fill(store: Store, copy: Durable, count: int) -> int:
    """Write so much that a copy of either kind has this many large files; return the bytes of each."""
    for number in range(count):
        pages = {b"%d" % key: os.urandom(45_000) for key in range(100)}
        store.commit(copy, WriteBatch({number: pages}))
        if copy.backend.snapshots and number < count - 1:
            copy.backend.snapshot(store.home / f"flush-{number}")
    return 4_500_000


@pytest.mark.slow
def test_what_a_broken_attempt_has_stored_is_not_sent_again(
    tmp_path: Path,
    opened: Callable[..., Store],
    s3: S3,
    clock: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """The storage copies it for the next attempt."""
    monkeypatch.setattr(
        pages_in_parts, "PART_BYTES", 2_200_000
    )  # So memory's snapshot is of eight files, all of more than a MiB.
    store = opened(tmp_path, s3.uri(f"bucket/broken-{kind}"), bytes=10_000_000)
    first = store.copy(kind)
    s3.switch(fail=1, methods="PUT", spare=7 if kind == "memory" else 3)
    before = s3.sent()
    each = fill(store, first, 3)
    s3.switch()
    stored = s3.sent() - before
    assert (0, True) == (store.pointer.newest.number, 2 * each < stored)
    clock.now += 60
    before = s3.sent()
    store.commit(first, WriteBatch({7: {b"k": b"small"}}))
    assert (4, 0) == (store.pointer.newest.number, store.pointer.failures)
    assert s3.sent() - before < 1.5 * each
    assert {one.rpartition("-")[2] for one in _files(store)} == {store.pointer.newest.name.rpartition("-")[2]}
    store.assert_restores("memory")
    store.assert_restores("rocksdb")


def _files(store: Store) -> set[str]:
    """What the newest snapshot is made of: all files have its name."""
    return {part.file for part in store.folder.manifest(store.pointer.newest.name).parts}


@pytest.mark.parametrize(
    ("file", "size", "copied"),
    [
        ("-8-0a", LARGE, True),
        ("-5-0a", LARGE, False),
        ("-8-0a", LARGE - 1, False),
        ("-8-0a.0123abcd.part", LARGE, False),
        ("-4-00", LARGE, False),
    ],
)
def test_only_whole_files_of_attempts_after_the_last_complete_one_are_copied(
    tmp_path: Path, opened: Callable[..., Store], file: str, size: int, *, copied: bool
) -> None:
    """Those of complete snapshots, and of attempts before, may be what was found to be damaged."""
    store = opened(tmp_path)
    folder, data = store.folder, os.urandom(LARGE)
    folder.write("5-00", bytes(16), "pages", [("part-0", b"small")], None)
    left = store.files / "files" / f"{hashlib.sha256(data).hexdigest()}{file}"
    left.write_bytes(data[:size])
    manifest = folder.write("9-ff", bytes(16), "pages", [("part-0", data)], None)
    (part,) = manifest.parts
    written = store.files / "files" / part.file
    assert data == written.read_bytes()
    assert part.file.endswith("-9-ff")
    assert copied == written.samefile(left)
    left.unlink()
    assert data == written.read_bytes()


@pytest.mark.parametrize("of", ["snapshots", "snapshots and those that it sends with"])
def test_a_shortage_of_threads_fails_no_batch(
    tmp_path: Path,
    opened: Callable[..., Store],
    clock: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    of: str,
) -> None:
    """The snapshot is written when the system can start threads again."""
    store = opened(tmp_path, batches=1)
    copy = store.copy("memory")
    if of != "snapshots":
        copy._uploads._pool.submit(int).result()  # It has its own thread.

    def start(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as short:
        short.setattr(Thread, "start", start)
        for _ in range(3):
            store.commit(copy)
            clock.now += 60
    counts = copy.drain_snapshot_counts()
    assert (0, True, True) == (counts.written, counts.failed > 0, counts.overdue)
    clock.now += 1_000
    while not store.pointer.newest.number:
        store.commit(copy)
    store.assert_restores("rocksdb")


@pytest.fixture
def short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of some kilobytes is a long one."""
    monkeypatch.setattr(schedule, "SHORT_LOG", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("short_logs")
def test_the_changelog_stays_bounded_while_the_folder_fails(
    tmp_path: Path,
    opened: Callable[..., Store],
    clock: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    """A small state goes into the journal from time to time; the folder is used again when it can be."""
    store = opened(tmp_path, bytes=20_000)
    copy, most, blobs = store.copy(kind), 0, 0
    store.snapshots(copy, 2)
    (tmp_path / "folder").rename(tmp_path / "away")
    (tmp_path / "folder").write_bytes(b"a file in the way")
    for number in range(120):
        store.commit(copy)
        clock.now += 60
        most = max(most, store.pointer.log_bytes)
        blobs = max(blobs, len(store.journal._blobs))
        if number > 20:
            assert copy.drain_snapshot_counts().overdue
    in_journal = store.pointer.newest
    assert ("", True) == (in_journal.name, in_journal.number > 0)
    assert most < 1.5 * schedule.LOG_TO_SNAPSHOT * max(20_000, in_journal.size)
    assert "the snapshot folder fails: a snapshot is written into the checkpoint itself" in caplog.text
    store.assert_restores("memory")
    store.assert_restores("rocksdb")
    (tmp_path / "folder").unlink()
    (tmp_path / "away").rename(tmp_path / "folder")
    clock.now += 1_000
    while not store.pointer.newest.name:
        store.commit(copy)
    assert not copy.drain_snapshot_counts().overdue
    assert 0 == sum(name.startswith("base-") for name in store.journal._blobs)
    store.assert_restores("memory")
    for name in names(store.files):
        os.utime(store.files / name, (1, 1))  # What was replaced during the outage is removed after an hour.
    for _ in range(60):
        store.commit(copy)
    kept = {one.name for one in (*store.pointer.snapshots, *store.pointer.retired)}
    assert kept == manifests(store)
    assert len(store.journal._blobs) <= blobs


@pytest.mark.usefixtures("short_logs")
def test_a_large_state_is_not_written_into_the_journal(
    tmp_path: Path,
    opened: Callable[..., Store],
    clock: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would stop the batch for long: the changelog grows without a bound, and the metric and the log say so."""
    monkeypatch.setattr(schedule, "MOST_IN_JOURNAL", 999)
    (tmp_path / "folder").write_bytes(b"a file in the way")
    store = opened(tmp_path, bytes=1_000)
    copy = store.copy("memory")
    for size, large in ((1_000, True), (999, False)):
        for _ in range(20):
            batch, progress = WriteBatch({0: {b"k": os.urandom(900)}}), Progress(usage=[[0, 1, 1, size]])
            store.pointer = copy.commit(store.journal, store.pointer, batch, progress)
            clock.now += 60
        assert copy.drain_snapshot_counts().overdue
        assert large == (store.pointer.newest.number == 0)
        assert large == (store.pointer.log_bytes > 18_000)
        assert store.pointer.store_id in caplog.text
        assert "cannot write a snapshot" in caplog.text or "was not completed" in caplog.text


@pytest.mark.slow
@pytest.mark.usefixtures("short_logs")
def test_a_snapshot_that_one_in_the_journal_has_overtaken(
    tmp_path: Path, opened: Callable[..., Store], s3: S3, clock: SimpleNamespace
) -> None:
    """It is complete in the end, counts for nothing, and is removed like those that were replaced."""
    store = opened(tmp_path, s3.uri("bucket/overtaken"), bytes=20_000, background=True, retain=2)
    copy = store.copy("memory")
    s3.switch(delay=0.7, methods="PUT,POST")
    pending = begun(store, copy)
    clock.now += 1_000
    while not store.pointer.newest.number:
        store.commit(copy)
    assert (pending, "") == (store.pointer.pending, store.pointer.newest.name)
    newest = store.pointer.newest
    s3.switch()
    copy._uploads.wait()
    store.commit(copy, WriteBatch({0: {b"k": b"small"}}))
    assert newest == store.pointer.newest
    assert [pending.snapshot.name] == [one.name for one in store.pointer.retired]
    store.assert_restores("rocksdb")
    for _ in range(4):
        store.commit(copy, WriteBatch({0: {b"k": b"small"}}))
    copy._uploads._pool.submit(int).result()  # Behind what is removed.
    assert pending.snapshot.name not in manifests(store)
    store.assert_restores("memory")
