"""Seconds of a batch of merge_to, of upsert_to with PostgreSQL and of DeltaSink, and what a stream leaves in a table.

python -m benchmarks.lake [--rows 10000 10000000] [--changed 1000 100000 2000000] [--batches 60]
                        [--formats delta iceberg] [--conf key=value ...] [--out lake.json] [--page docs/lake-tables.md]

It runs in a process of its own, on the PySpark that both formats have jars for; Maven fetches them. Each figure is the median
of three batches, after eleven that warm up; from a million rows on, it is one batch, after those of smaller sizes. A table has
windows of an hour over 30 days; a batch changes all windows of the last days, and brings new keys where the table has fewer
windows. Two kinds of batches are left out, since others tell the same: those that would make a table more than 20 times as
large, and those of a million rows without the days. `--batches 1440` is a day of batches at one minute.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.lake.tables import with_tables
from benchmarks.lake.writers import DAYS, WRITERS, Writer, windows

TRIES = 3
WARM = 10
"""Batches that a writer writes before the first one that is measured: Spark's driver compiles its code for so long."""
MANY = 1_000_000
"""Rows of a batch that is measured once."""
MOST_GROWTH = 20
"""A batch is at most so many times as large as its table."""
EACH = 60
"""Batches between two lines of progress."""
FORMATS = "delta", "iceberg"
_INSIDE = "LAKE_TESTS"


def main() -> None:
    """Start the process that measures, or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 10_000_000])
    parser.add_argument("--changed", type=int, nargs="+", default=[1_000, 100_000, 2_000_000])
    parser.add_argument("--tries", type=int, default=TRIES, help="batches of which the median is taken")
    parser.add_argument(
        "--warm", type=int, default=WARM, help="batches of each writer before the first that is measured"
    )
    parser.add_argument("--writers", nargs="+", choices=WRITERS, default=[*WRITERS])
    parser.add_argument(
        "--batches", type=int, default=60, help="small batches, after which files and snapshots are counted"
    )
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS, help="of these tables")
    parser.add_argument("--conf", nargs="+", default=[], metavar="KEY=VALUE", help="settings of Spark")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path, help="a page that gets the tables, such as docs/lake-tables.md")
    arguments = parser.parse_args()
    if _INSIDE not in os.environ:
        from tests.lake.environment import environment

        sys.exit(subprocess.call([sys.executable, "-m", "benchmarks.lake", *sys.argv[1:]], env=environment()))
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder), arguments)
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    if arguments.page:
        arguments.page.write_text(with_tables(arguments.page.read_text("utf-8"), figures), "utf-8")


def measured(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    from tests.lake.conftest import session

    usual = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.driver.memory": "6g",
        "spark.driver.maxResultSize": "4g",
        **dict(setting.split("=", 1) for setting in arguments.conf),
    }
    spark = session(folder, **usual)
    spark.sql("CREATE NAMESPACE lake.db")
    batches = list[dict[str, Any]]()
    with ExitStack() as stack:
        writers = {name: stack.enter_context(WRITERS[name](spark, folder)) for name in arguments.writers}
        for rows in arguments.rows:
            for name, writer in writers.items():
                warm = arguments.warm if rows == arguments.rows[0] else 0
                asked = sizes(name, rows, arguments.changed)
                for found in seconds_of(writer, rows, asked, arguments.tries, warm):
                    batches.append({"writer": name, "rows": rows, **found})
                    print(json.dumps(batches[-1]), flush=True)
    left = list[dict[str, Any]]()
    for format_ in arguments.formats if arguments.batches else ():
        left.append({"format": format_, **what_is_left(spark, folder, format_, arguments.batches)})
        print(json.dumps(left[-1]), flush=True)
    spark.stop()
    return {"batches": batches, "left": left}


def sizes(name: str, rows: int, changed: list[int]) -> list[int]:
    """Rows of the batches that tell something of a writer and a table of this size."""
    return [
        size
        for size in changed
        if size <= MOST_GROWTH * rows and not (size >= MANY and name.endswith("without days"))
    ]


def seconds_of(
    writer: Writer, rows: int, changed: list[int], tries: int, warm: int
) -> Iterator[dict[str, float]]:
    """The seconds of a batch of each size on one table, after some batches that warm up."""
    write, number = writer.table(rows), 0
    for _ in range(warm):
        number += 1
        write(windows(writer.spark, min(changed), DAYS - 1, 1), number)
    for size in changed:
        days = min(DAYS, max(1, -(-size * DAYS // rows)))
        times = list[float]()
        for _ in range(1 if size >= MANY else tries + 1):
            number += 1
            start = time.perf_counter()
            write(windows(writer.spark, size, DAYS - days, days), number)
            times.append(time.perf_counter() - start)
        yield {"changed": size, "seconds": round(statistics.median(times[1:] or times), 2)}
    writer.drop()


def what_is_left(spark: Any, folder: Path, format_: str, batches: int) -> dict[str, Any]:
    """Files and commits after small batches, seconds of a merge at the beginning and at the end, and what maintenance does."""
    from operators.sinks import merge_to
    from tests.lake.conftest import place_of

    place = place_of(folder, format_, "small")
    merge = merge_to(place.name, keys=["user"], query="q")

    def timed(batch: int) -> float:
        start = time.perf_counter()
        merge(windows(spark, 500, batch * DAYS // batches, 1), batch)
        return time.perf_counter() - start

    times = list[float]()
    for batch in range(batches):
        times.append(timed(batch))
        if not (batch + 1) % EACH:
            print(
                f"{format_}: {batch + 1} batches, {statistics.median(times[-EACH:]):.2f} s each", flush=True
            )
    before, start = files(place.path), time.perf_counter()
    maintain(spark, place)
    took, maintained = time.perf_counter() - start, files(place.path)
    after = [timed(batches + number) for number in range(5)]
    return {
        "batches": batches,
        "files": before,
        "files after maintenance": maintained,
        "seconds of maintenance": round(took, 2),
        "first merges": round(statistics.median(times[1:6]), 2),
        "last merges": round(statistics.median(times[-5:]), 2),
        "merges after maintenance": round(statistics.median(after), 2),
    }


def maintain(spark: Any, place: Any) -> None:
    """Put small files together, and remove what only older versions have."""
    name = place.name.removeprefix("lake.")
    if place.format == "delta":
        spark.sql(f"OPTIMIZE {place.name}").collect()
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        spark.sql(f"VACUUM {place.name} RETAIN 0 HOURS").collect()
        return
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}')").collect()
    spark.sql(f"CALL lake.system.rewrite_manifests(table => '{name}')").collect()
    keep = "older_than => now(), retain_last => 1"
    spark.sql(f"CALL lake.system.expire_snapshots(table => '{name}', {keep})").collect()


def files(path: Path) -> dict[str, int]:
    """How many files of data and of metadata a table has on the disk."""
    found = [one for one in path.rglob("*") if one.is_file() and not one.name.startswith(".")]
    data = sum(one.suffix == ".parquet" and "_delta_log" not in one.parts for one in found)
    return {"data": data, "metadata": len(found) - data}


if __name__ == "__main__":
    main()
