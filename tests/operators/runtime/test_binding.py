"""Programs as Spark sends them: each batch brings another copy, and the state stays open."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from operators import AggregateOperation, HoppingWindows, SessionWindows, SlidingWindows
from operators import aggregates as agg
from operators.aggregates import Aggregate
from operators.runtime.binding import Binding
from operators.runtime.stateful import StatefulOperator
from state_backends import resolve

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("ms")), ("v", pa.int64()), ("x", pa.float64())])
DOUBLED = AggregateOperation(
    name="doubled",
    state=(int,),
    create=lambda: (0,),
    accumulate=lambda state, v: (state[0] + 2 * v,),
    combine=lambda a, b: (a[0] + b[0],),
    finish=lambda state: state[0],
    type="bigint",
)
RESULTS: dict[str, dict[str, Aggregate]] = {
    "built in": {
        "n": agg.count(),
        "total": agg.sum("v"),
        "mean": agg.avg("x"),
        "low": agg.min("x"),
        "spread": agg.variance("x"),
        "listed": agg.collect_list("v"),
        "slope": agg.regr_slope("x", "v"),
        "first": agg.first("x"),
        "distinct": agg.count_distinct("v"),
        "near": agg.approx_quantiles("x", [0.5]),
        "top": agg.top_n("v", 2),
    },
    "of NumPy functions": {"doubled": DOUBLED("v")},
    "of Python functions": {"total": agg.fold(0, lambda total, v: total + (v or 0), "v", type="bigint")},
    "merged": {
        "total": agg.fold(0, lambda total, v: total + (v or 0), "v", type="bigint", merge=lambda a, b: a + b)
    },
}
WINDOWS = {
    "sliding": SlidingWindows(5, 3),
    "hopping": HoppingWindows(6, 4),
    "session": SessionWindows(3, max_length=9),
}


def binding_of(windows: str, results: dict[str, Aggregate]) -> Binding:
    """An operator bound to the columns."""
    config = resolve("memory", {})
    return WINDOWS[windows].group_by("k").aggregate(**results).bind(SCHEMA, "at", config)


@pytest.mark.parametrize(
    ("windows", "results"), [(w, r) for w in WINDOWS for r in RESULTS if (w, r) != ("session", "of Python functions")]
)  # fmt: skip
def test_state_stays_open_for_a_program_that_is_sent_again(
    windows: str, results: str, tmp_path: Path
) -> None:
    """Whatever functions it holds, a binding that went through pickle twice goes on with the same state."""
    sent = cloudpickle.dumps(binding_of(windows, RESULTS[results]))
    operator = StatefulOperator(cloudpickle.loads(sent), resolve("memory", {}), tmp_path)
    again = cloudpickle.loads(sent)
    assert operator.try_update_binding(again)
    assert operator.binding is again


@pytest.mark.parametrize(
    "other",
    [
        binding_of("sliding", {"total": agg.sum("v"), "n": agg.count()}),
        binding_of("hopping", {"total": agg.sum("v")}),
        binding_of("sliding", {"total": agg.sum("x")}),
        binding_of("sliding", {"total": agg.sum("v", where=None), "more": agg.max("v")}),
    ],
    ids=["one more", "other windows", "other column", "another one more"],
)
def test_state_is_opened_anew_for_another_binding(other: Binding, tmp_path: Path) -> None:
    """A binding that means something else by its state is told apart."""
    operator = StatefulOperator(
        binding_of("sliding", {"total": agg.sum("v")}), resolve("memory", {}), tmp_path
    )
    assert not operator.try_update_binding(other)


def test_results_are_those_of_the_binding_given_last(tmp_path: Path) -> None:
    """Two results of one state differ in how they are finished only: the newer binding's counts."""
    operator = StatefulOperator(
        binding_of("hopping", {"s": agg.variance("x")}), resolve("memory", {}), tmp_path
    )
    newer = binding_of("hopping", {"s": agg.var_pop("x")})
    assert operator.try_update_binding(newer)
    assert operator.binding is newer


def test_changed_functions_are_told_apart(tmp_path: Path) -> None:
    """A fold with other code under the same name is another binding."""

    def fold(factor: int) -> Binding:
        add = agg.fold(0, lambda total, v: total + factor * v, "v", type="bigint", name="total")
        return binding_of("sliding", {"total": add})

    operator = StatefulOperator(fold(1), resolve("memory", {}), tmp_path)
    assert operator.try_update_binding(fold(1))
    assert not operator.try_update_binding(fold(2))
