"""A job of Flink's SQL: how all of ours are set up, and what Flink says of one while it runs. It needs nothing of this library.

State is in RocksDB, with 1 GB of managed memory and a checkpoint every five seconds, and operators pass objects on without
copying them.
"""

import json
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

PORT = 18_081
CONF = {
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.interval": "5 s",
    "execution.runtime-mode": "STREAMING",
    "metrics.fetcher.update-interval": "200",
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "rest.bind-port": str(PORT),
    "rest.port": str(PORT),
    "state.backend.type": "rocksdb",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.managed.size": "1gb",
}


def environment(checkpoints: Path) -> TableEnvironment:
    """Return an environment whose jobs write checkpoints into a folder."""
    conf = Configuration()
    for key, value in {**CONF, "execution.checkpointing.dir": f"file://{checkpoints}"}.items():
        conf.set_string(key, value)
    return TableEnvironment.create(EnvironmentSettings.new_instance().with_configuration(conf).build())


def ask(path: str) -> Any:
    """Return what Flink answers, or None once the job has ended."""
    try:
        with urllib.request.urlopen(f"http://localhost:{PORT}/jobs/{path}", timeout=30) as answer:
            return json.load(answer)
    except (urllib.error.URLError, ConnectionError):
        return None


def count_made(job: str) -> int | None:
    """Return how many records the source has made, or None once the job has ended.

    This is the source operator's own counter. What its task sends on is another number: a local aggregation makes it less, and
    watermarks count as records, too.
    """
    found = ask(job)
    if found is None:
        return None
    vertex = next(one["id"] for one in found["vertices"] if "ource" in one["name"])
    path = f"{job}/vertices/{vertex}/subtasks/metrics"
    names = [one["id"] for one in ask(path) or ()]
    own = sorted(name for name in names if name.startswith("Source") and name.endswith("numRecordsOut"))
    if not own:
        return 0
    values = ask(f"{path}?get={urllib.request.quote(own[0])}&agg=sum")
    return None if values is None else int(values[0]["sum"]) if values else 0


def state_bytes(job: str) -> int:
    """Return the bytes of the state in the newest checkpoint; 0 if there is none."""
    found = ask(f"{job}/checkpoints")
    newest = found and found["latest"]["completed"]
    return int(newest["state_size"]) if newest else 0


def moment(looks: list[tuple[float, int, int]], number: int) -> tuple[float, float]:
    """Return when a number of records was reached, and the bytes then, between two looks in proportion.

    Raises:
        ValueError: no look has seen so many.
    """
    for (begin, before, had), (end, after, has) in pairwise(looks):
        if after >= number:
            share = (number - before) / max(after - before, 1)
            return begin + (end - begin) * share, had + (has - had) * share
    raise ValueError(f"only {looks[-1][1]} of {number} records were seen")
