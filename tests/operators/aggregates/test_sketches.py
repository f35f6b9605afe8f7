"""Approximate aggregates: how far off they are, what they cost to store, and what is said without the package."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import finished

from operators import aggregates as agg
from operators.aggregates import Aggregate
from operators.aggregates.operation import Operation
from operators.aggregates.sketches import QuantileSketch
from operators.columns.arrow import column_data
from operators.columns.ranges import State
from operators.columns.records import Records

ROOT = Path(__file__).parents[3]


def lifted(aggregate: Aggregate, values: Any, per_pane: int) -> tuple[Operation, State]:
    """The states of panes of some records each."""
    array = pa.array(values)
    zeros = np.zeros(len(array), np.int64)
    (operation,) = aggregate.bind({"v": array.type}).operations
    records = Records([b""], zeros, np.arange(len(array)), {"v": column_data(array)}, 0)
    return operation, operation.accumulate(records, np.arange(0, len(array), per_pane))


@pytest.mark.parametrize("rsd", [0.02, 0.05])
@pytest.mark.parametrize("count", [10, 1_000, 50_000])
def test_distinct_estimates_know_the_set_alone(rsd: float, count: int) -> None:
    """However values are ordered, repeated, cut and combined, the estimate is one, and within five deviations."""
    rng = np.random.default_rng(6)
    values = np.concatenate([np.arange(count), rng.integers(0, count, count // 2)])
    found = set()
    for per_pane in (7, 1_000, len(values)):
        rng.shuffle(values)
        aggregate = agg.approx_count_distinct("v", rsd)
        operation, state = lifted(aggregate, values, per_pane)
        rows = len(state[0])
        bound = aggregate.bind({"v": pa.int64()})
        found |= set(
            bound.finish([operation.combine_ranges(state, np.array([0]), np.array([rows]))]).to_pylist()
        )
        found |= set(finished(bound, [operation.reduce(state, np.array([0]))]).to_pylist())
    (estimate,) = found
    assert abs(estimate - count) <= 5 * rsd * count


def test_distinct_sketches_are_as_large_as_said() -> None:
    """A state is some bytes a value, up to (1.04 / rsd)**2 rounded up to a power of two."""
    _, small = lifted(agg.approx_count_distinct("v", 0.02), np.arange(10), 10)
    _, large = lifted(agg.approx_count_distinct("v", 0.02), np.arange(100_000), 100_000)
    assert len(small[0][0]) <= 80
    assert 4_096 <= len(large[0][0]) <= 4_096 + 64


@pytest.mark.parametrize(("k", "error"), [(50, 0.055), (200, 0.0133), (1_000, 0.0028)])
def test_quantiles_are_as_close_as_said(k: int, error: float) -> None:
    """Ranks of quantiles of thousands of panes are within three times the bound of 99 in 100 cases."""
    rng = np.random.default_rng(7)
    values, ranks = rng.permutation(100_000).astype(float), [0.01, 0.1, 0.5, 0.9, 0.99]
    aggregate = agg.approx_quantiles("v", ranks, k=k)
    operation, state = lifted(aggregate, values, 25)
    bound = aggregate.bind({"v": pa.float64()})
    combined = operation.combine_ranges(state, np.array([0]), np.array([len(state[0])]))
    for found in (
        *bound.finish([combined]).to_pylist(),
        *finished(bound, [operation.reduce(state, np.array([0]))]).to_pylist(),
    ):
        assert [rank * 100_000 for rank in ranks] == pytest.approx(found, rel=0, abs=3 * error * 100_000)


@pytest.mark.parametrize("k", [8, 200])
@pytest.mark.parametrize("count", [201, 5_000])
def test_equal_values_make_equal_quantiles(k: int, count: int) -> None:
    """In whichever order values come and panes are combined: one sample, to the bit. A task that runs again sends it again."""
    rng = np.random.default_rng(9)
    values = np.round(rng.normal(size=count), 2) * rng.choice(
        [1.0, -1.0], count
    )  # equal ones, and zeros of both signs
    states, results = set(), set()
    aggregate = agg.approx_quantiles("v", [0.1, 0.5, 0.9], k=k)
    bound = aggregate.bind({"v": pa.float64()})
    for _ in range(3):
        rng.shuffle(values)
        operation, state = lifted(aggregate, values, count)
        states |= set(state[0].tolist())
    operation, state = lifted(aggregate, values, 90)
    for _ in range(3):
        rng.shuffle(state[0])
        reduced = operation.reduce(state, np.array([0]))
        results.add(str(finished(bound, [reduced]).to_pylist()))
        states |= {b"reduced" + one for one in reduced[0].tolist()}
    assert (2, 1) == (len(states), len(results))


def test_the_library_opens_its_own_sketch_and_ours_alike() -> None:
    """A state that the library drew before is combined with others, and none of its values is lost."""
    import datasketches

    rng = np.random.default_rng(10)
    drawn = datasketches.kll_doubles_sketch(200)
    drawn.update(rng.normal(size=10_000))
    operation = QuantileSketch("v", 200)
    one, none = operation.of(np.array([9.0])), operation.of(np.array([float("nan")] * 300))
    for several in ([drawn, operation.of(rng.normal(size=999))], [drawn, one], [none, one, drawn]):
        union = operation.union(several)
        assert sum(sketch.n for sketch in several) == union.n
        assert max(sketch.get_max_value() for sketch in several if sketch.n) == union.get_max_value()
        weights = [weight for _, weight in union]
        assert union.n == sum(weights)
        assert union.num_retained <= 3 * 200 + 8 * 20


def test_quantiles_are_exact_up_to_k_values() -> None:
    """As many values as k, in however many panes, are all there; states are as large as said."""
    rng = np.random.default_rng(8)
    values = rng.permutation(200).astype(float)
    aggregate = agg.approx_quantiles("v", (np.arange(200) + 0.5) / 200)
    bound = aggregate.bind({"v": pa.float64()})
    for per_pane in (1, 9, 200):
        operation, state = lifted(aggregate, values, per_pane)
        reduced = operation.reduce(state, np.array([0]))
        combined = operation.combine_ranges(state, np.array([0]), np.array([len(state[0])]))
        assert [[float(n) for n in range(200)]] == finished(bound, [reduced]).to_pylist()
        assert [[float(n) for n in range(200)]] == bound.finish([combined]).to_pylist()
        assert len(reduced[0][0]) < 25 * 200


def test_quantiles_of_nan_and_infinity() -> None:
    """NaN does not count, infinity does."""
    aggregate = agg.approx_quantiles("v", [0.0, 1.0])
    bound = aggregate.bind({"v": pa.float64()})
    for values, expected in (
        ([float("nan"), 1.0], [1.0, 1.0]),
        ([float("-inf"), 1.0, float("inf")], [float("-inf"), float("inf")]),
        ([float("nan")], None),
    ):
        _, state = lifted(aggregate, pa.array(values, from_pandas=False), len(values))
        assert [expected] == finished(bound, [state]).to_pylist()


def test_panes_are_opened_once() -> None:
    """A thousand windows over a thousand panes open each pane's sketch once, and close none."""
    opened: list[bytes] = []

    class Counting(QuantileSketch):
        __slots__ = ()

        def from_bytes(self, stored: bytes) -> Any:
            opened.append(stored)
            return QuantileSketch.from_bytes(self, stored)

        def to_bytes(self, sketch: Any) -> bytes:
            raise AssertionError(sketch)

    _, state = lifted(agg.approx_quantiles("v", [0.5]), np.arange(1_000.0), 1)
    lo = np.arange(900)
    Counting("v", 200).combine_ranges(state, lo, lo + 100)
    assert state[0].tolist() == opened


@pytest.mark.parametrize("call", ['approx_count_distinct("v")', 'approx_quantiles("v", [0.5])'])
def test_without_the_package(call: str) -> None:
    """Where datasketches is not installed, all else works, and asking for a sketch says what to install."""
    code = f"""
import sys
sys.modules["datasketches"] = None
from operators import DefinitionError, aggregates as agg
agg.count_distinct("v")
try:
    agg.{call}
except DefinitionError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "needs the package datasketches: pip install spark-stateful-windows[sketches]" in done.stdout
