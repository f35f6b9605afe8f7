"""How the stored queries run: on Spark over files, and without it on a directory. Rows are texts, to be compared as such."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import session_conf, spark_session
from state_backends import read_state
from tests.compatibility.parts import PARTS, Chain
from tests.compatibility.records import SPARK_SCHEMA, STORED_BATCHES, batches

BACKENDS = ("memory", "rocksdb", "spark")
BUCKETS = {"windows": 2}
"""Of a query; of all others one."""
QUERIES: Mapping[str, Sequence[str]] = {
    "windows": ("tumbling", "hopping", "sliding", "session"),
    "folds": ("sliding_fold", "hopping_fold", "session_fold", "session_longest", "session_own_gap"),
    "updates": ("tumbling_update", "hopping_update", "sliding_update", "session_update"),
    "custom": ("cogroup", "reminders", "silence"),
    "chain": ("chain",),
    "rolling": ("rolling",),
}
"""The operators of each query, which emits the rows of all of them. Their order is that of their state: it must not change."""
LOOKED_AT = ("windows", "custom")
"""The queries whose panes are counted."""
LOCAL = [name for name, part in PARTS.items() if not isinstance(part, Chain)]
"""The operators that run without Spark."""
_SNAPSHOTS = {"state.snapshots.batches": 2, "state.snapshots.background": False}
_EPOCH = 1_700_000_000
Rows = dict[str, list[str]]
"""Rows of operators by name."""


def session(folder: Path) -> SparkSession:
    """Return a session for the stored queries, which keeps what it writes in a folder, or one beside the session that runs."""
    conf = {**session_conf(1), "spark.sql.session.timeZone": "UTC"}
    running = SparkSession.getActiveSession()
    if running is not None:
        own = running.newSession()
        for key, value in conf.items():
            own.conf.set(key, value)
        return own
    conf |= {
        # Compiling takes longer than these queries.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    own = spark_session("compatibility", master="local[2]", conf=conf)
    own.sparkContext.setLogLevel("ERROR")
    return own


def options(query: str, folder: Path) -> dict[str, object]:
    """Return the options of a query whose files lie in a folder: with snapshots there, in the changelog, or none yet."""
    local: dict[str, object] = {"state.directory": folder / "local", "state.buckets": BUCKETS.get(query, 1)}
    if query == "windows":
        return local | _SNAPSHOTS | {"state.snapshots.folder": folder / "snapshots"}
    return local | (_SNAPSHOTS if query in ("folds", "chain") else {})


def expected(names: Sequence[str]) -> Rows:
    """Return all rows that operators have to emit, from the first batch to the last."""
    return {name: sorted(map(as_text, PARTS[name].expected(PARTS[name].batches()))) for name in names}


def added(before: Rows, after: Rows) -> Rows:
    """Return the rows that an earlier version emitted, those that exist now, and the rows after them as one."""
    return {
        name: sorted([*_existing(name, before.get(name, [])), *after.get(name, [])])
        for name in {*before, *after}
    }


def _existing(name: str, rows: Sequence[str]) -> Sequence[str]:
    """The rows without windows that were closed when the record at their end arrived: once, they came without it."""
    if name not in ("sliding", "sliding_fold", "sliding_many"):
        return rows

    def window(row: str) -> tuple[str, int]:
        values = json.loads(row)
        return values["k"], values["window"]["end"]

    exist = {window(row) for row in expected([name])[name]}
    return [row for row in rows if window(row) in exist]


def run(
    spark: SparkSession,
    query: str,
    folder: Path,
    backend: str,
    *,
    goes_on: bool,
    savepoints: Mapping[str, Path] | None = None,
) -> Rows:
    """Run a query over its stored batches or those after them, and return the rows that it emits.

    Args:
        spark: the session.
        query: one of `QUERIES`.
        folder: holds its checkpoint and its snapshots.
        backend: name of its backend.
        goes_on: whether it reads the later batches.
        savepoints: what it starts from, by operator, in place of a checkpoint; it then has these operators only.
    """
    spark.conf.set("spark.sql.shuffle.partitions", BUCKETS.get(query, 1))
    source = folder / ("later" if goes_on else "stored")
    _write(source, goes_on=goes_on)
    reader = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1)
    df, found = reader.parquet(str(source)), Rows()
    settings = options(query, folder)
    if savepoints:
        frames = [_texts(df, n, backend, settings | {"state.savepoint": savepoints[n]}) for n in savepoints]
    else:
        frames = [_texts(df, name, backend, settings) for name in QUERIES[query]]

    def keep(batch: DataFrame, _: int) -> None:
        for part, row in batch.collect():
            found.setdefault(part, []).append(as_text(json.loads(row)))

    writer = (
        reduce(DataFrame.union, frames)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    started = writer.start()
    try:
        started.processAllAvailable()
    finally:
        started.stop()
    return found


def _texts(df: DataFrame, name: str, backend: str, settings: Mapping[str, object]) -> DataFrame:
    """The rows of an operator as its name and JSON."""
    rows = PARTS[name].apply(df, name=name, backend=backend, options=settings)
    return rows.select(F.lit(name), F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))


def _write(folder: Path, *, goes_on: bool) -> None:
    """Write a file for each batch. Spark reads files in order of their age."""
    folder.mkdir(parents=True)
    for number, table in enumerate(batches()):
        if goes_on == (number >= STORED_BATCHES):
            path = folder / f"{number}.parquet"
            pq.write_table(table, path)
            os.utime(path, (_EPOCH + number,) * 2)


def run_locally(
    name: str, folder: Path, backend: str, *, goes_on: bool, savepoint: Path | None = None
) -> list[str]:
    """Run an operator on a directory without Spark, and return the rows that it emits.

    Args:
        name: of the operator.
        folder: the directory.
        backend: name of its backend.
        goes_on: whether it gets the later batches.
        savepoint: where a savepoint goes, or what a runner that goes on starts from.
    """
    part, found = PARTS[name], []
    begins = {"state.savepoint": savepoint} if goes_on and savepoint else {}
    runner = part.operator.local_runner("at", backend, folder, _SNAPSHOTS | begins)
    with runner:
        for table in part.batches()[STORED_BATCHES:] if goes_on else part.batches()[:STORED_BATCHES]:
            found += map(as_text, part.process(runner, table).to_pylist())
        if savepoint and not goes_on:
            getattr(runner, "runner", runner).savepoint(savepoint)
    return found


def panes(spark: SparkSession, query: str, folder: Path) -> dict[str, dict[str, int]]:
    """Return how many panes, windows or entries of each key a stopped query holds, by operator."""
    snapshots = str(folder / "snapshots") if query == "windows" else None
    counted: dict[str, dict[str, int]] = {name: {} for name in QUERIES[query]}
    frames = []
    for number, name in enumerate(QUERIES[query]):
        state = read_state(folder / "checkpoint", operator=number, snapshots=snapshots, spark=spark)
        frames.append(state.selectExpr(f"'{name}' name", "k"))
    for name, key, count in reduce(DataFrame.union, frames).groupBy("name", "k").count().collect():
        counted[name][str(key)] = count
    return counted


def as_text(row: Mapping[str, Any]) -> str:
    """Return a row as text, the same for the same values wherever they come from.

    Rows that the stored queries have emitted have no `sequence`: it came later, and begins with 0 on old state.
    """
    values = {name: _plain(name, value) for name, value in row.items() if name != "sequence"}
    return json.dumps(values, sort_keys=True, default=str)


def _plain(name: str, value: Any) -> Any:
    """A value as JSON has it: milliseconds for times, floats for decimals, and of these what no order of additions changes."""
    if name == "window":
        return {bound: _plain("at", time) for bound, time in value.items()}
    if name == "at" and isinstance(value, str):
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000)
    return float(f"{value:.12g}") if isinstance(value, float | Decimal) else value
