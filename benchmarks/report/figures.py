"""A run as it is read: figures, found by section, system and axes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report.stripping import FORMAT

_NOTE = "note"
"""What some figures note among their axes though it is no place on one."""


class NotMeasured(LookupError):  # noqa: N818 - a run may lack figures: it is no error of the run's
    """A figure that is asked for is not in the run."""


@dataclass(frozen=True, slots=True)
class Figure:
    """So many rows by one system, at one point of some axes.

    Attributes:
        section: the question that it helps to answer.
        system: who did it.
        rows: how many rows went in.
        seconds, fastest: median and least of its rounds.
        axes: where it stands: records per window, keys, and so on.
        beside: what else was found at this point.
    """

    section: str
    system: str
    rows: int
    seconds: float
    fastest: float
    axes: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds

    @property
    def above_empty(self) -> float:
        """Seconds beyond those of an empty batch.

        Raises:
            NotMeasured: the empty batch was not clocked.
        """
        if "empty_seconds" not in self.beside:
            raise NotMeasured(f"{self.section}: {self.system}: empty batch")
        return self.seconds - float(self.beside["empty_seconds"])

    @property
    def place(self) -> tuple[str, str, str]:
        """What a figure is of, the same from run to run."""
        axes = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sorted(self.axes.items()))
        return self.section, self.system, axes


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run, and where it was made.

    Attributes:
        about: date, commit, minutes, machine, libraries.
        figures: in the order in which they were taken.
    """

    about: Mapping[str, Any]
    figures: tuple[Figure, ...]

    def one(self, section: str, system: str, **axes: Any) -> Figure:
        """Return the figure at this point; axes that are not named may be anything.

        Raises:
            NotMeasured: there is none.
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
        ValueError: the file is no run of this format.
    """
    plain = json.loads(path.read_text())
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ValueError(f"{path} is no run of format {FORMAT}: it is written by `make bench`")
    about = {name: value for name, value in plain.items() if name not in ("figures", "took")}
    return Run(about, tuple(map(_figure, plain["figures"])))


def _figure(plain: Mapping[str, Any]) -> Figure:
    axes, beside = dict(plain["axes"]), dict(plain.get("beside", {}))
    if _NOTE in axes:
        beside[_NOTE] = axes.pop(_NOTE)
    return Figure(
        section=plain["section"],
        system=plain["system"],
        rows=plain["rows"],
        seconds=plain["seconds"],
        fastest=plain["fastest"],
        axes=axes,
        beside=beside,
    )
