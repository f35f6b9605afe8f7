"""What goes wrong in operators for one key, and what is refused; results, keys and timers that need care."""

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import Declaration, DefinitionError, KeyedOperator
from operators.columns.records import FAR_FUTURE, FAR_PAST
from operators.custom.output import CustomOutput
from operators.errors import OperatorError
from operators.steps.step import Step
from state_backends import StateError
from tests.operators.custom import samples
from tests.operators.custom.samples import own_engine

Record = tuple[str, int, int]


def table(records: list[Record]) -> pa.Table:
    return samples.table(records, pa.int64())


def run(definition: KeyedOperator, records: list[Record], stream_time: int = 10**6) -> pa.Table:
    with definition.group_by("k").local_runner("t") as runner:
        return runner.process(table(records), stream_time=stream_time)


DECLARED = Declaration(["v"], results={"n": "bigint"}, counts=["c"])


@dataclass(frozen=True, kw_only=True)
class Acting(KeyedOperator):
    """Does what functions of time and key say."""

    todo: Any
    then: Any = None
    declared: Any = DECLARED

    def settings(self):
        return {}

    def schema(self, types):
        return self.declared

    def process(self, time, record, context):
        return self.todo(time, context)

    def on_timer(self, time, name, context):
        return self.then(time, context) if self.then else super().on_timer(time, name, context)


def acting(todo, then=None, results=None) -> Acting:
    if results is None:
        return Acting(todo=todo, then=then)
    return Acting(todo=todo, then=then, declared=Declaration(["v"], results=results))


@pytest.mark.parametrize(
    ("process", "said"),
    [
        (
            lambda _, __: 1 / 0,
            "Acting.process at event time 7 (1970-01-01T00:00:00.007000+00:00) failed: ZeroDivision",
        ),
        (lambda _, __: (1 / 0 for _ in "a"), "Acting.process at event time 7 "),
        (lambda _, __: {"n": 1}, "return [row], or yield row"),
        (lambda _, __: [1], "a row must be a mapping of result names to values, got 1"),
        (lambda _, __: [{"m": 1}], "unknown result columns: m; declared result columns: n"),
        (lambda _, __: [{"n": "x"}], "Acting: result 'n' does not have the declared type int64"),
        (lambda _, context: context.count("d"), "unknown counter 'd'; declared counters: c"),
        (lambda _, context: context.set_timer(1.5), "TypeError"),
        (
            lambda _, context: context.set_timer(2**61),
            "timer '' is 2305843009213693952 ticks, must be between -2**61 and 2**61",
        ),
        (lambda time, context: context.set_timer(time), "Acting sets timers but has no on_timer"),
        (
            lambda _, context: setattr(context, "value", {1, 2}),
            "Acting: context.value cannot be stored: a value of",
        ),
    ],
)
def test_what_goes_wrong_is_named(process, said: str) -> None:
    """Operator, method and event time; the error itself is the cause."""
    with pytest.raises(OperatorError) as raised:
        run(acting(process), [("a", 7, 1)])
    assert said in str(raised.value)
    assert raised.value.__cause__ is not None


def test_a_failed_batch_changes_nothing() -> None:
    """After an error in one batch the next one finds the state as it was."""

    def process(time, context):
        context.value = (context.value or 0) + 1
        if time == 666:
            raise ValueError
        return [{"n": context.value}]

    with acting(process).group_by("k").local_runner("t") as runner:
        runner.process(table([("a", 1, 1)]), stream_time=5)
        with pytest.raises(OperatorError):
            runner.process(table([("a", 6, 1), ("a", 666, 1)]), stream_time=1_000)
        assert [2] == runner.process(table([("a", 7, 1)]), stream_time=1_000).column("n").to_pylist()


def test_timers_go_on_in_time() -> None:
    """In `on_timer` a timer has to be later than the one that came; in `process` it may be past."""

    def again(time, context):
        context.set_timer(time)

    with pytest.raises(
        OperatorError, match=r"Acting.on_timer at event time 2 .*must be later than the timer that fired, 2"
    ):
        run(acting(lambda _, context: context.set_timer(2), again), [("a", 7, 1)])


