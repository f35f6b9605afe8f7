"""Snapshots in a folder bring back exactly the state, whatever fails, is damaged, is killed, or comes twice."""

import hashlib
import json
import logging
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from s3_server import S3

from serializers import CorruptDataError, NewerFormatError
from state_backends import StateError, WriteBatch, load_backend
from state_backends.contract import Pages, crash_batch, crash_state, random_batch
from state_backends.durability import object_stores, policy
from state_backends.durability.counts import SnapshotCounts
from state_backends.durability.durable import Durable
from state_backends.durability.folders import Folder
from state_backends.durability.pointer import Pending, Pointer, Snapshot, read_pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress
from state_backends.durability.scratch import mark
from state_backends.durability.signed import file_digest
from state_backends.durability.snapshots import MANIFEST_VERSION, PAGES, Manifest, Part, SnapshotFolder
from state_backends.durability.uploads import is_dead, this_process
from state_backends.errors import DamagedCopyError
from state_backends.journal import MemoryJournal
from state_backends.sqlite_journal import SqliteJournal
from tests.state_backends.durability.snapshot_store import KINDS, Store, assert_holds, names, pages_of, rot

ROOT = Path(__file__).parents[3]
DIGEST = "0a" * 32
"""Begins the name of a file."""
of_linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc says when a process began")


@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("background", [False, True])
def test_restored_at_every_version(
    tmp_path: Path, opened: Callable[..., Store], kind: str, rng: random.Random, *, background: bool
) -> None:
    """A new copy of either kind is restored at every version, from snapshots of either kind."""
    store = opened(tmp_path, background=background)
    copy = store.copy(kind)
    adopted: set[str] = set()
    most = 25 if not background else 400
    while store.pointer.number < most and (not background or len(adopted) < 6):
        store.commit(copy, random_batch(rng))
        adopted |= {one.name for one in store.pointer.snapshots}
        if not background or store.pointer.number % 5 == 0:
            store.assert_restores("memory")
            store.assert_restores("rocksdb")
    assert 5 < len(adopted)
    assert {kind if kind == "rocksdb" else "pages"} == {
        store.folder.manifest(one.name).kind for one in store.pointer.snapshots
    }


@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
def test_snapshots_of_both_kinds_follow_each_other(
    tmp_path: Path, opened: Callable[..., Store], rng: random.Random
) -> None:
    """A query whose backend changes goes on from the other's snapshots, back and forth."""
    store = opened(tmp_path)
    for turn in range(6):
        copy = store.copy(KINDS[turn % 2])
        for _ in range(4):
            store.commit(copy, random_batch(rng))
        copy.close()
    store.assert_restores("memory")
    store.assert_restores("rocksdb")


@pytest.mark.slow
def test_snapshots_share_what_has_not_changed(tmp_path: Path, opened: Callable[..., Store]) -> None:
    """With 1 % of the state changed, a snapshot of RocksDB writes little and shares large files by name, no others."""
    store, rng = opened(tmp_path, bytes=1), random.Random(1)
    copy = store.copy("rocksdb")
    keys = [b"%d" % number for number in range(10_000)]
    store.commit(copy, WriteBatch({0: {key: rng.randbytes(400) for key in keys}}))
    before, written = names(store.files), []
    whole = store.pointer.newest.size
    for turn in range(3):
        if turn == 2:  # Also when the copy is a new one, which was restored.
            copy = store.copy("rocksdb")
        earlier = store.folder.manifest(store.pointer.newest.name)
        store.commit(copy, WriteBatch({0: {key: rng.randbytes(400) for key in rng.sample(keys, 100)}}))
        manifest = store.folder.manifest(store.pointer.newest.name)
        shared = {part.file for part in manifest.parts} & {part.file for part in earlier.parts}
        assert {part.file for part in earlier.parts if part.size >= 1 << 20} == shared != set()
        new = names(store.files) - before
        assert {part.file for part in manifest.parts} - shared == {
            name.removeprefix("files/") for name in new if name.startswith("files/")
        }
        written.append(sum((store.files / name).stat().st_size for name in new))
        before |= new
    assert max(written) < whole / 20
    store.assert_restores("memory")


