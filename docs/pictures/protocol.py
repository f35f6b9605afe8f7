"""The picture of which process works on a bucket: drawn from the table that tasks go by."""

from collections import defaultdict
from textwrap import wrap

from docs.pictures.drawing import Drawing
from operators.spark.replicas.protocol import NEXT, Heard, TaskState

HIGH = 46
PLACES = {
    TaskState.ASK_HOLDER: (90, 60),
    TaskState.ASK_FREE: (300, 60),
    TaskState.ASK_ANOTHER: (510, 60),
    TaskState.ASK_FREE_AFTER_DEATH: (300, 180),
    TaskState.ASK_ANOTHER_AFTER_DEATH: (510, 180),
    TaskState.WORK_ALONE: (686, 120),
    TaskState.FAIL: (510, 290),
    TaskState.WRITE: (90, 290),
}
"""Middles of boxes."""


def protocol() -> str:
    """States as boxes; arrows with what a task hears. What is heard with the same end everywhere is said once."""
    drawing = Drawing()
    ends = defaultdict[Heard, set[TaskState]](set)
    for (_, heard), after in NEXT.items():
        ends[heard].add(after)
    everywhere = {heard: next(iter(after)) for heard, after in ends.items() if len(after) == 1}
    edges = defaultdict[tuple[TaskState, TaskState], list[Heard]](list)
    for (state, heard), after in NEXT.items():
        if heard not in everywhere:
            edges[state, after].append(heard)
    for (state, after), heard in edges.items():
        _edge(drawing, state, after, ", ".join(one.value for one in heard))
    for state, (x, y) in PLACES.items():
        wide = _width(state)
        drawing.box(x - wide / 2, y - HIGH / 2, wide, HIGH, "", "a" if state.asks else "b")
        lines = wrap(state.value, 19)
        for number, line in enumerate(lines):
            drawing.text(x, y + 4.5 + 15 * (number - (len(lines) - 1) / 2), line, "mid")
    said = defaultdict[TaskState, list[str]](list)
    for heard, after in everywhere.items():
        said[after].append(heard.value)
    for number, (after, heard) in enumerate(said.items()):
        drawing.text(16, 362 + 18 * number, f"from each blue box: {', '.join(heard)} -> {after.value}", "dim")
    return drawing.svg(394, "Which process works on a bucket")


def _edge(drawing: Drawing, state: TaskState, after: TaskState, words: str) -> None:
    """An arrow between two boxes, with words at its middle."""
    (x, y), (x2, y2) = _border(state, after), _border(after, state)
    kind = "warn" if words == Heard.DIED.value else "strong"
    drawing.arrow(x, y, x2, y2, kind)
    level = y == y2
    lines = wrap(words, 9) if level else [words]
    off = 24 if y2 < y and not level and x2 > x else -6
    for number, line in enumerate(lines):
        above = (y + y2) / 2 + off - 13 * (len(lines) - 1 - number)
        drawing.text((x + x2) / 2 + (0 if level else 6), above, line, "mid dim" if level else "dim")


def _width(state: TaskState) -> int:
    return 112 if state is TaskState.WORK_ALONE else 136


def _border(state: TaskState, other: TaskState) -> tuple[float, float]:
    """Where the line between the middles of two boxes leaves the first one."""
    (x, y), (x2, y2) = PLACES[state], PLACES[other]
    dx, dy = x2 - x, y2 - y
    wide, high = _width(state) / 2 + 2, HIGH / 2 + 2
    part = min(wide / abs(dx) if dx else 9.0, high / abs(dy) if dy else 9.0)
    return x + part * dx, y + part * dy


PICTURES = {"protocol": protocol}
"""By the names of their files."""
