"""Since when an aggregate that was added to a state counts all records: told, and true."""

import random
from datetime import timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeds import BACKENDS, KINDS, Feed, operator

from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE

ADAPT = {"state.evolution": "adapt", "state.segment": "40 ms"}
PLAIN = {"state.segment": "40 ms"}


def window_begins(kind: str, row: dict[str, Any]) -> Any:
    """The time at which a row's window begins, in ticks."""
    if kind == "rolling":
        return row["at"] - 15
    return round(row["window"]["start"].replace(tzinfo=timezone.utc).timestamp() * 1_000)


def told(runner: Any) -> int:
    """What the metrics say."""
    since: int = runner.metrics["since_ms"]
    return since


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "fold" not in kind])
def test_windows_that_begin_later_are_complete(kind: str, backend: str, tmp_path: Path) -> None:
    """And one that begins before it may not be; restarts and savepoints keep it, until the aggregate goes."""
    feed = Feed(random.Random(5))
    batches = [in_ticks(feed.table(number, 0)) for number in range(8)]
    before, after = (
        {name: agg.count() if name == "n" else agg.sum("v") for name in names}
        for names in (["n"], ["n", "total"])
    )
    with operator(kind, "on_close", after).local_runner("at") as whole:
        expected = [row for batch in batches for row in whole.process(batch).to_pylist()]
        expected += whole.process(batches[0].slice(0, 0), FAR_FUTURE).to_pylist()
    with operator(kind, "on_close", before).local_runner("at", backend, tmp_path / "state", PLAIN) as runner:
        out = [row for batch in batches[:3] for row in runner.process(batch).to_pylist()]
        assert 0 == told(runner)
    latest = max(max(batch.column("at").to_pylist(), default=0) for batch in batches[:3])
    with operator(kind, "on_close", after).local_runner("at", backend, tmp_path / "state", ADAPT) as runner:
        out += runner.process(batches[3]).to_pylist()
        since = told(runner)
        saved = runner.savepoint(tmp_path / "saved")
    assert latest < since <= latest + 20
    options = PLAIN | {"state.savepoint": saved.uri}
    with operator(kind, "on_close", after).local_runner("at", backend, tmp_path / "moved", options) as runner:
        out += [row for batch in batches[4:] for row in runner.process(batch).to_pylist()]
        assert since == told(runner)
        out += runner.process(batches[0].slice(0, 0), FAR_FUTURE).to_pylist()
    assert len(expected) == len(out)
    pairs = list(zip(sorted(expected, key=repr_of), sorted(out, key=repr_of), strict=True))
    complete = [(row, found) for row, found in pairs if window_begins(kind, row) >= since]
    assert complete
    assert [row["total"] for row, _ in complete] == [found["total"] for _, found in complete]
    assert [row["total"] for row, _ in pairs] != [found.get("total") for _, found in pairs]
    with operator(kind, "on_close", before).local_runner("at", backend, tmp_path / "moved", ADAPT) as runner:
        runner.process(batches[0].slice(0, 0))
        assert 0 == told(runner)


def repr_of(row: dict[str, Any]) -> str:
    """A row without the result that was added, to sort by."""
    return repr({name: value for name, value in row.items() if name != "total"})


def in_ticks(table: pa.Table) -> pa.Table:
    """A batch with whole numbers for event times."""
    return table.set_column(1, "at", table.column("at").cast(pa.int64()))


def test_it_is_the_end_of_the_last_pane_that_had_records(tmp_path: Path) -> None:
    """Whatever the close time is: of twelve ticks from 12 to 24, when the stream has come to 20."""
    batch = in_ticks(Feed(random.Random(1)).table(0, 0))
    batch = batch.slice(0, 1).set_column(1, "at", pa.array([20], pa.int64()))
    with operator("tumbling", "on_close", {"n": agg.count()}).local_runner(
        "at", directory=tmp_path
    ) as runner:
        runner.process(batch)
    added = {"n": agg.count(), "total": agg.sum("v")}
    with operator("tumbling", "on_close", added).local_runner(
        "at", directory=tmp_path, options={"state.evolution": "adapt"}
    ) as runner:
        runner.process(batch)
        assert 24 == told(runner)