def test_timers_end_with_a_bounded_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every time has come, timers that always set another are an error, not a hang; those that end all come."""
    monkeypatch.setattr("operators.custom.walk.MOST_TIMERS", 100)

    def countdown(time, context):
        context.value -= 1
        if context.value:
            context.set_timer(time + 1)
        return [{"n": context.value}]

    def begin(number):
        def process(time, context):
            context.value = number
            context.set_timer(time + 1)

        return process

    engine, binding = own_engine(acting(begin(50), countdown))
    [rows] = engine.step(binding.read([table([("a", 0, 1)])]), Step(FAR_PAST, FAR_FUTURE))
    assert 50 == len(rows.key)
    engine, binding = own_engine(acting(begin(1_000), countdown))
    with pytest.raises(OperatorError, match="100 timers after the last record of a bounded frame"):
        engine.step(binding.read([table([("a", 0, 1)])]), Step(FAR_PAST, FAR_FUTURE))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"n": "bigint"}, "Acting.schema must return a Declaration, got {'n': 'bigint'}"),
        (
            Declaration(["v"], {"x": int}, {"n": "bigint"}),
            "Acting.schema declares state: a KeyedOperator keeps its state in context.value",
        ),
        (
            Declaration(["w"], results={"n": "bigint"}),
            "Acting reads column 'w', which does not exist; the frame has the columns k, t, v",
        ),
    ],
)
def test_a_wrong_schema_is_refused(declared: Any, said: str) -> None:
    """When the operator meets its frame."""
    with pytest.raises(DefinitionError) as refused:
        own_engine(Acting(todo=None, declared=declared))
    assert said in str(refused.value)


def test_whole_numbers_are_ticks_in_results() -> None:
    """In milliseconds or microseconds, beside datetimes and missing ones, with and without a zone."""
    results = {"a": "timestamp", "b": "timestamp_ntz", "c": pa.timestamp("s", "UTC")}
    moment = datetime(1970, 1, 1, 0, 0, 2, tzinfo=timezone.utc)
    rows = run(
        acting(lambda _, __: [{"a": 2_000, "b": 2_000, "c": moment}, {"a": moment}], results=results),
        [("x", 1, 1)],
    )
    assert [moment, moment] == rows.column("a").to_pylist()
    assert [moment.replace(tzinfo=None), None] == rows.column("b").to_pylist()
    assert [moment, None] == rows.column("c").to_pylist()
    fine = CustomOutput((), (("a", pa.timestamp("us")),), 1, "Acting")
    assert [moment.replace(tzinfo=None)] == fine._column([2_000_000], pa.timestamp("us")).to_pylist()


@pytest.mark.parametrize("policy", ["refuse", "adapt"])
def test_waiting_records_are_refused_under_other_inputs(tmp_path: Path, policy: str) -> None:
    """They are stored as the inputs in their order, so that no policy can take them over."""
    for inputs, refused in ((["v"], False), (["v", "k"], True)):
        declared = Declaration(inputs, results={"n": "bigint"})
        grouped = Acting(todo=lambda _, __: None, declared=declared).group_by("k")
        options = {"state.evolution": policy}
        with grouped.local_runner("t", directory=tmp_path, options=options) as runner:
            if refused:
                with pytest.raises(StateError, match=r"inputs were v, are v, k"):
                    runner.process(table([]))
            else:
                runner.process(table([("a", 1, 1)]))


def test_keys_are_those_of_the_frame() -> None:
    """Several columns, nulls among them, and none at all."""
    rows = pa.table({"k": ["a", None], "t": pa.array([1, 2], pa.timestamp("ms")), "v": [1, 2]})
    shown = acting(lambda _, context: [{"key": str(context.key)}], results={"key": "string"})
    for columns, expected in (
        (("k", "v"), ["{'k': 'a', 'v': 1}", "{'k': None, 'v': 2}"]),
        ((), ["{}", "{}"]),
    ):
        with shown.group_by(*columns).local_runner("t") as runner:
            assert expected == runner.process(rows, stream_time=10).column("key").to_pylist()
