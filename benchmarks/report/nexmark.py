"""The figures of Nexmark's windows as a table in Markdown: what this library reaches, and that over what others do."""

import re

from benchmarks.report.figures import Figure, NotMeasured, Run

RATES = "Nexmark"
DELAYS = "Nexmark: from bid to result"
BATCH, SMALL_BATCH = 500_000, 50_000
OURS, SPARK, FLINK = "rocksdb", "Spark's own", "Flink"
_THREE = OURS, SPARK, FLINK
_KEPT_UP = 0.9
"""A source that makes a smaller share of its bids per second is held back by the system."""
_HEAD = (
    "",
    "k bids/s per core",
    "over Spark's",
    "over Flink",
    "50,000: k bids/s",
    "over Spark's",
    "over Flink",
    "MB of state",
    "p50, s",
    "p99, s",
)
_PLACE = re.compile(r"(<!-- figures: nexmark -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def with_nexmark(text: str, run: Run) -> str:
    """Return a page with the table of a run between two comments."""
    return _PLACE.sub(lambda found: f"{found[1]}\n{table(run)}\n\n{found[2]}", text)


def table(run: Run) -> str:
    """Return a line for each query: of two numbers the first is by the clock, of three they are ours, Spark's and Flink's."""
    queries = dict.fromkeys(figure.axes["query"] for figure in run.of(RATES))
    lines = [_HEAD, ["---"] * len(_HEAD), *([query, *_cells(run, query)] for query in queries)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(run: Run, query: str) -> list[str]:
    cells = []
    for batch in (BATCH, SMALL_BATCH):
        ours = _one(run, RATES, OURS, query, batch)
        cells.append("" if ours is None else f"{ours.extra['per_core'] / 1_000:.0f}")
        # Flink has no batches.
        cells += [_ratio(ours, _one(run, RATES, SPARK, query, batch))]
        cells += [_ratio(ours, _one(run, RATES, FLINK, query, BATCH))]
    cells.append("/".join(_megabytes(run, system, query) for system in _THREE))
    delays = [_one(run, DELAYS, system, query) for system in _THREE]
    return [
        *cells,
        "/".join(_delay(one, False) for one in delays),
        "/".join(_delay(one, True) for one in delays),
    ]


def _one(run: Run, section: str, system: str, query: str, batch: int | None = None) -> Figure | None:
    try:
        return run.one(section, system, query=query, **({} if batch is None else {"batch": batch}))
    except NotMeasured:
        return None


def _ratio(ours: Figure | None, other: Figure | None) -> str:
    if ours is None or other is None:
        return ""
    names = "per_core", "per_processor_second"
    return "/".join(_short(ours.extra[name] / other.extra[name]) for name in names)


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _megabytes(run: Run, system: str, query: str) -> str:
    """Spark's store tells its size with a snapshot, every tenth batch."""
    found = [_one(run, RATES, system, query, batch) for batch in (BATCH, SMALL_BATCH)]
    size = next(
        (one.extra["state_bytes"] for one in found if one is not None and one.extra["state_bytes"]), 0
    )
    return f"{size / 1e6:.1f}" if size else "-"


def _delay(figure: Figure | None, slowest: bool) -> str:
    """Seconds; nothing if the system did not keep up, as its results come later and later."""
    if figure is None or figure.extra["made"] < _KEPT_UP * figure.axes["pace"]:
        return "-"
    return f"{figure.extra['p99'] if slowest else figure.seconds:.1f}"
