"""Sketches as results: Apache DataSketches opens them, and has the same hashes; they are the same however panes are merged."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import Case, Row, finished, stored

from operators import DefinitionError, HoppingWindows, RollingWindows, TumblingWindows
from operators import aggregates as agg
from operators.aggregates.kll import LONG, Sketches

VALUES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "nothing": (pa.int64(), [None]),
    "one": (pa.int64(), [7]),
    "few": (pa.string(), ["a", "ä", "b" * 100, "a"]),
    "set": (pa.int32(), range(20)),
    "many": (pa.int64(), [n * n for n in range(3_000)]),
    "texts": (pa.string(), [f"value {n}" for n in range(3_000)]),
    "bytes": (pa.binary(), [bytes([n % 100, n // 100]) for n in range(1_000)]),
}


@pytest.mark.parametrize("size", [4, 5, 7, 8, 12, 21])
@pytest.mark.parametrize("name", VALUES)
def test_the_library_opens_sketches_of_distinct_values(name: str, size: int) -> None:
    """Its own sketch of the same values adds nothing to ours; what is cut into panes has the same bytes."""
    import datasketches

    type_, values = VALUES[name]
    case = Case(agg.hll_sketch_agg("v", size), type_, None, len)  # type: ignore[arg-type]
    (whole,) = finished(case.bound, case.states([[Row(0, value) for value in values]])).to_pylist()
    ours = datasketches.hll_sketch.deserialize(whole)
    theirs = datasketches.hll_sketch(size, datasketches.tgt_hll_type.HLL_8)
    for value in values:
        if value is not None:
            theirs.update(value.decode() if isinstance(value, bytes) else value)
    found = []
    for sketches in ([theirs, theirs], [theirs, ours], [ours, ours]):
        union = datasketches.hll_union(size)
        for sketch in sketches:
            union.update(sketch)
        found.append(union.get_estimate())
    assert found[0] == pytest.approx(found[1], rel=1e-12) == pytest.approx(found[2], rel=1e-12)
    (operation,) = case.bound.operations
    panes = np.array_split(np.array([*values], object), min(7, len(values)))
    (cut,) = stored([operation], case.states([[Row(n, v) for v in pane] for n, pane in enumerate(panes)]))
    ranges = operation.combine_ranges(cut, np.array([0]), np.array([len(panes)]))
    assert [whole] == case.bound.finish([ranges]).to_pylist()
    assert [whole] == finished(case.bound, [operation.reduce(cut, np.array([0]))]).to_pylist()


def test_empty_texts_do_not_count() -> None:
    """As in other implementations: to them they are no value."""
    for type_, values in ((pa.string(), ["", "a"]), (pa.binary(), [b"", b"a"])):
        case = Case(agg.hll_sketch_agg("v"), type_, None, len)  # type: ignore[arg-type]
        one, both = (case.states([[Row(0, v) for v in some]]) for some in (values[1:], values))
        assert finished(case.bound, one) == finished(case.bound, both)


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 5_000])
@pytest.mark.parametrize("per_pane", [1, 3, 5_000])
def test_the_library_opens_sketches_of_ranks(count: int, per_pane: int) -> None:
    """It finds as many values, their extremes, and ranks within the error."""
    import datasketches

    values = np.random.default_rng(count).permutation(count).astype(float).tolist() or [None]
    case = Case(agg.kll_sketch_agg_double("v", 64), pa.float64(), None, len)  # type: ignore[arg-type]
    panes = [[Row(n, v) for v in values[n : n + per_pane]] for n in range(0, len(values), per_pane)]
    (state,) = stored(case.bound.operations, case.states(panes))
    ranges = case.bound.operations[0].combine_ranges(state, np.array([0]), np.array([len(panes)]))
    (found,) = case.bound.finish([ranges]).to_pylist()
    sketch = datasketches.kll_doubles_sketch.deserialize(found)
    assert count == sketch.n
    if count:
        assert (0.0, count - 1.0) == (sketch.get_min_value(), sketch.get_max_value())
        assert abs(sketch.get_quantile(0.5) - count / 2) <= 1 + 0.06 * count
        assert sketch.num_retained < 400


@pytest.mark.slow
def test_sketches_do_not_depend_on_batches() -> None:
    """A stream that brings records in any order and cut, hopping or beside records, ends in the bytes of one batch."""
    rng = np.random.default_rng(4)
    table = pa.table({"k": ["a"] * 600, "at": rng.permutation(600), "v": rng.integers(0, 500, 600)})
    results = {"h": agg.hll_sketch_agg("v", 6), "n": agg.kll_sketch_agg_double("v", 1000)}
    kinds: list[Any] = [HoppingWindows(300, 50, grace=1000), RollingWindows(300, grace=1000)]
    for windows in kinds:
        found = []
        for cut in (600, 71):
            with windows.group_by("k").aggregate(**results).local_runner("at") as runner:
                rows = [runner.process(table.slice(at, cut), 0) for at in range(0, 600, cut)]
                rows.append(runner.process(table.slice(0, 0), 10**6))
            found.append(sorted(map(repr, pa.concat_tables(rows).to_pylist())))
        assert found[0] == found[1]
        assert len(found[0]) > 10


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: agg.hll_sketch_agg("v", 3),
            r"hll_sketch_agg\(v\): lg_config_k must be a whole number from 4 to 21",
        ),
        (lambda: agg.hll_sketch_agg("v", 12.0), "lg_config_k must be"),  # type: ignore[arg-type]
        (
            lambda: agg.kll_sketch_agg_double("v", 7),
            r"kll_sketch_agg_double\(v\): k must be a whole number from 8",
        ),
        (
            lambda: agg.hll_sketch_agg("v").bind({"v": pa.float64()}),
            "is of type double, not an integer, a string",
        ),
        (
            lambda: agg.kll_sketch_agg_double("v").bind({"v": pa.string()}),
            "is of type string, not an integer or",
        ),
    ],
)
def test_what_is_refused(make: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        make()


def test_two_results_share_a_state() -> None:
    """Quantiles and their sketch."""
    types = {"v": pa.float64()}
    one, other = (a.bind(types) for a in (agg.kll_sketch_agg_double("v"), agg.approx_quantiles("v", [0.5])))
    assert one.operations == other.operations
    windows = (
        TumblingWindows(10)
        .group_by()
        .aggregate(s=agg.kll_sketch_agg_double("v"), q=agg.approx_quantiles("v", [0.5]))
    )
    with windows.local_runner("at") as runner:
        rows = runner.process(pa.table({"at": [1, 2], "v": [1.0, 5.0]}), 100).to_pylist()
    assert [1.0] == rows[0]["q"]


def sketch_bytes(kind: str, values: Sequence[Any], **arguments: Any) -> bytes:
    """A sketch of values, as another library makes it."""
    import datasketches

    if kind == "hll":
        sketch = datasketches.hll_sketch(arguments.get("size", 12), datasketches.tgt_hll_type.HLL_8)
    else:
        sketch = getattr(datasketches, f"kll_{kind}_sketch")(arguments.get("size", 200))
    for value in values:
        sketch.update(value)
    if kind != "hll":
        return bytes(sketch.serialize())
    return bytes(sketch.serialize_updatable() if arguments.get("updatable") else sketch.serialize_compact())


def result_of(aggregate: Any, panes: Sequence[Sequence[Any]], type_: pa.DataType = pa.binary()) -> bytes:  # noqa: B008
    """The result of a window with these values in its panes."""
    case = Case(aggregate, type_, None, len)  # type: ignore[arg-type]
    rows = [[Row(n, value) for value in pane] for n, pane in enumerate(panes)]
    (state,) = stored(case.bound.operations, case.states(rows))
    operation = case.bound.operations[0]
    (found,) = case.bound.finish(
        [operation.combine_ranges(state, np.array([0]), np.array([len(panes)]))]
    ).to_pylist()
    return bytes(found)


@pytest.mark.parametrize("updatable", [False, True])
@pytest.mark.parametrize("sizes", [(8, 8), (8, 11), (4, 21)])
@pytest.mark.parametrize("counts", [(0, 0), (1, 3), (5, 40), (0, 4_000), (3, 3_000), (2_000, 2_500)])
def test_unions_of_sketches_are_sketches_of_the_union(
    counts: tuple[int, int], sizes: tuple[int, int], updatable: bool
) -> None:
    """To the byte: those of others, compact or not, with as many registers or more, and ours."""
    size, theirs = sizes
    values = [[n * n for n in range(count)] for count in counts]
    made = [sketch_bytes("hll", some, size=theirs, updatable=updatable) for some in values]
    ours = result_of(agg.hll_sketch_agg("v", theirs), [values[1] or [None]], pa.int64())
    expected = result_of(agg.hll_sketch_agg("v", size), [values[0] + values[1] or [None]], pa.int64())
    for panes in ([[made[0]], [made[1], None]], [[made[1], made[0], ours]]):
        assert expected == result_of(agg.hll_union_agg("v", size), panes)


@pytest.mark.parametrize("item", ["double", "float", "bigint"])
@pytest.mark.parametrize("count", [0, 1, 2, 150, 5_000])
def test_sketches_of_ranks_of_each_type_are_made_and_merged(item: str, count: int) -> None:
    """The library opens them; merged with one of its own, there are as many values, with the same extremes and ranks."""
    import datasketches

    theirs = {"double": "doubles", "float": "floats", "bigint": None}[item]
    most = 2**62 if item == "bigint" else 8
    type_ = pa.int64() if item == "bigint" else pa.float64()
    values = [most // 4 * 3 + n if item == "bigint" else n / 2 for n in range(count)]
    make, merge = getattr(agg, f"kll_sketch_agg_{item}"), getattr(agg, f"kll_merge_agg_{item}")
    made = result_of(make("v"), [values[:70] or [None], values[70:] or [None]], type_)
    merged = result_of(merge("v"), [[made, None], [made]])
    both = result_of(merge("v", 64), [[made, made]])
    if theirs is None:
        whole = Sketches.read([made if count else b""], LONG)
        assert (count, 2 * count) == tuple(
            int(Sketches.read([one], LONG).totals[0]) for one in (made, merged)
        )
        assert {*whole.values.tolist()} <= {*values}
        assert not count or [[values[0]], [values[-1]]] == whole.extremes.tolist()
        return
    opened = [getattr(datasketches, f"kll_{theirs}_sketch").deserialize(one) for one in (made, merged, both)]
    assert [count, 2 * count, 2 * count] == [one.n for one in opened]
    own = sketch_bytes(theirs, values, size=64)
    mixed = getattr(datasketches, f"kll_{theirs}_sketch").deserialize(result_of(merge("v"), [[own], [made]]))
    assert 2 * count == mixed.n
    for sketch in (*opened, mixed):
        if count:
            assert (0.0, (count - 1) / 2) == (sketch.get_min_value(), sketch.get_max_value())
            assert abs(sketch.get_quantile(0.5) - count / 4) <= 1 + 0.06 * count / 2


@pytest.mark.parametrize(
    ("aggregate", "value", "said"),
    [
        (
            agg.hll_union_agg("v"),
            b"",
            r"hll_union_agg\(v\): a value is not a HyperLogLog sketch .*: make it by",
        ),
        (agg.hll_union_agg("v"), b"\x01" * 40, "is not a HyperLogLog sketch"),
        (
            agg.hll_union_agg("v"),
            sketch_bytes("hll", [1], size=8),
            "lg_config_k 8: give hll_union_agg .* of 8 or less, not 12",
        ),
        (agg.kll_merge_agg_double("v"), b"abc", r"kll_merge_agg_double\(v\): a value is not a KLL sketch"),
        (agg.kll_merge_agg_float("v"), sketch_bytes("hll", [1]), "is not a KLL sketch"),
        (agg.kll_merge_agg_double("v"), sketch_bytes("doubles", range(9))[:-8], "is not a KLL sketch"),
    ],
)
def test_values_that_are_no_such_sketch_end_the_query(aggregate: Any, value: bytes, said: str) -> None:
    """And the error names the window."""
    operator = TumblingWindows(10).group_by("k").aggregate(u=aggregate)
    table = pa.table({"k": ["a"], "at": [5], "v": pa.array([value], pa.binary())})
    with (
        operator.local_runner("at") as runner,
        pytest.raises(agg.AggregateError, match=f"{said}.*The window: k='a'"),
    ):
        runner.process(table)


def test_other_sorts_of_registers_are_refused() -> None:
    """HLL_4, the default of others."""
    import datasketches

    sketch = datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_4)
    for n in range(5_000):
        sketch.update(n)
    with pytest.raises(agg.AggregateError, match="another sort than HLL_8: make it by hll_sketch_agg"):
        result_of(agg.hll_union_agg("v"), [[bytes(sketch.serialize_compact())]])


@pytest.mark.parametrize(
    "make", [agg.hll_union_agg, agg.kll_merge_agg_double, agg.kll_merge_agg_float, agg.kll_merge_agg_bigint]
)
def test_only_columns_of_bytes_are_merged(make: Any) -> None:
    with pytest.raises(DefinitionError, match=f"{make.__name__}.*is of type string, not binary"):
        make("v").bind({"v": pa.string()})
    with pytest.raises(DefinitionError, match=make.__name__):
        make("v", True)
