"""The pictures of README.md and concepts.md. The windows in them are computed."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pyarrow as pa

from docs.pictures.drawing import Drawing
from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows, WindowedAggregation
from operators import aggregates as agg

RECORDS = {"a": 1_000, "b": 3_000, "c": 4_000, "d": 9_000, "e": 10_000}
KINDS = {
    "TumblingWindows(4 s): [start, start + 4 s)": TumblingWindows("4 s"),
    "HoppingWindows(4 s, advance 2 s): a start every 2 s": HoppingWindows("4 s", "2 s"),
    "SessionWindows(gap 3 s): [first, last + 3 s]": SessionWindows("3 s"),
    "SlidingWindows(4 s): [t - 4 s, t], and the window just after t": SlidingWindows("4 s"),
}
SHORT = {
    "tumbling: 4 s": TumblingWindows("4 s"),
    "hopping: 4 s, every 2 s": HoppingWindows("4 s", "2 s"),
    "sessions: gap of 3 s": SessionWindows("3 s"),
    "sliding: 4 s": SlidingWindows("4 s"),
}


def second(ms: float, left: float = 190, wide: float = 30) -> float:
    """Where a time in milliseconds is on the axis that begins at -4 s."""
    return left + (ms / 1_000 + 4) * wide


def computed(operator: WindowedAggregation) -> list[tuple[int, int, str]]:
    """Start and end in milliseconds of each window over the records, and the records in it."""
    table = pa.table({"at": pa.array(RECORDS.values(), pa.int64()), "name": list(RECORDS)})
    with operator.aggregate(names=agg.collect_list("name")).local_runner("at") as runner:
        rows = runner.process(table, stream_time=60_000)
    window = rows.column("window").combine_chunks()
    bounds = (window.field(name).cast(pa.int64()).to_pylist() for name in ("start", "end"))
    return sorted(zip(*bounds, map("".join, rows.column("names").to_pylist()), strict=True))


def axis(drawing: Drawing, y: float, ends: Sequence[int], height: float) -> None:
    """Draw the records on their line, the seconds below it, and a dashed line down from each record."""
    drawing.line(second(ends[0] * 1_000), y, second(ends[1] * 1_000), y)
    for time in range(ends[0], ends[1] + 1):
        drawing.line(second(time * 1_000), y, second(time * 1_000), y + 4)
        if time % 2 == 0:
            drawing.text(second(time * 1_000), y + 18, f"{time} s", "dim mid")
    for name, time in RECORDS.items():
        drawing.line(second(time), y, second(time), height, "dash")
        drawing.dot(second(time), y)
        drawing.text(second(time), y - 10, name, "mid bold")


def windows() -> str:
    """Each kind of window over the same records."""
    drawing, y = Drawing(), 80
    tops = [(title, computed(kind.group_by())) for title, kind in KINDS.items()]
    height = y + sum(34 + 24 * len(found) for _, found in tops) + 10
    drawing.text(16, 44, "records of one key", "bold")
    axis(drawing, 40, (-4, 14), height - 12)
    for title, found in tops:
        y += 26
        drawing.text(16, y - 8, title, "bold")
        for start, end, names in found:
            x = second(start)
            drawing.box(x, y, second(end) - x, 18, " ".join(names))
            drawing.text(16, y + 13.5, bounds(start, end), "dim")
            y += 24
        y += 8
    return drawing.svg(height, "Windows of each kind over the same records")


def kinds() -> str:
    """The four kinds in one glance: windows that do not overlap share a line."""
    drawing, y = Drawing(), 72
    lanes = {kind: in_lanes(computed(operator.group_by())) for kind, operator in SHORT.items()}
    height = y + sum(12 + 22 * len(lines) for lines in lanes.values())
    drawing.text(16, 44, "records of one key", "bold")
    axis(drawing, 40, (-4, 14), height - 8)
    for kind, lines in lanes.items():
        name, _, rest = kind.partition(": ")
        drawing.text(16, y + 13.5, name, "bold")
        drawing.text(16, y + 29.5, rest, "dim")
        for line in lines:
            for start, end, names in line:
                drawing.box(second(start), y, second(end) - second(start) - 2, 18, " ".join(names))
            y += 22
        y += 12
    return drawing.svg(height, "Tumbling, hopping, session and sliding windows over the same five records")


def in_lanes(found: Iterable[tuple[int, int, str]]) -> list[list[tuple[int, int, str]]]:
    """Windows in order of their starts, each on the first line that is free there; two lines at least."""
    lines: list[list[tuple[int, int, str]]] = [[], []]
    for window in found:
        free = next((line for line in lines if not line or line[-1][1] <= window[0]), None)
        if free is None:
            lines.append([window])
        else:
            free.append(window)
    return lines


def bounds(start: int, end: int) -> str:
    """Both bounds of a window in seconds."""
    return f"{start / 1_000:g} s to {end / 1_000:g} s"


def panes() -> str:
    """How panes are combined into windows."""
    drawing = Drawing()
    drawing.text(16, 44, "records of one key", "bold")
    axis(drawing, 40, (-4, 14), 340)
    parts: Iterable[tuple[str, Callable[[], list[tuple[int, int, str]]]]] = (
        ("panes of hopping windows, 2 s", lambda: computed(TumblingWindows("2 s").group_by())),
        ("their windows", lambda: computed(HoppingWindows("4 s", "2 s").group_by())[:4]),
    )
    y = 92.0
    for number, (title, found) in enumerate(parts):
        drawing.text(16, y + 14, title, "bold")
        for start, end, names in found():
            x = second(start)
            drawing.box(x, y, second(end) - x, 20, str(len(names)), "ab"[1 - number])
            y += 24 * number
        y += 34
    y += 6
    drawing.text(16, y + 14, "panes of sliding windows", "bold")
    for time in RECORDS.values():
        drawing.box(second(time) - 9, y, 18, 20, "1", "b")
    y += 34
    drawing.text(16, y + 14, "two of their windows", "bold")
    for start, end, names in computed(SlidingWindows("4 s").group_by())[2:5:2]:
        drawing.box(second(start), y, second(end) - second(start), 20, str(len(names)))
        y += 24
    return drawing.svg(int(y) + 20, "Records are counted once, in panes; windows combine panes")


def time() -> str:
    """Stream time, grace, and close time, with windows of 5 s and a grace of 5 s."""
    drawing, x = Drawing(), partial(second, left=40, wide=38)
    stream, close, y = x(12_000), x(7_000), 150
    drawing.line(x(-4_000), y, x(14_000), y)
    for record in (-1_000, 2_000, 4_000, 9_000, 12_000):
        drawing.dot(x(record), y)
    for edge, kind, words in ((stream, "strong", "stream time"), (close, "warn", "close time")):
        drawing.line(edge, 40, edge, y + 20, f"{kind} dash")
        drawing.text(edge, 30, words, "mid bold")
    drawing.arrow(stream, 62, close, 62)
    drawing.text((stream + close) / 2, 56, "grace", "mid")
    for start, words, kind in (
        (-2_000, "closed: emitted, final", "b"),
        (3_000, "open", "a"),
        (8_000, "open", "a"),
    ):
        drawing.box(x(start), 90, x(start + 5_000) - x(start) - 2, 20, words, kind)
    for record, kind, depth, words in (
        (1_000, "late", 40, "comes now: late, its window is closed"),
        (6_000, "", 66, "comes now: behind the close time, but its window is still open and counts it"),
    ):
        drawing.dot(x(record), y, kind)
        drawing.line(x(record), y + 8, x(record), y + depth, "warn" if kind else "strong")
        drawing.text(x(record), y + depth + 16, words, "mid")
    return drawing.svg(246, "Stream time, grace, close time, and late records")


def state() -> str:
    """A bucket's pages by key and segment."""
    drawing = Drawing()
    left, wide, high, keys = 120, 150, 44, ("EWR", "JFK", "LGA")
    drawing.text(16, 32, "one bucket: a part of the keys, on one worker", "bold")
    for column, name in enumerate(("segment 09:00", "segment 09:01", "segment 09:02", "segment 09:03")):
        drawing.text(left + wide * (column + 0.5), 62, name, "dim mid")
    for row, key in enumerate(keys):
        y = 74 + row * (high + 8)
        drawing.text(left - 14, y + high / 2 + 4, key, "end bold")
        for column in range(4):
            x, count = left + wide * column + 5, (3, 5, 2, 4, 0, 6, 5, 3, 4, 2, 0, 3)[row * 4 + column]
            if not count:
                continue
            drawing.box(x, y, wide - 10, high, "", "none gone" if column == 0 else "none")
            for pane in range(count):
                drawing.box(x + 8 + pane * 21, y + 12, 16, 20, "", "b gone" if column == 0 else "b")
    bottom = 74 + 3 * (high + 8)
    drawing.line(left + wide, 50, left + wide, bottom, "warn dash")
    drawing.text(left + wide / 2, bottom + 16, "dropped as a whole", "dim mid")
    drawing.text(
        left + wide * 2.5,
        bottom + 16,
        "an outlined box is a page, read and written as a whole: panes in order of time",
        "dim mid",
    )
    return drawing.svg(bottom + 34, "A bucket's pages: one per key and segment")


