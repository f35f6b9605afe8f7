"""Spark's inside: all that this library takes from Spark without a promise of Spark's that it stays as it is.

Nothing else in `operators` does, which a test of the architecture checks; what `state_backends` takes from checkpoints is in
`checkpoints/metadata.py` and `checkpoints/labels.py`. `tests/operators/spark/test_inside.py` has a test for each of these,
which names the version of Spark that broke it. Each function says what happens where Spark, or another engine with the same
API, does otherwise: the library goes on without, or refuses in one sentence.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from operators.errors import SessionSetupError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DELAY, TIME_WINDOW = "spark.watermarkDelayMs", "spark.timeWindow"
"""Metadata of columns: the delay of a watermark in milliseconds, and that a struct is a window. Without the first, apply sets a
watermark of its own; without the second, F.window_time refuses the windows."""
BATCH_ID, QUERY_ID, RUN_ID = "streaming.sql.batchId", "sql.streaming.queryId", "spark.jobGroup.id"
"""Local properties of tasks. All jobs of a run of a streaming query are one group, whose id is that of the run. Without them,
messages have no number of the batch, and `upsert_to` asks for a name of the query."""
FILES_OF_SESSION = "SPARK_JOB_ARTIFACT_UUID"
"""Variable of the environment of workers: they have another value if they belong to a Connect session with files of its own.
Without it, processes with copies of buckets would serve several such sessions."""
_SHORT_CONF = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_SHORT = "SPARK_SIMPLIFIED_TRACEBACK"
"""Conf, and what it sets in the environment of functions of Arrow, but not of stateful processors. Without them, these have a
daemon of workers of their own."""
_ENVIRONMENT = Lock()
"""Held while the environment of workers is another."""
_OF_CONNECT = "SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"
"""Variables of the environment of a client of Spark Connect, the first set by PySpark."""

# Plans, as `explain` prints them

_HEADING = "== Physical Plan =="
_NODE = re.compile(r"([\s:+\-]*)(?:\*(?:\(\d+\))? )?!?(\w+)")
_STATEFUL = re.compile(
    r"\w*StateStoreSave|StreamingSymmetricHashJoin|TransformWithState\w*|FlatMapGroups\w*WithState|ApplyInPandasWithState"
)
_SHUFFLING = re.compile(
    rf"{_STATEFUL.pattern}|(?:Reused)?Exchange|\w*Shuffle\w*|StateStore\w*|TakeOrderedAndProject|CollectLimit"
)
_SEVERAL = re.compile(r"Union|\w*Join|CartesianProduct|CoGroup|FlatMapCoGroups\w*")
WATERMARK = "EventTimeWatermark"
"""The node that sets a watermark."""


def plan_nodes(df: "DataFrame") -> list[tuple[int, str]]:
    """Return the physical plan of a frame: depth and name of each node, the last operator first.

    Raises:
        SessionSetupError: it is not printed as Spark prints it, so that nobody knows what is in it.
    """
    text = _plan(df)
    lines = text.strip().splitlines()
    found = [_NODE.match(line) for line in lines if not line.startswith("==")]
    nodes = [(len(match[1]), match[2]) for match in found if match]
    if not (lines and lines[0].startswith(_HEADING) and nodes):
        raise SessionSetupError(
            "streams need the plans of Apache Spark, from which apply knows the watermark of a frame: this engine prints "
            f"another one ({text.strip()[:80]!r}). Bounded frames need none"
        )
    return nodes


def _plan(df: Any) -> str:
    """The physical plan as the frame's `explain` prints it: what prints it writes to the output of all threads."""
    if hasattr(df, "_jdf"):
        utils = df.sparkSession.sparkContext._jvm.PythonSQLUtils  # noqa: SLF001 - only `explain` has it in public
        return str(utils.explainString(df._jdf.queryExecution(), "simple"))  # noqa: SLF001
    return str(df._explain_string(mode="simple"))  # noqa: SLF001


def keeps_state(node: str) -> bool:
    """Return whether a node of a plan is an operator with state."""
    return _STATEFUL.fullmatch(node) is not None


def gets_any_order(node: str) -> bool:
    """Return whether a node of a plan gets rows from several tasks, in any order."""
    return _SHUFFLING.fullmatch(node) is not None


def has_several_inputs(node: str) -> bool:
    """Return whether a node of a plan brings the rows of several inputs together."""
    return _SEVERAL.fullmatch(node) is not None


# Frames of Spark Connect

_COLUMNS = "_cached_schema"


def knows(df: "DataFrame", columns: "StructType") -> None:
    """Have a frame of Spark Connect know its columns, which it asks the server for otherwise: pipelines refuse that."""
    if hasattr(df, _COLUMNS):
        setattr(df, _COLUMNS, columns)


def known_columns(df: "DataFrame") -> "StructType | None":
    """Return the columns of a frame of Spark Connect that knows them; None for any other."""
    columns: StructType | None = getattr(df, _COLUMNS, None)
    return columns


