"""How cost grows: a picture for each curve, also on the page "What a batch and its state cost" of the documentation."""

from dataclasses import dataclass

from benchmarks.report.figures import Figure
from benchmarks.report.questions import LineChart, Question, mebibytes, milliseconds

RATE = "rows/s"
SNAPSHOT = "state: a snapshot"
RESTART = "state: a restart without it"


def microseconds_a_row(figure: Figure) -> float:
    """Median time of a row."""
    return 1e6 * figure.seconds / figure.rows


def page_bytes(figure: Figure) -> float:
    """Bytes of a key's pages."""
    return float(figure.extra["page_bytes"])


def memory_bytes(figure: Figure) -> float:
    """Bytes of memory of a key; a process may give some back."""
    return max(float(figure.extra["memory_bytes"]), 1.0)


def disk_bytes(figure: Figure) -> float:
    """Bytes of a key on disk."""
    return float(figure.extra["disk_bytes"])


@dataclass(frozen=True, slots=True)
class Curve:
    """One picture.

    Attributes:
        name: of its file, without `growth-` and the suffix.
        question: what it answers.
        in_report: whether the report has it too; it may have the same lines elsewhere.
    """

    name: str
    question: Question
    in_report: bool = True


CURVES = [
    Curve(
        "keys",
        Question(
            "How does cost grow with the number of keys?",
            "Lower is better: processor time of a row on the local runner, and of a row that brings a new key; and the first "
            "batch of a process that goes on with what is on disk. A key has a record in an hour, windows are an hour long.",
            [
                LineChart(
                    "growth: rows of steady batches",
                    "keys",
                    "µs a row, steady",
                    "keys",
                    value=microseconds_a_row,
                ),
                LineChart(
                    "growth: rows of new keys", "keys", "µs a row, new keys", "keys", value=microseconds_a_row
                ),
                LineChart(
                    "growth: a restart on what is on disk",
                    "keys",
                    "ms, first batch",
                    "keys",
                    value=milliseconds,
                ),
            ],
        ),
    ),
    Curve(
        "keys-spark",
        Question(
            "How does it grow on Spark, beside Spark's own windows?",
            "Higher is faster: rows per second of the steady batches of 100,000 random keys.",
            [
                LineChart(f"many keys on Spark: {kind}", "keys", f"{RATE}, {kind}", "keys")
                for kind in ("tumbling", "session")
            ],
        ),
    ),
    Curve(
        "bytes",
        Question(
            "How many bytes does a key take?",
            "Lower is better: the pages of a key as such, the memory of the worker, and all files. With 100,000 keys, memory "
            "is mostly that of the batches.",
            [
                LineChart("growth: bytes of a key", "keys", "bytes, pages", "keys", value=page_bytes),
                LineChart("growth: bytes of a key", "keys", "bytes, memory", "keys", value=memory_bytes),
                LineChart("growth: bytes of a key", "keys", "bytes, disk", "keys", value=disk_bytes),
            ],
        ),
    ),
    Curve(
        "panes",
        Question(
            "How does cost grow with the panes of a window?",
            "Higher is faster: hopping windows of a minute that advance by a part of it.",
            [
                LineChart("growth: panes, local", "panes", f"{RATE}, local", "panes of a window"),
                LineChart(
                    "growth: panes, bounded on Spark", "panes", f"{RATE}, bounded", "panes of a window"
                ),
            ],
        ),
    ),
    Curve(
        "records",
        Question(
            "How does cost grow with the records of a window?",
            "Higher is faster: sliding windows. A flat line means that longer windows cost no more.",
            [
                LineChart(
                    "sliding windows, local",
                    "per_window",
                    f"{RATE}, local",
                    "records per window",
                    {"keys": 100},
                ),
                LineChart(
                    "batch: sliding windows", "per_window", f"{RATE}, bounded on Spark", "records per window"
                ),
            ],
        ),
        in_report=False,
    ),
    Curve(
        "lookbacks",
        Question(
            "How does cost grow with the number of lookbacks?",
            "Higher is faster: rolling windows over the last 1,000 records, over half of these, and so on, five results each.",
            [
                LineChart("growth: lookbacks, local", "lookbacks", f"{RATE}, local", "lookbacks"),
                LineChart(
                    "growth: lookbacks, bounded on Spark", "lookbacks", f"{RATE}, bounded", "lookbacks"
                ),
            ],
        ),
    ),
    Curve(
        "snapshots",
        Question(
            "How do snapshots and restarts grow with the state?",
            "Lower is better: a batch that changes 1 % of the keys and waits for its snapshot, what it writes, and a restart "
            "without local state. A key has ten panes.",
            [
                LineChart(SNAPSHOT, "keys", "ms, snapshot", "keys", value=milliseconds),
                LineChart(SNAPSHOT, "keys", "MiB written by it", "keys", value=mebibytes),
                LineChart(RESTART, "keys", "ms, restart", "keys", value=milliseconds),
            ],
        ),
    ),
]
GROWTH = [curve.question for curve in CURVES if curve.in_report]
