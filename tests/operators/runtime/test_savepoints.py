"""Savepoints without Spark: whoever goes on from one, wherever and in however many buckets, emits what was to come anyway."""

import random
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeds import BACKENDS, KINDS, POLICIES, SCHEMA, Feed, operator, rows
from several_buckets import SEGMENTS, Buckets, feed

from operators import aggregates as agg
from operators.columns.records import FAR_PAST
from operators.runtime.local import LocalRunner
from state_backends import StateError
from tests.effort import few

RESULTS = {"n": agg.count(), "s": agg.sum("v"), "low": agg.min("v"), "all": agg.collect_list("v")}
every_kind = pytest.mark.parametrize("kind", few(KINDS, 3))
both_policies = pytest.mark.parametrize("policy", POLICIES)


@pytest.mark.slow
@both_policies
@every_kind
def test_moved_runners_emit_what_an_undisturbed_one_does(kind: str, policy: str, tmp_path: Path) -> None:
    """Moved at random points to another backend and segment, batch by batch the same rows, and the same are late."""
    chance = random.Random(f"{policy} {kind}")
    op, late = operator(kind, policy, RESULTS), 0
    with ExitStack() as runners:
        undisturbed = runners.enter_context(op.local_runner("at"))
        moved = runners.enter_context(op.local_runner("at", chance.choice(BACKENDS)))
        for number, (batch, stream_time) in enumerate(Feed(chance).steps(10)):
            if number == 3 or (number and chance.random() < 0.4):
                late += moved.counters.late
                moved = _moved(runners, op, moved, chance, tmp_path)
            assert rows(undisturbed.process(batch, stream_time)) == rows(moved.process(batch, stream_time))
            assert undisturbed.counters.late == late + moved.counters.late
        assert moved.store.is_empty()


def _moved(runners: ExitStack, op: Any, old: LocalRunner, chance: random.Random, folder: Path) -> LocalRunner:
    """A runner that starts from a savepoint of another one, on some backend, with a directory or without."""
    name = f"{chance.randrange(2**40):x}"
    saved = old.savepoint(folder / name)
    options = {"state.savepoint": saved.uri, "state.segment": chance.choice(SEGMENTS)}
    directory = chance.choice([None, folder / f"of {name}"])
    return runners.enter_context(op.local_runner("at", chance.choice(BACKENDS), directory, options))


def test_stream_time_and_highest_event_time_go_on() -> None:
    """A stream time behind the highest event time is gone on from: the next batch closes what it would have closed."""
    op = KINDS["tumbling"].aggregate(n=agg.count())
    early, later = (pa.table({"at": pa.array([time], pa.timestamp("ms"))}) for time in (30, 5))
    for policy in POLICIES:
        with op.emit(policy).local_runner("at") as one, ExitStack() as other:
            folder = Path(one._directory) / "savepoint"
            one.process(early, stream_time=2)
            one.savepoint(folder)
            options = {"state.savepoint": str(folder)}
            moved = other.enter_context(op.emit(policy).local_runner("at", options=options))
            assert rows(one.process(later)) == rows(moved.process(later))
            assert rows(one.process(later)) == rows(moved.process(later))
            assert (1, 1) == (one.counters.late, moved.counters.late)


def test_a_savepoint_is_printed_in_a_few_lines(tmp_path: Path) -> None:
    """What it holds, up to when, and where from; of long positions of sources the beginning."""
    times = pa.array([3_600_000, 7_200_000], pa.timestamp("ms"))
    with KINDS["tumbling"].aggregate(n=agg.count()).local_runner("at") as runner:
        runner.process(pa.table({"at": times}))
        saved = runner.savepoint(tmp_path / "saved")
    said = ["closed up to: 1970-01-01 01:59:59 UTC", "entries: 1", "files: 1"]
    assert [f"savepoint {tmp_path}/saved", *said] == [line.strip() for line in str(saved).splitlines()][:4]
    assert len(str(saved).splitlines()) == 4 + len(saved.origin)
    many = replace(saved, origin={"sources": ["x" * 10_000]}, close_time=2**61)
    assert len(str(many)) < 500


