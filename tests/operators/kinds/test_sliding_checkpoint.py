"""A directory that holds the state of another operator is refused, naming what differs; a new grace is no difference."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import SlidingWindows, WindowedAggregation
from operators import aggregates as agg
from state_backends import StateError


def operator(emit: str = "on_close", keys: tuple[str, ...] = ("key",), **changed: Any) -> WindowedAggregation:
    """An operator whose definition differs from the usual one in what is given."""
    windows = {name: changed.pop(name) for name in ("size", "grace", "tick") if name in changed}
    aggregates = changed or {"low": agg.min("text"), "total": agg.sum("value")}
    return SlidingWindows(**{"size": 10, **windows}).group_by(*keys).aggregate(**aggregates).emit(emit)


def batch(**changed: pa.Array) -> pa.Table:
    """One record; columns that are given replace the usual ones."""
    usual = {"time": pa.array([1]), "key": ["a"], "text": ["x"], "value": pa.array([150], pa.int64())}
    return pa.table({**usual, **changed})


def resume(directory: Path, changed: WindowedAggregation, records: pa.Table, **options: Any) -> pa.Table:
    """Take one batch by the usual operator, and another by a changed one on the same directory."""
    with operator().local_runner("time", directory=directory) as runner:
        runner.process(batch())
    with changed.local_runner("time", directory=directory, options=options) as runner:
        return runner.process(records, stream_time=1_000)


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (operator(size=20), "size was 10 ms, is 20 ms"),
        (operator(tick="1 us"), "tick was 1 ms, is 1 us"),
        (operator(emit="on_update"), "emission was 'on_close', is 'on_update'"),
        (operator(keys=("text",)), r"keys were key: string, are text: string"),
    ],
    ids=["size", "tick", "emission", "keys"],
)
def test_other_definition_is_refused(changed: WindowedAggregation, difference: str, tmp_path: Path) -> None:
    """Windows, ticks, emission and keys are those that the state was written with."""
    with pytest.raises(StateError, match=f"the state of another operator: .*{difference}.*new checkpoint"):
        resume(tmp_path, changed, batch())


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (operator(n=agg.count()), r'n from count\(\) is new.*total from .*sum\("value"\) is gone'),
        (
            operator(low=agg.max("text"), total=agg.sum("value")),
            r'low from max\("text"\) is new.*low from min\("text"\) is gone',
        ),
    ],
    ids=["count for sum", "max for min"],
)
def test_other_aggregates_are_refused(changed: WindowedAggregation, difference: str, tmp_path: Path) -> None:
    """Aggregates are those that the state was written with, unless it is to be taken over."""
    with pytest.raises(StateError, match=f"{difference}.*state.evolution to adapt.*new checkpoint"):
        resume(tmp_path, changed, batch())


def test_other_type_of_a_key_is_refused(tmp_path: Path) -> None:
    """Keys are of the type that they were."""
    with pytest.raises(StateError, match=r"keys were key: string, are key: int64"):
        resume(tmp_path, operator(), batch(key=pa.array([7])))


def test_other_segment_is_refused(tmp_path: Path) -> None:
    """The length of a segment is part of the state's layout."""
    with pytest.raises(StateError, match="segment was 1 minute, is 5 ms"):
        resume(tmp_path, operator(), batch(), **{"state.segment": "5 ms"})


@pytest.mark.parametrize(
    "changed",
    [
        {"text": pa.array([b"x"])},
        {"value": pa.array([1.5])},
        {"value": pa.array([150], pa.decimal128(10, 0))},
    ],
    ids=["text to binary", "whole to fraction", "whole to decimal"],
)
def test_other_column_types_are_refused(changed: dict[str, pa.Array], tmp_path: Path) -> None:
    """State of a column that had another type is not read as the new one."""
    with pytest.raises(StateError, match=f"column '{next(iter(changed))}' was .*, is .*new checkpoint"):
        resume(tmp_path, operator(), batch(**changed))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.array([150], pa.decimal128(10, 0)), pa.array([150], pa.decimal128(10, 2))),
        (pa.array([1], pa.timestamp("s")), pa.array([1], pa.timestamp("us"))),
        (pa.array([1], pa.int64()), pa.array([1.5], pa.float64())),
        (pa.array([1], pa.int64()), pa.array([1], pa.date32())),
    ],
    ids=["scale", "unit", "whole to fraction", "whole to date"],
)
def test_other_type_of_an_extreme_or_a_sum_is_refused(
    before: pa.Array, after: pa.Array, tmp_path: Path
) -> None:
    """A stored value is a number of units: with another scale or unit it would be another value."""
    aggregates = {"low": agg.min("value")}
    if pa.types.is_decimal(before.type):
        aggregates = {"total": agg.sum("value")}
    with operator(**aggregates).local_runner("time", directory=tmp_path) as runner:
        runner.process(batch(value=before))
    with (
        operator(**aggregates).local_runner("time", directory=tmp_path) as runner,
        pytest.raises(StateError, match=r"column 'value' was .*, is .*new checkpoint"),
    ):
        runner.process(batch(value=after))


def test_other_grace_or_result_name_goes_on(tmp_path: Path) -> None:
    """State does not depend on the grace, nor on what results are called."""
    changed = operator(grace=5, smallest=agg.min("text"), sum=agg.sum("value"))

    assert [300] == resume(tmp_path, changed, batch()).column("sum").to_pylist()


def test_state_is_intact_after_a_refusal(tmp_path: Path) -> None:
    """The former definition still finds what it left."""
    with pytest.raises(StateError):
        resume(tmp_path, operator(size=20), batch())
    with operator().local_runner("time", directory=tmp_path) as runner:
        assert [300] == runner.process(batch(), stream_time=1_000).column("total").to_pylist()
