"""Random cases, played by a peer and by local runners, and compared."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.conformance.live import jet, kafka
from tests.conformance.live.cases import RandomCase, random_case
from tests.conformance.live.peers import Peer
from tests.conformance.live.verdict import Verdict
from tests.conformance.play import Options, Played, Row

BACKENDS = ("memory", "rocksdb")
_MOST_SHOWN = 5
_ASK: dict[str, Callable[[Peer, Options, list[Row]], Played]] = {"kafka": kafka.ask, "jet": jet.ask}
_JUDGE: dict[str, Callable[[Options, list[Row], Played, str], Verdict]] = {
    "kafka": kafka.judge,
    "jet": jet.judge,
}


@dataclass
class Comparison:
    """What came of many cases.

    Attributes:
        cases, records, rows: how many were played, and rows that the peer emitted.
        deviating: in how many cases there are known deviations.
        explained: how many rows, or records, by the deviation that they are known to come from.
    """

    cases: int = 0
    records: int = 0
    rows: int = 0
    deviating: int = 0
    explained: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        said = f"{self.cases} cases, {self.records} records, {self.rows} rows; known deviations in {self.deviating} cases"
        return "; ".join([said, *(f"{count} {what}" for what, count in sorted(self.explained.items()))])


class DifferenceError(AssertionError):
    """A difference that is no known deviation."""


def compare(name: str, peer: Peer, seed: int, number: int, so_far: Comparison) -> None:
    """Play one random case on all backends, and add what came of it.

    Args:
        name: of the peer.
        peer: a running one.
        seed, number: of the case.
        so_far: what to add to.

    Raises:
        DifferenceError: a difference that is no known deviation; it has the smallest case that shows one.
    """
    case = random_case(name, seed, number)
    theirs = _ASK[name](peer, case.options, case.records)
    for backend in BACKENDS:
        verdict = _JUDGE[name](case.options, case.records, theirs, backend)
        if verdict.failures:
            raise DifferenceError(_report(name, peer, case, backend))
    so_far.cases += 1
    so_far.records += len(case.records)
    so_far.rows += sum(map(len, theirs.emitted))
    so_far.deviating += any(verdict.explained.values())
    so_far.explained += verdict.explained


def _report(name: str, peer: Peer, case: RandomCase, backend: str) -> str:
    def failures(records: list[Row]) -> list[object]:
        theirs = _ASK[name](peer, case.options, records)
        return [*_JUDGE[name](case.options, records, theirs, backend).failures]

    least = smallest(case.records, lambda records: bool(failures(records)))
    found = failures(least)
    shown = [str(each) for each in found[:_MOST_SHOWN]]
    return "\n".join(
        [
            f"{name} and {backend} differ: {case.name}. The smallest case that differs:",
            json.dumps({"options": case.options, "records": least}),
            *shown,
            *([f"and {len(found) - _MOST_SHOWN} more"] if len(found) > _MOST_SHOWN else []),
        ]
    )


def smallest(records: list[Row], differs: Callable[[list[Row]], bool]) -> list[Row]:
    """Return records of which none, and no run of half or a quarter of them, can be left out."""
    step = max(1, len(records) // 2)
    while True:
        first, shorter = 0, False
        while first < len(records):
            fewer = records[:first] + records[first + step :]
            if fewer and differs(fewer):
                records, shorter = fewer, True
            else:
                first += step
        if step == 1 and not shorter:
            return records
        step = max(1, step // 2)
