"""How a figure is taken, and what is noted with it: all that the report and the comparison of runs know of a benchmark."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Measure:
    """Takes one figure: so many rows by one system, at one point of some axes. One for each test.

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
        """Run the job and note the median of its rounds; return what the last round returned.

        Args:
            job: what is clocked.
            section: the question that the figure helps to answer; figures of one section stand in one picture.
            system: who did it: a backend, a peer, a floor.
            rows: how many rows went in.
            rounds, warmup: how often it is run with and without the clock.
            axes: where the figure stands: records per window, keys, share of rows out of order, and so on.
        """
        result: Result = self.benchmark.pedantic(job, rounds=rounds, warmup_rounds=warmup)
        self._note(self.benchmark.stats.stats.data, section, system, rows, axes)
        return result

    def taken(self, seconds: Sequence[float], *, section: str, system: str, rows: int, **axes: Any) -> float:
        """Note what another clock took: a stream's own, or that of a peer's process; return the median in seconds.

        The job has to be run by `benchmark.pedantic` all the same, or pytest-benchmark says that it was never used.
        """
        return self._note(seconds, section, system, rows, axes)

    def beside(self, **results: float) -> None:
        """Note what else was found at this point: bytes written, seconds of an empty batch."""
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
    told = {**figure["axes"], **figure.get("beside", {})}
    where = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items())
    seconds = figure["seconds"]
    took = f"{seconds:.3f} s" if seconds >= 0.1 else f"{1_000 * seconds:.2f} ms"
    place = " | ".join(filter(None, [figure["section"], figure["system"], where]))
    return f"{place}: {took}, {figure['rows'] / seconds:,.0f} rows/s"
