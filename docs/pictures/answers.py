"""The picture of features.md: what is read for one answer. Which segments are read is the code's own choice."""

import pyarrow as pa

from docs.pictures.drawing import Drawing
from operators import RollingWindows
from operators import aggregates as agg
from state_backends import resolve

HOUR = 3_600_000
AT = int(6.6 * HOUR)
FEATURES = RollingWindows({"1h": "1 hour", "3h": "3 hours"}).group_by("card").aggregate(n=agg.count())
PAGES = {1: 1, 2: 1, 3: 3, 4: 1, 5: 2, 6: 2, 7: 1}
"""How many pages the card has in each segment of an hour."""
LEFT, SCALE, TOP, HIGH = 40.0, 86.0, 106.0, 30.0


def now() -> str:
    """The pages of a key, and those that two windows need."""
    schema = pa.schema([("card", pa.string()), ("at", pa.timestamp("ms"))])
    plan = FEATURES.for_readers("at").bind(schema, "at", resolve("memory")).plan
    ((first, last),) = plan.spans_at(AT, HOUR)
    drawing, end = Drawing(), LEFT + SCALE * AT / HOUR
    drawing.text(16, 24, 'get({"card": "gold"}, at)', "mono")
    drawing.text(end, 24, "at", "mid bold")
    drawing.line(end, 30, end, 150, "dash")
    for y, hours in ((48, 1), (76, 3)):
        begin = end - SCALE * hours
        drawing.text(begin - 8, y + 4, f"n_{hours}h", "mono end")
        drawing.line(begin, y, end, y, "warn")
        for x in (begin, end):
            drawing.line(x, y - 5, x, y + 5, "warn")
    for segment, pages in PAGES.items():
        width = (SCALE - 6) / pages
        for page in range(pages):
            x = LEFT + SCALE * segment + page * width
            drawing.box(x, TOP, width - 3, HIGH, "", "a" if first <= segment <= last else "none")
    drawing.text(16, TOP + 19, "pages of the card", "dim")
    for segment in range(1, max(PAGES) + 2):
        x = LEFT + SCALE * segment - 4.5
        drawing.line(x, 98, x, 144, "dash")
    lines = (
        "Each box holds entries of one segment of time, with the state of every aggregate.",
        "One request reads the blue ones together with the number of the batch.",
        "The reader combines the entries that each window contains, to the tick.",
    )
    for number, line in enumerate(lines):
        drawing.text(16, 174 + 18 * number, line, "dim")
    return drawing.svg(224, "The pages of a key that are read for one answer")


PICTURES = {"now": now}
"""Functions that draw, by the names of the files."""
