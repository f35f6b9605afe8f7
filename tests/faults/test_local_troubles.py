"""What befalls a local runner: disks that fill or are read-only, storage that is slow, and a clock that jumps."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.effort import soak
from tests.faults.disk import in_front, why_not
from tests.faults.local import batch, rows, runner, undisturbed
from tests.s3_server import CREDENTIALS, S3, running

_BATCHES = 30
_DAY = 86_400.0
_STILL = 20.0


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """A server with one bucket."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with running() as server:
        server.bucket("state")
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_disks_that_fill_or_are_read_only(tmp_path: Path, backend: str) -> None:
    """Batches fail with the disk's name, or go on without snapshots; when the disk is repaired, no row is missing."""
    if reason := why_not():
        pytest.skip(reason)
    command = [sys.executable, "-m", "tests.faults.bad_disk", backend, str(tmp_path)]
    done = subprocess.run(
        [*in_front(tmp_path, 16), *command], capture_output=True, text=True, check=False, timeout=300
    )
    assert not done.returncode, done.stderr[-3_000:]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert 6 == len(told)
    for one in told:
        print(one)  # noqa: T201 - what the user sees
        assert one["right"]
        # One more may be lost when a copy is opened anew.
        assert 5 <= one["done"] - one["worked"]
        assert all(one["path"] in error for error in one["errors"])
        if one["disk"] == "snapshots":
            assert (6, []) == (one["worked"], one["errors"])
    assert any(one["errors"] for one in told)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [soak("memory"), "rocksdb"])
def test_no_batch_waits_for_slow_storage(tmp_path: Path, s3: S3, backend: str) -> None:
    """Each answer takes longer than all batches together; later a snapshot is written, and restored on another disk."""
    expected = undisturbed(2 * _BATCHES)
    with closing(runner(backend, tmp_path, s3.uri("state/x"), "4k")) as one:
        s3.switch(delay=_STILL)
        began = time.monotonic()
        assert expected[:_BATCHES] == [rows(one.process(batch(number))) for number in range(_BATCHES)]
        assert time.monotonic() - began < _STILL
        s3.switch(delay=0.2)
        written, number = 0, _BATCHES
        while number < 2 * _BATCHES:
            assert expected[number] == rows(one.process(batch(number)))
            written += one.metrics["snapshots"]
            number += 1
            time.sleep(0.1)
        assert written
        shutil.rmtree(tmp_path / f"state-{backend}", ignore_errors=True)
        one.restart()
        assert rows(one.process(batch(number))) == undisturbed(number + 1)[number]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Back by a day, ahead by a year, and back: rows are the same, snapshots go on, and what they need stays."""
    expected, now, offset = undisturbed(60), time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: now() + offset)
    written = dict.fromkeys((0.0, -_DAY, 365 * _DAY), 0)
    with closing(runner(backend, tmp_path, tmp_path / "snapshots", "2k")) as one:
        for number in range(60):
            offset = (0.0, -_DAY, 365 * _DAY)[number // 5 % 3]
            assert expected[number] == rows(one.process(batch(number)))
            written[offset] += one.metrics["snapshots"]
            if number % 20 == 19:
                one.restart()
                shutil.rmtree(tmp_path / f"state-{backend}", ignore_errors=True)
            time.sleep(0.01)  # For what is written in the background.
    assert all(written.values()), written
