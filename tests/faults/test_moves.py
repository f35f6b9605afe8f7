"""Drivers that are killed while they make state of a history, stream, write a savepoint, and take over changed aggregates."""

import json
import random
import sys
import time
from pathlib import Path

import pytest

from tests.effort import soak
from tests.faults.moves import FILES, FIRST, HISTORY, PARTS
from tests.faults.plans import BACKENDS
from tests.faults.processes import assert_exact, kill_all, start
from tests.operators.spark.frames import write_source
from tests.patience import files, wait_until

_KILLS = 2
"""Of each part."""
_LONGEST_S = 3.0


def give(folder: Path) -> None:
    """Write all records, and which of them each stream reads."""
    write_source(folder / "all", FILES, rows=400, seed=21)
    for number, (begin, end) in enumerate([(HISTORY, FIRST), (FIRST, FILES)]):
        (folder / f"in-{number}").mkdir()
        for path in sorted((folder / "all").iterdir())[begin:end]:
            (folder / f"in-{number}" / path.name).hardlink_to(path)


@pytest.mark.parametrize("backend", [soak(backend) for backend in BACKENDS])
def test_state_that_moves_loses_nothing(tmp_path: Path, backend: str, seed: int, mark: str) -> None:
    """Each part is killed some times, at any moment of it; at the end, every row came once."""
    give(tmp_path)
    chance = random.Random(seed)
    command = [sys.executable, "-m", "tests.faults.moves", str(tmp_path), backend]
    for part in [part for part in PARTS for _ in range(_KILLS)] + [None]:
        for path in (tmp_path / "began").glob("*"):
            path.unlink()
        (tmp_path / "began").mkdir(exist_ok=True)
        process = start(command, tmp_path / "log", mark, {"SPARK_LOCAL_IP": "127.0.0.1"})

        def there(part: str | None = part, process=process) -> bool:
            return process.poll() is not None or (part is not None and (tmp_path / "began" / part).exists())

        wait_until(there, part or "the end", files(tmp_path))
        if part is None:
            assert 0 == process.returncode, (tmp_path / "log").read_text(errors="replace")[-4_000:]
        else:
            assert process.poll() is None, (tmp_path / "log").read_text(errors="replace")[-4_000:]
            time.sleep(chance.uniform(0, _LONGEST_S))
            kill_all(process.pid)
            process.wait()
    assert_exact([json.loads((tmp_path / "verdict").read_text())])
