"""Aggregates that users write on whole columns: what they are known by, their O(1) windows, and their errors."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import LONGEST, SQUARES, WEIGHTED
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from operators import AggregateOperation, DefinitionError, SlidingWindows, TumblingWindows
from operators.aggregates import AggregateError
from operators.aggregates.user_operation import UserOperation

TYPES = {"x": pa.float64(), "n": pa.int64(), "t": pa.string(), "ok": pa.bool_()}


def geometric_mean(**changed: Any) -> AggregateOperation:
    """The example of the documentation, or a changed one."""
    given_ = {
        "name": "geometric mean",
        "state": (int, float),
        "create": lambda: (0, 0.0),
        "accumulate": lambda state, x: (state[0] + 1, state[1] + np.log(x)),
        "combine": lambda a, b: (a[0] + b[0], a[1] + b[1]),
        "finish": lambda state: np.exp(state[1] / state[0]),
        "type": "double",
    }
    return AggregateOperation(**{**given_, **changed})


def run(operator: Any, **columns: list[Any]) -> list[dict[str, Any]]:
    """All windows of a batch, and of all that it leaves open."""
    table = pa.table({**columns, "time": pa.array(columns["time"], pa.int64())})
    with operator.local_runner("time") as runner:
        first = runner.process(table).to_pylist()
        runner.restart()
        rest = runner.process(table.slice(0, 0), 2**61).to_pylist()
        assert runner.store.is_empty()
    return first + rest


def test_example() -> None:
    """The documented example gives the geometric mean of each window, through the store and a restart."""
    operator = TumblingWindows(size=10).aggregate(g=geometric_mean()("x"))
    found = run(operator, time=[1, 3, 2, 15], x=[2.0, 8.0, None, 5.0])
    assert [4.0, 5.0] == pytest.approx([row["g"] for row in found])


@given(st.data())
def test_deduct_gives_every_window(data: st.DataObject) -> None:
    """With `deduct`, sliding windows are the differences of running totals: those that combining gives, wrapped totals too."""
    values = data.draw(st.lists(st.integers(-(2**31), 2**31), min_size=1, max_size=40))
    lo = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=8)), np.int64)
    hi = np.array([data.draw(st.integers(a + 1, len(values))) for a in lo.tolist()], np.int64)
    operation = UserOperation("n", ("n",), SQUARES)
    state = SQUARES.accumulate(operation.empty_states(len(values)), np.array(values))
    by_totals = operation.combine_ranges(state, lo, hi)
    by_ranges = replace(operation, definition=replace(SQUARES, deduct=None)).combine_ranges(state, lo, hi)
    assert [column.tolist() for column in by_ranges] == [column.tolist() for column in by_totals]


def test_deduct_needs_few_calls() -> None:
    """Ten thousand windows of any length cost a few dozen calls of `combine`, over two rows a row, and one of `deduct`."""
    sizes: list[int] = []

    def combine(a: Any, b: Any) -> Any:
        sizes.append(len(a[0]))
        return a[0] + b[0], a[1] + b[1]

    operation = UserOperation("n", ("n",), replace(SQUARES, combine=combine))
    state = operation.empty_states(10_000)
    operation.combine_ranges(state, np.zeros(10_000, np.int64), np.arange(1, 10_001))
    assert len(sizes) <= 2 * math.ceil(math.log2(10_000))
    assert sum(sizes) <= 2 * 10_000


def test_windows_of_whole_operators() -> None:
    """Sliding windows with several keys, a filter, two columns and objects hold what plain Python makes of their records."""
    rng = np.random.default_rng(5)
    rows = 300
    columns: dict[str, list[Any]] = {
        "time": np.sort(rng.integers(0, 900, rows)).tolist(),
        "key": rng.choice(["a", "b"], rows).tolist(),
        "n": [None if n == 0 else n for n in rng.integers(0, 20, rows).tolist()],
        "x": (rng.integers(0, 9, rows) / 4).tolist(),
        "t": ["t" * n for n in rng.integers(0, 9, rows).tolist()],
        "ok": rng.choice([True, False, None], rows).tolist(),
    }
    operator = (
        SlidingWindows(size=50)
        .group_by("key")
        .aggregate(s=SQUARES("n"), s_ok=SQUARES("n", where="ok"), w=WEIGHTED("n", "x"), t=LONGEST("t"))
    )
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    windows = run(operator, **columns)
    assert 400 < len(windows)
    for window in windows:
        start, end = (window["window"][edge].timestamp() * 1_000 for edge in ("start", "end"))
        held = [r for r in records if r["key"] == window["key"] and start - 1e-3 <= r["time"] <= end + 1e-3]
        squares = [(r["n"] ** 2, r["ok"]) for r in held if r["n"] is not None]
        weights = [(r["n"], r["x"]) for r in held if r["n"] is not None]
        total = sum(x for _, x in weights)
        assert window["s"] == (sum(n for n, _ in squares) if squares else None)
        assert window["s_ok"] == (sum(n for n, ok in squares if ok) if any(ok for _, ok in squares) else None)
        assert window["w"] == (pytest.approx(sum(n * x for n, x in weights) / total) if total else None)
        assert window["t"] == max(r["t"] for r in held)


class TestIdentity:
    """What makes operations equal, and stored states those of the same aggregate."""

    def test_equal_after_pickling(self) -> None:
        """An operation that Spark sends again with each batch is equal to itself, though its functions are other objects."""
        operation = UserOperation("x", ("x",), geometric_mean(), where="ok")
        again = cloudpickle.loads(cloudpickle.dumps(operation))
        assert (operation, hash(operation)) == (again, hash(again))
        assert operation.definition.combine is not again.definition.combine

    @pytest.mark.parametrize(
        "changed",
        [
            {"name": "other"},
            {"version": 2},
            {"state": (float, float)},
            {"finish": lambda state: state[1]},
            {"type": "float"},
            {"deduct": lambda a, b: (a[0] - b[0], a[1] - b[1])},
        ],
        ids=lambda changed: next(iter(changed)),
    )
    def test_different(self, changed: dict[str, Any]) -> None:
        """Another name, version, state, function or type is another operation."""
        assert geometric_mean() != geometric_mean(**changed)

    def test_text(self) -> None:
        """Stored states are known by name, version, columns, filter and state columns, not by the functions' code."""
        types = (geometric_mean(), geometric_mean(finish=lambda state: state[1]))
        texts = {UserOperation("x", ("x", "y"), given_).describe() for given_ in types}
        assert {"geometric mean 1(x, y; i8, f8)"} == texts
        text = UserOperation("x", ("x",), geometric_mean(version=3), where="ok").describe()
        assert "geometric mean 3(x, where='ok'; i8, f8)" == text


