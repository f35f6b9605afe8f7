"""What do other systems do on the same work?

Each runs alone in a process, on the records of all benchmarks, and clocks its work: not its start, not reading, not what fills
windows beforehand. polars, duckdb and pandas get a million records at once as a table, keep no state, and polars and duckdb use
all cores. bytewax (batches of 1,000, state in memory) and Quix Streams (state in RocksDB, a commit every 10,000 records) take
records one by one, fewer of them, without a source, a sink, recovery or a changelog.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.operators.feeding import fed
from benchmarks.peers.efforts import (
    ALSO,
    AT_ONCE,
    FULL,
    NAMES,
    NOTES,
    STREAMS,
    USUAL,
    WITH_MANY_KEYS,
    at_once,
    effort,
)
from benchmarks.peers.processes import run
from benchmarks.peers.works import Workload, later_records


def cases() -> Iterator[Any]:
    """Each peer with each of its works."""
    for peer in (*AT_ONCE, *STREAMS):
        yield from (pytest.param(peer, work, id=f"{peer}-{work}") for work in (*USUAL, *ALSO.get(peer, ())))
        yield from (full(peer, work, id=f"{peer}-{work}") for work in FULL[peer])


@pytest.mark.parametrize(("peer", "work"), list(cases()))
def test_peer(
    benchmark: Any,
    measure: Measure,
    stored: Callable[[int, int], Path],
    python: Path,
    peer: str,
    work: Workload,
) -> None:
    given = effort(peer, work)
    records = stored(given.records, work.keys)
    answer = benchmark.pedantic(run, (python, peer, work, given, records))
    note = {"note": NOTES[peer, work.kind]} if (peer, work.kind) in NOTES else {}
    system = NAMES.get(peer, peer)
    measure.taken(answer.seconds, section=work.section, system=system, rows=given.rows, **work.axes, **note)
    benchmark.extra_info["version"] = answer.version
    assert work.kind != "sliding" or 0.8 < answer.per_window / work.per_window < 1.2


@pytest.mark.parametrize("work", [full(WITH_MANY_KEYS)], ids=str)
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_ours_with_many_keys(measure: Measure, backend: str, work: Workload) -> None:
    table = later_records(at_once(work), work.keys)
    windows = measure(
        lambda: fed(work.operator, table, backend),
        section=work.section,
        system=backend,
        rows=len(table),
        rounds=1,
        warmup=0,
        **work.axes,
    )
    assert windows
