"""What a disturbed query is: its folder, its backend, what goes wrong in it, and how its input grows."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.operators.spark.frames import KINDS, write_source

BACKENDS = ["memory", "rocksdb", "spark"]
CHAIN_AND_KINDS = ("chain", *KINDS)
ALL_KINDS = ("custom", "cogroup", "table", *CHAIN_AND_KINDS)
"""What `soak` runs: of these as many side by side as there are backends, which ones depends on its seed."""
CONF = {
    "spark.windows.state.snapshots.folder": "{folder}/snapshots",
    "spark.windows.state.snapshots.bytes": "16k",
}
"""More conf of every query here; {folder} stands for the query's own folder."""

_AHEAD = 2
"""Files that are given beyond those that a query has taken: some of its batches have no input."""


@dataclass(frozen=True)
class Plan:
    """One query from a folder of input to folder/out.

    Attributes:
        folder: where all that it writes lies.
        source: the folder of its input.
        backend: its state backend.
        kind: of its windows, one of `ALL_KINDS`.
        trouble: name of a step of `tests.faults.troubles` behind the operator, or none.
        checkpoint: its checkpoint's name in the folder.
        state: its local state's name in the folder.
        until: goes on until there is this file, not only until its input is used up.
        files: files of a batch, each read by a task of its own where there are cores for them.
        conf: more conf; {folder} stands for the folder.
    """

    folder: str
    source: str
    backend: str
    kind: str = "sliding"
    trouble: str = ""
    checkpoint: str = "checkpoint"
    state: str = "state"
    until: str = ""
    files: int = 1
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def checkpoint_path(self) -> Path:
        """Where its checkpoint is."""
        return Path(self.folder, self.checkpoint)

    @property
    def metrics(self) -> Path:
        """Where the metrics of its runs are, a file for each."""
        return Path(self.folder, "metrics")

    def all_conf(self) -> dict[str, str]:
        """Return the conf that the query runs with."""
        conf = {"spark.windows.state.directory": f"{{folder}}/{self.state}", **CONF, **self.conf}
        return {key: value.replace("{folder}", self.folder) for key, value in conf.items()}


def plans_for(
    folder: Path,
    backends: Sequence[str],
    trouble: str = "",
    until: str = "",
    kinds: Sequence[str] = tuple(KINDS),
) -> list[Plan]:
    """Return a query per backend, each in a folder of its own, all with the input folder/in."""
    return [
        Plan(
            str(folder / backend),
            str(folder / "in"),
            backend,
            kinds[number % len(kinds)],  # All kinds have their turn.
            trouble=trouble,
            until=until,
        )
        for number, backend in enumerate(backends)
    ]


class Feed:
    """Files of records that go into folder/in, the source of queries, one by one."""

    def __init__(self, folder: Path, files: int, rows: int, seed: int) -> None:
        self._source = folder / "in"
        self._source.mkdir(parents=True)
        self.given = 0
        write_source(folder / "later", files, rows, seed)
        self._later = sorted((folder / "later").glob("*.parquet"))

    def give(self, files: int = 1) -> None:
        """Hand over so many files; each appears at once and whole."""
        assert len(self._later) >= files, "the feed is used up"
        for _ in range(files):
            path = self._later.pop(0)
            path.rename(self._source / path.name)
        self.given += files

    def give_if_idle(self, plans: Sequence[Plan]) -> None:
        """Hand over a file if one of the queries has nothing to do."""
        if any(not in_flight(plan) and self.given < committed(plan) + _AHEAD for plan in plans):
            self.give()


def more_batches(plans: Sequence[Plan], feed: Feed, count: int) -> Callable[[], bool]:
    """Return a function that says whether each query has had so many batches more; it gives idle ones their input."""
    done = [committed(plan) for plan in plans]

    def there() -> bool:
        feed.give_if_idle(plans)
        return all(committed(plan) >= then + count for plan, then in zip(plans, done, strict=True))

    return there


def committed(plan: Plan) -> int:
    """Return how many batches the query's checkpoint says are done."""
    return _newest(plan.checkpoint_path / "commits")


def notes_of(plan: Plan, what: str) -> dict[str, float]:
    """Return what the query's trouble did, and how many seconds later its batch was committed."""
    commits = plan.checkpoint_path / "commits"
    notes = sorted(Path(plan.folder, "troubles").glob(f"{what}-*"))
    return {
        note.name: round((commits / note.name.split("-")[1]).stat().st_mtime - note.stat().st_mtime, 1)
        for note in notes
    }


def counted(plan: Plan, name: str, metric: str) -> int:
    """Return the sum of a metric over the batches of all runs of a query.

    Args:
        name: of the row of metrics, such as "windows_in".
    """
    batches = [batch for path in plan.metrics.iterdir() for batch in json.loads(path.read_text())]
    return sum((batch.get(name) or {}).get(metric, 0) for batch in batches)


def in_flight(plan: Plan) -> bool:
    """Whether a batch of the query has begun that is not done."""
    return _newest(plan.checkpoint_path / "offsets") > committed(plan)


def _newest(log: Path) -> int:
    """How many batches there are in a log of Spark's, which removes the oldest ones; asked for a hundred times a second."""
    names = [path.name for path in log.iterdir()] if log.exists() else []
    return max((int(name) + 1 for name in names if name.isdigit()), default=0)
