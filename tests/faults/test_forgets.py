"""Workers and drivers that are killed while a query forgets keys: the request is neither lost nor half done."""

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from operators import forget_requests
from operators.runtime.forget_requests import key_columns
from operators.runtime.keys_to_forget import encoded_keys
from state_backends.durability.request_folder import RequestFolder
from tests.faults.processes import kill, kill_all, python_workers, start
from tests.operators.spark.frames import BASE_US, write_numbered
from tests.patience import files, wait_until

_KEYS = [f"key-{number}" for number in range(24)]
_GONE = _KEYS[::3]
"""Of each bucket there are some."""
_BEFORE, _AFTER = 3, 4
"""Batches before the request, and from it on. The keys that go have records in each of the first, and in the last one."""


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_a_forget_that_is_killed(tmp_path: Path, backend: str, seed: int, mark: str) -> None:
    """Workers die in the batch that forgets, the driver right after, and the next driver when it applies the batch again.

    The keys' counts begin anew with the last batch; no other key has lost or doubled a record; the request is done.
    """
    rng = random.Random(seed)
    folder, offsets = tmp_path / "in", tmp_path / "checkpoint" / "offsets"
    folder.mkdir()
    for number in range(_BEFORE):
        write_records(_KEYS, folder, number)
    driver = run(tmp_path, backend, mark)
    await_it(lambda: _BEFORE == table(tmp_path).get(_KEYS[0]), driver, tmp_path)
    requests = RequestFolder(str(tmp_path / "forget"), later_ms=0)
    keys = encoded_keys([{"k": key} for key in _GONE], key_columns(tmp_path / "forget").keys)
    requests.write("windows", keys)
    for number in range(_BEFORE, _BEFORE + _AFTER):
        write_records([key for key in _KEYS if key not in _GONE], folder, number)
    await_it((offsets / str(_BEFORE)).exists, driver, tmp_path)
    time.sleep(rng.uniform(0, 0.5))
    assert sum(map(kill, python_workers(driver.pid)))
    time.sleep(rng.uniform(0, 1))
    end(driver)
    for _ in range(2):
        driver = run(tmp_path, backend, mark)
        await_it((tmp_path / "began").exists, driver, tmp_path)
        time.sleep(rng.uniform(0, 4))
        end(driver)
    driver = run(tmp_path, backend, mark)
    write_records(_KEYS, folder, _BEFORE + _AFTER)
    (tmp_path / "end").touch()
    await_it(lambda: driver.poll() is not None, driver, tmp_path)
    batches = _BEFORE + _AFTER + 1
    assert {key: 1 if key in _GONE else batches for key in _KEYS} == table(tmp_path)
    assert [(len(_GONE), True)] == [(one.keys, one.done) for one in forget_requests(tmp_path / "forget")]


def write_records(keys: list[str], folder: Path, number: int) -> None:
    """Write a batch with a record of each key, all in one day, as a file that is there at once."""
    at = pa.array([BASE_US + number] * len(keys), pa.timestamp("us", "UTC"))
    aside = folder.parent / "aside"
    aside.mkdir(exist_ok=True)
    write_numbered(pa.table({"k": keys, "at": at}), aside, number)
    (written,) = aside.iterdir()
    written.rename(folder / written.name)


def run(folder: Path, backend: str, mark: str) -> "subprocess.Popen[str]":
    """Start a driver."""
    (folder / "began").unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.faults.forgets", str(folder), backend]
    return start(command, folder / "log", mark, {"SPARK_LOCAL_IP": "127.0.0.1"})


def await_it(condition: Callable[[], object], driver: "subprocess.Popen[str]", folder: Path) -> None:
    """Wait until a condition holds; a driver that has failed meanwhile is told."""

    def holds() -> bool:
        return driver.poll() not in (None, 0) or bool(condition())

    wait_until(holds, "the driver", files(folder))
    assert driver.poll() in (None, 0), (folder / "log").read_text(errors="replace")[-4_000:]


def end(driver: "subprocess.Popen[str]") -> None:
    """Kill a driver with all that it has started."""
    kill_all(driver.pid)
    driver.wait()


def table(folder: Path) -> dict[str, int]:
    """The count of each key in the sink's table; empty before the first batch."""
    if not (folder / "rows.db").exists():
        return {}
    with sqlite3.connect(folder / "rows.db") as db:
        there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'people'").fetchone()
        return dict(db.execute("SELECT k, n FROM people").fetchall()) if there else {}