def sets_watermark(df: "DataFrame") -> bool:
    """Return whether the plan of a frame of Spark Connect sets a watermark, without analysis; False where it cannot be seen."""
    with suppress(AttributeError, TypeError):
        plan: Any = getattr(df, "_plan")  # noqa: B009 - no frame has it by its type
        return _has_part(plan.plan(df.sparkSession.client), "with_watermark")
    return False


def _has_part(message: Any, name: str) -> bool:
    """Whether a message of protobuf has a field of this name, at any depth."""
    return any(
        field.name == name
        or any(_has_part(part, name) for part in ([value] if hasattr(value, "ListFields") else value))
        for field, value in message.ListFields()
        if field.message_type is not None and not field.message_type.GetOptions().map_entry
    )


# Errors: names of their conditions, and their texts. Where these differ, users see Spark's own words.

NO_ANALYSIS = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"
SAME_METRICS = "DUPLICATED_METRICS_NAME"
OTHER_PYTHON = "PYTHON_VERSION_MISMATCH"
NESTED_AGGREGATE = "NESTED_AGGREGATE_FUNCTION"
NOT_DETERMINISTIC = "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"
GENERATOR = "UNSUPPORTED_GENERATOR"
WINDOW_FUNCTION = "_LEGACY_ERROR_TEMP_1031"
DEAD_WORKER = "Python worker exited unexpectedly"
_SOURCES = re.compile(
    r"There are \[(\d+)\] sources in the checkpoint offsets and now there are \[(\d+)\] sources requested by the query"
)
_LOST_ROWS = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""The name of Spark's error where executors have gone that had rows of a frame."""
_LOST = re.compile(
    r"ExecutorLostFailure \(executor (?P<lost>[^\s)]+)|FetchFailed\(BlockManagerId\((?P<source>[^,]+), (?P<host>[^,]+),"
    r"|FetchFailedException|with indeterminate output|due to indeterminate|" + _LOST_ROWS
)
_KAFKA = re.compile(
    r"(?P<lost>Some data may have been lost because they are not available in Kafka|Some of partitions in Kafka topic\(s\)"
    r"|KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED)"
    r"|(?P<missing>UnknownTopicOrPartitionException)"
    r"|(?P<silent>Topic \S{1,249} not present in metadata)"
    r"|(?P<large>RecordTooLargeException)"
    r"|(?P<denied>(?:Topic|Group|Cluster|TransactionalId)AuthorizationException)"
    r"|(?P<unreachable>Timed out waiting for a node assignment|No resolvable bootstrap urls"
    r"|Expiring \d+ record\(s\) for )"
    r'|(?P<unreported>IterableOps\.map\(scala\.Function1\)" because the return value of "scala\.Option\.get\(\)" is null)'
)
"""What Spark's connector for Kafka, and Kafka's client, say: each group is the name of a failure."""
APPENDED = re.compile(
    r"at [\w.$/]+\(|Caused by: |JVM stacktrace|Driver stacktrace|SQLSTATE: |=== Streaming Query ==="
    r"|Traceback \(|During handling of |The above exception "
)
"""How lines begin that Spark or Python appends to the message of an error in a worker."""
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def has_condition(error: "PySparkException", name: str) -> bool:
    """Return whether the condition of an error has this name, or begins with it: parts of it follow a dot."""
    return (error.getCondition() or "").startswith(name)


def texts_of(error: object) -> Iterator[str]:
    """Yield the text of an error and of each of its causes in Java, of which the error's own text may say nothing."""
    while error is not None:
        yield str(error)
        error = getattr(error, "_cause", None)


def java_classes(error: object) -> list[str]:
    """Return the Java classes of an error of Spark and of its causes, outermost first.

    Empty with Spark Connect, and where Java has gone: what would be tried again then fails.
    """
    from py4j.protocol import Py4JError

    found = list[str]()
    with suppress(Py4JError, OSError):
        cause: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
        while cause is not None:
            found.append(str(cause.getClass().getName()))
            cause = cause.getCause()
    return found


def first_words(error: "PySparkException") -> str:
    """Return what Spark says of an error, without the context that follows."""
    return str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0]


def other_sources(text: str) -> tuple[int, int] | None:
    """Return how many sources a checkpoint and its query have, from the error of a query that cannot start for that."""
    found = _SOURCES.search(text)
    return None if found is None else (int(found[1]), int(found[2]))


def failure_of_kafka(text: str) -> str | None:
    """Return what the error of a query says of topics; None if it says nothing of them.

    It is one of "lost", "missing", "silent", "large", "denied", "unreachable", "unreported". Where Kafka gives up on messages,
    it names the topic's metadata or the messages that expired, and no reason.
    """
    found = _KAFKA.search(text)
    return found and found.lastgroup


