"""Operators at work in several threads of a process do not disturb one another: rows are those of each alone."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg

THREADS, BATCHES, ROWS = 4, 6, 120
BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "decimal": (pa.decimal128(30, 3), lambda n: Decimal(n**7) / 1000),
    "date": (pa.date32(), lambda n: date(2000, 1, 1) + timedelta(n)),
    "time": (pa.timestamp("us", "UTC"), lambda n: BEGIN + timedelta(hours=n)),
    "text": (pa.string(), lambda n: "x" * (n % 40)),
    "list": (pa.list_(pa.int64()), lambda n: list(range(n % 5))),
}
"""Types of columns, and a value for each number."""
KINDS = {
    "tumbling": TumblingWindows("5 minutes"),
    "hopping": HoppingWindows("6 minutes", "2 minutes"),
    "sliding": SlidingWindows("4 minutes"),
    "sessions": SessionWindows("2 minutes"),
    "rolling": RollingWindows({"short": "4 minutes"}),
}


def large(state: list[Any], number: int, items: list[int], amount: Decimal) -> list[Any]:
    """Add a number that no 64 bits hold, a map and a decimal."""
    return [*state, 2**64 + number, {"items": items}, amount]


def joined(left: list[Any], right: list[Any]) -> list[Any]:
    """Add the numbers of another state."""
    return [*left, *right]


def table(number: int, seed: int) -> pa.Table:
    """The records of a batch, which differ from seed to seed."""
    rows = range(number * ROWS, (number + 1) * ROWS)
    columns: dict[str, Any] = {
        "k": pa.array([Decimal((row * 7 + seed) % 9) for row in rows], pa.decimal128(10, 2)),
        "at": pa.array(
            [BEGIN + timedelta(seconds=5 * row + 300 * (row // 50)) for row in rows],
            pa.timestamp("us", "UTC"),
        ),
        "number": pa.array(rows, pa.int64()),
    }
    for name, (type_, value) in VALUES.items():
        columns[name] = pa.array([value(row + seed) for row in rows], type_)
    return pa.table(columns)


def operator(kind: str) -> Any:
    """An operator that stores values of all types."""
    lists = {name: agg.collect_list(name) for name in VALUES if name != "list"}
    folded = agg.fold(list, large, "number", "list", "decimal", type="string", merge=joined, finish=str)
    return KINDS[kind].group_by("k").aggregate(**lists, folded=folded)


def rows_of(kind: str, backend: str, folder: Path, seed: int) -> Iterator[list[dict[str, Any]]]:
    """The rows of each batch. After each, the operator is closed, and the next one reads what it has committed."""
    options = {"state.snapshots.batches": 2, "state.snapshots.folder": str(folder / "snapshots")}
    for number in range(BATCHES):
        with operator(kind).local_runner("at", backend, folder / "state", options) as runner:
            yield runner.process(table(number, seed)).to_pylist()


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
@pytest.mark.usefixtures("switching")
def test_threads_do_not_disturb_one_another(backend: str, tmp_path: Path) -> None:
    """Operators of all kinds, over values of all types: several of each kind at once, and all rows are those of one alone."""
    jobs = [(kind, seed) for seed in range(THREADS) for kind in KINDS]

    def work(kind: str, seed: int, run: str) -> list[list[dict[str, Any]]]:
        return [*rows_of(kind, backend, tmp_path / run / f"{kind}-{seed}", seed)]

    alone = [work(*job, "alone") for job in jobs]
    with ThreadPoolExecutor(THREADS) as pool:
        together = [*pool.map(lambda job: work(*job, "together"), jobs)]
    assert alone == together
    assert all(map(any, together))
