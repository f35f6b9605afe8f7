"""Each kind of windows as it is drawn: which windows records have, and which records are late or no longer needed. No store."""

import numpy as np
import pytest

from operators.columns.records import NEVER
from operators.kinds.fold_hopping import FoldedHopping
from operators.kinds.fold_sliding import FoldedSliding
from operators.kinds.hopping import Hopping
from operators.kinds.kind import PaneKind, WindowKind, Windows
from operators.kinds.rolling import Rolling
from operators.kinds.sliding import Sliding
from operators.kinds.timetables import FixedTimetable

LABEL = 10
"""Columns before tick 0."""
SLIDING = """
records        x x x     x
window     |---|
window       |---|
window          |---|
window         |---|
window            |---|
window               |---|
"""
HOPPING = """
records        x      x
window     |----|
window        |----|
window           |----|
window              |----|
"""
TUMBLING = """
records    x  x       x
window    |--|
window        |--|
window                |--|
"""
TIMES = {
    "sliding": """
close               |
late            |
dead           |
""",
    "hopping": """
close               |
late             |
dead             |
""",
    "folded sliding": """
close               |
late            |
dead           |
""",
    "folded hopping": """
close               |
late             |
dead                |
""",
    "rolling": """
close               |
late                |
dead            |
""",
}
"""Records are late, and entries are no longer needed, before the tick that is marked."""
KINDS: dict[str, WindowKind] = {
    "sliding": Sliding(4),
    "hopping": Hopping(FixedTimetable(6, 3, 1)),
    "folded sliding": FoldedSliding(4),
    "folded hopping": FoldedHopping(FixedTimetable(6, 3, 1)),
    "rolling": Rolling((4, 2, None), "both"),
}


def marks(drawing: str, label: str, mark: str) -> list[list[int]]:
    """The ticks of the marks in each line of a drawing with this label."""
    lines = [line for line in drawing.splitlines() if line.startswith(label)]
    return [[at - LABEL for at, letter in enumerate(line) if letter == mark] for line in lines]


def panes_of(kind: PaneKind, drawing: str) -> tuple[np.ndarray, np.ndarray]:
    """Key and time of the panes of the records that are drawn."""
    (records,) = marks(drawing, "records", "x")
    time = np.unique(kind.pane_of(np.array(records)))
    return np.zeros(len(time), np.int64), time


def drawn(windows: Windows, exclusive: bool) -> list[list[int]]:
    """The first and the last tick of each window."""
    return sorted(
        [start, end - exclusive]
        for start, end in zip(windows.start.tolist(), windows.end.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    ("kind", "drawing"),
    [
        (Sliding(4), SLIDING),
        (Hopping(FixedTimetable(6, 3, 1)), HOPPING),
        (Hopping(FixedTimetable(4, 4, 0)), TUMBLING),
    ],
    ids=["sliding", "hopping", "tumbling"],
)
def test_windows_are_those_that_are_drawn(kind: PaneKind, drawing: str) -> None:
    """All of them; those that close between two close times; and those that a changed record is in."""
    wanted, exclusive = sorted(marks(drawing, "window", "|")), isinstance(kind, Hopping)
    key, time = panes_of(kind, drawing)
    assert wanted == drawn(kind.closed_windows(key, time, -99, 99), exclusive)
    windows = kind.closed_windows(key, time, -99, 99)
    for lo, hi, start, end in zip(windows.lo, windows.hi, windows.start, windows.end, strict=True):
        assert [at for at in time if start <= at <= end - exclusive] == time[lo:hi].tolist()
    for since, close_time in ((-99, 8), (8, 12), (12, 99)):
        closed = drawn(kind.closed_windows(key, time, since, close_time), exclusive)
        assert [window for window in wanted if since <= window[1] < close_time] == closed
    for changed, at in enumerate(time.tolist()):
        mark = np.arange(len(time)) == changed
        found = drawn(kind.changed_windows(key, time, mark, np.zeros(len(time), bool), -99), exclusive)
        assert [window for window in wanted if window[0] <= at <= window[1]] == found


@pytest.mark.parametrize(
    ("kind", "drawing"),
    [
        (Sliding(4), SLIDING),
        (Hopping(FixedTimetable(6, 3, 1)), HOPPING),
        (Hopping(FixedTimetable(4, 4, 0)), TUMBLING),
    ],
    ids=["sliding", "hopping", "tumbling"],
)
def test_a_pane_is_due_when_its_next_window_closes(kind: PaneKind, drawing: str) -> None:
    """At every close time, and never later than a window that really is there."""
    key, time = panes_of(kind, drawing)
    windows = kind.closed_windows(key, time, -99, 99)
    lasts = windows.end - isinstance(kind, Hopping)
    for close_time in range(-2, 24):
        due = kind.next_end(time, close_time)
        for pane in range(len(time)):
            open_ = [end for end, of in zip(lasts.tolist(), windows.pane.tolist(), strict=True) if of == pane]
            assert min([end for end in open_ if end >= close_time], default=NEVER) >= due[pane]
        assert due.min() >= kind.earliest_end(int(time.min()), int(time.max()), close_time)


@pytest.mark.parametrize("name", KINDS)
def test_late_and_dead_are_drawn(name: str) -> None:
    """At one close time: the tick before which records are late, and that before which entries are not needed."""
    kind, drawing = KINDS[name], TIMES[name]
    ((close_time,),) = marks(drawing, "close", "|")
    assert marks(drawing, "late", "|") == [[kind.late_before(close_time)]]
    assert marks(drawing, "dead", "|") == [[kind.dead_before(close_time)]]


def test_a_rolling_window_contains_a_page_as_a_whole_or_not_at_all() -> None:
    """Of rows from 20 to 22 with a lookback of 10: not those in which a window begins, or a row is."""
    #  windows                 |---------|           of the row at 20: from 10
    #                            |---------|         of the row at 22: from 12
    pages = [(0, 9), (5, 11), (12, 14), (13, 19), (20, 25)]
    start, last = np.array(pages).T
    rows = np.full(len(pages), 20), np.full(len(pages), 22)
    kind = Rolling((10, None), "both")
    assert [True, False, False, True, False] == kind.contain_whole(start, last, *rows).tolist()
    assert not Rolling((10, None), "both", forget_after=5).contain_whole(start, last, *rows).any()