def test_runner_with_state_of_its_own_goes_on_with_that(tmp_path: Path) -> None:
    """The option counts for a new directory only; a restart goes on from the last commit, and needs the folder no more."""
    op = KINDS["tumbling"].group_by("k").aggregate(n=agg.count()).emit("on_update")
    batch = Feed(random.Random(3)).table(0).slice(0, 0)
    one = pa.table([["a"], [5], [1], [1.0], [1], *[[True]] * 6], schema=SCHEMA)
    with op.local_runner("at") as runner:
        runner.process(one)
        runner.savepoint(tmp_path / "savepoint")
    options = {"state.savepoint": str(tmp_path / "savepoint")}
    with op.local_runner("at", directory=tmp_path / "state", options=options) as runner:
        runner.process(batch)
    for path in (tmp_path / "savepoint").rglob("*.*"):
        path.unlink()
    with op.local_runner("at", directory=tmp_path / "state", options=options) as runner:
        assert [2] == runner.process(one)["n"].to_pylist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_that_fails_while_it_begins_leaves_no_trace(backend: str, tmp_path: Path) -> None:
    """A runner whose first batch fails, or whose savepoint is damaged for a while, begins anew with the next one."""
    op = KINDS["hopping"].group_by("k").emit("on_update").aggregate(s=agg.sum("v"), n=agg.count())
    feed = Feed(random.Random(5))
    first, second = feed.table(1), feed.table(2)
    bad = pa.table(
        [["a"] * 2, [40] * 2, [2**63 - 1] * 2, [1.0] * 2, [1] * 2, *[[True] * 2] * 6], schema=SCHEMA
    )
    with op.local_runner("at") as undisturbed, ExitStack() as runners:
        undisturbed.process(first, stream_time=20)
        saved = undisturbed.savepoint(tmp_path / "savepoint")
        moved = runners.enter_context(
            op.local_runner("at", backend, tmp_path / "state", {"state.savepoint": saved.uri})
        )
        file = tmp_path / "savepoint" / saved.files[0].name
        content = file.read_bytes()
        for _ in range(2):
            file.write_bytes(content[:-1])
            with pytest.raises(ValueError, match=file.name):
                moved.process(second)
            file.write_bytes(content)
            with pytest.raises(OverflowError):
                moved.process(bad)
        for batch, time in ((second, None), (second.slice(0, 0), 2**60)):
            assert rows(undisturbed.process(batch, time)) == rows(moved.process(batch, time))


def test_nothing_to_save(tmp_path: Path) -> None:
    """A runner that took no batch has no state, and says so."""
    with (
        KINDS["sliding"].aggregate(n=agg.count()).local_runner("at") as runner,
        pytest.raises(StateError, match="process a batch first"),
    ):
        runner.savepoint(tmp_path / "savepoint")
    assert not (tmp_path / "savepoint").exists()


@pytest.mark.slow
@both_policies
@every_kind
def test_buckets_that_are_dealt_out_anew_emit_what_one_operator_does(
    kind: str, policy: str, tmp_path: Path
) -> None:
    """4, 16 and 3 buckets, some of which lag behind in close time: the rows of one operator, each of them once."""
    chance = random.Random(f"{kind} {policy}")
    op = operator(kind, policy, RESULTS)
    stages = feed(chance, [6, 3, 4])
    alone = Buckets(op, 1, tmp_path / "alone", chance)
    expected = [row for stage in stages for batch, close in stage for row in alone.process(batch, close, 0)]
    found: list[str] = []
    savepoint, lagging = None, set()
    for number, (count, stage) in enumerate(zip((4, 16, 3), stages, strict=True)):
        buckets = Buckets(op, count, tmp_path / f"{number}", chance)
        found += buckets.begin(savepoint) if savepoint else []
        for batch, close in stage:
            found += buckets.process(batch, close, lag=0 if close == 10_000 else 0.8)
        # As on Spark, where the watermark has moved after the last batch.
        known = FAR_PAST if number == 2 else stages[number + 1][0][1]
        savepoint = buckets.savepoint(str(tmp_path / f"savepoint {number}"), known)
        lagging |= {savepoint.close_time - one.close_time for one in savepoint.files}
    assert sorted(expected) == sorted(found)
    assert any(lagging)
    assert all(part.store.is_empty() for part, _ in buckets.parts)
