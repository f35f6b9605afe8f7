"""What this library takes from Spark's inside is there: each failure names the version of Spark, and what depends on it."""

import importlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pandas as pd
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import StructType

from operators import SessionSetupError, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.spark.base import inside
from operators.spark.base.logs import unlogged
from state_backends.checkpoints import metadata
from state_backends.checkpoints.labels import partition_labels, spark_hash

HOME = Path(pyspark.__file__).parent


def broken(what: str, depends: str) -> str:
    """What a failure says."""
    return f"PySpark {pyspark.__version__}: {what}. On this depends: {depends}"


# Plans


def rows(spark: SparkSession) -> DataFrame:
    """A stream with a watermark."""
    return spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")


class Nothing(StatefulProcessor):
    """Emits nothing."""

    def init(self, handle: Any) -> None:
        """Need nothing."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Emit nothing."""
        return iter(())

    def close(self) -> None:
        """Have nothing."""


def aggregated(df: DataFrame) -> DataFrame:
    return df.groupBy(F.window("timestamp", "1 minute")).count()


def sessions(df: DataFrame) -> DataFrame:
    return df.groupBy(F.session_window("timestamp", "1 minute"), "value").count()


def joined(df: DataFrame) -> DataFrame:
    other = df.withColumnRenamed("value", "other")
    return df.join(other, "timestamp")


