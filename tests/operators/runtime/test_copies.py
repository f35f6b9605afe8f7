"""Several copies of one state, as Spark's workers keep them: whoever takes the next batch ends at the same rows."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from feeds import committed

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_PAST
from operators.runtime.stateful import StatefulOperator
from state_backends import resolve
from state_backends.journal import MemoryJournal
from tests.effort import few

SCHEMA = pa.schema([("k", pa.int64()), ("at", pa.timestamp("ms")), ("v", pa.int64())])
pytestmark = pytest.mark.usefixtures("pages_of_few_entries")
KINDS = {
    "sliding": SlidingWindows(size=15, grace=10),
    "hopping": HoppingWindows(size=15, advance=4, grace=10),
    "session": SessionWindows(gap=6, grace=10),
    "session of a greatest length": SessionWindows(gap=6, grace=10, max_length=20),
    "session with a gap per record": SessionWindows(gap_column="v", grace=10, max_length=40),
    "rolling": RollingWindows({"short": 5, "long": 20}, grace=10),
}


def batches(chance: random.Random, count: int) -> list[tuple[pa.Table, int]]:
    """Return batches out of order, each with the close time of those before it, as on Spark."""
    found, high = [], None
    for number in range(count):
        size = chance.choice([0, 1, 5, 40])
        times = [number * 20 + chance.randrange(-60, 40) for _ in range(size)]
        columns = [[chance.randrange(4) for _ in times], times, [chance.randrange(100) for _ in times]]
        table = pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)
        found.append((table, FAR_PAST if high is None else high - 10))
        high = max([*times, *([] if high is None else [high])], default=None)
    return [*found, (SCHEMA.empty_table(), 10_000)]


def run(copies: list[StatefulOperator], chance: random.Random, feed: list[tuple[pa.Table, int]]) -> list[str]:
    """Run the batches, each on a copy picked at random, and return all rows, sorted."""
    journal = MemoryJournal()
    rows: list[str] = []
    for table, close in feed:
        copy = chance.choice(copies)
        if chance.random() < 0.2:  # An attempt that fails before Spark commits what it wrote to the journal.
            failed = chance.choice(copies)
            lost = MemoryJournal()
            lost._blobs.update(journal._blobs)
            committed(failed, lost, close, [table])
        emitted = committed(copy, journal, close, [table]).rows
        copy.engine.state.check()
        rows += [repr(row) for row in emitted.to_pylist()]
    assert all(copy.open(journal) and copy.store.is_empty() for copy in copies)
    return sorted(rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(6), 6))
@pytest.mark.parametrize("policy", ["on_close", "on_update"])
@pytest.mark.parametrize("kind", KINDS)
def test_copies_agree_whoever_takes_a_batch(kind: str, seed: int, policy: str, tmp_path: Path) -> None:
    """Batches spread over copies, with failed attempts, give the rows of one undisturbed copy."""
    op = KINDS[kind].group_by("k").aggregate(n=agg.count(), s=agg.sum("v"), top=agg.max("v"))
    options = {"state.segment": "40 ms", "state.snapshots.bytes": "2k"}
    folder = {"state.snapshots.folder": str(tmp_path / "snapshots")}
    emit = "on_arrival" if kind == "rolling" and policy == "on_update" else policy
    binding = op.emit(emit).bind(SCHEMA, "at", resolve("memory", options))
    feed = batches(random.Random(seed), 25)

    def copy(name: str, backend: str) -> StatefulOperator:
        return StatefulOperator(
            binding, resolve(backend, options | (folder if seed % 3 == 0 else {})), tmp_path / name
        )

    alone = run([copy("alone", "memory")], random.Random(0), feed)
    backends = ("spark", "spark", "spark") if seed % 3 == 1 else ("memory", "rocksdb", "memory")
    several = [copy(name, backend) for name, backend in zip("abc", backends, strict=True)]
    assert alone == run(several, random.Random(seed), feed)
    assert (seed % 3 == 0) == (tmp_path / "snapshots").exists()
    for one in several:
        one.close()