def changelog() -> str:
    """What a batch writes, and what a worker restores from."""
    drawing = Drawing()
    top, wide, left = 50, 84, 150
    drawing.text(16, 32, "Spark's state store, committed with each batch", "bold")
    drawing.text(16, top + 19, "changelog", "dim")
    for number in range(4, 10):
        kept = number > 5
        drawing.box(
            left + (number - 4) * wide, top, wide - 8, 30, f"batch {number}", "a" if kept else "none gone"
        )
    drawing.text(16, top + 69, "pointer", "dim")
    drawing.box(left + 5 * wide, top + 50, wide - 8, 30, "9", "b")
    drawing.text(left + 4.9 * wide, top + 69, "the valid version", "dim end")
    drawing.text(16, 172, "snapshot, in a folder", "bold")
    drawing.box(left, 184, 2 * wide - 8, 34, "all pages, after batch 5", "a")
    drawing.arrow(left + 2 * wide, 201, left + 4 * wide - 10, 201)
    drawing.text(left + 3 * wide - 4, 194, "6, 7, 8, 9", "mid dim")
    drawing.text(left + 4 * wide, 172, "a worker's local copy", "bold")
    drawing.box(left + 4 * wide, 184, 2 * wide - 8, 34, "memory or rocksdb, 9", "b")
    drawing.text(
        16,
        246,
        "A copy behind the pointer replays the missing entries. A copy that is lost, or ahead of the pointer,",
        "dim",
    )
    drawing.text(16, 262, "is rebuilt from the snapshot and the entries after it.", "dim")
    return drawing.svg(280, "Changelog, pointer and snapshot")


PICTURES = {
    "kinds": kinds,
    "windows": windows,
    "panes": panes,
    "time": time,
    "state": state,
    "changelog": changelog,
}
"""By the names of their files."""
