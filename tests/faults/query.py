"""How a plan's query runs on Spark, and whether its rows are those of an undisturbed one."""

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from operators import SessionSetupError, check_executors, what_failed
from operators.spark.base.types import arrow_schema
from tests.faults import troubles
from tests.faults.kinds import applied, source, undisturbed, writer, written
from tests.faults.plans import Plan
from tests.faults.processes import verdict_of
from tests.patience import TOO_BUSY, TRIES

TOLD = "what_failed: "
"""Stands in an error that ended a query before what the library says of it."""
_SHOWN = 5


def run(spark: SparkSession, plans: Sequence[Plan], tries: int = TRIES) -> list[str | None]:
    """Run queries side by side to their ends, and return of each the text of the error that ended it, or None.

    If the machine was too busy for one of them, and nothing else went wrong, they are started again.
    """
    errors = _run(spark, plans)
    found = [error for error in errors if error is not None]
    busy = bool(found) and all(TOO_BUSY in error for error in found)
    return run(spark, plans, tries - 1) if busy and tries > 1 else errors


def _run(spark: SparkSession, plans: Sequence[Plan]) -> list[str | None]:
    starter = os.getppid()
    ends = [Path(plan.until) for plan in plans if plan.until]
    started = [start(spark, plan) for plan in plans]
    queries = [query for query in started if not isinstance(query, str)]
    try:
        while not all(end.exists() for end in ends) and os.getppid() == starter:
            if len(queries) < len(started) or not all(query.isActive for query in queries):
                # The others are not waited for: as long as input comes, they do not use it up.
                return [query if isinstance(query, str) else _error(query) for query in started]
            time.sleep(0.05)  # Waiting for one of them would raise what may end it meanwhile.
        return [query if isinstance(query, str) else _end(query) for query in started]
    finally:
        for query in queries:
            query.stop()
        for plan, query in zip(plans, started, strict=True):
            if not isinstance(query, str):
                _keep_metrics(plan, query)


def _keep_metrics(plan: Plan, query: Any) -> None:
    """Write down what each of the last hundred batches of a run counted."""
    told = [
        {name: row.asDict().get("counts") for name, row in progress.observedMetrics.items()}
        for progress in query.recentProgress
    ]
    path = plan.metrics / f"{query.runId}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told))


def start(spark: SparkSession, plan: Plan) -> Any:
    """Start the query with its own conf, and return it, or the text of the error that kept it from starting."""
    conf = plan.all_conf()
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        frame = applied(source(spark, plan), plan.kind, plan.backend)
        if plan.trouble:
            schema = arrow_schema(frame.schema)
            step = getattr(troubles, plan.trouble)(Path(plan.folder, "troubles"), schema)
            frame = frame.mapInArrow(step, frame.schema)
        rows = writer(frame, plan.kind, Path(plan.folder), plan.backend)
        return rows.option("checkpointLocation", str(plan.checkpoint_path)).start()
    except Exception as error:  # noqa: BLE001 - whatever it is, the test judges it
        return _text(error)
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def _end(query: Any) -> str | None:
    """Let the query use up its input, and return the text of the error that ended it, or None."""
    try:
        query.processAllAvailable()
    except Exception as error:  # noqa: BLE001 - whatever it is, the test judges it
        return f"{_text(error)}\n\n{TOLD}{what_failed(error)}"
    return None


def _error(query: Any) -> str | None:
    """Return the text of the error that has ended the query, or None."""
    error = query.exception()
    return None if error is None else _text(error)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def check(spark: SparkSession, _: Sequence[Plan]) -> list[str | None]:
    """Return what is wrong with the executors' packages, or None."""
    try:
        check_executors(spark)
    except SessionSetupError as error:
        return [str(error)]
    return [None]


def judge(spark: SparkSession, plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """Return of each query how many rows it has written, and which are missing or should not be there."""
    wanted = {
        (source, kind): Counter(undisturbed(spark, Path(source), kind))
        for source, kind in sorted({(plan.source, plan.kind) for plan in plans})
    }
    verdicts = []
    for plan in plans:
        expected = wanted[plan.source, plan.kind]
        found = Counter(written(spark, Path(plan.source), plan.kind, Path(plan.folder)))
        missing, extra = expected - found, found - expected
        shown = [repr(row) for row in [*list(missing)[:_SHOWN], *list(extra)[:_SHOWN]]]
        verdicts.append({"query": plan.folder, **verdict_of(found, expected), "shown": shown})
    return verdicts
