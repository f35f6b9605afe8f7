"""What goes wrong in operators on columns, and what is refused: each message says what, where and what to do."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import Declaration, DefinitionError, Operator
from operators.custom.contract import CallContext, StoredEntries
from operators.custom.plan import CustomPlan
from operators.errors import OperatorError
from operators.steps.step import Step
from state_backends import StateError, resolve
from tests.operators.custom.samples import Doing, Echo, own_engine, stepped, table


def stored(context: CallContext, **other: Any) -> StoredEntries:
    return context.stored([0], 1, **{"i": 1, "f": 1.0, "o": None, **other})


def rows(context: CallContext, **other: Any) -> Any:
    return context.rows([0], **{"at": 1, "n": 1, "s": "x", **other})


@pytest.mark.parametrize(
    ("process_batch", "said"),
    [
        (
            lambda context: context.stored([0], 1, i=1),
            "missing stored column 'f'; declared stored columns: i, f, o",
        ),
        (lambda context: stored(context, x=1), "unknown stored column 'x'; declared stored columns: i, f, o"),
        (lambda context: stored(context, i=1.5), "stored column 'i' is of type float64, not int"),
        (lambda context: stored(context, f="x"), "stored column 'f' is of type <U1, not float"),
        (
            lambda context: stored(context, i=np.ma.masked_all(1, int)),
            "stored column 'i' has nulls: fill them",
        ),
        (lambda context: stored(context, i=[1, 2]), "stored column 'i' has shape (2,), expected (1,)"),
        (lambda context: stored(context, o=[1, 2]), "stored column 'o' has length 2, expected 1"),
        (
            lambda context: context.put(stored(context, o={1, 2})),
            "SerializationError: a value of type set cannot be stored",
        ),
        (
            lambda context: context.add(replace(stored(context), key=np.array([3]))),
            "keys are positions in context.keys, 0 to 0; got 3 to 3",
        ),
        (lambda context: rows(context, x=1), "unknown result column 'x'; declared result columns: at, n, s"),
        (lambda context: rows(context, n=[1, 2]), "result column 'n' has length 2, expected 1"),
        (lambda context: rows(context, n="x"), "Doing: result 'n' does not have the declared type int64"),
        (
            lambda context: rows(context, at=2**62),
            "Doing: result 'at' does not have the declared type timestamp",
        ),
        (
            lambda context: context.rows([1], at=1, n=1, s="x"),
            "positions in context.keys, 0 to 0; got 1 to 1",
        ),
        (lambda context: context.rows([0.5], at=1, n=1, s="x"), "key is of type float64, not int"),
        (lambda context: context.count("lost"), "unknown counter 'lost'; declared counters: seen"),
        (lambda context: [rows(context)], "expected context.rows(...) or None, got list"),
        (lambda context: context.column("w"), "KeyError"),
    ],
)
def test_what_goes_wrong_is_named(process_batch: Any, said: str) -> None:
    """Operator and method; the error itself is the cause."""

    class Doing_(Doing):  # noqa: N801
        def process_batch(self, context):
            result = process_batch(context)
            return None if isinstance(result, StoredEntries) else result

    Doing_.__name__ = "Doing"
    engine, binding = own_engine(Doing_())
    with pytest.raises(OperatorError) as raised:
        binding.output.table(engine.step(binding.read([table([("a", 1, 1.0)])]), Step(0, 0)))
    assert said in str(raised.value)
    assert str(raised.value).startswith(("Doing.process_batch failed: ", "Doing: result "))
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize(
    ("due", "said"),
    [
        (
            lambda _: 5,
            "Echo.due failed: ValueError: expected one tick for each of 1 entries, got int64 of shape ()",
        ),
        (
            lambda entries: entries["next"] + 0.5,
            "expected one tick for each of 1 entries, got float64 of shape (1,)",
        ),
        (lambda entries: entries["nxt"], "Echo.due failed: KeyError: 'nxt'"),
    ],
)
def test_wrong_timers_are_named(due: Any, said: str) -> None:
    """Also where they are asked for as an entry is written, in `process_batch`."""
    timed = type("Echo", (Echo,), {"due": lambda _, entries: due(entries)})
    with pytest.raises(OperatorError) as raised:
        stepped(timed(), [([("a", 1, 1.0)], 0, 0)])
    assert said in str(raised.value)


def test_errors_of_the_state_are_passed_on() -> None:
    """They are not the operator's, and the hosts know them."""

    class Unlucky(Doing):
        def process_batch(self, context):
            raise StateError("the disk is full")

    with pytest.raises(StateError, match="the disk is full"):
        stepped(Unlucky(), [([("a", 1, 1.0)], 0, 0)])


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (None, "Doing.declare must return a Declaration, got None"),
        (
            Declaration(["w"]),
            "Doing reads column 'w', which does not exist; the frame has the columns k, t, v",
        ),
        (Declaration("v"), "Doing declares inputs='v': expected a list of names"),
        (Declaration(["v", "v"]), "input of Doing 'v' occurs twice"),
        (
            Declaration(state={"x": str}),
            "Doing declares state column 'x' of type <class 'str'>: expected int, float or object",
        ),
        (
            Declaration(state={"time": int}),
            "Doing declares state column 'time': every entry has a time already",
        ),
        (Declaration(), "Doing declares no results"),
        (
            Declaration(results={"n": "long"}),
            "Doing, result 'n': unknown result type 'long'; known are boolean",
        ),
        (
            Declaration(results={"n": int}),
            "Doing declares result 'n' of type <class 'int'>: expected Spark's name of a type",
        ),
        (Declaration(results={"k": "int"}), "output column 'k' occurs twice"),
    ],
)
def test_wrong_declarations_are_refused(declared: Any, said: str) -> None:
    """When the operator meets its frame, on the driver."""
    wrong = type("Doing", (Doing,), {"declare": lambda *_: declared})
    with pytest.raises(DefinitionError) as refused:
        own_engine(wrong())
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Doing(grace="soon").group_by("k"), "grace of Doing is 'soon'"),
        (lambda: Doing(grace=-1).group_by("k"), "grace of Doing is -1: it must not be negative"),
        (lambda: Doing(tick="1 s").group_by("k"), "tick is '1 s'; known are '1 ms', '1 us'"),
        (lambda: Doing().group_by("k", 3), "group_by takes column names, not 3"),
        (
            lambda: type("Timed", (Doing,), {"due": Echo.due})().group_by(),
            "Timed has timers (`due`) but no `fire`",
        ),
        (
            lambda: type("Timed", (Doing,), {"fire": Echo.fire})().group_by(),
            "Timed has a `fire` but no timers",
        ),
        (
            lambda: type("Timed", (Doing,), {"segment": 0})().group_by(),
            "segment of Timed is 0: it must be positive",
        ),
        (
            lambda: own_engine(Echo(step=lambda: 1)),
            "whose text differs between processes: use a plain value",
        ),
        (lambda: Doing().ticks("-1 s"), "a length of Doing is '-1 s'"),
    ],
)
def test_wrong_definitions_are_refused(make: Any, said: str) -> None:
    """Before any frame, where that can be."""
    with pytest.raises(DefinitionError) as refused:
        make()
    assert said in str(refused.value)


