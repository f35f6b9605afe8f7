"""Two sides' rows of a case, and what each difference comes from."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.play import Row

MISSING = "no row"


@dataclass(frozen=True)
class Difference:
    """A window that the two sides do not emit alike.

    Attributes:
        record: number of the record with which it comes out.
        window: key, start and end.
        ours, theirs: the value of either side, None for a retraction, or MISSING.
    """

    record: int
    window: tuple[str, int, int]
    ours: Any
    theirs: Any


@dataclass
class Verdict:
    """What came of a comparison.

    Attributes:
        explained: how many rows, or records, by the deviation that they are known to come from.
        failures: all other differences.
    """

    explained: Counter[str] = field(default_factory=Counter)
    failures: list[Difference | str] = field(default_factory=list)


def differences(ours: list[list[Row]], theirs: list[list[Row]]) -> list[Difference]:
    """Return the windows that are not alike, record by record."""
    found = []
    for record, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        sides = _by_window(mine), _by_window(other)
        for window in sorted(sides[0].keys() | sides[1].keys()):
            values = [side.get(window, [MISSING]) for side in sides]
            if values[0] != values[1]:
                found.append(
                    Difference(record, window, *(v[0] if len(v) == 1 else f"twice: {v}" for v in values))
                )
    return found


def _by_window(rows: list[Row]) -> dict[tuple[str, int, int], list[Any]]:
    values: dict[tuple[str, int, int], list[Any]] = {}
    for key, start, end, value in rows:
        values.setdefault((key, start, end), []).append(value)
    return values
