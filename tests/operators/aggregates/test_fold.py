"""Aggregates in plain Python: what their functions get, in which order, what they may do, and how their errors read."""

import pickle
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from operators import TumblingWindows
from operators import aggregates as agg
from operators.aggregates.definitions import Bound
from operators.aggregates.fold_operation import FoldOperation
from operators.columns.records import RecordColumns, Records
from operators.errors import DefinitionError
from serializers.values import pack_value, unpack_value


def listed(values: list[Any], *value: Any) -> list[Any]:
    """Append to the list that it is given."""
    values.append(value[0] if len(value) == 1 else list(value))
    return values


def merged(a: list[Any], b: list[Any]) -> list[Any]:
    """Join two lists, and spoil both."""
    a.extend(b)
    b.clear()
    return a


LIST = {"type": "array<bigint>", "merge": merged}


def bound(aggregate: agg.Aggregate, **columns: pa.Array) -> tuple[Bound, Any]:
    """The aggregate bound to some columns, and its one operation."""
    result = aggregate.bind({name: column.type for name, column in columns.items()})
    return result, result.operations[0]


def records(time: Sequence[int], **columns: pa.Array) -> Records:
    """Records of one key."""
    table = pa.table({"time": pa.array(time, pa.int64()), **columns})
    return RecordColumns("time", (), tuple(columns), 1_000).read(table)


def run(aggregate: agg.Aggregate, time: Sequence[int] | None = None, **columns: pa.Array) -> Any:
    """The result of the aggregate over all records, by a fold of all."""
    whole, operation = bound(aggregate, **columns)
    batch = records(time or range(len(next(iter(columns.values())))), **columns)
    state = operation.accumulate(batch, np.zeros(1, np.int64))
    return whole.finish([state]).to_pylist()[0]


def values_of(operation: FoldOperation, state: Any) -> list[Any]:
    """The results of a state's rows."""
    return [operation.result(packed) for packed in state[0].tolist()]


INTS = pa.array([3, 1, 2], pa.int64())