class TestDefinition:
    """An operation is checked when it is made, when it is called, and when it is bound."""

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"name": ""}, "needs a name"),
            ({"state": ()}, "state must be a tuple of int, float and object, got ()"),
            ({"state": (int, str)}, "state must be a tuple of int, float and object"),
            ({"state": "i8"}, "state must be a tuple of int, float and object"),
            ({"create": lambda: (0,)}, "create must return a tuple of 2 values, as state has; got (0,)"),
            (
                {"create": lambda: [0, 0.0]},
                "create must return a tuple of 2 values, as state has; got [0, 0.0]",
            ),
            (
                {"create": lambda: (0.5, 0.0)},
                "create must return values of the types of state, got 0.5 for 'i8'",
            ),
            ({"combine": None}, "create, accumulate, combine, finish and deduct must be functions"),
            ({"deduct": 3}, "create, accumulate, combine, finish and deduct must be functions"),
            ({"type": "number"}, "unknown result type 'number'"),
        ],
    )
    def test_made(self, changed: dict[str, Any], message: str) -> None:
        """An invalid aggregate is refused with what is expected."""
        with pytest.raises(DefinitionError, match=re.escape(message)):
            geometric_mean(**changed)

    def test_called(self) -> None:
        """The number of columns must be that of the arguments of `accumulate`."""
        for columns in ((), ("x", "n")):
            with pytest.raises(
                DefinitionError, match=r"geometric mean\(.*\): accumulate does not accept a state and "
            ):
                geometric_mean()(*columns)

    def test_bound(self) -> None:
        """Columns and `where` are checked; the type is the one given."""
        assert pa.float64() == geometric_mean()("x").bind(TYPES).type
        for columns, where in (("y", None), ("x", "y"), ("x", "n")):
            with pytest.raises(DefinitionError, match=r"geometric mean\(.*\): .*column '[yn]'"):
                geometric_mean()(columns, where=where).bind(TYPES)
        with pytest.raises(DefinitionError, match="column 'l' is of type list"):
            geometric_mean()("l").bind({"l": pa.list_(pa.int64())})


