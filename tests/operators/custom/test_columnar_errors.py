"""What goes wrong in operators on columns, and what is refused: each message says what, where and what to do."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import Declaration, DefinitionError, Operator
from operators.custom.contract import Stored, Work
from operators.custom.plan import CustomPlan
from operators.errors import OperatorError
from operators.steps.step import Step
from state_backends import StateError, resolve
from tests.operators.custom.samples import Doing, Echo, own_operator, stepped, table


def stored(work: Work, **other: Any) -> Stored:
    return work.stored([0], 1, **{"i": 1, "f": 1.0, "o": None, **other})


def rows(work: Work, **other: Any) -> Any:
    return work.rows([0], **{"at": 1, "n": 1, "s": "x", **other})


@pytest.mark.parametrize(
    ("take", "said"),
    [
        (lambda work: work.stored([0], 1, i=1), "stored column 'f' is missing; wanted are i, f, o"),
        (lambda work: stored(work, x=1), "stored column 'x' was not declared; declared are i, f, o"),
        (lambda work: stored(work, i=1.5), "stored column 'i' is of type float64; int is wanted"),
        (lambda work: stored(work, f="x"), "stored column 'f' is of type <U1; float is wanted"),
        (lambda work: stored(work, i=np.ma.masked_all(1, int)), "stored column 'i' has nulls: fill them"),
        (lambda work: stored(work, i=[1, 2]), "stored column 'i' has the shape (2,); (1,) is wanted"),
        (lambda work: stored(work, o=[1, 2]), "stored column 'o' has 2 values for 1 entries"),
        (
            lambda work: work.put(stored(work, o={1, 2})),
            "SerializationError: a value of type set cannot be stored",
        ),
        (
            lambda work: work.add(replace(stored(work), key=np.array([3]))),
            "keys from 3 to 3; work.keys has positions 0 to 0",
        ),
        (lambda work: rows(work, x=1), "result 'x' was not declared; declared are at, n, s"),
        (lambda work: rows(work, n=[1, 2]), "result 'n' has 2 values for 1 rows"),
        (lambda work: rows(work, n="x"), "Doing emits 'n', which is not of the declared type int64"),
        (lambda work: rows(work, at=2**62), "Doing emits 'at', which is not of the declared type timestamp"),
        (lambda work: work.rows([1], at=1, n=1, s="x"), "keys from 1 to 1"),
        (lambda work: work.rows([0.5], at=1, n=1, s="x"), "key is of type float64; int is wanted"),
        (lambda work: work.count("lost"), "count 'lost' was not declared; declared are seen"),
        (lambda work: [rows(work)], "it returned list; work.rows(...) or None is wanted"),
        (lambda work: work.column("w"), "KeyError"),
    ],
)
def test_what_goes_wrong_is_named(take: Any, said: str) -> None:
    """Operator and method; the error itself is the cause."""

    class Doing_(Doing):  # noqa: N801
        def take(self, work):
            result = take(work)
            return None if isinstance(result, Stored) else result

    Doing_.__name__ = "Doing"
    operator, program = own_operator(Doing_())
    with pytest.raises(OperatorError) as raised:
        program.output.table(operator.step(program.read([table([("a", 1, 1.0)])]), Step(0, 0)))
    assert said in str(raised.value)
    assert str(raised.value).startswith(("Doing.take failed: ", "Doing emits "))
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize(
    ("due", "said"),
    [
        (lambda _: 5, "Echo.due failed: ValueError: it returned int64 of shape () for 1 entries"),
        (
            lambda entries: entries["next"] + 0.5,
            "it returned float64 of shape (1,) for 1 entries; a tick for each is wanted",
        ),
        (lambda entries: entries["nxt"], "Echo.due failed: KeyError: 'nxt'"),
    ],
)
def test_wrong_timers_are_named(due: Any, said: str) -> None:
    """Also where they are asked for as an entry is written, in `take`."""
    timed = type("Echo", (Echo,), {"due": lambda _, entries: due(entries)})
    with pytest.raises(OperatorError) as raised:
        stepped(timed(), [([("a", 1, 1.0)], 0, 0)])
    assert said in str(raised.value)


def test_errors_of_the_state_are_passed_on() -> None:
    """They are not the operator's, and the hosts know them."""

    class Unlucky(Doing):
        def take(self, work):
            raise StateError("the disk is full")

    with pytest.raises(StateError, match="the disk is full"):
        stepped(Unlucky(), [([("a", 1, 1.0)], 0, 0)])


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (None, "Doing.declare returns None; a Declaration is wanted"),
        (Declaration(["w"]), "Doing reads the column 'w', which is not there; the frame has k, t, v"),
        (Declaration("v"), "Doing declares 'v' as inputs; a list of names is wanted"),
        (Declaration(["v", "v"]), "input of Doing 'v' occurs twice"),
        (Declaration(state={"x": str}), "Doing keeps 'x' as <class 'str'>; int, float or object is wanted"),
        (Declaration(state={"time": int}), "Doing declares 'time' as state; every entry has it"),
        (Declaration(), "Doing declares no results"),
        (
            Declaration(results={"n": "long"}),
            "Doing makes 'n': result type 'long' is unknown; known are boolean",
        ),
        (Declaration(results={"n": int}), "Doing makes 'n' as <class 'int'>; Spark's name of a type"),
        (Declaration(results={"k": "int"}), "output column 'k' occurs twice"),
    ],
)
def test_wrong_declarations_are_refused(declared: Any, said: str) -> None:
    """When the operator meets its frame, on the driver."""
    wrong = type("Doing", (Doing,), {"declare": lambda *_: declared})
    with pytest.raises(DefinitionError) as refused:
        own_operator(wrong())
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
            "Timed has timers (`due`) and no `fire`",
        ),
        (
            lambda: type("Timed", (Doing,), {"fire": Echo.fire})().group_by(),
            "Timed has a `fire` and no timers",
        ),
        (
            lambda: type("Timed", (Doing,), {"segment": 0})().group_by(),
            "segment of Timed is 0: it must be positive",
        ),
        (
            lambda: own_operator(Echo(step=lambda: 1)),
            "which is another text in each process: use a plain value",
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
    """Of other settings or another version; another grace is none."""

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


def test_a_class_that_was_made_anew_is_another_plan() -> None:
    """A worker that has the operator open goes on with it only if the class is the same: its methods may be others."""

    def plan(definition: Operator, grace: int = 0) -> CustomPlan:
        return CustomPlan(definition, Doing().declare({}), (("v", pa.float64()),), (), grace)

    anew = type("Doing", (Doing,), {"__qualname__": "Doing"})
    assert plan(Doing()) == plan(Doing())
    assert hash(plan(Doing())) == hash(plan(Doing()))
    assert plan(Doing()).describe() == plan(anew()).describe()
    assert plan(Doing()) != plan(anew())
    assert plan(Doing()) != plan(Doing(), grace=1)


@pytest.mark.parametrize("name", ["n", "nothing"])
def test_the_event_time_of_rows_is_a_timestamp_among_the_results(name: str) -> None:
    """Neither another type nor a name that is not there."""

    @dataclass(frozen=True, kw_only=True)
    class Timed(Doing):
        def declare(self, types):
            return Declaration(results={"n": "bigint"}, event_time=name)

    with pytest.raises(DefinitionError, match=f"Timed declares '{name}' as the event time of its rows"):
        Timed().group_by("k").program(table([]).schema, "t", resolve("memory"))