def test_functions_make_the_result() -> None:
    """The state begins as `init`, takes record after record, and `finish` makes the result of it."""
    mean = agg.fold(
        (0, 0.0), lambda s, x: (s[0] + 1, s[1] + x), "x", type="double", finish=lambda s: s[1] / s[0]
    )

    assert 2.0 == run(mean, x=INTS)
    assert 6 == run(agg.fold(0, lambda total, x: total + x, "x", type="bigint"), x=INTS)
    assert [3, 1, 2] == run(agg.fold(list, listed, "x", type="array<bigint>"), x=INTS)
    assert 3 == run(agg.fold(0, lambda n: n + 1, type=pa.int32()), x=INTS)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([1, None], pa.int32()), [1, None]),
        (pa.array([0.5, None], pa.float32()), [0.5, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array(["a", None]), ["a", None]),
        (pa.array([b"a", None]), [b"a", None]),
        (pa.array([date(1969, 1, 2), None]), [date(1969, 1, 2), None]),
        (pa.array([Decimal("1.50"), None]), [Decimal("1.50"), None]),
        (pa.array([datetime(2024, 1, 2), None], pa.timestamp("us")), [datetime(2024, 1, 2), None]),
        (
            pa.array([datetime(2024, 1, 2, tzinfo=timezone.utc)], pa.timestamp("us", "UTC")),
            [datetime(2024, 1, 2, tzinfo=timezone.utc)],
        ),
        (pa.array([timedelta(1), None], pa.duration("us")), [timedelta(1), None]),
        (pa.array([[1, None], None], pa.list_(pa.int64())), [[1, None], None]),
        (pa.array([{"a": 1}], pa.struct([("a", pa.int64())])), [{"a": 1}]),
        (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_values_are_what_python_calls_them(column: pa.Array, values: list[Any]) -> None:
    """`add` gets a value of any type as Arrow shows it in Python, and None for null; the state keeps it."""
    plain = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
    operation = agg.fold(list, listed, "x", type="string").bind({"x": plain.type}).operations[0]
    state = operation.accumulate(records(range(len(column)), x=column), np.zeros(1, np.int64))

    assert [values] == values_of(operation, state)


def test_several_columns_come_in_the_order_given() -> None:
    """`add` gets the columns' values in the order of their names, a name perhaps twice."""
    fold = agg.fold(list, listed, "y", "x", "y", type="array<array<bigint>>")

    assert [[5, 3, 5], [6, 1, 6], [7, 2, 7]] == run(fold, x=INTS, y=pa.array([5, 6, 7]))


def test_records_that_where_leaves_out_are_not_added() -> None:
    """Where the column is false or null there is no call of `add`; a state without any is the initial one."""
    where = pa.array([True, None, False])
    fold = agg.fold(list, listed, "x", type="array<bigint>", where="good")

    assert [3] == run(fold, x=INTS, good=where)
    assert [] == run(fold, x=INTS[1:], good=where[1:])


def test_records_are_added_by_event_time_then_by_value() -> None:
    """Of equal event times null comes first, then values in order, NaN last: whatever the order of arrival."""
    x = pa.array([2.0, float("nan"), None, -1.0, 5.0])
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        times = [[1, 1, 1, 1, 0][n] for n in order]
        with (
            TumblingWindows(10)
            .aggregate(r=agg.fold(list, listed, "x", type="array<double>", merge=merged))
            .local_runner("t") as runner
        ):
            rows = runner.process(pa.table({"t": times, "x": x.take(pa.array(order))}), stream_time=99)
        assert "[[5.0, None, -1.0, 2.0, nan]]" == str(rows.column("r").to_pylist())


def test_tied_values_without_an_order_are_added_in_one_order() -> None:
    """Structs and lists with nulls in them cannot be compared; still the order of arrival is of no account."""
    column = pa.array([{"a": 2}, {"a": None}, {"a": 1}], pa.struct([("a", pa.int64())]))
    fold = agg.fold(list, listed, "x", type="string", finish=str)

    assert run(fold, [0, 0, 0], x=column) == run(fold, [0, 0, 0], x=column.take(pa.array([2, 1, 0])))


def test_no_function_can_spoil_a_state() -> None:
    """Functions that change what they are given leave every state as it was: init, add, merge and finish."""
    shared: list[Any] = []
    fold = agg.fold(
        lambda: shared, listed, "x", merge=merged, finish=lambda s: s.clear() or [9], type="array<bigint>"
    )
    whole, operation = bound(fold, x=INTS)
    batch = records(range(3), x=INTS)
    lifted = operation.lift(batch)
    before = [bytes(packed) for packed in lifted[0]]
    operation.add(lifted, batch)
    operation.combine(lifted, lifted)
    operation.combine_ranges(lifted, np.array([0, 0]), np.array([3, 2]))
    operation.reduce(lifted, np.array([0]))
    whole.finish([lifted])
    operation.extend(lifted[0].tolist(), batch, np.zeros(3, np.int64), np.full(3, 3))

    assert before == lifted[0].tolist()
    assert [[3], [1], [2]] == [unpack_value(packed) for packed in before]
    assert [] == shared


def test_a_nested_value_is_a_new_one_for_every_window() -> None:
    """A function that keeps a list which it got and changes it later changes no other window's record."""
    column = pa.array([[1], [2]], pa.list_(pa.int64()))
    fold = agg.fold(None, lambda s, x: x if s is None else merged(s, x), "x", type="array<bigint>")
    _, operation = bound(fold, x=column)
    state = operation.extend([None] * 3, records([0, 1], x=column), np.array([0, 0, 1]), np.array([2, 2, 2]))

    assert [[1, 2], [1, 2], [2]] == values_of(operation, state)


def test_a_mutable_init_is_a_new_one_for_every_state() -> None:
    """A list given as `init` is copied."""
    init: list[Any] = []
    _, operation = bound(agg.fold(init, listed, "x", type="array<bigint>"), x=INTS)

    assert [[3], [1], [2]] == values_of(operation, operation.lift(records(range(3), x=INTS)))
    assert [] == init


@given(st.lists(st.integers(0, 99), min_size=1, max_size=40), st.data())
def test_merged_ranges_are_what_adding_record_by_record_gives(numbers: list[int], data: Any) -> None:
    """Any range of states, merged, is the fold of its records in their order."""
    column = pa.array(numbers, pa.int64())
    _, operation = bound(agg.fold(list, listed, "x", **LIST), x=column)
    state = operation.lift(records(range(len(numbers)), x=column))
    edges = st.tuples(st.integers(0, len(numbers) - 1), st.integers(1, len(numbers)))
    ranges = data.draw(st.lists(edges.filter(lambda r: r[0] < r[1]), max_size=9))
    lo, hi = (np.array([r[n] for r in ranges], np.int64) for n in (0, 1))

    assert [numbers[a:b] for a, b in ranges] == values_of(operation, operation.combine_ranges(state, lo, hi))


def test_windows_of_two_lengths_cost_as_many_merges_as_two_times_windows_of_one() -> None:
    """Rolling windows over a short and a long lookback: about three calls for each window, whatever the length."""
    calls = []

    def counted(a: int, b: int) -> int:
        calls.append(1)
        return a + b

    column = pa.array(range(400), pa.int64())
    _, operation = bound(agg.fold(0, lambda s, x: s + x, "x", type="bigint", merge=counted), x=column)
    state = operation.lift(records(range(400), x=column))
    hi = np.arange(1, 401)
    lo = [np.maximum(hi - length, 0) for length in (20, 300)]
    found = operation.combine_ranges(state, np.concatenate(lo), np.concatenate([hi, hi]))

    assert [sum(range(a, b)) for each in lo for a, b in zip(each, hi, strict=True)] == values_of(
        operation, found
    )
    assert len(calls) < 3 * 2 * 400


def test_merge_sees_states_of_one_range_only() -> None:
    """States that no range holds together, such as those of two keys, are never merged."""

    def same(a: int, b: int) -> int:
        assert a == b
        return a

    column = pa.array([1] * 5 + [2] * 6, pa.int64())
    _, operation = bound(agg.fold(None, lambda _, x: x, "x", type="bigint", merge=same), x=column)
    state = operation.lift(records(range(11), x=column))

    assert [1, 2] == values_of(operation, operation.reduce(state, np.array([0, 5])))


def test_without_merge_states_cannot_be_combined() -> None:
    """Such a fold says so of itself, and refuses to combine more than nothing."""
    _, operation = bound(agg.fold(list, listed, "x", type="array<bigint>", name="seen"), x=INTS)
    state, one = operation.lift(records(range(3), x=INTS)), np.array([0])

    assert not operation.combines
    assert [[3], [1], [2]] == values_of(operation, operation.reduce(state, np.arange(3)))
    assert [[1]] == values_of(operation, operation.combine_ranges(state, one + 1, one + 2))
    for refused in (
        lambda: operation.combine(state, state),
        lambda: operation.reduce(state, one),
        lambda: operation.combine_ranges(state, one, one + 2),
    ):
        with pytest.raises(
            agg.AggregateError, match=r"fold seen\(x\) has no merge: its states cannot be combined"
        ):
            refused()


def fail(*_: Any) -> Any:
    """A function of a user's that fails."""
    raise KeyError("colour")


@pytest.mark.parametrize("role", ["init", "add", "merge", "finish"])
def test_an_error_names_the_fold_and_the_function(role: str) -> None:
    """What a user's function raises is the cause of an error that says whose it was."""
    functions = {"init": list, "add": listed, "merge": merged, "finish": list, role: fail}
    fold = agg.fold(
        functions.pop("init"), functions.pop("add"), "x", **functions, type="array<bigint>", name="f"
    )
    whole, operation = bound(fold, x=INTS)
    with pytest.raises(agg.AggregateError, match=rf"fold f\(x\): {role} raised KeyError: 'colour'") as raised:
        whole.finish([operation.reduce(operation.lift(records(range(3), x=INTS)), np.array([0]))])

    assert isinstance(raised.value.__cause__, KeyError)


def test_a_state_that_cannot_be_stored_is_an_error() -> None:
    """A set, or a dict whose keys do not come back, names the fold and the function that returned it."""
    with pytest.raises(
        agg.AggregateError, match=r"fold f\(x\): add returned a state that cannot be stored: .*set"
    ):
        run(agg.fold(0, lambda _, x: {x}, "x", type="bigint", name="f"), x=INTS)
    with pytest.raises(agg.AggregateError, match="init returned a state that cannot be stored"):
        run(agg.fold(object, lambda _, x: x, "x", type="bigint"), x=INTS)
    with pytest.raises(agg.AggregateError, match="cannot be read back; the keys of its dicts"):
        run(agg.fold(0, lambda _, x: {(1, 2): x}, "x", type="bigint"), x=INTS)


def test_a_result_of_another_type_is_an_error() -> None:
    """The value that does not fit is shown, with the type that was promised."""
    with pytest.raises(agg.AggregateError, match=r"fold f\(x\): the state is \[3, 1, 2\], expected int64"):
        run(agg.fold(list, listed, "x", type="bigint", name="f"), x=INTS)
    with pytest.raises(agg.AggregateError, match="the result of finish is 'a', expected int64"):
        run(agg.fold(0, lambda _, x: x, "x", type="bigint", finish=lambda _: "a"), x=INTS)
    for type_, cut in (("bigint", 0.5), ("int", float("nan")), ("array<bigint>", [1, 0.5])):
        with pytest.raises(agg.AggregateError, match=r"expected .*its fraction would be truncated"):
            run(agg.fold(cut, lambda s, _: s, "x", type=type_), x=INTS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"add": 5}, "add must be a function, got 5"),
        ({"add": None}, "add must be a function, got None"),
        ({"merge": "sum"}, "merge must be a function, got 'sum'"),
        ({"finish": 0}, "finish must be a function, got 0"),
        ({"init": {1, 2}}, "init cannot be stored: .*set"),
        ({"type": "text"}, "unknown result type 'text'"),
        ({"columns": [5]}, "fold takes column names, not 5"),
        ({"columns": ["missing"]}, "fold f: column 'missing' does not exist; the frame has the columns x"),
        (
            {"where": "missing"},
            "fold f: where must be the name of a boolean column: column 'missing' does not exist",
        ),
        ({"where": "x"}, "fold f: column 'x' is of type int64, not a boolean"),
    ],
)
def test_definitions_are_checked(changed: dict[str, Any], message: str) -> None:
    """What cannot work is refused before anything runs."""
    given = {"init": 0, "add": listed, "columns": ["x"], "type": "bigint", "name": "f", **changed}
    with pytest.raises(DefinitionError, match=message):
        bound(agg.fold(given.pop("init"), given.pop("add"), *given.pop("columns"), **given), x=INTS)


