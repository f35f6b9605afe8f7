"""A program of a user with a Spark Connect session: python -m tests.faults.connect_user TASK, as JSON; it runs one query."""

import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from subprocess import Popen
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame, SparkSession

from operators import TumblingWindows, WindowedAggregation, spark_session
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from tests.faults.plans import Plan
from tests.faults.processes import start, verdict_of
from tests.operators.spark.frames import SCHEMA, stream
from tests.patience import files, wait_until

FUNCTIONS = "my_functions"
"""The module that `functions` of a task is; each version of it has the same name."""


@dataclass(frozen=True)
class Task:
    """What a client does.

    Attributes:
        url: the server.
        plan: where the query's files are, its backend, and until when it goes on.
        sends: paths of what it sends: of the "library", of an "archive" with an environment, of its "functions".
        bounded: whether its frame is bounded.
    """

    url: str
    plan: Plan
    sends: dict[str, str] = field(default_factory=dict)
    bounded: bool = False

    def start(self, folder: Path, mark: str) -> "Popen[str]":
        """Start a client; its log is in the folder."""
        command = [sys.executable, "-m", "tests.faults.connect_user", json.dumps(asdict(self))]
        return start(command, folder / "log", mark)

    def end(self, client: "Popen[str]", folder: Path) -> dict[str, Any]:
        """Wait until the client ends, and return what its rows are worth."""
        moved = files(folder, Path(self.plan.folder))
        wait_until(lambda: client.poll() is not None, "the client's end", moved)
        assert 0 == client.returncode, (folder / "log").read_text()[-4_000:]
        return json.loads(Path(self.plan.folder, "verdict").read_text())


def _operator(task: Task) -> WindowedAggregation:
    total = agg.sum("v")
    if path := task.sends.get("functions"):
        sys.path.insert(0, str(Path(path).parent))
        functions = import_module(FUNCTIONS)
        register_pickle_by_value(functions)
        total = agg.fold(0, functions.add, "v", type="bigint", merge=functions.merge)
    windows = TumblingWindows("3 seconds", grace="8 seconds").group_by("k")
    return windows.aggregate(n=agg.count(), total=total)


def _streamed(spark: SparkSession, operator: WindowedAggregation, plan: Plan) -> DataFrame:
    """Run the query until its end is there, and return its rows."""
    windows = operator.apply(stream(spark, Path(plan.source)), "at", backend=plan.backend)
    path = f"{plan.folder}/out"
    writer = windows.writeStream.format("parquet").option("path", path)
    query = writer.option("checkpointLocation", str(plan.checkpoint_path)).start()
    while plan.until and not Path(plan.until).exists():
        if error := query.exception():
            raise error
        time.sleep(0.1)
    query.processAllAvailable()
    query.stop()
    return spark.read.schema(windows.schema).parquet(path)


def main(task: Task) -> None:
    """Run the query, and compare its rows with those of a local runner."""
    spark = spark_session(remote=task.url, buckets=3, conf={"spark.sql.session.timeZone": "UTC"})
    plan = task.plan
    if library := task.sends.get("library"):
        spark.addArtifacts(library, pyfile=True)
    if archive := task.sends.get("archive"):
        spark.addArtifacts(f"{archive}#environment", archive=True)
        spark.conf.set("spark.sql.execution.pyspark.python", "./environment/bin/python")
    operator = _operator(task)
    if task.bounded:
        frame = spark.read.schema(SCHEMA).parquet(plan.source)
        out, close_time = operator.apply(frame, "at"), FAR_FUTURE
    else:
        out, close_time = _streamed(spark, operator, plan), None
    found = Counter(map(repr, out.toArrow().to_pylist()))
    whole = pa.concat_tables(pq.read_table(path) for path in sorted(Path(plan.source).iterdir()))
    with operator.local_runner("at") as runner:
        wanted = Counter(map(repr, runner.process(whole, close_time).to_pylist()))
    Path(plan.folder).mkdir(parents=True, exist_ok=True)
    Path(plan.folder, "verdict").write_text(json.dumps(verdict_of(found, wanted)))
    spark.stop()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(Task(**{**given, "plan": Plan(**given["plan"])}))
