"""Rows that the tests of window operators expect, from what the brute-force oracles of `operators.testing` say."""

import statistics
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest

from operators import SlidingWindows, testing
from operators.testing.oracles import (
    Batch,
    HoppingOracle,
    Output,
    Record,
    SessionOracle,
    SlidingOracle,
    StreamClock,
    Window,
)

__all__ = [
    "Batch",
    "HoppingOracle",
    "Output",
    "Record",
    "Row",
    "SessionOracle",
    "SlidingOracle",
    "StreamClock",
    "Window",
    "evaluate",
    "exact_rows",
    "in_order",
    "rounded_rows",
]
Row = tuple[Any, ...]
"""Key, start and end of a window, and the aggregates of its values."""


def evaluate(batches: Iterable[Batch], size: int, emit: str) -> list[Output]:
    """Return what each batch emits of sliding windows."""
    return testing.evaluate(SlidingWindows(size), batches, emit)


def in_order(windows: Any) -> list[Row]:
    """Rows by key, null first, and bounds."""
    return sorted(windows, key=lambda row: (row[0] is not None, row[0] or "", *row[1:3]))


def exact_rows(output: Output) -> list[Row]:
    """What is to be emitted, worked out one value at a time; nothing but null for windows that are taken back."""
    expected = [(w.key, w.start, w.end, *(None,) * 7) for w in output.retracted]
    for window in output.windows:
        found = [value for _, value in sorted((t, value) for t, value in window.content if value is not None)]
        results = (sum(found), min(found), max(found), sum(found) / len(found)) if found else (None,) * 4
        expected.append(
            (window.key, window.start, window.end, len(window.content), len(found), *results, found)
        )
    return in_order(expected)


def rounded_rows(output: Output) -> list[Row]:
    """What is to be emitted up to rounding, worked out with fractions."""
    expected = [(w.key, w.start, w.end, *(None,) * 4) for w in output.retracted]
    for window in output.windows:
        found = [Fraction(value) for _, value in window.content if value is not None]
        exact = [sum(found), statistics.mean(found)] if found else [None, None]
        exact += [statistics.variance(found), statistics.stdev(found)] if len(found) > 1 else [None, None]
        close = [
            None if value is None else pytest.approx(float(value), rel=1e-9, abs=1e-6) for value in exact
        ]
        expected.append((window.key, window.start, window.end, *close))
    return in_order(expected)
