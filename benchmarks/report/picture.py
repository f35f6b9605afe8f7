"""The picture for the README: sliding windows, compared with other systems."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

from benchmarks.report.charts import STYLE, drawn
from benchmarks.report.content import PEERS_CHART
from benchmarks.report.figures import NotMeasured, Run

TITLE = "Sliding windows without Spark: records per second (count, sum, min, max, mean; 100 keys)"


def write_picture(run: Run, path: Path) -> None:
    """Write the picture as SVG or PNG, depending on the suffix of the name.

    Raises:
        NotMeasured: the run has no figures for the picture.
    """
    panel = PEERS_CHART.panel(run)
    if panel is None:
        raise NotMeasured(PEERS_CHART.section)
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({**STYLE, "svg.fonttype": "path"}):
        drawn([replace(panel, title=TITLE)], width=7.6).savefig(
            path, dpi=150, facecolor="white", metadata=_undated(path)
        )


def _undated(path: Path) -> dict[str, None]:
    """Metadata without a date, so that the same run gives the same file."""
    return {"Date": None} if path.suffix == ".svg" else {}