@pytest.mark.parametrize("policy", ["refuse", "adapt"])
def test_state_of_another_definition_is_refused(tmp_path: Path, policy: str) -> None:
    """Other settings or another version are another definition; another grace is not."""

    def process(definition: Operator) -> None:
        grouped, options = definition.group_by("k"), {"state.evolution": policy}
        with grouped.local_runner("t", directory=tmp_path, options=options) as runner:
            runner.process(table([("a", 1, 1.0)]))

    process(Echo(step=5))
    process(Echo(step=5, grace=7))
    with pytest.raises(StateError, match=r"another operator: setting 'step' was 5, is 6"):
        process(Echo(step=6))
    with pytest.raises(StateError, match="version was 1, is 2"):
        process(type("Echo", (Echo,), {"version": 2, "__qualname__": "Echo"})(step=5))


def test_a_class_that_was_defined_again_is_another_plan() -> None:
    """A worker that has the operator open goes on with it only if the class is the same: its methods may be others."""

    def plan(definition: Operator, grace: int = 0) -> CustomPlan:
        return CustomPlan(definition, Doing().declare({}), (("v", pa.float64()),), (), grace)

    again = type("Doing", (Doing,), {"__qualname__": "Doing"})
    assert plan(Doing()) == plan(Doing())
    assert hash(plan(Doing())) == hash(plan(Doing()))
    assert plan(Doing()).describe() == plan(again()).describe()
    assert plan(Doing()) != plan(again())
    assert plan(Doing()) != plan(Doing(), grace=1)


@pytest.mark.parametrize("name", ["n", "nothing"])
def test_the_event_time_of_rows_is_a_timestamp_among_the_results(name: str) -> None:
    """Neither another type nor a name that is not there."""

    @dataclass(frozen=True, kw_only=True)
    class Timed(Doing):
        def declare(self, types):
            return Declaration(results={"n": "bigint"}, event_time=name)

    with pytest.raises(DefinitionError, match=f"Timed declares '{name}' as event time"):
        Timed().group_by("k").bind(table([]).schema, "t", resolve("memory"))
