"""What a user reads when a state is refused: functions and results by the user's names, and none of the library's."""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from aggregate_cases import CASES, Case
from feeds import KINDS

from operators import DefinitionError, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.aggregates.operation import Operation
from operators.aggregates.state_words import in_words
from operators.command.report.page import page
from operators.command.summary import summary_text, summary_values
from operators.command.text.formats import json_text
from operators.explain import Explanation
from operators.runtime.binding import Binding
from operators.runtime.evolution import state_conversion
from state_backends import StateError, resolve
from state_backends.checkpoints.query import StoredQuery
from state_backends.store.schema import name_since
from tests.operators.command.states import content, survey_of

OTHER_TYPES = [pa.string(), pa.int8(), pa.bool_()]
ROLLING = RollingWindows({"short": 10, "ever": "lifetime"}).group_by("k")


def internal_names(of: type = Operation) -> Iterator[str]:
    """The names of the classes whose texts are stored."""
    for each in of.__subclasses__():
        yield each.__name__
        yield from internal_names(each)


CALLED = re.compile(rf"\b({'|'.join(sorted({*internal_names()}))})(\(| \d+[,;<])")
"""A class of the library as stored texts have it, with its arguments."""
INTERNAL = re.compile(rf"\b({'|'.join(sorted({*internal_names()}))})\b|\b(i8|f8|object)\b| since \d")


def bound(op: Any, case: Case, **types: pa.DataType) -> Binding:
    """An operator bound to the columns of a case."""
    columns = {"k": pa.string(), "at": pa.int64(), **case.types, **types}
    binding: Binding = op.bind(pa.schema(list(columns.items())), "at", resolve("memory", {}))
    return binding


def refusals(case: Case) -> Iterator[tuple[str, Binding, Binding]]:
    """What changes, and the operator before and after, of changes that are refused without an option, or always."""
    one, ok, other = case.aggregate, case.filtered.aggregate, agg.count()
    by_key = TumblingWindows(10).group_by("k")
    alone, beside, count = (
        bound(by_key.aggregate(**results), case)
        for results in ({"r": one}, {"n": other, "r": one}, {"n": other})
    )
    yield "added", count, beside
    yield "removed", beside, count
    yield "filtered", alone, bound(by_key.aggregate(r=ok), case)
    yield "filter removed", bound(by_key.aggregate(r=ok), case), alone
    yield "beside a shared state", bound(by_key.aggregate(c=agg.count("v")), case), beside
    yield "windows", alone, bound(SlidingWindows(10).group_by("k").aggregate(n=other), case)
    for type_ in OTHER_TYPES:
        if type_ != case.type:
            try:
                yield f"to {type_}", alone, bound(by_key.aggregate(r=one), case, v=type_)
            except ValueError:  # The aggregate does not take such a column.
                continue
    if not any(operation.keeps_all for operation in case.bound.operations):
        limited, whole = (ROLLING.aggregate(r=each) for each in (one.over("short"), one))
        yield "lifetime", bound(limited, case), bound(whole, case)


def refusal(before: Binding, now: Binding) -> str:
    """What is said of a changed operator, or nothing if it goes on."""
    try:
        state_conversion(now, before.identity(), before.stored_schema(), "refuse")
    except StateError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", CASES)
def test_refusals_are_in_the_words_of_the_user(name: str) -> None:
    """Whatever is added, removed, filtered, cast or kept for longer: the error names functions, results and columns."""
    said = {what: refusal(before, now) for what, before, now in refusals(CASES[name])}
    for what, text in said.items():
        assert not INTERNAL.search(text), f"{what}: {text}"
    assert said["windows"]
    assert said["filtered"]


@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_are_refused_in_the_words_of_the_user(kind: str) -> None:
    """Between each two kinds of windows."""
    case = CASES["sum of long"]
    results = {"total": agg.sum("v"), "high": agg.max("v")}
    columns = {"gap": pa.int64()}
    before = bound(KINDS[kind].group_by("k").aggregate(**results), case, **columns)
    for other, windows in KINDS.items():
        now = bound(windows.group_by("k").aggregate(low=agg.min("v")), case, **columns)
        text = refusal(before, now)
        assert text
        assert not INTERNAL.search(text), f"{kind} to {other}: {text}"


