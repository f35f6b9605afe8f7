"""Writes the archives of stored queries: `python -m tests.compatibility.make_checkpoints OUT`."""

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from state_backends import write_savepoint
from tests.compatibility.archives import pack
from tests.compatibility.runs import (
    BACKENDS,
    LOCAL,
    LOOKED_AT,
    QUERIES,
    Rows,
    panes,
    run,
    run_locally,
    session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_query(spark: "SparkSession", query: str, backend: str, out: Path) -> None:
    """Store a query of Spark, stopped after the first batches: checkpoint, rows so far, and the numbers of its panes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = run(spark, query, folder, backend, goes_on=False)
        _write(folder / "rows.json", rows)
        if query in LOOKED_AT:
            _write(folder / "panes.json", panes(spark, query, folder))
        for number, part in enumerate(QUERIES[query] if query == "windows" else ()):
            write_savepoint(folder / "checkpoint", folder / "savepoints" / part, operator=number)
        pack(folder, out / f"{backend}-{query}.tar.gz")


def make_directories(backend: str, out: Path) -> None:
    """Store a directory and a savepoint of the local runner for each operator."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows: Rows = {
            part: run_locally(
                part, folder / part, backend, goes_on=False, savepoint=folder / "savepoints" / part
            )
            for part in LOCAL
        }
        _write(folder / "rows.json", rows)
        pack(folder, out / f"{backend}-directories.tar.gz")


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=0, sort_keys=True))


def main() -> None:
    """Store the queries that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the archives")
    parser.add_argument("--only", nargs="+", help="archives, such as rocksdb-windows; by default all")
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        spark = session(Path(name))
        for backend in BACKENDS:
            if _is_wanted(options.only, backend, "directories"):
                make_directories(backend, out)
            for query in QUERIES:
                if _is_wanted(options.only, backend, query):
                    make_query(spark, query, backend, out)
        spark.stop()


def _is_wanted(only: list[str] | None, backend: str, query: str) -> bool:
    return only is None or f"{backend}-{query}" in only


if __name__ == "__main__":
    main()
