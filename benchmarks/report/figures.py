"""A run that was read from its file: figures by section, system and axes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report.stripping import FORMAT

_NOTE = "note"
"""An axis of some figures that holds a remark and not a position."""


class NotMeasured(LookupError):  # noqa: N818 - a run may lack figures, which is not an error
    """The run does not have a requested figure."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The time that one system took for a number of rows, at one point of the axes.

    Attributes:
        section: the question that the figure helps to answer.
        system: the system that was measured.
        rows: number of input rows.
        seconds, fastest: median and minimum of the rounds.
        axes: the point: records per window, keys, and so on.
        extra: other measurements at this point.
    """

    section: str
    system: str
    rows: int
    seconds: float
    fastest: float
    axes: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds

    @property
    def above_empty(self) -> float:
        """Seconds less those of an empty batch.

        Raises:
            NotMeasured: the empty batch was not measured.
        """
        if "empty_seconds" not in self.extra:
            raise NotMeasured(f"{self.section}: {self.system}: empty batch")
        return self.seconds - float(self.extra["empty_seconds"])

    @property
    def place(self) -> tuple[str, str, str]:
        """Identity of the figure, the same in each run."""
        axes = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sorted(self.axes.items()))
        return self.section, self.system, axes


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run, and its environment.

    Attributes:
        about: date, commit, minutes, machine, libraries.
        figures: the figures in the order of measurement.
    """

    about: Mapping[str, Any]
    figures: tuple[Figure, ...]

    def one(self, section: str, system: str, **axes: Any) -> Figure:
        """Return the first figure at this point; axes that are not given may have any value.

        Raises:
            NotMeasured: the run has no such figure.
        """
        for figure in self.of(section, **axes):
            if figure.system == system:
                return figure
        raise NotMeasured(f"{section}: {system} {axes}")

    def of(self, section: str, **axes: Any) -> list[Figure]:
        """Return the figures of a section at these points."""
        return [
            figure
            for figure in self.figures
            if figure.section == section
            and all(name in figure.axes and figure.axes[name] == value for name, value in axes.items())
        ]


def load_run(path: Path) -> Run:
    """Read a run.

    Raises:
        ValueError: the file is not a run of this format.
    """
    plain = json.loads(path.read_text())
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ValueError(f"{path} is not a run of format {FORMAT}: use a file that `make bench` wrote")
    about = {name: value for name, value in plain.items() if name not in ("figures", "took")}
    return Run(about, tuple(map(_figure, plain["figures"])))


def _figure(plain: Mapping[str, Any]) -> Figure:
    axes, extra = dict(plain["axes"]), dict(plain.get("beside", {}))
    if _NOTE in axes:
        extra[_NOTE] = axes.pop(_NOTE)
    return Figure(
        section=plain["section"],
        system=plain["system"],
        rows=plain["rows"],
        seconds=plain["seconds"],
        fastest=plain["fastest"],
        axes=axes,
        extra=extra,
    )
