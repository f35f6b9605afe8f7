"""The picture of which process works on a bucket: drawn from the table that tasks go by."""

from collections import defaultdict
from textwrap import wrap

from docs.pictures.drawing import Drawing
from operators.spark.replicas.protocol import NEXT, Heard, TaskState

MIDDLES = {TaskState.ASK: 90, TaskState.ASK_AFTER_DEATH: 380, TaskState.FAIL: 670}
"""Middles of boxes, from the left."""
LEVEL, WIDE, HIGH = 50, 150, 46


def protocol() -> str:
    """States as boxes; arrows with what a task hears. What is heard with the same end everywhere is said once."""
    drawing = Drawing()
    ends = defaultdict[Heard, set[TaskState]](set)
    for (_, heard), after in NEXT.items():
        ends[heard].add(after)
    for (state, heard), after in NEXT.items():
        if len(ends[heard]) > 1:
            begin, end = MIDDLES[state] + WIDE / 2 + 2, MIDDLES[after] - WIDE / 2 - 2
            drawing.arrow(begin, LEVEL, end, LEVEL, "warn")
            drawing.text((begin + end) / 2, LEVEL - 6, heard.value, "mid dim")
    for state, middle in MIDDLES.items():
        drawing.box(middle - WIDE / 2, LEVEL - HIGH / 2, WIDE, HIGH, "", "a" if state.asks else "b")
        lines = wrap(state.value, 20)
        for number, line in enumerate(lines):
            drawing.text(middle, LEVEL + 4.5 + 15 * (number - (len(lines) - 1) / 2), line, "mid")
    said = defaultdict[TaskState, list[str]](list)
    for heard, after in ends.items():
        if len(after) == 1:
            said[next(iter(after))].append(heard.value)
    for number, (after, heard) in enumerate(said.items()):
        drawing.text(16, 106 + 20 * number, f"from each blue box: {', '.join(heard)} -> {after.value}", "dim")
    return drawing.svg(140, "Which process works on a bucket")


PICTURES = {"protocol": protocol}
"""By the names of their files."""