def test_folds_are_told_apart_by_their_code() -> None:
    """A fold that went through pickling is the same one; one with other functions is another, of the same description."""
    whole, operation = bound(agg.fold(0, lambda s, x: s + x, "x", type="bigint"), x=INTS)
    _, other = bound(agg.fold(0, lambda s, x: s - x, "x", type="bigint"), x=INTS)
    copies = [pickle.loads(cloudpickle.dumps(whole)) for _ in range(2)]  # noqa: S301 - our own bytes

    assert copies[0] == copies[1] == whole
    assert hash(copies[0].operations[0]) == hash(operation)
    assert operation != other
    assert "fold lambda(x)" == operation.describe() == other.describe()


def test_a_fold_is_described_by_name_columns_and_filter() -> None:
    """Stored state is known by the given name, or that of `add`; not by the code, which may be mended."""
    _, operation = bound(
        agg.fold(list, listed, "x", type="array<bigint>", where="good"), x=INTS, good=pa.array([True])
    )

    assert "fold listed(x) where good" == operation.describe()


def test_state_is_what_comes_back_from_the_store() -> None:
    """A tuple is a list from the first record on, as it is after a restart."""
    seen: list[type] = []

    def watch(state: Any, _: int) -> Any:
        seen.append(type(state))
        return tuple(state)

    run(agg.fold((), watch, "x", type="array<bigint>"), x=INTS)

    assert [list] * 3 == seen
    assert [0, 0] == unpack_value(pack_value((0, 0)))
