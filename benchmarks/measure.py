"""Measuring figures: the time and the position that the report and the comparison of runs read."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Measure:
    """Measures the figure of a test: the time that one system takes for a number of rows, at one point of the axes.

    Attributes:
        benchmark: pytest-benchmark's fixture.
    """

    benchmark: Any

    def __call__(
        self,
        job: Callable[[], Result],
        *,
        section: str,
        system: str,
        rows: int,
        rounds: int = 3,
        warmup: int = 1,
        **axes: Any,
    ) -> Result:
        """Run the job and record the median of its rounds; return the result of the last round.

        Args:
            job: the function to measure.
            section: the question that the figure helps to answer; figures of one section are in one chart.
            system: a backend, another system, or a lower bound.
            rows: number of input rows.
            rounds, warmup: number of measured rounds, and of rounds before them.
            axes: position of the figure: records per window, keys, share of rows out of order, and so on.
        """
        result: Result = self.benchmark.pedantic(job, rounds=rounds, warmup_rounds=warmup)
        self._note(self.benchmark.stats.stats.data, section, system, rows, axes)
        return result

    def processor(
        self,
        job: Callable[[], Result],
        *,
        section: str,
        system: str,
        rows: int,
        rounds: int = 3,
        warmup: int = 1,
        **axes: Any,
    ) -> Result:
        """Do the same by processor time of this process, all threads together: work beside it on the machine adds little."""
        taken: list[float] = []

        def clocked() -> Result:
            begin = time.process_time()
            result = job()
            taken.append(time.process_time() - begin)
            return result

        result: Result = self.benchmark.pedantic(clocked, rounds=rounds, warmup_rounds=warmup)
        self._note(taken[warmup:], section, system, rows, axes)
        return result

    def taken(self, seconds: Sequence[float], *, section: str, system: str, rows: int, **axes: Any) -> float:
        """Record times of another clock, such as that of a stream or of another process; return the median in seconds.

        The job must still run in `benchmark.pedantic`, or pytest-benchmark warns that its fixture was not used.
        """
        return self._note(seconds, section, system, rows, axes)

    def note(self, **results: float) -> None:
        """Record other measurements at this point, such as bytes written, or seconds of an empty batch."""
        self.benchmark.extra_info["beside"] = results

    def _note(
        self, seconds: Sequence[float], section: str, system: str, rows: int, axes: dict[str, Any]
    ) -> float:
        median = statistics.median(seconds)
        self.benchmark.group = section
        self.benchmark.extra_info |= {
            "section": section,
            "system": system,
            "rows": rows,
            "seconds": median,
            "fastest": min(seconds),
            "axes": axes,
        }
        return median


def described(figure: Mapping[str, Any]) -> str:
    """Return a figure as one line."""
    shown = {**figure["axes"], **figure.get("beside", {})}
    where = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
    seconds = figure["seconds"]
    took = f"{seconds:.3f} s" if seconds >= 0.1 else f"{1_000 * seconds:.2f} ms"
    place = " | ".join(filter(None, [figure["section"], figure["system"], where]))
    return f"{place}: {took}, {figure['rows'] / seconds:,.0f} rows/s"