def per_group(df: DataFrame) -> DataFrame:
    def nothing(key: Any, rows: Any, state: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG001
        return iter(())

    grouped = df.groupBy("value")
    return grouped.applyInPandasWithState(
        nothing, "v bigint", "v bigint", "append", GroupStateTimeout.NoTimeout
    )


def transformed(df: DataFrame) -> DataFrame:
    return df.groupBy("value").transformWithStateInPandas(Nothing(), "v bigint", "append", "none")


STATEFUL = {
    "groupBy": aggregated,
    "session_window": sessions,
    "join": joined,
    "applyInPandasWithState": per_group,
    "transformWithStateInPandas": transformed,
}
ANY_ORDER = {
    "repartition": lambda df: df.repartition(3),
    "repartition by a column": lambda df: df.repartition("value"),
    **STATEFUL,
}


@pytest.mark.spark
@pytest.mark.parametrize("made", STATEFUL)
def test_operators_with_state_are_seen_in_plans(spark: SparkSession, made: str) -> None:
    """Below them is the watermark, at a greater depth."""
    nodes = inside.plan_nodes(STATEFUL[made](rows(spark)))
    stateful = [depth for depth, name in nodes if inside.keeps_state(name)]
    below = [depth for depth, name in nodes if name == inside.WATERMARK]
    depends = "chains of operators, which must not set a second watermark"
    assert stateful, broken(f"no node with state in the plan of {made}: {nodes}", depends)
    assert min(stateful) < min(below), broken(f"no watermark below {made}: {nodes}", depends)


@pytest.mark.spark
@pytest.mark.parametrize("made", ANY_ORDER)
def test_shuffles_are_seen_in_plans(spark: SparkSession, made: str) -> None:
    nodes = inside.plan_nodes(ANY_ORDER[made](rows(spark)))
    depends = "tasks that run again after a lost executor, and must send what they sent"
    assert any(inside.gets_any_order(name) for _, name in nodes), broken(f"no shuffle in {nodes}", depends)


@pytest.mark.spark
def test_inputs_that_come_together_are_seen_in_plans(spark: SparkSession) -> None:
    """Rows of two operators say nothing of each other's close times."""
    plain = rows(spark)
    few = spark.createDataFrame([(1, "a")], "value bigint, name string")
    together = {
        "union": plain.union(plain),
        "join with a bounded frame": plain.join(few, F.lit(True)),
    }
    for made, frame in together.items():
        nodes = inside.plan_nodes(frame)
        depends = "chains, in which a row says how far the operator before has come"
        assert any(inside.has_several_inputs(name) for _, name in nodes), broken(
            f"no {made} in {nodes}", depends
        )
    assert not any(inside.has_several_inputs(name) for _, name in inside.plan_nodes(plain))


@pytest.mark.spark
def test_a_plain_stream_has_neither(spark: SparkSession) -> None:
    plain = spark.readStream.format("rate").load().where("value > 1").select("*", F.lit(1).alias("one"))
    names = [name for _, name in inside.plan_nodes(plain)]
    found = [name for name in names if inside.keeps_state(name) or inside.gets_any_order(name)]
    assert [] == found, broken(f"{found} in the plan of a plain stream", "its watermark, which apply sets")
    assert inside.WATERMARK not in names


@pytest.mark.parametrize(
    "text", ["", "Projection: a\n  Scan", "== Optimized ==\nScan", "== Physical Plan ==\n"]
)
def test_plans_of_another_engine_are_refused(text: str) -> None:
    """A frame with the same API, which prints its plans in another way."""
    frame: Any = SimpleNamespace(_explain_string=lambda mode: text if mode == "simple" else "")
    with pytest.raises(SessionSetupError, match="streams need the plans of Apache Spark"):
        inside.plan_nodes(frame)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("made", ["by Spark", "by a first stage in Python"])
def test_a_bounded_frame_needs_no_plan(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """So that it runs where plans are printed in another way; and a stream is refused."""
    monkeypatch.setattr(inside, "_HEADING", "== A plan ==")
    results = {"by Spark": agg.count(), "by a first stage in Python": agg.collect_list("value")}
    operator = TumblingWindows("1 minute").group_by("value").aggregate(n=results[made])
    frame = spark.range(3).selectExpr("id AS value", "timestamp_seconds(id) AS timestamp")
    assert 3 == operator.apply(frame, event_time="timestamp").count()
    with pytest.raises(SessionSetupError, match="streams need the plans of Apache Spark"):
        operator.apply(spark.readStream.format("rate").load(), event_time="timestamp")


# Columns


@pytest.mark.spark
def test_columns_say_their_watermark_and_windows(spark: SparkSession) -> None:
    df = rows(spark)
    delay = df.schema["timestamp"].metadata.get(inside.DELAY)
    assert 60_000 == delay, broken(
        f"the metadata has the delay {delay}", "frames with a watermark of their own"
    )
    window = df.select(F.window("timestamp", "1 minute").alias("w")).schema["w"].metadata
    depends = "F.window_time and F.window over windows of this library"
    assert window.get(inside.TIME_WINDOW), broken(f"a window has the metadata {window}", depends)


@pytest.mark.spark
def test_spark_takes_windows_that_are_marked(spark: SparkSession) -> None:
    operator = SlidingWindows("1 minute").group_by("value").aggregate(n=agg.count())
    windows = operator.apply(spark.readStream.format("rate").load(), event_time="timestamp")
    depends = "Spark's own operators behind those of this library"
    try:
        counted = windows.groupBy(F.window(F.window_time("window"), "1 hour")).count()
    except AnalysisException as error:
        pytest.fail(broken(f"windows are refused: {error}", depends))
    assert "window" in counted.columns


@pytest.mark.spark
def test_counts_name_the_expression(spark: SparkSession) -> None:
    """Its text is the name of a column of which state depends."""
    given = {"(id + 1)": F.col("id") + 1, "lower(count(id))": None, "id": F.col("id")}
    for text, column in given.items():
        if column is None:
            assert text == inside.expression_text(f"count({text})")
            continue
        (name,) = spark.range(1).select(F.count(column)).columns
        assert text == inside.expression_text(name), broken(
            f"a count is named {name!r}", "names of columns for expressions, which state depends on"
        )


@pytest.mark.spark
def test_hash_is_sparks(spark: SparkSession) -> None:
    """Our hash of an int is Spark's, so each label lands on the shuffle partition that it was chosen for.

    Elsewhere, several buckets share a partition and run one after another: slower, with the same rows.
    """
    numbers = [*range(100), 2**31 - 1]
    frame = spark.createDataFrame([(n,) for n in numbers], "n int")
    depends = "one task for each bucket"
    found = [r[0] for r in frame.select(F.hash("n")).collect()]
    assert [spark_hash(n) for n in numbers] == found, broken("hash(n) is another", depends)
    labels = spark.createDataFrame([(n,) for n in partition_labels(7)], "n int")
    placed = labels.repartition(7, "n").select("n", F.spark_partition_id()).collect()
    assert sorted(zip(partition_labels(7), range(7), strict=True)) == sorted(map(tuple, placed)), broken(
        f"rows are placed as {placed}", depends
    )


# Spark Connect


@pytest.fixture(scope="module")
def connect() -> Any:
    """Makes a frame of Spark Connect without a server, which would ask one for its text if a test that has it failed."""
    pytest.importorskip("grpc")
    frames = importlib.import_module("pyspark.sql.connect.dataframe")
    plans = importlib.import_module("pyspark.sql.connect.plan")
    client = SimpleNamespace()  # PySpark's would look for the server when this process ends.
    session = SimpleNamespace(client=client, _client=client)
    return lambda: frames.DataFrame(plans.Range(0, 1, 1), session)


def test_frames_of_connect_know_their_columns(connect: Any) -> None:
    """`df.schema` of one that knows them asks no server."""
    columns = StructType().add("id", "long")
    depends = "operators in declarative pipelines, where no frame is analysed"
    frame, told = connect(), connect().select("id")
    before = inside.known_columns(frame)
    inside.knows(told, columns)
    after, schema = inside.known_columns(told), told.schema
    del frame, told
    assert before is None, broken("a new frame knows columns", depends)
    assert columns == after, broken("a frame keeps no columns", depends)
    assert columns == schema, broken("a frame asks the server for columns that it was told", depends)


def test_plans_of_connect_say_their_watermark(connect: Any) -> None:
    depends = "the error for a pipeline's frame with withWatermark"
    without = inside.sets_watermark(connect().select("id"))
    with_it = inside.sets_watermark(connect().withWatermark("id", "1 minute").select("id"))
    assert (False, True) == (without, with_it), broken(
        "a plan does not say whether it has a watermark", depends
    )


def test_classic_frames_have_none_of_it() -> None:
    """What is asked of another frame is answered, too."""
    frame: Any = SimpleNamespace()
    inside.knows(frame, StructType())
    assert inside.known_columns(frame) is None
    assert not inside.sets_watermark(frame)
    another: Any = SimpleNamespace(_plan="of another form", sparkSession=None)
    assert not inside.sets_watermark(another)


# Errors


@pytest.fixture(scope="module")
def in_jars() -> set[bytes]:
    """Which of the texts that we look for are in Spark's own classes."""
    texts = {text for text, _ in TEXTS} | {b"SPARK_JOB_ARTIFACT_UUID"}
    found = set()
    for kind in ("core", "sql", "catalyst"):
        for jar in (HOME / "jars").glob(f"spark-{kind}_*.jar"):
            with ZipFile(jar) as archive:
                for name in archive.namelist():
                    if name.endswith(".class") and ("streaming" in name or kind == "core"):
                        data = archive.read(name)
                        found |= {text for text in texts if text in data}
    return found


TEXTS = [
    (b" sources in the checkpoint offsets and now there are ", "what_failed, for a query with other sources"),
    (b"ExecutorLostFailure (executor ", "what_failed, for lost executors"),
    (b"FetchFailed(", "what_failed, for lost executors"),
    (b"Python worker exited unexpectedly", "what_failed, for a worker that died"),
    (b"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "merge_to, where an executor is lost that had rows"),
]


@pytest.mark.parametrize(("text", "depends"), TEXTS)
def test_texts_of_errors_are_sparks(in_jars: set[bytes], text: bytes, depends: str) -> None:
    assert text in in_jars, broken(f"no class has the text {text.decode()!r}", depends)


def test_the_texts_are_those_that_are_looked_for() -> None:
    """As Spark fills them in."""
    sources = (
        "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources requested by "
        "the query. Cannot continue."
    )
    assert (1, 2) == inside.other_sources(sources)
    lost = "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: ..."
    assert {"3"} == inside.lost_executors(lost)
    fetch = "FetchFailed(BlockManagerId(7, 10.0.0.1, 7337, None), shuffleId=1, ..."
    assert {"7 on 10.0.0.1"} == inside.lost_executors(fetch)
    assert inside.lost_executors("anything else") is None
    gone = RuntimeError("[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_265_0 not found!")
    assert inside.has_lost_rows(gone)
    assert not inside.has_lost_rows(RuntimeError("anything else"))
    topic = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic-partition."
    assert "missing" == inside.failure_of_kafka(topic)
    assert inside.failure_of_kafka("anything else") is None
    assert inside.other_sources("anything else") is None


def test_java_classes_of_errors(spark: SparkSession) -> None:
    """By which `merge_to` knows that another writer was faster."""
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as error:
        spark.range(1).selectExpr("raise_error(concat('DIVIDE_BY_ZERO', id))").collect()
    found = inside.java_classes(error.value)
    assert found, broken("errors have no class of Java", "the further tries of merge_to")
    assert all(name.startswith(("org.apache.spark.", "java.")) for name in found)
    assert [] == inside.java_classes(ValueError("of Python"))


def test_pinned_rows_can_be_dropped(spark: SparkSession) -> None:
    """Else they stay until Java collects garbage."""

    def count() -> int:
        return spark.sparkContext._jsc.sc().getPersistentRDDs().size()

    before = count()
    frame = spark.range(10).localCheckpoint()
    assert before + 1 == count()
    inside.unpin(frame)
    assert before == count(), broken(
        "localCheckpoint keeps rows in another way", "what merge_to leaves in executors"
    )


CONDITIONS = {
    inside.NO_ANALYSIS: "the error for expressions in pipelines",
    inside.SAME_METRICS: "the error for two operators of one name",
    inside.OTHER_PYTHON: "check_executors, for another Python",
    inside.NESTED_AGGREGATE: "the error for aggregates of Spark",
    inside.NOT_DETERMINISTIC: "the error for rand() and the like",
    inside.GENERATOR: "the error for explode() and the like",
    inside.WINDOW_FUNCTION: "the error for window functions",
    metadata._NO_BATCH: "the error for a folder without a batch",
    metadata.UNCOMMITTED: "what_failed, for functions of foreachBatch that read some rows of a batch",
    metadata._NO_OPERATORS: "what_failed, for a damaged list of operators",
    metadata.UNLOADABLE: "what_failed and read_state, for damaged state of Spark's own",
}


@pytest.fixture(scope="module")
def conditions() -> set[str]:
    """All names of conditions that Spark's jars and PySpark list."""
    found = set(json.loads((HOME / "errors" / "error-conditions.json").read_text()))
    for jar in (HOME / "jars").glob("spark-common-utils*.jar"):
        with ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(("error-conditions.json", "error-classes.json")):
                    found |= set(json.loads(archive.read(name)))
    return found


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_of_errors_have_their_names(conditions: set[str], name: str) -> None:
    """Where they have others, Spark's own error is raised as it is."""
    known = {condition for condition in conditions if condition.startswith(name)}
    if pyspark.__version__.startswith("4.0.") and name == inside.NO_ANALYSIS:
        assert not known  # It has no pipelines.
        return
    if pyspark.__version__.startswith(("4.0.", "4.1.", "4.2.")) and name == metadata.UNCOMMITTED:
        return  # Versions without it fail in the next batch, which cannot load the state.
    assert known, broken(f"no condition is named {name}", CONDITIONS[name])


@pytest.mark.spark
def test_errors_have_a_condition_and_first_words(spark: SparkSession) -> None:
    """Words without the context, which quotes the plan."""
    with unlogged(), pytest.raises(AnalysisException) as caught:
        _ = spark.range(1).select("missing").columns
    depends = "errors for expressions that cannot be resolved"
    condition = caught.value.getCondition()
    assert inside.has_condition(caught.value, "UNRESOLVED_COLUMN"), broken(
        f"its condition is {condition}", depends
    )
    assert not inside.has_condition(caught.value, "ANOTHER")
    said = inside.first_words(caught.value)
    assert "missing" in said, broken(f"an error says {said!r}", depends)
    assert "\n" not in said + ("\n" if "Project" in said or "SQLSTATE" in said else ""), broken(said, depends)


@pytest.mark.slow
@pytest.mark.spark
def test_the_error_of_a_query_has_its_causes(spark: SparkSession, tmp_path: Path) -> None:
    """Its own text may say no more than that something was thrown."""
    failing = spark.readStream.format("rate").load().selectExpr("raise_error('the cause') AS failing")
    query = failing.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    _, *causes = inside.texts_of(query.exception())
    depends = "what_failed, for batches that were not committed in every bucket"
    assert any("the cause" in text for text in causes), broken(f"its causes say {causes}", depends)
    assert [] == list(inside.texts_of(None))


@pytest.mark.spark
def test_pyspark_logs_errors_of_analyses_where_we_silence_it(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    names = {logger.name for logger in inside.loggers_of_errors()}
    loggers = [logging.getLogger(name) for name in names]
    handler = caplog.handler
    for logger in loggers:
        logger.addHandler(handler)
    try:
        with pytest.raises(AnalysisException):
            _ = spark.range(1).select("missing").columns
        logged = {record.name for record in caplog.records}
        caplog.clear()
        with unlogged(), pytest.raises(AnalysisException):
            _ = spark.range(1).select("missing").columns
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    assert logged & names, broken(f"an error is logged by {logged or 'nobody'}", "fewer lines on stderr")
    assert [] == caplog.records


# Queries, tasks, sessions


def properties(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The properties of this task."""
    list(batches)
    found = [inside.task_property(key) for key in (inside.BATCH_ID, inside.RUN_ID)]
    yield pa.RecordBatch.from_pydict({"batch": [found[0]], "run": [found[1]]})


@pytest.mark.slow
@pytest.mark.spark
def test_tasks_know_their_batch_and_run_and_a_sink_its_query(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id bigint").parquet(str(tmp_path / "in"))
    seen: list[Any] = []
    places: list[str | None] = []

    def write(df: DataFrame, number: int) -> None:
        query = inside.query_id(df.sparkSession)
        seen.append((number, query, {tuple(row) for row in df.collect()}))
        places.append(inside.checkpoint_of(spark, str(query)))

    writer = stream.mapInArrow(properties, "batch string, run string").writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
    query.awaitTermination()
    ((number, query_id, tasks),) = seen
    assert 0 == number
    assert query.id == query_id, broken(f"foreachBatch sees the query {query_id}", "upsert_to without a name")
    assert [f"file:{tmp_path / 'cp'}"] == places, broken(
        f"foreachBatch finds the checkpoint at {places}", "publish for a table that lacks batches"
    )
    place = inside.checkpoint_of_query(query)
    assert place == places[0], broken(f"an ended query is at {place}", "what_failed, for lost state")
    assert inside.checkpoint_of_query(object()) is None
    assert {("0", query.runId)} == tasks, broken(f"tasks see {tasks}", "messages, and processes for state")
    assert inside.task_property(inside.RUN_ID) is None


@pytest.mark.spark
def test_listeners_can_be_waited_for(spark: SparkSession) -> None:
    """Without it, the last lines of a script may be missing."""
    inside.wait_for_listeners(spark, 5_000)


@pytest.mark.spark
def test_executors_say_whether_they_have_gone(spark: SparkSession) -> None:
    """Without it, `what_failed` names only those that an error names."""
    listed = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    found = [(listed.apply(n).id(), listed.apply(n).removeTime().isDefined()) for n in range(listed.size())]
    assert ("driver", False) in found, broken(f"the executors are {found}", "what_failed for lost executors")
    assert [] == inside.gone_executors()


@pytest.mark.spark
def test_workers_run_the_interpreter_that_they_are_told(spark: SparkSession) -> None:
    context = spark.sparkContext
    before = inside.python_of_workers(context)
    inside.set_python_of_workers(context, "/usr/bin/no-python")
    try:
        with pytest.raises(Exception, match="no-python"):
            spark.range(1).mapInArrow(properties, "batch string, run string").collect()
    finally:
        inside.set_python_of_workers(context, before)


def test_metrics_of_connect_are_rows_with_their_schema() -> None:
    plain = {"rows": 3}
    assert plain == inside.plain_row(plain)
    fields = {"fields": [{"name": "a"}, {"name": "b"}]}
    assert {"a": 1, "b": 2} == inside.plain_row({"schema": fields, "values": [1, 2]})


@pytest.mark.parametrize("short", ["true", "false"])
def test_stateful_processors_have_the_environment_of_functions_of_arrow(
    spark: SparkSession, short: str
) -> None:
    """Only where Spark gives these the variable. That both have one daemon then, `test_results` shows.

    The mapping that other threads may be reading does not change.
    """
    key, name = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", "SPARK_SIMPLIFIED_TRACEBACK"
    environment, before = spark.sparkContext.environment, spark.conf.get(key)
    assert name not in environment
    spark.conf.set(key, short)
    try:
        with inside.in_workers_of_arrow(spark):
            assert (short == "true") == (name in spark.sparkContext.environment)
            assert name not in environment
    finally:
        spark.conf.set(key, before)
    assert name not in spark.sparkContext.environment


def test_the_daemon_of_workers_can_be_replaced() -> None:
    """`operators.spark.daemon` calls it."""
    daemon = importlib.import_module("pyspark.daemon")
    assert callable(getattr(daemon, "manager", None)), broken(
        "pyspark.daemon has no manager", "workers that start loaded"
    )


def test_workers_and_clients_know_what_they_are(in_jars: set[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """By variables of the environment."""
    for name in inside._OF_CONNECT:
        monkeypatch.delenv(name, raising=False)
    assert not inside.is_connect_client()
    for name in inside._OF_CONNECT:
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert inside.is_connect_client()
    assert inside.FILES_OF_SESSION.encode() in in_jars, broken(
        f"workers get no {inside.FILES_OF_SESSION}", "processes for state of sessions with files of their own"
    )
    sources = [*HOME.glob("*.py"), *(HOME / "sql").glob("*.py"), *(HOME / "sql" / "connect").glob("*.py")]
    for name in inside._OF_CONNECT:
        assert any(name in source.read_text("utf-8") for source in sources), broken(
            f"PySpark has no {name}", "upsert_to of a client of Spark Connect, whose tables are elsewhere"
        )
