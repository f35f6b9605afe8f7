"""Approximate aggregates: how far off they are, what they cost to store, and what opens their states."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import finished

from operators import aggregates as agg
from operators.aggregates import Aggregate, distinct_sketches, percentiles
from operators.aggregates.kll import Sketches
from operators.aggregates.operation import Operation
from operators.aggregates.sketches import DistinctSketch
from operators.columns.arrow import column_data
from operators.columns.ranges import State
from operators.columns.records import Records
from serializers import CorruptDataError

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


@pytest.mark.parametrize("per_pane", [25, 5_000])
@pytest.mark.parametrize(("k", "error"), [(50, 0.055), (200, 0.0133), (1_000, 0.0028)])
def test_quantiles_are_as_close_as_said(k: int, error: float, per_pane: int) -> None:
    """Ranks of quantiles of thousands of panes are within three times the bound of 99 in 100 cases."""
    rng = np.random.default_rng(7)
    values, ranks = rng.permutation(100_000).astype(float), [0.01, 0.1, 0.5, 0.9, 0.99]
    aggregate = agg.approx_quantiles("v", ranks, k=k)
    operation, state = lifted(aggregate, values, per_pane)
    bound = aggregate.bind({"v": pa.float64()})
    combined = operation.combine_ranges(state, np.array([0]), np.array([len(state[0])]))
    for found in (
        *bound.finish([combined]).to_pylist(),
        *finished(bound, [operation.reduce(state, np.array([0]))]).to_pylist(),
    ):
        assert [rank * 100_000 for rank in ranks] == pytest.approx(found, rel=0, abs=3 * error * 100_000)


@pytest.mark.parametrize("k", [8, 50])
@pytest.mark.parametrize("per_pane", [1, 7, 30, 400])
def test_quantiles_of_ranges_are_those_of_the_samples_in_them(k: int, per_pane: int) -> None:
    """By brute force: all values that the panes of a window kept, each counted as often as it stands for."""
    rng = np.random.default_rng(per_pane)
    ranks = [0.0, 0.25, 0.5, 0.99, 1.0]
    values = np.where(rng.random(40 * per_pane) < 0.9, rng.integers(-9, 9, 40 * per_pane) / 4, np.nan)
    values[:per_pane] = np.nan
    aggregate = agg.approx_quantiles("v", ranks, k=k)
    operation, state = lifted(aggregate, values, per_pane)
    kept = [Sketches.read([stored]) for stored in state[0].tolist()]
    lo = np.append(0, rng.integers(0, 40, 30))
    hi = np.append(1, lo[1:] + rng.integers(1, 41 - lo[1:]))
    expected = []
    for a, b in zip(lo, hi, strict=True):
        all_ = sorted(v for s in kept[a:b] for v in np.repeat(s.values, 1 << s.levels).tolist())
        at = [max(int(np.ceil(rank * len(all_))), 1) - 1 for rank in ranks]
        expected.append([all_[n] for n in at] if all_ else None)
    found = aggregate.bind({"v": pa.float64()}).finish([operation.combine_ranges(state, lo, hi)])
    assert expected == found.to_pylist()
    assert expected[0] is None


def test_many_ranks_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many ranks of as many windows at once as memory has room for."""
    values = np.random.default_rng(3).permutation(500).astype(float)
    for aggregate in (
        agg.approx_quantiles("v", np.linspace(0, 1, 99).tolist(), k=500),
        agg.percentile("v", np.linspace(0, 1, 99).tolist()),
    ):
        bound = aggregate.bind({"v": pa.float64()})
        operation, state = lifted(aggregate, values, 5)
        lo = np.arange(90)
        whole_ = bound.finish([operation.combine_ranges(state, lo, lo + 10)]).to_pylist()
        with monkeypatch.context() as patched:
            patched.setattr(percentiles, "_RANKS_AT_ONCE", 200)
            assert whole_ == bound.finish([operation.combine_ranges(state, lo, lo + 10)]).to_pylist()
        assert whole_[3] == pytest.approx(np.quantile(values[15:65], np.linspace(0, 1, 99)), abs=25)


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


