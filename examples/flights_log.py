"""What each micro-batch reported, kept beside the checkpoint: a run that goes on knows all counts."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

_TIMES = ("first", "last", "closed_to")


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch.

    Attributes:
        number: Spark's number of it.
        backend: the state backend that it ran on.
        first, last: its first and last departure; None for a batch without rows, which only moves time on.
        flights: rows read.
        bad: rows without a usable event time; dropped.
        late: rows whose every window was closed already; dropped.
        windows: result rows.
        closed_to: windows that end before this are closed; None while there is no such time.
        seconds: how long it took.
    """

    number: int
    backend: str
    first: datetime | None
    last: datetime | None
    flights: int
    bad: int
    late: int
    windows: int
    closed_to: datetime | None
    seconds: float

    @classmethod
    def from_progress(cls, progress: Any, backend: str) -> "Batch":
        """Return what the progress of a query says of a batch."""
        came, went = (progress["observedMetrics"][name]["counts"] for name in ("windows_in", "windows_out"))
        times = {
            name: datetime.fromisoformat(text.rstrip("Z")) for name, text in progress["eventTime"].items()
        }
        closed_to = times.get("watermark")
        return cls(
            number=progress["batchId"],
            backend=backend,
            first=times.get("min"),
            last=times.get("max"),
            flights=came["rows"],
            bad=came["bad"],
            late=went["late"],
            windows=went["windows"],
            closed_to=None if closed_to is None or closed_to.year == 1970 else closed_to,
            seconds=progress["durationMs"]["triggerExecution"] / 1_000,
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Batch":
        """Return the batch that `RunLog` wrote."""
        times = {name: values[name] and datetime.fromisoformat(values[name]) for name in _TIMES}
        return cls(**{**values, **times})


@dataclass(slots=True)
class RunLog:
    """All batches of a run so far, in a JSON file.

    Attributes:
        path: of the file.
        grace: of the run's windows; it cannot change under way.
        finished: whether the stream was read to its end.
        batches: by number.
    """

    path: Path
    grace: str
    finished: bool = False
    batches: dict[int, Batch] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, grace: str) -> "RunLog":
        """Return the log in this file, or a new one with this grace if there is no such file."""
        if not path.exists():
            return cls(path, grace)
        stored = json.loads(path.read_text("utf-8"))
        batches = {batch.number: batch for batch in map(Batch.from_json, stored["batches"])}
        return cls(path, stored["grace"], stored["finished"], batches)

    def add(self, batch: Batch) -> None:
        """Write down a batch."""
        self.batches[batch.number] = batch
        self._save()

    def finish(self) -> None:
        """Write down that the stream was read to its end."""
        self.finished = True
        self._save()

    def _save(self) -> None:
        """Write the file anew; a reader sees the old content or the new, whole."""
        content = {
            "grace": self.grace,
            "finished": self.finished,
            "batches": [asdict(batch) for _, batch in sorted(self.batches.items())],
        }
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(json.dumps(content, default=datetime.isoformat, indent=1), "utf-8")
        unfinished.replace(self.path)

    def total(self, count: str) -> int:
        """Return the sum of a count over all batches."""
        return sum(getattr(batch, count) for batch in self.batches.values())

    @property
    def missing(self) -> list[int]:
        """Numbers of batches that nothing is known of: the process was killed before it wrote them down."""
        return sorted(set(range(max(self.batches, default=-1) + 1)) - set(self.batches))

    @property
    def closed_to(self) -> datetime | None:
        """Windows that end at this time or later are open still."""
        return self.batches[max(self.batches)].closed_to if self.batches else None
