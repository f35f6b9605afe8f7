"""Draws what `tests.faults.long` has measured: python -m tests.faults.long_picture OUT.svg RUN.json..."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.report.charts import INK, STYLE
from tests.faults.levels import MEASURES

_COLOURS = {"memory": "#2563eb", "rocksdb": "#d97706", "spark": "#059669"}
_ACROSS = 3


def picture(runs: list[dict[str, Any]]) -> str:
    """Return a panel for each measure, with a line for each run, as an SVG."""
    shown = [name for name in MEASURES if any(name in run["samples"][0] for run in runs)]
    down = -(-len(shown) // _ACROSS)
    with mpl.rc_context(STYLE):
        canvas = Figure(figsize=(9.2, 1.9 * down), layout="constrained")
        spots = canvas.subplots(down, _ACROSS, squeeze=False).flatten()
        for spot, name in zip(spots, shown, strict=False):
            _draw(spot, name, runs)
        for spot in spots[len(shown) :]:
            spot.set_visible(False)
        spots[0].legend(frameon=False, fontsize=8)
        out = io.StringIO()
        canvas.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    lines = text[text.index("<svg") :].replace(INK, "#7f8794").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _draw(axes: Any, name: str, runs: list[dict[str, Any]]) -> None:
    for run in runs:
        batches = [one["batch"] for one in run["samples"]]
        values = [one[name] for one in run["samples"]]
        axes.plot(batches, values, color=_COLOURS[run["backend"]], linewidth=1.4, label=run["backend"])
    axes.set_ylim(bottom=0)
    axes.set_title(MEASURES[name][0], fontsize=9)


if __name__ == "__main__":
    read = [json.loads(Path(name).read_text()) for name in sys.argv[2:]]
    Path(sys.argv[1]).write_text(picture(read))