@pytest.mark.parametrize("k", [8, 200])
def test_the_library_opens_our_sketches_and_we_open_its_own(k: int) -> None:
    """Sketches of no value, one, k and many; and the library's are combined with ours, and none of its values is lost."""
    import datasketches

    rng = np.random.default_rng(10)
    ranks = [0.0, 0.01, 0.5, 0.99, 1.0]
    aggregate = agg.approx_quantiles("v", ranks, k=k)
    bound = aggregate.bind({"v": pa.float64()})
    (operation,) = bound.operations
    drawn = [datasketches.kll_doubles_sketch(k) for _ in range(6)]
    for sketch, count in zip(drawn, (0, 1, 2, k, k + 1, 10_000), strict=True):
        sketch.update(rng.normal(size=count))
    theirs = (np.array([sketch.serialize() for sketch in drawn], object),)
    assert [quantiles_of(sketch, ranks) for sketch in drawn] == finished(bound, [theirs]).to_pylist()
    _, ours = lifted(aggregate, rng.normal(size=9 * k + 1), k + 2)
    for left in (theirs, ours):
        for right in (theirs, ours):
            pairs = [np.resize(state[0], 12) for state in (left, right)]
            both = operation.combine((pairs[0],), (pairs[1],))
            opened = [
                [datasketches.kll_doubles_sketch.deserialize(one) if one else drawn[0] for one in states]
                for states in (*pairs, both[0].tolist())
            ]
            assert [a.n + b.n for a, b, _ in zip(*opened, strict=True)] == [union.n for union in opened[2]]
            assert finished(bound, [both]).to_pylist() == [quantiles_of(union, ranks) for union in opened[2]]
            for a, b, union in zip(*opened, strict=True):
                if union.n:
                    ends = [[one.get_min_value(), one.get_max_value()] for one in (a, b) if one.n]
                    assert [min(ends)[0], max(end[1] for end in ends)] == [
                        union.get_min_value(),
                        union.get_max_value(),
                    ]
                assert union.num_retained <= 3 * k + 8 * 20


def quantiles_of(sketch: Any, ranks: list[float]) -> list[float] | None:
    """What the library says of a sketch."""
    return None if sketch.is_empty() else sketch.get_quantiles(ranks, True)


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


@pytest.mark.slow
@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("rsd", [0.02, 0.13])
@pytest.mark.parametrize("per_pane", [1, 2, 60, 900])
def test_estimates_of_ranges_are_those_of_their_values(
    monkeypatch: pytest.MonkeyPatch, per_pane: int, rsd: float, by_rows: bool
) -> None:
    """Whichever way is cheaper: windows in order of time, in any order, of one pane; panes without a value among them."""
    monkeypatch.setattr(distinct_sketches, "cheaper_by_rows", lambda *_: by_rows)
    rng = np.random.default_rng(per_pane)
    aggregate = agg.approx_count_distinct("v", rsd)
    finish = aggregate.bind({"v": pa.int64()}).finish
    for highest in (4, 300, 10**9):
        values = np.where(rng.random(50 * per_pane) < 0.9, rng.integers(0, highest, 50 * per_pane), None)
        operation, state = lifted(aggregate, pa.array(values.tolist(), pa.int64()), per_pane)
        lo = rng.integers(0, 50, 30)
        hi = lo + rng.integers(1, 51 - lo)
        sorted_lo, sorted_hi = np.sort(lo), np.maximum.accumulate(np.sort(lo) + 1 + rng.integers(0, 9, 30))
        for begin, end in ((lo, hi), (sorted_lo, np.minimum(sorted_hi, 50)), (lo, lo + 1)):
            expected = [
                whole(aggregate, [v for v in values[a * per_pane : b * per_pane] if v is not None])
                for a, b in zip(begin, end, strict=True)
            ]
            assert expected == finish([operation.combine_ranges(state, begin, end)]).to_pylist()


def whole(aggregate: Aggregate, values: Any) -> int:
    """The estimate of values in one pane."""
    array = pa.array(values, pa.int64())
    _, state = lifted(aggregate, array, max(1, len(values)))
    return finished(aggregate.bind({"v": pa.int64()}), [state]).to_pylist()[0] if len(values) else 0


