"""The main picture, for the README: sliding windows, ours beside each peer."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

from benchmarks.report.charts import STYLE, drawn
from benchmarks.report.content import BESIDE_PEERS
from benchmarks.report.figures import NotMeasured, Run

TITLE = "Sliding windows without Spark: records a second (count, sum, min, max, mean; 100 keys)"


def write_picture(run: Run, path: Path) -> None:
    """Write the picture as SVG or PNG, by the name's end.

    Raises:
        NotMeasured: the run has no figure of it.
    """
    panel = BESIDE_PEERS.panel(run)
    if panel is None:
        raise NotMeasured(BESIDE_PEERS.section)
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({**STYLE, "svg.fonttype": "path"}):
        drawn([replace(panel, title=TITLE)], width=7.6).savefig(
            path, dpi=150, facecolor="white", metadata=_undated(path)
        )


def _undated(path: Path) -> dict[str, None]:
    """The same run gives the same file."""
    return {"Date": None} if path.suffix == ".svg" else {}