class TestErrors:
    """What a user's functions do wrong is said with the names of aggregate and function."""

    @pytest.mark.parametrize(
        ("primitive", "function", "message"),
        [
            ("accumulate", lambda state, _: state[0], "got an array of int64 and shape"),
            ("accumulate", lambda state, x: (state[0], x, x), "got (an array of int64"),
            ("accumulate", lambda state, _: (state[0], 1.0), "must return a tuple of columns (i8, f8) with 4 rows each"),
            ("accumulate", lambda state, x: (state[0], x[:1]), "got an array of float64 and shape (1,)"),
            ("accumulate", lambda state, x: (state[0] + 0.5, x), "got an array of float64"),
            ("accumulate", lambda *_: 1 / 0, "raised ZeroDivisionError('division by zero')"),
            ("combine", lambda a, _: a[0], "got an array of int64"),
            ("combine", lambda a, _: (a[0], a[1] > 0.5, 1), "got (an array of int64"),
            ("deduct", lambda a, b: (a[0] - b[0], None), "got a value of type NoneType"),
            ("finish", lambda _: 3.0, "must return an array of 3 rows, got a value of type float"),
            ("finish", lambda state: state[1][:1], "must return an array of 3 rows, got an array of float64 and shape (1,)"),
            ("finish", lambda _: np.array(["a"] * 3), "must return double, got an array of <U1 and shape (3,)"),
            ("finish", lambda state: state[2], "raised IndexError"),
        ],
    )  # fmt: skip
    def test_named(self, primitive: str, function: Callable[..., Any], message: str) -> None:
        """The message names the aggregate, the function, and what it did."""
        operator = SlidingWindows(size=2).aggregate(g=geometric_mean(**{primitive: function})("x"))
        with pytest.raises(
            AggregateError, match=f"^aggregate 'geometric mean': {primitive} .*{re.escape(message)}"
        ):
            run(operator, time=[1, 1, 2, 9], x=[1.0, 2.0, 3.0, 4.0])

    def test_writing_into_arguments(self) -> None:
        """A function that changes what it is given is refused, since other windows would be wrong."""

        def changes(*arguments: Any) -> Any:
            first = arguments[0]
            first[0][...] += 1
            return first

        for primitive in ("accumulate", "combine", "deduct", "finish"):
            changed = geometric_mean(
                **{"deduct": lambda a, b: (a[0] - b[0], a[1] - b[1]), primitive: changes}
            )
            operator = SlidingWindows(size=2).aggregate(g=changed("x"))
            with pytest.raises(
                AggregateError, match=f"{primitive} raised .*read-only.*: it must return new arrays"
            ):
                run(operator, time=[1, 1, 2, 9], x=[1.0, 2.0, 3.0, 4.0])

        def takes(state: Any, x: Any) -> Any:
            x += 1
            return state[0] + 1, state[1] + x

        operator = SlidingWindows(size=2).aggregate(g=geometric_mean(accumulate=takes)("x"))
        with pytest.raises(
            AggregateError, match=r"accumulate raised .*read-only.*: it must return new arrays"
        ):
            run(operator, time=[1, 1, 2, 9], x=[1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("finish", "type_", "expected"),
    [
        (lambda state: state[0] > 1, "boolean", True),
        (lambda state: state[0] * 3, "int", 6),
        (lambda state: state[0], "double", 2.0),
        (lambda state: np.ma.array(state[0], mask=True), "bigint", None),
        (lambda state: pa.array(["two"] * len(state[0])), "string", "two"),
        (lambda state: np.array(["two"] * len(state[0]), object), "string", "two"),
        (lambda state: pa.chunked_array([pa.array(state[0])]), "float", 2.0),
        (lambda state: pa.array([[1, 2]] * len(state[0])), "array<bigint>", [1, 2]),
    ],
    ids=lambda value: None if callable(value) else str(value),
)  # fmt: skip
def test_result_types(finish: Callable[..., Any], type_: str, expected: Any) -> None:
    """Results may be arrays, masked arrays or Arrow arrays, of the type given or one that turns into it without loss."""
    operator = TumblingWindows(size=10).aggregate(r=geometric_mean(finish=finish, type=type_)("x"))
    (row,) = run(operator, time=[1, 2], x=[1.0, 2.0])
    assert expected == row["r"]
