"""Rolling windows that cannot be: each is refused when it is defined or bound, and the message says what to do."""

from typing import Any

import pyarrow as pa
import pytest

from operators import DefinitionError, RollingWindows, SlidingWindows
from operators import aggregates as agg
from state_backends import resolve

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us")), ("v", pa.int64()), ("n_1h", pa.int64())])


@pytest.mark.parametrize(
    ("lookbacks", "changed", "message"),
    [
        ({}, {}, "lookbacks is empty: give at least one"),
        (["1 hour"], {}, "give lengths by name"),
        ({"a": "1 hour", "b": "PT1H"}, {}, "lookbacks 'a' and 'b' are equal, 1 hour: leave one out"),
        ({"a": "lifetime", "b": "lifetime"}, {}, "lookbacks 'a' and 'b' are equal, lifetime"),
        ({"": "1 hour"}, {}, "lookback name '' must be text that is not empty"),
        ({1: "1 hour"}, {}, "lookback name 1 must be text"),
        ({"a": "0 s"}, {}, "lookback 'a' is '0 s': it must be positive"),
        ("soon", {}, "lookback is 'soon'"),
        ("1 hour", {"closed": "open"}, "closed is 'open'; known are 'both', 'left', 'right', 'none'"),
        ("1 hour", {"grace": "-1 s"}, "grace is '-1 s'"),
        ("1 us", {}, "not a whole number of ticks"),
    ],
    ids=str,
)
def test_definitions(lookbacks: Any, changed: dict[str, Any], message: str) -> None:
    """Lookbacks, ends and lengths of time are checked when the windows are defined."""
    with pytest.raises(DefinitionError) as caught:
        RollingWindows(lookbacks, **changed)
    assert message in str(caught.value)


HOUR = RollingWindows({"1h": "1 hour", "ever": "lifetime"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HOUR.aggregate(agg.count()), "each result needs a name"),
        (lambda: HOUR.aggregate(n=5), "n=5 is not an aggregate"),
        (lambda: HOUR.aggregate(n=agg.count().over("1d")), "n is over lookback '1d', which does not exist"),
        (lambda: HOUR.aggregate(n=agg.count(), n_1h=agg.count().over("1h")).aggregate(m=agg.count()), None),
        (
            lambda: RollingWindows({"a": 1, "b_a": 2}).aggregate(x=agg.count(), x_b=agg.count()),
            "'x_b_a' occurs twice",
        ),
        (lambda: agg.count().over(), "over takes names of lookbacks"),
        (
            lambda: SlidingWindows("1 h").aggregate(n=agg.count().over("1h")),
            "only RollingWindows have lookbacks",
        ),
        (lambda: HOUR.aggregate(n=agg.count()).emit("on_update"), "takes 'on_close' or 'on_arrival'"),
        (lambda: HOUR.group_by("k", "k"), "key column 'k' occurs twice"),
        (lambda: HOUR.apply, "say what to compute before 'apply'"),
    ],
)
def test_operators(make: Any, message: str | None) -> None:
    """Results and policies are checked as they are added."""
    if message is None:
        make()
        return
    with pytest.raises((DefinitionError, AttributeError)) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("operator", "schema", "message"),
    [
        (HOUR.group_by("k"), SCHEMA, "the operator has no aggregates"),
        (HOUR.aggregate(n=agg.count()), SCHEMA, "result 'n_1h' has the name of a column of the frame"),
        (HOUR.aggregate(m=agg.sum("w")), SCHEMA, "aggregate 'm': sum(w): column 'w' does not exist"),
        (
            HOUR.aggregate(m=agg.collect_list("v")),
            SCHEMA,
            "its state of a lifetime would grow without end: limit it",
        ),
        (HOUR.aggregate(m=agg.fold(0, max, "v", type="bigint")), SCHEMA, "and give a fold a merge function"),
        (
            HOUR.aggregate(m=agg.count()),
            SCHEMA.append(pa.field("odd", pa.struct([]))),
            "column 'odd' is of type struct<>: a struct without fields",
        ),
        (HOUR.group_by("x").aggregate(m=agg.count()), SCHEMA, "key column 'x' does not exist"),
    ],
)
def test_frames(operator: Any, schema: pa.Schema, message: str) -> None:
    """What a frame lacks, or has too much of, is told when the operator is bound to it."""
    with pytest.raises(DefinitionError) as caught:
        operator.bind(schema, "at", resolve("memory", None))
    assert message in str(caught.value)


def test_one_lookback_needs_no_name() -> None:
    """Results of a single length have no suffix."""
    binding = RollingWindows("1 hour").aggregate(m=agg.count()).bind(SCHEMA, "at", resolve("memory", None))
    assert binding.output.arrow.names == ["k", "at", "v", "n_1h", "m"]


def test_collected_values_over_other_lookbacks_are_fine() -> None:
    """What a lifetime cannot have, other lookbacks can."""
    operator = HOUR.aggregate(m=agg.collect_list("v").over("1h"))
    assert operator.bind(SCHEMA, "at", resolve("memory", None)).output.arrow.names[-1] == "m_1h"
