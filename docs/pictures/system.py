"""The picture of kafka.md: a whole system, from topics to answers. Names are those of the example."""

from docs.pictures.drawing import Drawing
from examples.kafka import names

LEFT, MIDDLE, RIGHT = 16.0, 262.0, 548.0
WIDE, HIGH = 196.0, 52.0
UPPER, LOWER = 60.0, 190.0


def system() -> str:
    """Topics, the two queries of a driver, the compacted topic with its numbers, the table of pages, and who reads them."""
    drawing = Drawing()
    drawing.text(LEFT + 75, 28, "Kafka", "mid bold")
    drawing.text(MIDDLE + WIDE / 2, 28, "Spark: two queries", "mid bold")
    drawing.text(RIGHT + WIDE / 2, 28, "their outputs", "mid bold")
    for number in range(names.PARTITIONS):
        drawing.box(LEFT, 84 + 36 * number, 150, 28, f"partition {number}", "none")
    drawing.text(LEFT + 75, 74, names.DEPARTURES, "mid mono")
    for y in (UPPER, LOWER):
        drawing.arrow(LEFT + 154, 152, MIDDLE - 6, y + HIGH / 2)
        drawing.arrow(MIDDLE + WIDE + 4, y + HIGH / 2, RIGHT - 6, y + HIGH / 2)
    for y, kind, by, out in (
        (UPPER, "SlidingWindows", "of each airport", "upsert_to"),
        (LOWER, "RollingWindows", "of each carrier", "publish"),
    ):
        drawing.box(MIDDLE, y, WIDE, HIGH, "", "a")
        drawing.text(MIDDLE + WIDE / 2, y + 22, kind, "mid mono")
        drawing.text(MIDDLE + WIDE / 2, y + 40, by, "mid dim")
        drawing.text((MIDDLE + WIDE + RIGHT) / 2, y + HIGH / 2 - 8, out, "mid tiny")
        drawing.text(MIDDLE + WIDE / 2, y + HIGH + 18, "checkpoint: offsets, state", "mid dim")
    for y, name, what in (
        (UPPER, names.HOURS_TOPIC, "topic, compacted"),
        (LOWER, names.TABLE, "pages in SQLite"),
    ):
        drawing.box(RIGHT, y, WIDE, HIGH, "", "b")
        drawing.text(RIGHT + WIDE / 2, y + 22, name, "mid mono")
        drawing.text(RIGHT + WIDE / 2, y + 40, what, "mid dim")
    drawing.text(RIGHT + WIDE / 2, UPPER + HIGH + 18, "rows and batch number in one", "mid dim")
    drawing.text(RIGHT + WIDE / 2, UPPER + HIGH + 33, "transaction; read_table, KTable", "mid dim")
    drawing.text(RIGHT + WIDE / 2, LOWER + HIGH + 18, "reader.get(key, at):", "mid mono")
    drawing.text(RIGHT + WIDE / 2, LOWER + HIGH + 35, "a service without Spark", "mid dim")
    return drawing.svg(296, "From a topic to a topic and to answers")


PICTURES = {"system": system}
"""Functions that draw, by the names of the files."""
