"""Local copies whose bytes change on the disk while nobody looks: they are rebuilt from the changelog, and no row is lost."""

import logging
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from operators import RollingWindows, SessionWindows, TumblingWindows
from operators import aggregates as agg
from state_backends import WriteBatch
from state_backends.backends.rocksdb import RocksDBBackend
from state_backends.durability.folders import Folder
from state_backends.durability.snapshots import SnapshotFolder
from tests.state_backends.durability.snapshot_store import rot

KEYS = 500
LATER = 10**9


def batch(at: int) -> pa.Table:
    """A record of each key."""
    return pa.table([[f"key {n}" for n in range(KEYS)], [at] * KEYS, list(range(KEYS))], ["k", "at", "v"])


OPERATORS = {
    "tumbling": TumblingWindows(1_000),
    "sessions": SessionWindows(gap=100),
    "rolling": RollingWindows(500),
}


def damage(state: Path) -> None:
    """Change 16 bytes in the middle of the largest file of pages."""
    path = max(state.glob("state-rocksdb/*.sst"), key=lambda one: one.stat().st_size)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 16] = bytes(b ^ 0xFF for b in data[middle : middle + 16])
    path.write_bytes(data)


def rows(
    name: str, directory: Path, times: list[int], harm: Callable[[Path], None] | None = None
) -> list[str]:
    """The rows of a runner that is opened again before each batch, with a damaged copy before the second one."""
    operator = OPERATORS[name].group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    found: list[str] = []
    for number, at in enumerate(times):
        if number == 1 and harm is not None:
            harm(directory)
        with operator.local_runner("at", "rocksdb", directory) as runner:
            table = batch(at).slice(0, 0) if at == LATER else batch(at)
            found += map(repr, runner.process(table, at).to_pylist())
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("times", [[10, LATER], [10, 20, LATER]], ids=["closes", "second record first"])
def test_a_changed_byte_in_a_copy_loses_no_row(
    name: str, times: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After 16 bytes of a file have changed, the next batch rebuilds the copy, and all rows come as without damage."""
    expected = rows(name, tmp_path / "sound", times)
    with caplog.at_level(logging.WARNING):
        assert expected == rows(name, tmp_path / "damaged", times, damage)
    assert any("local copy" in record.message for record in caplog.records)
    assert len(expected) >= KEYS


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_no_snapshot_is_made_of_a_damaged_file(name: str, tmp_path: Path) -> None:
    """Batches go on by what RocksDB has in its cache. A new copy from the newest snapshot has all of it, too."""
    operator = OPERATORS[name].group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    options = {
        "state.snapshots.folder": str(tmp_path / "snapshots"),
        "state.snapshots.batches": 1,
        "state.snapshots.background": False,
    }
    state = tmp_path / "damaged"
    some = pa.array([n % 2 == 0 for n in range(KEYS)])
    times = {
        10: batch(10),
        20: batch(20).filter(some),
        30: batch(30).filter(some),
        LATER: batch(LATER).slice(0, 0),
    }
    with operator.local_runner("at", "rocksdb", tmp_path / "sound") as sound:
        expected = [repr(row) for at, table in times.items() for row in sound.process(table, at).to_pylist()]
    found: list[str] = []
    for number in range(2):
        with operator.local_runner("at", "rocksdb", state, options) as runner:
            for at, table in list(times.items())[3 * number : 3 * number + 3]:
                if (
                    at == 30
                ):  # The pages of the other keys are in the first file, which the batch before has read.
                    damage(state)
                found += map(repr, runner.process(table, at).to_pylist())
        shutil.rmtree(state / "state-rocksdb")
    assert sorted(expected) == sorted(found)


@pytest.mark.slow
def test_a_copy_of_a_damaged_snapshot_is_made_of_an_older_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The bytes of the snapshot are those that were stored: nothing tells before the second copy is damaged as the first."""
    operator = OPERATORS["tumbling"].group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    options = {"state.snapshots.folder": str(tmp_path / "snapshots"), "state.snapshots.batches": 1}
    options["state.snapshots.background"] = False
    times = {10: batch(10), 20: batch(20), LATER: batch(LATER).slice(0, 0)}
    with operator.local_runner("at", "rocksdb", tmp_path / "sound") as sound:
        expected = [repr(row) for at, table in times.items() for row in sound.process(table, at).to_pylist()]
    with operator.local_runner("at", "rocksdb", tmp_path / "state", options) as runner:
        for at in (10, 20):
            assert runner.process(times[at], at).num_rows == 0
    shutil.rmtree(tmp_path / "state" / "state-rocksdb")
    (store,) = (tmp_path / "snapshots").iterdir()
    newest = max(store.glob("*.json"), key=lambda path: int(path.name.partition("-")[0]))
    rot(SnapshotFolder(Folder(str(tmp_path / "snapshots")), store.name), newest.stem)
    with operator.local_runner("at", "rocksdb", tmp_path / "state", options) as runner:
        found = [repr(row) for row in runner.process(times[LATER], LATER).to_pylist()]
    assert sorted(expected) == sorted(found)
    told = [record.getMessage() for record in caplog.records]
    assert ["the worker deletes a damaged local copy", "Trying an older snapshot"] == [
        said
        for one in told
        for said in ("the worker deletes a damaged local copy", "Trying an older snapshot")
        if said in one
    ]


@pytest.mark.slow
@pytest.mark.parametrize("adapts", [False, True])
def test_a_page_that_is_damaged_in_a_sound_file_is_no_end(tmp_path: Path, *, adapts: bool) -> None:
    """A batch that reads it, or rewrites the state for a changed definition, begins again with a rebuilt copy."""
    results = {"n": agg.count(), "total": agg.sum("v")}
    first = OPERATORS["tumbling"].group_by("k").aggregate(**results)
    second = OPERATORS["tumbling"].group_by("k").aggregate(**results, high=agg.max("v")) if adapts else first
    for name in ("sound", "damaged"):
        with first.local_runner("at", "rocksdb", tmp_path / name) as runner:
            runner.process(batch(10), 10)
    with closing(RocksDBBackend.open(tmp_path / "damaged" / "state-rocksdb", {})) as backend:
        (segment,) = backend.segments()
        name, page = next(backend.iterate(segment))
        backend.write(
            WriteBatch(puts={segment: {name: page[:-1] + bytes([page[-1] ^ 1])}}), backend.version or b""
        )
    rows: dict[str, list[str]] = {}
    for name in ("sound", "damaged"):
        with second.local_runner("at", "rocksdb", tmp_path / name, {"state.evolution": "adapt"}) as runner:
            rows[name] = sorted(map(repr, runner.process(batch(20), LATER).to_pylist()))
    assert rows["sound"] == rows["damaged"]
    assert KEYS == len(rows["sound"])
