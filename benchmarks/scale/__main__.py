"""Prints what a job costs on a cluster under several options, and draws a picture.

    python -m benchmarks.scale [--row-us 57] [--NAME VALUE ...] [--picture docs/images/scale.svg]

Each number of the job, of the cluster and of what was measured is an option: `--buckets 4000`, `--interval 60`.
"""

import argparse
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report.charts import Lines
from benchmarks.report.picture import write_panels
from benchmarks.scale.model import Cluster, Job, Measured, batch
from benchmarks.scale.simulation import Simulation

BATCHES = 300
INTERVALS = 2.0, 5.0, 10.0, 30.0, 60.0, 120.0
_OFTEN = {"snapshot_bytes": 16 * 2**20, "rewritten": 3.1}
"""Frequent snapshots: files that RocksDB writes anew are sent each time."""
OPTIONS: dict[str, dict[str, Any]] = {
    "as given": {},
    "interval of 60 s": {"interval": 60.0},
    "4,000 buckets": {"buckets": 4_000},
    "snapshots.bytes of 16m": _OFTEN,
    "RocksDB's files in zstd": {"rewritten": 1.6},
    "50 million busy keys": {
        "keys": 5e7,
        "state_bytes": 6e11,
        "row_seconds": 30e-6,
        "logged_bytes": 75.0,
        "rewritten": 0.43,
    },
    "a row at 60 µs": {"row_seconds": 60e-6},
    "unequal buckets (skew 0.5)": {"skew": 0.5},
    "unequal, 4,000 buckets": {"skew": 0.5, "buckets": 4_000},
    "files renamed into place": {"file_requests": 4.0},
}
HEAD = (
    "batch s",
    "worst s",
    "in time",
    "files",
    "requests/s",
    "upload MB/s",
    "waiting GB",
    "driver MB",
    "restore s",
)
Setting = tuple[Job, Cluster, Measured]


def changed(setting: Setting, **options: Any) -> Setting:
    """Return the setting with other numbers, whichever of the three they are of."""
    job, cluster, measured = (
        replace(one, **{field.name: options[field.name] for field in fields(one) if field.name in options})
        for one in setting
    )
    return job, cluster, measured


def row(setting: Setting) -> list[str]:
    """Return the numbers of a line of the table: by simulation, and those that need none by formula."""
    job = setting[0]
    found, formula = Simulation(*setting).run(BATCHES), batch(*setting)
    return [
        f"{np.median(found.seconds):.1f}",
        f"{found.seconds.max():.0f}",
        f"{100 * found.share_in_time(job.interval):.0f} %",
        f"{formula.files:,.0f}",
        f"{found.requests.mean() / job.interval:,.0f}",
        f"{found.uploaded_bytes.mean() / job.interval / 1e6:,.0f}",
        f"{found.waiting_bytes[-1] / 1e9:,.1f}",
        f"{formula.driver_bytes / 1e6:,.0f}",
        f"{formula.restore_seconds:.0f}",
    ]


def table(setting: Setting) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield " | ".join(["| ", *HEAD]) + " |"
    yield "|---" * (len(HEAD) + 1) + "|"
    for name, options in OPTIONS.items():
        yield " | ".join([f"| {name}", *row(changed(setting, **options))]) + " |"


def others(setting: Setting) -> Iterator[str]:
    """Yield numbers that none of the options changes, by formula."""
    (job, cluster, measured), one = setting, batch(*setting)
    yield f"rows of a batch: {job.rows / 1e6:,.0f} M, {one.shuffle_bytes / 1e9:,.1f} GB through the shuffle"
    yield f"processor: {job.rows_a_second * measured.row_seconds:,.0f} of {cluster.executors * cluster.cores:,} cores"
    yield f"memory of keys: {one.memory_bytes / 1e9:,.1f} GB an executor"
    bucket, executor = job.state_bytes / job.buckets / 1e9, job.state_bytes / cluster.executors / 1e9
    yield f"state: {bucket:,.1f} GB a bucket, {executor:,.0f} GB an executor"


def panels(setting: Setting) -> list[Lines]:
    """Return lines over the interval: the share of it that a batch takes, and requests."""
    share: dict[str, list[tuple[float, float]]] = {}
    requests: dict[str, list[tuple[float, float]]] = {}
    for buckets in (500, 1_000, 2_000, 4_000):
        for interval in INTERVALS:
            given = changed(setting, buckets=buckets, interval=interval)
            found = Simulation(*given).run(BATCHES // 3)
            name = f"{buckets:,} buckets"
            share.setdefault(name, []).append((interval, float(np.median(found.seconds)) / interval))
            requests.setdefault(name, []).append((interval, float(found.requests.mean()) / interval))
    return [
        Lines("time of a batch, of its interval", "interval in seconds", share),
        Lines("requests/s to the object store", "interval in seconds", requests),
    ]


def main() -> None:
    """Print the table and draw the picture."""
    given = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    numbers = [field for kind in (Job, Cluster, Measured) for field in fields(kind)]
    for field in numbers:
        kind = int if isinstance(field.default, int) else float
        given.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    given.add_argument("--row-us", type=float, help="as --row-seconds, in microseconds")
    given.add_argument("--picture", type=Path, help="the picture to draw")
    options = vars(given.parse_args())
    if options["row_us"]:
        options["row_seconds"] = options["row_us"] / 1e6
    setting = changed((Job(), Cluster(), Measured()), **options)
    print("\n".join([*table(setting), "", *others(setting)]))
    if options["picture"]:
        write_panels(panels(setting), options["picture"], width=9.2)


if __name__ == "__main__":
    main()
