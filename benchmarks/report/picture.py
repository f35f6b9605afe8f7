"""The pictures of a run for the documentation: that of the README, and one for each curve of how cost grows."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

from benchmarks.report.charts import STYLE, Panel, drawn
from benchmarks.report.content import PEERS_CHART
from benchmarks.report.figures import NotMeasured, Run
from benchmarks.report.growth import CURVES

TITLE = "Sliding windows without Spark: records per second (count, sum, min, max, mean; 100 keys)"


def write_picture(run: Run, path: Path) -> None:
    """Write the picture of the README as SVG or PNG, depending on the suffix of the name.

    Raises:
        NotMeasured: the run has no figures for the picture.
    """
    panel = PEERS_CHART.panel(run)
    if panel is None:
        raise NotMeasured(PEERS_CHART.section)
    write_panels([replace(panel, title=TITLE)], path, width=7.6)


def write_curves(run: Run, folder: Path) -> list[Path]:
    """Write a picture for each curve of which the run has figures, and return the files."""
    paths = []
    for curve in CURVES:
        if panels := curve.question.panels(run):
            paths.append(folder / f"growth-{curve.name}.svg")
            write_panels(panels, paths[-1], width=3.9 * len(panels) + 0.4)
    return paths


def write_panels(panels: Sequence[Panel], path: Path, width: float) -> None:
    """Write panels side by side as one picture on white."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({**STYLE, "svg.fonttype": "path"}):
        drawn(panels, width).savefig(path, dpi=150, facecolor="white", metadata=_undated(path))


def _undated(path: Path) -> dict[str, None]:
    """Metadata without a date, so that the same run gives the same file."""
    return {"Date": None} if path.suffix == ".svg" else {}