def damage(path: Path, how: str) -> None:
    """Damage a file, unless it is empty."""
    blob = path.read_bytes()
    if not blob:
        return
    path.unlink()
    if how == "truncated":
        path.write_bytes(blob[: len(blob) // 2])
    if how == "flipped":
        path.write_bytes(
            blob[: len(blob) // 2] + bytes([blob[len(blob) // 2] ^ 1]) + blob[len(blob) // 2 + 1 :]
        )


def needed(store: Store, which: int) -> set[str]:
    """The files of a snapshot, its manifest included."""
    name = store.pointer.snapshots[which].name
    return {f"{name}.json"} | {f"files/{part.file}" for part in store.folder.manifest(name).parts}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("how", ["removed", "truncated", "flipped"])
def test_damaged_file_of_the_newest_snapshot(
    tmp_path: Path, opened: Callable[..., Store], caplog: pytest.LogCaptureFixture, kind: str, how: str
) -> None:
    """Any damaged file is named in a warning and the snapshot before does; a large file of both is a clear error."""
    store = opened(tmp_path, bytes=150_000)
    copy = store.copy(kind)
    if kind == "rocksdb":
        store.commit(copy, WriteBatch({10**6: {b"%d" % n: os.urandom(1_000) for n in range(1_500)}}))
    store.snapshots(copy, 3)
    store.commit(copy)
    newest, before = needed(store, 0), needed(store, 1)
    assert {name for name in newest & before if (store.files / name).stat().st_size < 1 << 20} == set()
    assert len(newest & before) == (kind == "rocksdb")
    shutil.copytree(store.files, tmp_path / "whole")
    for name in sorted(newest):
        if not (store.files / name).stat().st_size:
            continue  # Nothing to damage.
        damage(store.files / name, how)
        caplog.clear()
        if name in before:
            with pytest.raises(CorruptDataError, match=r"cannot be restored: .*Restore the files") as error:
                store.assert_restores("memory")
            assert str(store.files / name) in str(error.value)
        else:
            store.assert_restores("memory")
        assert any(str(store.files / name) in record.getMessage() for record in caplog.records)
        shutil.copy(tmp_path / "whole" / name, store.files / name)
        store.assert_restores("memory")


@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
def test_snapshots_go_on_after_a_damaged_one(tmp_path: Path, opened: Callable[..., Store], kind: str) -> None:
    """The snapshots after a fall-back share nothing with the damaged one, which is not counted on any more."""
    store = opened(tmp_path, bytes=150_000)
    copy = store.copy(kind)
    store.snapshots(copy, 3)
    bad, good = store.pointer.snapshots
    # Damaged are all files that only the newest has; its manifest is whole.
    for name in needed(store, 0) - needed(store, 1) - {f"{bad.name}.json"}:
        damage(store.files / name, "flipped")
    other = store.copy(kind)
    done = other.align(store.journal, store.pointer)
    assert ((good,), bad) == (done.pointer.snapshots, done.pointer.retired[-1])
    assert store.pointer.log_bytes < done.pointer.log_bytes
    store.pointer = done.pointer
    for _ in range(2):
        store.snapshots(other, 1)
        assert bad not in store.pointer.snapshots
        assert not {name for name in needed(store, 0) if bad.name in name}
        store.assert_restores("memory")
        store.assert_restores("rocksdb")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "rocksdb"])
def test_a_stored_snapshot_that_rocksdb_cannot_read(
    tmp_path: Path, opened: Callable[..., Store], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """It leads to the one before: where its pages are read at once, and for a second copy, after the first was damaged."""
    store = opened(tmp_path)
    copy = store.copy("rocksdb")
    pages = {b"%04d" % n: os.urandom(100) for n in range(2_000)}
    store.commit(copy, WriteBatch({10**6: pages}))
    store.snapshots(copy, 3)
    bad, good = store.pointer.snapshots
    rot(store.folder, bad.name)
    if kind == "rocksdb":
        first = store.copy(kind)
        assert not first.align(store.journal, store.pointer).current
        with pytest.raises(DamagedCopyError, match="cannot read"):
            pages_of(first)
    again = store.copy(kind)
    done = again.align(store.journal, store.pointer, check=kind == "rocksdb")
    assert ((good,), bad) == (done.pointer.snapshots, done.pointer.retired[-1])
    assert store.pages == pages_of(again)
    (warning,) = [
        one.getMessage() for one in caplog.records if "Trying an older snapshot" in one.getMessage()
    ]
    assert re.search(rf"the snapshot {store.folder.where(bad.name)} cannot be read: .*[.]sst", warning)


@pytest.mark.usefixtures("small_parts")
def test_same_content_as_in_a_damaged_snapshot_is_written_anew(
    tmp_path: Path, opened: Callable[..., Store]
) -> None:
    """A part that a damaged snapshot has under the right name is not taken for whole by the next one."""
    store = opened(tmp_path, bytes=400)
    copy = store.copy("memory")
    for number in range(4):
        store.commit(copy, WriteBatch({number: {b"k": bytes([number]) * 500}}))
    bad = store.pointer.newest
    for name in needed(store, 0) - needed(store, 1) - {f"{bad.name}.json"}:
        damage(store.files / name, "flipped")
    for number in range(4, 6):
        store.commit(store.copy("memory"), WriteBatch({number: {b"k": bytes([number]) * 500}}))
    assert bad not in store.pointer.snapshots
    store.assert_restores("memory")


@pytest.mark.usefixtures("small_parts")
def test_file_that_goes_away_while_a_copy_runs_on(
    tmp_path: Path, opened: Callable[..., Store], kind: str
) -> None:
    """Files that someone removed are written again by the next snapshot, though no copy was restored meanwhile."""
    store = opened(tmp_path, bytes=1, retain=1_000)
    copy = store.copy(kind)
    pages = {number: {b"k": bytes([number]) * 500} for number in range(4)}
    store.commit(copy, WriteBatch(pages))
    store.commit(copy, WriteBatch({9: {b"k": b"1"}}))
    for path in (store.files / "files").iterdir():
        path.unlink()
    store.commit(copy, WriteBatch({9: {b"k": b"2"}}))
    assert needed(store, 0) <= names(store.files)
    store.assert_restores("memory")


@pytest.mark.usefixtures("small_parts")
def test_both_snapshots_damaged(tmp_path: Path, opened: Callable[..., Store], kind: str) -> None:
    """When no snapshot is whole the error names a file of each and the way out; with the files all is well again."""
    store = opened(tmp_path, bytes=20_000)
    store.snapshots(store.copy(kind), 3)
    shutil.copytree(store.files, tmp_path / "whole")
    bad = [min(needed(store, which) - needed(store, 1 - which)) for which in (0, 1)]
    for name in bad:
        damage(store.files / name, "flipped")
    copy = store.copy(kind)
    with pytest.raises(CorruptDataError, match="go back to an earlier checkpoint, or start") as error:
        copy.align(store.journal, store.pointer)
    assert all(str(store.files / name) in str(error.value) for name in bad)
    assert store.pointer.version != copy.backend.version
    shutil.copytree(tmp_path / "whole", store.files, dirs_exist_ok=True)
    assert not copy.align(store.journal, store.pointer).current
    assert store.pages == pages_of(copy)


def signed(values: dict[str, object]) -> bytes:
    """A manifest with a good checksum."""
    body = json.dumps(values).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


@pytest.mark.parametrize("field", ["name", "file"])
@pytest.mark.parametrize("outside", ["../x", "/etc/passwd", "a/b", "..", ""])
def test_manifest_that_names_a_file_outside(
    tmp_path: Path, opened: Callable[..., Store], field: str, outside: str
) -> None:
    """It is refused by name before anything is read or written."""
    store = opened(tmp_path)
    store.snapshots(store.copy("memory"), 1)
    path = store.files / f"{store.pointer.newest.name}.json"
    values = json.loads(path.read_bytes().partition(b"\n")[2])
    values["parts"][0][field] = outside
    path.write_bytes(signed(values))
    with pytest.raises(
        CorruptDataError, match=f"manifest {path} names a file outside its folder: '{outside}'"
    ):
        store.folder.manifest(store.pointer.newest.name)


def test_manifest_of_a_newer_format(tmp_path: Path, opened: Callable[..., Store]) -> None:
    """It is an error with the way out, and no older snapshot is taken instead."""
    store = opened(tmp_path, bytes=20_000)
    store.snapshots(store.copy("memory"), 2)
    path = store.files / f"{store.pointer.newest.name}.json"
    values = json.loads(path.read_bytes().partition(b"\n")[2])
    path.write_bytes(signed(values | {"format": MANIFEST_VERSION + 1}))
    with pytest.raises(NewerFormatError, match=f"manifest {path} has format version 2; .*upgrade"):
        store.assert_restores("memory")


@pytest.mark.parametrize("foreign", ["another state", "another version"])
def test_manifest_that_is_not_of_this_snapshot(
    tmp_path: Path, opened: Callable[..., Store], caplog: pytest.LogCaptureFixture, foreign: str
) -> None:
    """A manifest of another state or version under this name is refused by name, and the snapshot before does."""
    store, other = opened(tmp_path / "a", bytes=20_000), opened(tmp_path / "b", bytes=20_000)
    store.snapshots(store.copy("memory"), 3)
    other.snapshots(other.copy("memory"), 1)
    path = store.files / f"{store.pointer.newest.name}.json"
    if foreign == "another state":
        shutil.copytree(other.files / "files", store.files / "files", dirs_exist_ok=True)
        shutil.copy(other.files / f"{other.pointer.newest.name}.json", path)
    else:
        shutil.copy(store.files / f"{store.pointer.snapshots[1].name}.json", path)
    store.assert_restores("memory")
    assert f"the manifest {path} belongs to {foreign}" in caplog.text


@pytest.mark.slow
@pytest.mark.usefixtures("compacting", "small_parts")
@pytest.mark.parametrize(("kind", "batches", "check"), [("memory", 500, 25), ("rocksdb", 100, 25)])
def test_folder_and_journal_stay_bounded(
    tmp_path: Path, opened: Callable[..., Store], kind: str, batches: int, check: int
) -> None:
    """Every one of the last batches can be restored, and what is older is removed: files, manifests and blobs."""
    store = opened(tmp_path, bytes=30_000, retain=10)
    copy = store.copy(kind)
    kept: list[tuple[MemoryJournal, Pointer, Pages]] = []
    sizes: dict[int, tuple[int, int, int]] = {}
    for number in range(1, batches + 1):
        store.commit(copy, host_batch=number)
        kept = [*kept[-10:], (store.committed(), store.pointer, store.pages)]
        found = names(store.files) if store.files.exists() else set()
        sizes[number] = (
            len(found),
            sum((store.files / name).stat().st_size for name in found),
            len(store.journal._blobs),
        )
        if number % check == 0:
            for journal, pointer, pages in kept:
                assert_holds(store, journal, pointer, "memory", pages)
    print({number: sizes[number] for number in (50, 100, 200, 300, 400, 500) if number in sizes})  # noqa: T201
    assert 5 < store.pointer.number - len(store.pointer.snapshots)
    for which in range(3):
        early = [sizes[number][which] for number in range(20, 60)]
        late = [sizes[number][which] for number in range(batches - 40, batches + 1)]
        assert max(late) <= 1.5 * max(early)
    used = {
        name for one in (*store.pointer.snapshots, *store.pointer.retired) for name in needed_by(store, one)
    }
    assert used == names(store.files)


def needed_by(store: Store, snapshot: Snapshot) -> set[str]:
    """The files of a snapshot, its manifest included."""
    parts = store.folder.manifest(snapshot.name).parts
    return {f"{snapshot.name}.json"} | {f"files/{part.file}" for part in parts}


@pytest.mark.slow
def test_what_failed_attempts_left_is_removed_after_an_hour(
    tmp_path: Path, opened: Callable[..., Store], kind: str
) -> None:
    """Their manifests and files stay for an hour, since nobody knows yet that they failed, and then go."""
    store = opened(tmp_path, bytes=20_000, retain=1)
    copy = store.copy(kind)
    store.snapshots(copy, 2)
    before = names(store.files)
    for _ in range(2):
        failed, lost, pointer = store.copy(kind), MemoryJournal(), store.pointer
        failed.align(store.journal, pointer)
        while pointer.newest == store.pointer.newest:
            pointer = failed.commit(lost, pointer, crash_batch(pointer.number), Progress())
    orphans = names(store.files) - before
    assert 2 == sum(name.endswith(".json") for name in orphans)
    half = f"files/{DIGEST}-1-x.0123abcd.part"
    (store.files / half).write_bytes(b"half")
    orphans |= {half}
    aged(store, orphans, 3_500)
    store.snapshots(copy, 3)
    assert orphans <= names(store.files)
    aged(store, names(store.files), 3_700)
    store.snapshots(copy, 3)
    assert set() == orphans & names(store.files)
    store.assert_restores("memory")


def aged(store: Store, files: set[str], seconds: float) -> None:
    """Make the files that old."""
    for name in files:
        os.utime(store.files / name, (time.time() - seconds,) * 2)


def test_only_files_of_snapshots_are_removed(tmp_path: Path, opened: Callable[..., Store]) -> None:
    """What has another name stays, however old, and what lies behind a link: of a file, of a folder, of the store."""
    store = opened(tmp_path, bytes=20_000, retain=1)
    copy = store.copy("memory")
    store.snapshots(copy, 2)
    mine = {
        "files/thesis.txt",
        "notes.json",
        "files/deeper/1-x",
        "files/1-x",
        f"files/{DIGEST}",
        "deeper/1-x.json",
    }
    away = tmp_path / "away"
    for path in [*(store.files / name for name in mine), away / "1-x.json", away / f"{DIGEST}-1-x"]:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
        os.utime(path, (time.time() - 9_999,) * 2)
    (store.files / "files" / "link").symlink_to(away, target_is_directory=True)
    (store.files / "1-x.json").symlink_to(away / "1-x.json")
    (store.files / "files" / f"{DIGEST}-2-x").symlink_to(away / f"{DIGEST}-1-x")
    store.snapshots(copy, 4)
    assert names(away) == {"1-x.json", f"{DIGEST}-1-x"}
    assert mine <= names(store.files)
    store.assert_restores("memory")
    moved = tmp_path / "moved"
    store.files.rename(moved)
    store.files.symlink_to(moved, target_is_directory=True)
    orphan = moved / "files" / f"{DIGEST}-3-x"
    orphan.write_bytes(b"mine")
    os.utime(orphan, (time.time() - 9_999,) * 2)
    store.snapshots(copy, 2)
    assert orphan.exists()
    store.assert_restores("memory")


def test_a_process_that_stood_still_for_hours_removes_nothing_new(
    tmp_path: Path, opened: Callable[..., Store], kind: str
) -> None:
    """Its batch counts no more, but it still cleans: what its successor has written since is older than an hour, and stays."""
    store = opened(tmp_path, bytes=20_000, retain=1)
    copy = store.copy(kind)
    store.snapshots(copy, 3)
    known, folder = store.pointer.snapshots, store.folder
    store.snapshots(copy, 3)
    aged(store, names(store.files), 9_999)
    before = needed(store, 0) | needed(store, 1)
    folder.clean({known[0].name}, {known[1].name})
    assert before <= names(store.files)
    store.assert_restores("memory")


def test_files_of_a_snapshot_that_takes_hours_stay(tmp_path: Path, opened: Callable[..., Store]) -> None:
    """What is being written for a snapshot that is waited for is left alone, however old."""
    store = opened(tmp_path, bytes=20_000)
    store.snapshots(store.copy("memory"), 1)
    (store.files / "files" / f"{DIGEST}-7-slow").write_bytes(b"a part")
    (store.files / "files" / f"{DIGEST}-6-lost").write_bytes(b"a part")
    aged(store, names(store.files), 9_999)
    store.folder.clean([store.pointer.newest.name, "7-slow"], [])
    assert needed(store, 0) | {f"files/{DIGEST}-7-slow"} == names(store.files)


@pytest.mark.parametrize("how", ["truncated", "newer"])
def test_nothing_is_removed_while_a_needed_manifest_is_damaged(
    tmp_path: Path, opened: Callable[..., Store], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Nobody knows which files it needs: a warning names it, and nothing goes, however old."""
    store = opened(tmp_path, bytes=20_000, retain=1_000)
    copy = store.copy("memory")
    store.snapshots(copy, 3)
    aged(store, names(store.files), 9_999)
    path = store.files / f"{store.pointer.newest.name}.json"
    values = json.loads(path.read_bytes().partition(b"\n")[2])
    path.write_bytes(path.read_bytes()[:99] if how == "truncated" else signed(values | {"format": 99}))
    before = names(store.files)
    gone = [one.name for one in store.pointer.retired]
    assert gone
    copy._uploads.clean(store.folder, [one.name for one in store.pointer.snapshots], gone)
    assert before == names(store.files)
    assert f"cannot remove old snapshots: the manifest {path}" in caplog.text


def test_folder_that_is_given_in_another_way(tmp_path: Path, opened: Callable[..., Store]) -> None:
    """Snapshots that the same folder has under another URI are not taken for orphans."""
    store = opened(tmp_path, bytes=20_000, retain=2)
    store.snapshots(store.copy("memory"), 3)
    store.policy = replace(store.policy, folder=f"file://{store.uri}/")
    copy = store.copy("memory")
    for _ in range(4):
        store.snapshots(copy, 1)
        kept = (*store.pointer.snapshots, *store.pointer.retired)
        assert set().union(*(needed_by(store, one) for one in kept)) <= names(store.files)
        aged(store, names(store.files), 9_999)
        store.assert_restores("memory")


def test_folder_that_was_moved(tmp_path: Path, opened: Callable[..., Store], kind: str) -> None:
    """Snapshots are found in the folder of the configuration if they were moved there, and go on there."""
    store = opened(tmp_path, bytes=20_000, retain=2)
    store.snapshots(store.copy(kind), 3)
    (tmp_path / "folder").rename(tmp_path / "moved")
    with pytest.raises(CorruptDataError, match=f"manifest {tmp_path}/folder/.* is missing"):
        store.assert_restores("memory")
    store.uri = str(tmp_path / "moved")
    store.policy = replace(store.policy, folder=store.uri)
    store.assert_restores("memory")
    store.snapshots(store.copy(kind), 4)
    store.assert_restores("rocksdb")
    assert {store.uri} == {one.folder for one in store.pointer.snapshots}
    assert not (tmp_path / "folder").exists()


@pytest.mark.slow
@pytest.mark.parametrize("background", [False, True])
def test_twins(tmp_path: Path, opened: Callable[..., Store], kind: str, *, background: bool) -> None:
    """Two copies commit the same batch and begin the same snapshot; the one whose journal counts goes on, with either."""
    store = opened(tmp_path, bytes=20_000, background=background)
    twins = [store.copy(kind), store.copy(kind)]
    store.snapshots(twins[0], 1)
    for turn in range(4):
        winner, loser = twins[turn % 2], twins[1 - turn % 2]
        start = store.pointer
        lost = store.committed()
        pointer = loser.align(lost, start).pointer
        for number in range(pointer.number, pointer.number + 4):
            pointer = loser.commit(lost, pointer, crash_batch(number), Progress())
        for _ in range(4):
            store.commit(winner)
        for copy in twins:
            copy._uploads.wait()
        store.assert_restores("memory")
        assert_holds(store, lost, pointer, "memory", crash_state(pointer.number - 1))
    assert 10 < store.pointer.newest.number
    store.assert_restores("rocksdb")


def test_snapshot_of_another_process_is_taken_up(
    tmp_path: Path, opened: Callable[..., Store], kind: str
) -> None:
    """A copy that did not write the pending snapshot takes it up when its manifest is there."""
    store = opened(tmp_path, bytes=20_000, background=True)
    copy = store.copy(kind)
    while store.pointer.pending is None:
        store.commit(copy)
    name = store.pointer.pending.snapshot.name
    copy.close()
    store.commit(store.copy(kind))
    assert (name, None) == (store.pointer.newest.name, store.pointer.pending)
    store.assert_restores("memory")


@pytest.mark.parametrize(
    ("owner", "failures", "seconds", "waits"),
    [
        ("living", 0, 899, True),
        ("living", 0, 901, False),
        ("living", 2, 3_599, True),
        ("living", 2, 3_601, False),
        ("living", 10**4, 86_399, True),
        ("living", 10**4, 86_401, False),
        ("another-host:1", 0, 899, True),
        ("another-host:1", 0, 901, False),
        ("another-host:1", 0, -600, True),
        ("another-host:1", 0, -90_000_000, False),
        ("dead", 0, 4, True),
        ("dead", 0, 6, False),
        ("dead", 3, 39, True),
        ("dead", 3, 41, False),
        pytest.param("replaced", 0, 4, True, marks=of_linux),
        pytest.param("replaced", 0, 6, False, marks=of_linux),
        ("another-host:1:then", 0, 899, True),
    ],
)
def test_patience(
    tmp_path: Path,
    opened: Callable[..., Store],
    clock: SimpleNamespace,
    living: str,
    owner: str,
    failures: int,
    seconds: float,
    *,
    waits: bool,
) -> None:
    """A snapshot that another process began is waited for: long if it may live, not for long if it is known to be gone."""
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    host, _, beginning = this_process().split(":")
    replaced = f"{living}:{beginning}"  # The number belongs to a process that began later.
    owners = {"living": living, "dead": f"{host}:{int(dead.stdout)}", "replaced": replaced}
    store = opened(tmp_path)
    copy = store.copy("memory")
    snapshot = Snapshot(0, bytes(16), 0, store.uri, "0-x")
    since = clock.now - seconds
    pending = Pending(snapshot, 0, since, owners.get(owner, owner))
    store.pointer = replace(store.pointer, pending=pending, failures=failures)
    store.commit(copy)
    assert waits == (store.pointer.pending == pending)
    # Given up, the next one is due at once and written.
    assert waits == (store.pointer.newest.number == 0)
    given_up = 0 if waits else 1
    overdue = waits and failures > 0
    assert SnapshotCounts(given_up, given_up, overdue=overdue) == copy.drain_snapshot_counts()


@of_linux
def test_a_process_is_known_by_when_it_began(living: str) -> None:
    """One that has the host and the number of an earlier one, as after a restart of a container, is not that one."""
    host, number, beginning = this_process().split(":")
    assert beginning
    assert not is_dead(this_process())
    assert is_dead(f"{living}:{beginning}")
    assert is_dead(f"{host}:{number}:another boot of the machine-1")
    assert not is_dead(f"{host}:{number}")  # as earlier versions wrote it
    assert not is_dead(f"another-host:{number}:{beginning}-")
    assert not is_dead(f"{host}:no number:{beginning}")
    assert not is_dead(host)


def test_unreadable_local_copy(
    tmp_path: Path, opened: Callable[..., Store], caplog: pytest.LogCaptureFixture
) -> None:
    """A snapshot that cannot be made on this machine fails no batch, however often, and is made when it can be."""
    store = opened(tmp_path)
    copy = store.copy("rocksdb", "a")
    (tmp_path / "copy-a-scratch").write_bytes(b"a file in the way")
    store.pointer = replace(store.pointer, failures=10**6)
    for _ in range(3):
        store.commit(copy)
    assert "cannot write a snapshot of version 3" in caplog.text
    assert "copy-a-scratch" in caplog.text
    assert SnapshotCounts(0, 3, overdue=True) == copy.drain_snapshot_counts()
    (tmp_path / "copy-a-scratch").unlink()
    store.commit(copy)
    assert SnapshotCounts(1, 0, overdue=False) == copy.drain_snapshot_counts()
    assert (4, 0) == (store.pointer.newest.number, store.pointer.failures)


def test_a_failed_snapshot_is_known_to_all_workers(
    tmp_path: Path, opened: Callable[..., Store], clock: SimpleNamespace, kind: str
) -> None:
    """The worker that a bucket moves to counts it no second time, and tries again as soon as the first one would."""
    (tmp_path / "folder").write_bytes(b"a file in the way")
    store = opened(tmp_path, batches=1)
    first, second = store.copy(kind), store.copy(kind)
    store.commit(first)
    assert SnapshotCounts(0, 1, overdue=True) == first.drain_snapshot_counts()
    (tmp_path / "folder").unlink()
    store.commit(second)
    assert SnapshotCounts(0, 0, overdue=True) == second.drain_snapshot_counts()
    clock.now += 6
    store.commit(second)
    assert SnapshotCounts(1, 0, overdue=False) == second.drain_snapshot_counts()


def test_without_a_folder_nothing_is_overdue(tmp_path: Path, opened: Callable[..., Store]) -> None:
    """A query that gave up its folder writes snapshots into the journal: earlier failures no longer count."""
    store = opened(tmp_path)
    store.policy = replace(store.policy, folder=None)
    store.pointer = replace(store.pointer, failures=3)
    copy = store.copy("memory")
    store.snapshots(copy, 1)
    counts = copy.drain_snapshot_counts()
    assert (True, 0, False) == (counts.written > 0, counts.failed, counts.overdue)


def test_snapshots_of_a_large_state_come_after_more_changes(
    tmp_path: Path, opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an eighth of the last snapshot, which has the files of rocksdb: unless bytes are given, then after these."""
    monkeypatch.setattr(policy, "_BYTES", 300)
    due = []
    for number, given in enumerate((300, None)):
        store = opened(tmp_path / str(number), bytes=given)
        copy = store.copy("rocksdb")
        store.commit(copy, WriteBatch(puts={0: {f"{n:05}".encode(): os.urandom(100) for n in range(1_000)}}))
        large, before = store.pointer.newest, store.pointer.number
        assert 100_000 < large.size
        while store.pointer.newest == large:
            store.commit(copy, WriteBatch(puts={0: {b"00001": os.urandom(500)}}))
        due.append(store.pointer.number - before)
    assert due[0] == 1
    assert due[1] > 100_000 // 8 // 600
    assert policy.SnapshotPolicy().log_bytes() == 300


def test_scratch(tmp_path: Path, opened: Callable[..., Store], kind: str) -> None:
    """What a killed process left in the scratch directory is removed by the next owner, and nothing is left by a close."""
    scratch = tmp_path / "copy-a-scratch"
    left = scratch / "0123456789abcdef"
    (left / "7-x").mkdir(parents=True)
    (left / "7-x" / "000001.sst").write_bytes(b"left behind")
    mark(left)
    store = opened(tmp_path, background=True)
    copy = store.copy(kind, "a")
    assert not scratch.exists()
    while store.pointer.pending is None:
        store.commit(copy)
    copy.close()
    assert not scratch.exists()
    store.assert_restores(kind)
    assert set() == {path for path in tmp_path.iterdir() if path.name.endswith("-scratch")}


WRITER = """
import sys
from pathlib import Path
from state_backends.registry import load_backend
from state_backends.contract import crash_batch
from state_backends.durability.durable import Durable
from state_backends.sqlite_journal import SqliteJournal
from state_backends.durability.pointer import Pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress

home, kind, folder = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
journal, pointer = SqliteJournal(home / "journal"), Pointer.fresh()
copy = Durable(load_backend(kind).open(home / "a", {}), kind, home / "scratch", SnapshotPolicy(folder, bytes=20_000))
while pointer.pending is None:
    pointer = copy.commit(journal, pointer, crash_batch(pointer.number), Progress())
pointer = copy.commit(journal, pointer, crash_batch(pointer.number), Progress())
print("writing", flush=True)
"""


@pytest.mark.kill
def test_process_killed_while_a_snapshot_is_written(
    tmp_path: Path, s3: S3, clock: SimpleNamespace, kind: str
) -> None:
    """The next process waits for the pending snapshot some seconds, gives it up, and writes another one."""
    uri = s3.uri(f"bucket/killed-{kind}")
    s3.switch(hang=True, methods="PUT,POST")
    command = [sys.executable, "-c", WRITER, str(tmp_path), kind, uri]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    with child.stdout:
        assert b"writing\n" == child.stdout.readline()
        child.kill()
    child.wait()
    s3.switch()
    assert (kind == "rocksdb") == (tmp_path / "scratch").exists()
    journal = SqliteJournal(tmp_path / "journal")
    pointer = read_pointer(journal)
    assert pointer is not None
    assert pointer.pending is not None
    clock.now = time.time()
    policy = SnapshotPolicy(uri, bytes=20_000, background=False)
    copy = Durable(load_backend(kind).open(tmp_path / "a", {}), kind, tmp_path / "scratch", policy)
    assert not (tmp_path / "scratch").exists()
    with closing(copy), closing(journal):
        pointer = copy.align(journal, pointer).pointer
        given_up = pointer.pending
        clock.now = given_up.since + 4
        pointer = copy.commit(journal, pointer, crash_batch(pointer.number), Progress())
        assert given_up == pointer.pending
        clock.now = given_up.since + 6
        pointer = copy.commit(journal, pointer, crash_batch(pointer.number), Progress())
        assert (None, pointer.number) == (pointer.pending, pointer.newest.number)
        other = Durable(load_backend("memory").open(tmp_path / "b", {}), "memory", tmp_path / "o", policy)
        other.align(journal, pointer)
        assert crash_state(pointer.number - 1) == pages_of(other)
        other.close()


def commit_many(store: Store, copy: Durable, count: int, clock: SimpleNamespace) -> None:
    """Commit batches, each a minute after the one before, when what is in the background has come to an end."""
    for _ in range(count):
        store.commit(copy)
        copy._uploads.wait()
        clock.now += 60


@pytest.mark.slow
def test_snapshots_of_a_uri_with_a_secret(
    tmp_path: Path, opened: Callable[..., Store], s3: S3, caplog: pytest.LogCaptureFixture
) -> None:
    """A checkpoint of before may name one: its snapshots are read and cleaned, new ones are elsewhere, no message shows it."""
    store = opened(tmp_path, s3.uri("bucket/secret"))
    store.snapshots(store.copy("memory"), 2)
    folder = s3.uri("AKIA:hunter2@bucket/secret")
    given = [replace(one, folder=folder) for one in store.pointer.snapshots]
    assert all(store.folder.has(one.name) for one in given)
    store.pointer = Pointer.decode(replace(store.pointer, snapshots=tuple(given)).encode())
    store.policy = replace(store.policy, folder=str(tmp_path / "new"))
    store.assert_restores("memory")
    s3.switch(fail=1)
    try:
        with pytest.raises(StateError, match=r"cannot .* s3://\.\.\./") as error:
            store.assert_restores("memory")
    finally:
        s3.switch()
    copy = store.copy("memory")
    while any(one.folder == folder for one in (*store.pointer.snapshots, *store.pointer.retired)):
        assert store.pointer.number < 1_000
        store.commit(copy, host_batch=store.pointer.number)
    store.assert_restores("rocksdb")
    assert "hunter2" not in str(error.value) + caplog.text
    assert not any(store.folder.has(one.name) for one in given)


@pytest.mark.parametrize("background", [False, True])
def test_storage_that_refuses_everything_for_a_while(
    tmp_path: Path,
    opened: Callable[..., Store],
    s3: S3,
    clock: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    *,
    background: bool,
) -> None:
    """Batches go on and the log grows, a warning names the place once an attempt, and then snapshots go on."""
    store = opened(tmp_path, s3.uri(f"bucket/refused-{background}"), bytes=20_000, background=background)
    copy = store.copy("memory")
    commit_many(store, copy, 8, clock)
    known = store.pointer.newest
    assert known.number
    s3.switch(fail=1)
    commit_many(store, copy, 20, clock)
    assert (known, known.number + 1) == (store.pointer.newest, store.pointer.newest.number + 1)
    assert store.pointer.log_bytes > 200_000
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told
    assert all(f"s3://bucket/refused-{background}/{store.pointer.store_id}" in message for message in told)
    assert len(told) == len(set(told)) <= store.pointer.failures + 1 < 10
    counts = copy.drain_snapshot_counts()
    assert (len(told), True) == (counts.failed, counts.overdue)
    assert SnapshotCounts(0, 0, overdue=True) == copy.drain_snapshot_counts()
    with pytest.raises(StateError, match=f"cannot read s3://bucket/refused-{background}/.*restart the query"):
        store.assert_restores("memory")
    s3.switch()
    store.assert_restores("memory")
    clock.now += 3_600
    commit_many(store, copy, 3, clock)
    assert (True, 0) == (store.pointer.newest.number > known.number, store.pointer.failures)
    counts = copy.drain_snapshot_counts()
    assert (True, False) == (counts.written > 0, counts.overdue)
    store.assert_restores("rocksdb")


@pytest.mark.slow
def test_storage_that_is_overloaded_for_a_while(
    tmp_path: Path,
    opened: Callable[..., Store],
    s3: S3,
    clock: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When all that storage says for some seconds is 503, no batch waits for it."""
    monkeypatch.setattr(object_stores, "TRIES", 5)
    store = opened(tmp_path, s3.uri("bucket/overloaded"), bytes=20_000, background=True)
    copy = store.copy("memory")
    s3.switch(fail=1, status=503)
    while store.pointer.pending is None:
        store.commit(copy)
    began = store.pointer.number
    while not next(iter(copy._uploads._writing.values())).done() and store.pointer.number < 500:
        store.commit(copy)
    assert began + 5 < store.pointer.number
    copy._uploads.wait()
    s3.switch()
    clock.now += 60
    store.commit(copy)
    assert "s3://bucket/overloaded/" in caplog.text
    copy._uploads.wait()
    store.commit(copy)
    assert (True, 0) == (began < store.pointer.newest.number, store.pointer.failures)
    store.assert_restores("memory")


@pytest.mark.slow
@pytest.mark.usefixtures("compacting")  # Of a hundred small files, one in twenty always fails.
@pytest.mark.parametrize(("status", "share", "batches"), [(403, 0.05, 36), (503, 0.05, 12)])
def test_storage_that_fails_now_and_then(
    tmp_path: Path,
    opened: Callable[..., Store],
    s3: S3,
    clock: SimpleNamespace,
    status: int,
    share: float,
    batches: int,
) -> None:
    """Whichever requests fail, the state is never another one, and snapshots come as soon as one gets through."""
    store = opened(tmp_path, s3.uri(f"bucket/flaky-{status}"), bytes=20_000, retain=4)
    copy = store.copy("rocksdb")
    snapshots, refused = set(), 0
    s3.switch(fail=share, status=status)
    for _ in range(batches):
        store.commit(copy)
        clock.now += 100_000
        snapshots |= {one.name for one in store.pointer.snapshots}
        if store.pointer.number % 12 == 0:
            with suppress(StateError):
                store.assert_restores("memory")
                refused -= 1
            refused += 1
    s3.switch()
    assert 1 < len(snapshots)
    assert refused <= batches // 12
    store.assert_restores("memory")


def test_local_folder_that_cannot_be_written_for_a_while(
    tmp_path: Path,
    opened: Callable[..., Store],
    clock: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    """As with storage elsewhere: batches go on, and snapshots do when they can."""
    (tmp_path / "folder").write_bytes(b"a file in the way")
    store = opened(tmp_path, bytes=20_000)
    copy = store.copy(kind)
    commit_many(store, copy, 8, clock)
    assert (0, True) == (store.pointer.newest.number, f"cannot write {tmp_path}/folder/" in caplog.text)
    (tmp_path / "folder").unlink()
    clock.now += 3_600
    store.commit(copy)
    assert (9, 0) == (store.pointer.newest.number, store.pointer.failures)
    store.assert_restores("memory")


FULL_DISK = """
import logging, resource, sys
from pathlib import Path
from types import SimpleNamespace
from state_backends.backends.memory import MemoryBackend
from state_backends.contract import crash_batch, crash_state
from state_backends.durability import durable, schedule
from state_backends.errors import DamagedCopyError
from state_backends.journal import MemoryJournal
from state_backends.durability.pointer import Pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress

home, now = Path(sys.argv[1]), [1.0e9]
schedule.time = SimpleNamespace(time=lambda: now[0])
logging.basicConfig(format="%(message)s", stream=sys.stdout)
policy = SnapshotPolicy(str(home / "folder"), bytes=20_000, background=False)
journal, pointer = MemoryJournal(), Pointer.fresh()
copy = durable.Durable(MemoryBackend(), "memory", home / "scratch", policy)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for limit in (1_000, hard):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    for _ in range(10):
        pointer = copy.commit(journal, pointer, crash_batch(pointer.number), Progress())
        now[0] += 60
    now[0] += 3_600
    print("snapshot", pointer.newest.number > 0, flush=True)
other = durable.Durable(MemoryBackend(), "memory", home / "other", policy)
other.align(journal, pointer)
found = {segment: dict(other.backend.iterate(segment)) for segment in other.backend.segments()}
print("restored", found == crash_state(pointer.number - 1))
"""


@pytest.mark.slow
def test_full_disk(tmp_path: Path) -> None:
    """Files that cannot grow leave nothing behind and fail no batch; with room, snapshots go on."""
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert f"cannot write {tmp_path}/folder/" in lines[0]
    assert ["snapshot False", "snapshot True", "restored True"] == [
        line for line in lines if line.startswith(("snapshot ", "restored "))
    ]
    assert not [name for name in names(tmp_path / "folder") if name.endswith(".part")]


def test_manifest_round_trip() -> None:
    """A manifest comes back as written; cut off or with a byte altered it is refused by name."""
    manifest = Manifest("id", "00ff", "pages", ())
    blob = manifest.encode()
    assert (manifest, 0) == (Manifest.decode(blob, "here"), manifest.size)
    for at in range(len(blob)):
        for bad in (blob[:at], blob[:at] + bytes([blob[at] ^ 2]) + blob[at + 1 :]):
            with pytest.raises(
                CorruptDataError, match="the manifest here is truncated or altered, or was not written"
            ):
                Manifest.decode(bad, "here")


@pytest.mark.slow
def test_the_sizes_of_a_manifest_count(tmp_path: Path) -> None:
    """Of a file that is larger than its manifest says, a byte more is copied; pages are not read from huge files."""
    folder = SnapshotFolder(Folder(str(tmp_path)), "0123456789abcdef")
    stored = tmp_path / folder.store_id / "files" / "f-1"
    stored.parent.mkdir(parents=True)
    stored.touch()
    os.truncate(stored, 300 << 20)
    part = Part("part-0", "f-1", file_digest(stored), 10)
    with pytest.raises(CorruptDataError, match=r"f-1 .* is truncated or altered"):
        folder.fetch(Manifest(folder.store_id, "00", "rocksdb", (part,)), tmp_path / "restored")
    assert 11 == (tmp_path / "restored" / "part-0").stat().st_size
    honest = Manifest(folder.store_id, "00", PAGES, (replace(part, size=300 << 20),))
    with pytest.raises(CorruptDataError, match="has pages in a file of more than 268435456 bytes"):
        Manifest.decode(honest.encode(), "here")