def shown(op: Any, schema: pa.Schema, records: pa.Table) -> str:
    """All that `explain`, a summary, its JSON and a report say of an operator and of what it stores."""
    plan = Explanation.of(op, schema, "at")
    survey = survey_of(records, op)
    query = StoredQuery("an id", 7, 1, 1, {}, [])
    parts = [*plan.aggregates, plan.bounded, plan.streamed, plan.state]
    texts = [str(plan), *map(repr, parts), summary_text(survey, 5, 3), page(content(survey))]
    return "\n".join([*texts, json_text(summary_values(query, [survey], 3))])


@pytest.mark.parametrize("name", CASES)
def test_what_is_shown_is_in_the_words_of_the_user(name: str) -> None:
    """In hopping, sliding and rolling windows: `explain`, summaries and pages have no name of a class."""
    case = CASES[name]
    types = {"k": pa.string(), "at": pa.timestamp("ms", "UTC"), **case.types}
    schema = pa.schema(list(types.items()))
    rows = [{"k": "a", "at": 1_000}, {"k": "a", "at": 2_000}]
    table = pa.Table.from_pylist(rows, schema)
    for windows in (
        TumblingWindows("1 hour"),
        SlidingWindows("1 hour"),
        RollingWindows("1 hour", grace="1 hour"),
    ):
        text = shown(windows.group_by("k").aggregate(r=case.aggregate), schema, table)
        assert "r" in text
        assert not CALLED.search(text), (windows, CALLED.search(text))


def test_sessions_say_which_fold_does_not_combine() -> None:
    """By the name that the user gave it."""
    last = agg.fold(0, lambda _, v: v, "v", type="bigint", name="last")
    with pytest.raises(DefinitionError, match=r"^fold last\(v\) cannot be combined, but sessions merge"):
        bound(SessionWindows("1 minute").group_by("k").aggregate(r=last), CASES["sum of long"])


WORDS = {
    "Ends(v, 5, True, False, True)": 'last_n("v", 5)',
    "Ends(v, 5, False, True, True, where='w')": 'first_n("v", 5, where="w")',
    "DecayedSum(v, 3600000, False)": 'decayed_sum("v")',
    "DecayedSum(3600000, True)": "decayed_count()",
    "FrequentValues(v, 100)": 'approx_top_k("v")',
    "Bottom(v, 3)": 'bottom_n("v", 3)',
    "CountRows()": "count()",
    "CountRows(where='ok')": 'count(where="ok")',
    "SumDecimal(v, 2, where='ok')": 'sum("v", where="ok")',
    "ObjectExtreme(amount, True)": 'max("amount")',
    "ObjectExtreme(amount, False)": 'min("amount")',
    "Pick(v, i8, object, True, True)": 'last("v")',
    "Pick(v, w, f8, i8, False, True)": 'min_by("v", "w")',
    "Top(v, 2, w)": 'top_n("v", 2, "w")',
    "TopBy(v, 2, w)": 'max_by("v", "w", 2)',
    "BottomBy(v, 2, w, where='ok')": 'min_by("v", "w", 2, where="ok")',
    "DistinctElements(v)": 'collect_union("v")',
    "CrossSums(v, w)": 'covar_samp("v", "w")',
    "weighted mean 1(v, w; f8, f8)": "weighted mean(v, w), version 1",
    "records of fold lambda(v)": "fold lambda(v)",
    "By(c; CountRows())": 'count().by("c")',
    "By(c; CountRows(), where='ok')": 'count(where="ok").by("c")',
    "By(c; CountRows(); CountValid(v); SumFloat(v), where='ok')": 'sum("v", where="ok").by("c")',
    "By(b; CountRows(); By(c; CountRows(); Top(v, 2, w)))": 'top_n("v", 2, "w").by("c").by("b")',
    "By(c; CountRows(); mean 1(v, w; f8, f8))": 'mean(v, w), version 1.by("c")',
    "a state of a later version": "a state of a later version",
}


@pytest.mark.parametrize("state", WORDS)
def test_a_state_in_words(state: str) -> None:
    """Also one that began later than another of its text."""
    assert WORDS[state] == in_words(state)
    assert f"a separate {WORDS[state]}" == in_words(name_since(state, 2))
