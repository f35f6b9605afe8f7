"""Random cases beside live peers, a part of what `make live` plays, and what tells a deviation from a fault."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.live import jet, kafka
from tests.conformance.live.cases import random_case
from tests.conformance.live.compare import Comparison, compare, smallest
from tests.conformance.live.peers import SYSTEMS, MissingError, running
from tests.conformance.live.verdict import Verdict
from tests.conformance.play import Played, play
from tests.effort import few, slow

RECORDED = Path(__file__).parents[1] / "cases"
SEED = 20_261_124
CASES = 30


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_peer_emits_the_same_rows(name: str) -> None:
    """A live peer emits our rows, but for known deviations, of which there are some."""
    found = Comparison()
    try:
        with running(SYSTEMS[name], SYSTEMS[name].version) as peer:
            for number in range(CASES):
                compare(name, peer, SEED, number, found)
    except MissingError as error:
        pytest.skip(str(error))
    assert found.cases == CASES
    assert found.rows > CASES
    assert 0 < found.deviating < CASES


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", few(sorted((RECORDED / "deviations").iterdir()), 12), ids=lambda file: file.stem
)
def test_recorded_deviations_are_known(file: Path) -> None:
    """Each difference in a recorded deviation is recognised, and none where the rows are ours."""
    case = json.loads(file.read_text())
    assert not judged(case, case["emitted"]).explained
    verdict = judged(case, case["kafka_emitted"])
    assert not verdict.failures
    assert verdict.explained


@pytest.mark.slow
@pytest.mark.parametrize("window", [slow("sliding"), "session"])
def test_wrong_rows_of_ours_are_no_deviation(window: str) -> None:
    """Where Kafka deviates, a row of ours that is wrong is a failure, also one that is near the deviation."""
    case = next(
        case
        for file in sorted((RECORDED / "deviations").iterdir())
        if (case := json.loads(file.read_text()))["options"]["window"] == window
    )
    options, records = case["options"], case["records"]
    theirs = kafka.play_sessions(options, records) if window == "session" else None
    late = case["late"] if theirs is None else theirs.late
    kafkas = Played(case["kafka_emitted"], late, empty=True)
    ours = play(options, records)
    assert not kafka.compared(options, records, ours, kafkas).failures
    lost = [number for number, rows in enumerate(ours.emitted) if rows]
    for number in lost:
        emitted = [*ours.emitted[:number], ours.emitted[number][1:], *ours.emitted[number + 1 :]]
        assert kafka.compared(options, records, replace(ours, emitted=emitted), kafkas).failures
    assert kafka.compared(options, records, replace(ours, late=[*ours.late, 0]), kafkas).failures
    assert kafka.compared(options, records, replace(ours, empty=False), kafkas).failures


@pytest.mark.slow
@pytest.mark.parametrize("window", [slow("sliding"), "session", slow("hopping"), slow("tumbling")])
def test_other_differences_are_failures(window: str) -> None:
    """A value, a row or a late record that differs without reason is a failure."""
    case = next(
        case
        for file in sorted((RECORDED / "kafka").iterdir())
        if (case := json.loads(file.read_text()))["options"]["window"] == window and not case["late"]
    )
    rows = case["emitted"]
    number = next(number for number, each in enumerate(rows) if each)
    key, start, end, value = rows[number][0]
    others = rows[number][1:]
    for changed in (
        [[key, start, end, "wrong"], *others],
        others,
        [*rows[number], [key, start, end + 1, value]],
    ):
        assert judged(case, [*rows[:number], changed, *rows[number + 1 :]]).failures
    assert judged(case, rows, late=[number]).failures
    assert not judged(case, rows).failures


def judged(case: dict[str, Any], emitted: list[Any], late: list[int] | None = None) -> Verdict:
    """What is said of a recorded case if Kafka emits these rows."""
    options, records = case["options"], case["records"]
    if late is None:
        late = case["late"]
        if options["window"] == "session" and emitted != case["emitted"]:
            late = kafka.play_sessions(options, records).late
    return kafka.judge(options, records, Played(emitted, late, empty=True), "memory")


def test_rows_that_jet_lacks_are_failures() -> None:
    """Of Jet, only sums of zero may be missing, and only in hopping windows, where it deducts."""
    options = {"window": "hopping", "size": 4, "advance": 2, "grace": 0, "offset": 0}
    options |= {"aggregate": "sum", "emit": "on_close"}
    records = [["A", 1, 5], ["A", 1, -5], ["A", 4, 7], ["A", 20, 1]]
    ours = play(options, records).emitted
    zero = ["A", -2, 2, 0]
    assert zero in ours[2]
    without = [[row for row in rows if row != zero] for rows in ours]
    verdict = jet.judge(options, records, Played(without, [], empty=True), "memory")
    assert not verdict.failures
    assert {jet.ZERO: 1} == verdict.explained
    assert jet.judge(options, records, Played([[]] * 4, [], empty=True), "memory").failures


def test_cases_follow_from_the_seed() -> None:
    """A case is the same whenever it is made, and another for each number, seed and peer."""
    cases = [random_case(*of) for of in (("kafka", 1, 0), ("kafka", 1, 1), ("kafka", 2, 0), ("jet", 1, 0))]
    assert random_case("kafka", 1, 0) == cases[0]
    assert all(case.records != cases[0].records for case in cases[1:])


def test_smallest_case_has_what_differs() -> None:
    """Records that a difference does not need are left out."""
    records = [["A", time, 0] for time in range(50)]
    kept = smallest(records, lambda fewer: {17, 18, 40} <= {time for _, time, _ in fewer})
    assert [17, 18, 40] == [time for _, time, _ in kept]
