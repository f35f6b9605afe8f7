"""Seconds of merge_to and DeltaSink for each batch, with and without bounds on days, and what a stream leaves in a table.

python -m benchmarks.lake [--rows 10000 10000000] [--changed 1000 100000 2000000] [--batches 60] [--out lake.json]

It runs in a process of its own, on the PySpark that both formats have jars for; Maven fetches them. Each figure is the median
of three batches, after one that warms up. Tables have windows of an hour over 30 days; batches change windows of the last day.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DAYS, TRIES = 30, 3
_INSIDE = "LAKE_TESTS"


def main() -> None:
    """Start the process that measures, or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 10_000_000])
    parser.add_argument("--changed", type=int, nargs="+", default=[1_000, 100_000, 2_000_000])
    parser.add_argument(
        "--batches", type=int, default=60, help="small batches, after which files and snapshots are counted"
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if _INSIDE not in os.environ:
        from tests.lake.environment import environment

        sys.exit(subprocess.call([sys.executable, "-m", "benchmarks.lake", *sys.argv[1:]], env=environment()))
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder), arguments)
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


def measured(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    from tests.lake.conftest import FORMATS, session

    usual = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.driver.memory": "6g",
    }
    spark = session(folder, **usual)
    spark.sql("CREATE NAMESPACE lake.db")
    merges = [
        {
            "format": format_,
            "rows": rows,
            "changed": changed,
            **merge_seconds(spark, folder, format_, rows, changed),
        }
        for rows in arguments.rows
        for format_ in FORMATS
        for changed in arguments.changed
        if changed <= max(rows, 1_000)
    ]
    left = [
        {"format": format_, **what_is_left(spark, folder, format_, arguments.batches)} for format_ in FORMATS
    ]
    spark.stop()
    return {"merges": merges, "left": left}


def windows(spark: Any, rows: int, first_day: int, days: int) -> Any:
    """Rows with a window each: as many keys as are needed, an hour's windows over some days from the first of 2026."""
    hours = days * 24
    return (
        spark.range(rows)
        .selectExpr(
            f"cast(id div {hours} as string) AS user",
            f"timestamp_seconds(1767225600 + {first_day} * 86400 + (id % {hours}) * 3600) AS start",
            "id AS n",
            "cast(id as double) / 8 AS total",
        )
        .selectExpr(
            "user", "named_struct('start', start, 'end', start + INTERVAL 1 HOUR) AS window", "n", "total"
        )
    )


def seconds(act: Callable[[int], None]) -> float:
    """The median of some calls, after one that warms up."""
    times = []
    for number in range(TRIES + 1):
        start = time.perf_counter()
        act(number)
        times.append(time.perf_counter() - start)
    return round(statistics.median(times[1:]), 2)


def merge_seconds(spark: Any, folder: Path, format_: str, rows: int, changed: int) -> dict[str, float]:
    """Of merge_to with and without the days in its condition, and of DeltaSink."""
    from operators.sinks import DeltaSink, lake, merge_to, upsert_to
    from tests.lake.conftest import place_of

    found = {}
    for name in ("merge_to", "without days", *(["DeltaSink"] if format_ == "delta" else [])):
        place = place_of(folder, format_, f"t{rows}_{changed}_{name.replace(' ', '')}")
        write = merge_to(place.name, keys=["user"], query="q")
        write(windows(spark, rows, 0, DAYS), 0)
        if name == "DeltaSink":
            write = upsert_to(DeltaSink(str(place.path)), keys=["user"], query="q2")
        bounds = lake._bounds  # noqa: SLF001 - what it adds is measured
        try:
            if name == "without days":
                lake._bounds = lambda *_, **__: []  # noqa: SLF001
            found[name] = seconds(
                lambda batch, write=write: write(windows(spark, changed, DAYS - 1, 1), batch + 1)
            )
        finally:
            lake._bounds = bounds  # noqa: SLF001
    return found


def what_is_left(spark: Any, folder: Path, format_: str, batches: int) -> dict[str, Any]:
    """Files and commits after small batches, seconds of a merge at the beginning and at the end, and what maintenance does."""
    from operators.sinks import merge_to
    from tests.lake.conftest import place_of

    place = place_of(folder, format_, "small")
    merge = merge_to(place.name, keys=["user"], query="q")
    times = []
    for batch in range(batches):
        start = time.perf_counter()
        merge(windows(spark, 500, batch % DAYS, 1), batch)
        times.append(time.perf_counter() - start)
    before = files(place.path)
    start = time.perf_counter()
    name = place.name.removeprefix("lake.")
    if format_ == "delta":
        spark.sql(f"OPTIMIZE {place.name}").collect()
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        spark.sql(f"VACUUM {place.name} RETAIN 0 HOURS").collect()
    else:
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}')").collect()
        spark.sql(
            f"CALL lake.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)"
        ).collect()
    return {
        "batches": batches,
        "files": before,
        "files after maintenance": files(place.path),
        "seconds of maintenance": round(time.perf_counter() - start, 2),
        "last merges to first": round(statistics.median(times[-5:]) / statistics.median(times[1:6]), 2),
    }


def files(path: Path) -> dict[str, int]:
    """How many files of data and of metadata a table has on the disk."""
    found = [one for one in path.rglob("*") if one.is_file() and not one.name.startswith(".")]
    data = sum(one.suffix == ".parquet" and "_delta_log" not in one.parts for one in found)
    return {"data": data, "metadata": len(found) - data}


if __name__ == "__main__":
    main()