def lost_executors(text: str) -> set[str] | None:
    """Return the executors that the error of a job names as lost, which may be none; None if it did not end for that."""
    found = [*_LOST.finditer(text)]
    if not found:
        return None
    return {
        one["lost"] or f"{one['source']} on {one['host']}" for one in found if one["lost"] or one["source"]
    }


def has_lost_rows(error: BaseException) -> bool:
    """Return whether an error is that executors were lost which had rows of a frame after `localCheckpoint`."""
    return _LOST_ROWS in str(error)


def loggers_of_errors() -> list[logging.Logger]:
    """Return the loggers to which PySpark writes each error of an analysis: kilobytes of JSON, with both stack traces."""
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        # Not logging.getLogger, which would make them loggers of a class that PySpark cannot use.
        return [PySparkLogger.getLogger(name) for name in _LOGGERS]
    return []


# Queries and sessions


def gone_executors() -> list[tuple[int, str]]:
    """Return when each executor of this session went, in milliseconds since the epoch, and its id.

    Empty with Spark Connect, whose client does not know them, without a session, and where Spark's process has gone.
    """
    import pyspark

    context = getattr(getattr(pyspark, "SparkContext", None), "_active_spark_context", None)
    if context is None:
        return []
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):
        listed = context._jsc.sc().statusStore().executorList(False)  # noqa: SLF001 - only the REST API has it in public
        executors = [listed.apply(number) for number in range(listed.size())]
        return [
            (executor.removeTime().get().getTime(), str(executor.id()))
            for executor in executors
            if executor.removeTime().isDefined()
        ]
    return []


def plain_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row of observed metrics by name: Spark Connect has it as its values and their schema."""
    if row.keys() != {"schema", "values"}:
        return row
    names = [field["name"] for field in row["schema"]["fields"]]
    return dict(zip(names, row["values"], strict=True))


def wait_for_listeners(spark: "SparkSession", most_ms: int) -> None:
    """Wait until listeners have been called for what happened so far, or for so many milliseconds."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(most_ms)  # noqa: SLF001


def expression_text(counted: str) -> str:
    """Return the text of an expression, from the name of the column that counts it."""
    return counted.removeprefix("count(").removesuffix(")")


def is_connect_client() -> bool:
    """Return whether this process is a client of Spark Connect; if not, its tables are checked where the query starts."""
    return any(name in os.environ for name in _OF_CONNECT)


def python_of_workers(context: "SparkContext") -> str:
    """Return the interpreter that a context's workers run."""
    return str(context.pythonExec)


def set_python_of_workers(context: "SparkContext", python: str) -> None:
    """Have the workers run another interpreter: functions name theirs when they are sent."""
    context.pythonExec = python


@contextmanager
def in_workers_of_arrow(spark: "SparkSession") -> Iterator[None]:
    """Have a stateful processor that is given to Spark in this block run in the workers that functions of Arrow have.

    Spark has a daemon for each environment of workers: two would load the same, one after the other. A Connect client does
    not know the environment.
    """
    context = getattr(spark, "sparkContext", None)
    short = None
    # Asked without a default, which Spark would return in place of its own. Another version may not know the conf.
    with suppress(Exception):
        short = spark.conf.get(_SHORT_CONF)
    if context is None or short != "true":
        yield
        return
    with _ENVIRONMENT:
        given = context.environment
        # Other threads may be reading it, so it is replaced and never changed.
        context.environment = {**given, _SHORT: given.get(_SHORT, "1")}
        try:
            yield
        finally:
            context.environment = given


def task_property(key: str) -> str | None:
    """Return a local property of this task; None if it has none, or this is no task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(key)


def query_id(spark: "SparkSession") -> str | None:
    """Return the id of the query of which `foreachBatch` is called on this thread; None if it cannot be seen."""
    context = getattr(spark, "sparkContext", None)  # a Spark Connect session has none
    return None if context is None else context.getLocalProperty(QUERY_ID)


def unpin(frame: "DataFrame") -> None:
    """Let executors drop the rows that `localCheckpoint` pinned; without it, they do so when Java collects garbage."""
    from py4j.protocol import Py4JError

    with suppress(AttributeError, TypeError, Py4JError):
        frame._jdf.queryExecution().analyzed().rdd().unpersist(False)  # noqa: SLF001


def checkpoint_of(spark: "SparkSession", query: str) -> str | None:
    """Return the checkpoint folder of a query that runs; None if it cannot be seen, so that its state cannot be read."""
    try:
        return checkpoint_of_query(spark.streams.get(query))
    except (AttributeError, TypeError):
        return None


def checkpoint_of_query(query: Any) -> str | None:
    """Return the checkpoint folder of a query that runs or has ended; None if it cannot be seen, as with Spark Connect."""
    try:
        return str(query._jsq.streamingQuery().resolvedCheckpointRoot())  # noqa: SLF001 - nothing in public has it
    except (AttributeError, TypeError):
        return None