OF_TYPES: dict[str, list[Any]] = {
    "int": [0, 1, -1, 2**63 - 1, -(2**63)],
    "float": [0.0, -0.0, 1.5, float("nan"), float("inf"), -1e300],
    "text": ["", "a", "ä", "\0", "a\0", *("x" * length for length in range(2, 40)), "y" * 1_000],
    "long text": [f"{number}{'yz' * (17 * number)}" for number in range(60)],
    "bytes": [b"", b"\0", b"\xff", b"\xff\0", *(b"\xe4" * length for length in range(2, 40))],
    "many": list(range(200)),
    "more": [f"value {number}" for number in range(5_000)],
}


@pytest.mark.parametrize("rsd", [0.02, 0.09, 0.5])
@pytest.mark.parametrize("name", OF_TYPES)
def test_the_library_has_the_same_hashes_and_opens_our_states(name: str, rsd: float) -> None:
    """States that former versions stored by its sketches go on: their values are known again, whatever their type."""
    import datasketches

    values = OF_TYPES[name]
    aggregate = agg.approx_count_distinct("v", rsd)
    operation, state = lifted(aggregate, pa.array(values, from_pandas=False), len(values))
    assert isinstance(operation, DistinctSketch)
    theirs = datasketches.hll_sketch(operation.size, datasketches.tgt_hll_type.HLL_8)
    for value in values:
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        theirs.update(value if isinstance(value, int | float) else f"={text}")
    stored = theirs.serialize_compact()
    assert len(stored) == len(state[0][0])
    both = operation.combine(state, (np.array([stored], object),))
    assert state[0].tolist() == both[0].tolist()
    opened, alone, union = (
        datasketches.hll_sketch.deserialize(state[0][0]),
        *[datasketches.hll_union(operation.size) for _ in range(2)],
    )
    for sketch in (theirs, opened):
        union.update(sketch)
        alone.update(theirs)
    assert union.get_estimate() == pytest.approx(alone.get_estimate(), rel=1e-9)
    assert opened.get_estimate() == pytest.approx(alone.get_estimate(), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("count", [500, 3_000, 20_000, 300_000])
def test_estimates_are_off_as_said(count: int) -> None:
    """The standard deviation is that of HyperLogLog, 1.04 / sqrt(4,096), and there is no bias to speak of."""
    rng, aggregate = np.random.default_rng(count), agg.approx_count_distinct("v", 0.02)
    errors = np.array(
        [whole(aggregate, rng.integers(-(2**63), 2**63 - 1, count)) / count - 1 for _ in range(40)]
    )
    assert errors.std() < 0.02
    assert abs(errors.mean()) < 4 * 0.0163 / np.sqrt(40)


@pytest.mark.parametrize(
    "damaged", [b"abc", b"\x63\0\0\0", b"\x0a" + b"\0" * 7, b"\x0a\x01\x07\x0b" + b"\0" * 40]
)
def test_bytes_of_no_sketch_are_refused_by_name(damaged: bytes) -> None:
    """Too short, or cut off: as those of a forged savepoint."""
    with pytest.raises(CorruptDataError, match="a state of approx_count_distinct has a form"):
        distinct_sketches.Sketches.read([damaged], 11)


def test_a_cut_state_of_quantiles_is_refused_by_name() -> None:
    """Bytes that are no words."""
    with pytest.raises(CorruptDataError, match="a state of approx_quantiles has a form"):
        Sketches.read([b"abc"])


@pytest.mark.slow
def test_nothing_else_is_needed() -> None:
    """Where datasketches is not installed, estimates work."""
    code = """
import sys
sys.modules["datasketches"] = None
import pyarrow as pa
from operators import TumblingWindows, aggregates as agg
results = {"n": agg.approx_count_distinct("v"), "m": agg.approx_quantiles("v", [0.5])}
table = pa.table({"at": pa.array([0, 1, 1], pa.timestamp("ms")), "v": [5, 7, 7]})
with TumblingWindows("1 second").group_by().aggregate(**results).local_runner("at") as runner:
    print(runner.process(table, stream_time=1_000).select(["n", "m"]).to_pylist())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "[{'n': 2, 'm': [7.0]}]" == done.stdout.strip()
