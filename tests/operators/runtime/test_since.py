"""Since when an aggregate that was added to a state counts all records: told, and true."""

import random
from datetime import timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeds import BACKENDS, KINDS, Feed, operator

from operators import DefinitionError, RollingWindows, SessionWindows, TumblingWindows
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


@pytest.mark.slow
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


def begins_and_since(kind: str, rows: list[dict[str, Any]]) -> list[tuple[int, int | None]]:
    """When the window of each row begins, and what its column says."""
    told = [row["complete"] for row in rows]
    ticks = [
        None if one is None else round(one.replace(tzinfo=timezone.utc).timestamp() * 1_000) for one in told
    ]
    return [(window_begins(kind, row), since) for row, since in zip(rows, ticks, strict=True)]


@pytest.mark.parametrize("policy", ["on_close", "on_update"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "fold" not in kind])
def test_a_column_says_it(kind: str, policy: str, tmp_path: Path) -> None:
    """Null as long as nothing was added; then rows whose windows begin at its time or later have the results of one stream."""
    feed = Feed(random.Random(5))
    batches = [in_ticks(feed.table(number, 0)) for number in range(8)]
    n = {"n": agg.count()}
    before, after = (
        operator(kind, policy, results).with_since("complete") for results in (n, n | {"total": agg.sum("v")})
    )
    with after.local_runner("at") as whole:
        expected = [row for batch in batches for row in whole.process(batch).to_pylist()]
    assert {None} == {row.pop("complete") for row in expected}
    with before.local_runner("at", directory=tmp_path / "state", options=PLAIN) as runner:
        for batch in batches[:3]:
            assert {None} >= {row["complete"] for row in runner.process(batch).to_pylist()}
    with after.local_runner("at", directory=tmp_path / "state", options=ADAPT) as runner:
        out = [row for batch in batches[3:5] for row in runner.process(batch).to_pylist()]
        since = told(runner)
        saved = runner.savepoint(tmp_path / "saved")
        still = runner.open_windows().to_pylist()
    with after.local_runner("at", options=PLAIN | {"state.savepoint": saved.uri}) as runner:
        out += [row for batch in batches[5:] for row in runner.process(batch).to_pylist()]
    found = begins_and_since(kind, out)
    assert {since} == {told for _, told in found}
    assert {since} >= {told for _, told in begins_and_since(kind, still)}
    assert still or (kind, policy) == ("rolling", "on_update")
    complete = [row for row, (begin, told) in zip(out, found, strict=True) if begin >= (told or 0)]
    plain = [{name: value for name, value in row.items() if name != "complete"} for row in complete]
    assert plain
    assert all(row in expected for row in plain)


def test_the_column_where_nothing_is_added() -> None:
    """Labels of an as-of join, several frames, and sessions that are retracted have it, too; published features do not."""
    rolling = RollingWindows("10 ms", grace=5).group_by("k").aggregate(n=agg.count()).with_since("whole")
    records = pa.table({"k": ["a", None], "at": pa.array([1, None], pa.timestamp("us", "UTC"))})
    with rolling.local_runner_as_of("at", "at") as as_of:
        as_of.process(records, records)
        found = as_of.process(stream_time=100)
    assert [pa.field("n", pa.int64()), pa.field("whole", pa.timestamp("us", "UTC"))] == list(found.schema)[
        -2:
    ]
    assert (1, None) == (found.num_rows, found.column("whole")[0].as_py())
    assert rolling.for_readers("at").since is None
    both = TumblingWindows(10).group_by("k").cogroup(a={"n": agg.count()}, b={"m": agg.count()})
    with both.with_since("whole").local_runner("at") as cogrouped:
        rows = cogrouped.process({"a": records, "b": records}, 100)
    assert (["k", "window", "n", "m", "whole"], [None]) == (
        rows.column_names,
        rows.column("whole").to_pylist(),
    )
    sessions = SessionWindows(gap=3).group_by("k").aggregate(n=agg.count()).emit("on_update")
    assert sessions.with_since("whole").for_readers("at").since is None
    with sessions.with_since("whole").local_runner("at") as runner:
        for time in (1, 7, 4):
            rows = runner.process(pa.table({"k": ["a"], "at": pa.array([time], pa.int64())}))
    assert ["k", "window", "n", "whole", "change", "sequence"] == rows.column_names
    assert {"update", "retract"} == {*rows.column("change").to_pylist()}


def test_its_name_is_that_of_no_other_column() -> None:
    """Of a key, a result, the window, or a column that comes out beside it."""
    windows = TumblingWindows(10).group_by("k").aggregate(n=agg.count())
    rolling = RollingWindows({"1h": 10}).group_by("k").aggregate(n=agg.count())
    both = TumblingWindows(10).group_by("k").cogroup(a={"n": agg.count()}, b={"m": agg.count()})
    cases: list[tuple[Any, str]] = [
        *((windows, name) for name in ("k", "N", "window")),
        (windows.emit("on_update"), "change"),
        (rolling, "n_1h"),
        (both, "m"),
    ]
    for operator_, name in cases:
        with pytest.raises(DefinitionError, match=f"(?i)distinct names|alike|{name}"):
            operator_.with_since(name)
    with pytest.raises(DefinitionError, match="with_since"):
        windows.with_since(3)  # type: ignore[arg-type]
    with (
        pytest.raises(DefinitionError, match="result 'at' has the name of a column"),
        rolling.with_since("at").local_runner("at") as runner,
    ):
        runner.process(pa.table({"k": ["a"], "at": pa.array([1], pa.int64())}))


def test_the_column_has_the_time_from_which_on_all_results_count(tmp_path: Path) -> None:
    """Of two that were added one after the other, that of the second."""
    windows = (
        TumblingWindows(10).group_by("k").aggregate(n=agg.count()).emit("on_update").with_since("complete")
    )
    told = []
    for time, added in ((1, {}), (25, {"low": agg.min("v")}), (47, {"high": agg.max("v")}), (48, {})):
        windows = windows.aggregate(**added)
        with windows.local_runner("at", directory=tmp_path, options=ADAPT) as runner:
            found = runner.process(pa.table({"k": ["a"], "at": pa.array([time], pa.int64()), "v": [1]}))
        told += found.column("complete").cast(pa.int64()).to_pylist()
    assert [None, 10, 30, 30] == told
