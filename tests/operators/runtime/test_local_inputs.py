"""Local runners of several inputs: the input whose highest event time is the least closes windows."""

from pathlib import Path

import pyarrow as pa
import pytest

from operators import CoGroupedAggregation, RollingWindows, TumblingWindows
from operators import aggregates as agg

COUNTS: CoGroupedAggregation = (
    TumblingWindows(10).group_by("k").cogroup(x={"x": agg.count()}, y={"y": agg.count()})
)


def rows(*times: int | None) -> pa.Table:
    """Rows of one key."""
    return pa.table({"k": pa.array(["a"] * len(times), pa.string()), "t": pa.array(times, pa.int64())})


def emitted(table: pa.Table) -> list[tuple[int, int, int]]:
    """Start of each window, and both counts."""
    starts = table.column("window").combine_chunks().field("start").cast(pa.int64()).to_pylist()
    return [(start, row["x"], row["y"]) for start, row in zip(starts, table.to_pylist(), strict=True)]


def test_slowest_frame_closes_windows() -> None:
    """A window closes once every frame is past it, and what is late is judged by the slowest frame."""
    with COUNTS.local_runner("t") as runner:
        assert [] == emitted(runner.process({"x": rows(1, 35), "y": rows(None)}))  # y may have any time
        assert [] == emitted(runner.process({"y": rows(2, 9)}))
        assert [(0, 2, 2)] == emitted(runner.process({"x": rows(3), "y": rows(21)}))
        assert [] == emitted(runner.process({"x": rows(8, 24)}))
        assert 1 == runner.counters.late
        assert [(20, 1, 1)] == emitted(runner.process({"y": rows(40)}))  # x is at 35
        assert [(30, 1, 0)] == emitted(runner.process({"x": rows(50)}))


def test_given_stream_time_counts_for_all_frames() -> None:
    """A stream time that is given closes windows whatever the frames have, and never goes back."""
    with COUNTS.local_runner("t") as runner:
        assert [(0, 1, 0)] == emitted(runner.process({"x": rows(1), "y": rows()}, stream_time=20))
        assert [] == emitted(runner.process({"x": rows(5, 22), "y": rows(7)}))
        assert 2 == runner.counters.late


@pytest.mark.parametrize("way", ["directory", "savepoint"])
def test_highest_times_outlive_the_runner(tmp_path: Path, way: str) -> None:
    """A runner that goes on from a directory or a savepoint knows how far each frame had come."""
    with COUNTS.local_runner("t", directory=tmp_path / "state") as runner:
        runner.process({"x": rows(1, 35), "y": rows(9)})
        if way == "savepoint":
            runner.runner.savepoint(tmp_path / "saved")
    options = {"state.savepoint": str(tmp_path / "saved")} if way == "savepoint" else {}
    directory = None if way == "savepoint" else tmp_path / "state"
    with COUNTS.local_runner("t", directory=directory, options=options) as runner:
        assert [] == emitted(runner.process({"x": rows(), "y": rows(4)}))
        assert [(0, 1, 2), (30, 1, 0)] == emitted(runner.process({"x": rows(60), "y": rows(50)}))


@pytest.mark.parametrize("aggregate", [agg.count(), agg.first("t"), agg.collect_list("t").over("w")])
def test_label_without_a_time_comes_out_without_results(aggregate: agg.Aggregate) -> None:
    """No label is lost: one whose time is null or out of range comes out at once, with nulls, and counts as bad."""
    operator = RollingWindows({"w": 10, "ever": "lifetime"}).group_by("k").aggregate(n=aggregate)
    times = pa.array([None, 5, 2**62], pa.int64())
    labels = pa.table({"k": ["a", "a", "b"], "asked": times, "is_fraud": [True, False, None]})
    with operator.local_runner_as_of("asked", "t") as runner:
        found = runner.process(labels, rows(None, 1)).to_pylist()
        assert [("a", None, True), ("b", 2**62, None)] == [
            (row["k"], row["asked"], row["is_fraud"]) for row in found
        ]
        assert {None} == {row[name] for row in found for name in row if name.startswith("n_")}
        assert runner.frames is not None
        assert (5, 3) == (runner.frames.counters.rows, runner.frames.counters.bad)
        (last,) = runner.process(labels.slice(0, 0), stream_time=100).to_pylist()
        assert 5 == last["asked"]
        assert last["n_w"] is not None


def test_labels_wait_for_records() -> None:
    """A label comes out once records are past it too, so that it has all of them; and records alone close nothing."""
    operator = RollingWindows({"w": 10}).group_by("k").aggregate(n=agg.count())
    with operator.local_runner_as_of("asked", "t") as runner:
        labels = pa.table({"k": ["a", "a"], "asked": pa.array([5, 30], pa.int64())})
        assert [] == runner.process(labels, rows(1)).to_pylist()
        late = runner.process(records=rows(4, 8))
        assert [(5, 2)] == [(row["asked"], row["n_w"]) for row in late.to_pylist()]
        assert [] == runner.process(records=rows(29, 99)).to_pylist()  # labels are at 30: more may come
        last = runner.process(labels.slice(0, 0), stream_time=100)
        assert [(30, 1)] == [(row["asked"], row["n_w"]) for row in last.to_pylist()]
