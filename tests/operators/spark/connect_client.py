"""A program with a Spark Connect session: runs every case, and prints a JSON line of each with what went wrong, if anything.

A process has either a Connect session or a classic one, so it is no part of the tests' own process.
"""

import json
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import operators
from operators import (
    DefinitionError,
    HoppingWindows,
    RollingWindows,
    SessionSetupError,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    WindowedAggregation,
    report_batches,
    spark_session,
)
from operators import aggregates as agg
from operators.columns.expressions import named
from operators.columns.records import FAR_FUTURE
from operators.monitoring import OperatorBatch
from operators.sinks import SQLiteSink, upsert_to
from operators.sinks.changes import changes_of
from state_backends import StateError, read_state, summarize_state, write_savepoint
from tests.operators.sinks.reading import read_sqlite
from tests.operators.spark.frames import SCHEMA, run_query, stream, use_up, write_source
from tests.operators.spark.test_expression_columns import MADE, expressions, operator
from tests.patience import wait_until

FILES, ROWS = 2, 200
GRACE = "8 seconds"
RESULTS = {"n": agg.count(), "total": agg.sum("v"), "mean": agg.avg("x"), "high": agg.max("v")}
KINDS = {
    "sliding": SlidingWindows("2 seconds", grace=GRACE),
    "hopping": HoppingWindows("5 seconds", "2 seconds", grace=GRACE),
    "tumbling": TumblingWindows("3 seconds", grace=GRACE),
    "session": SessionWindows("150 ms", grace=GRACE),
}
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
Case = Callable[["Client"], None]
CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Client:
    """A session on the server at `url`, a folder for what the cases write, and the folder of the server's local state."""

    spark: SparkSession
    url: str
    folder: Path
    state: Path

    @property
    def source(self) -> Path:
        """Files of records."""
        return self.folder / "in"

    @property
    def bounded(self) -> DataFrame:
        """All records as a bounded frame."""
        return self.spark.read.schema(SCHEMA).parquet(str(self.source))

    def run(self, windows: DataFrame, name: str) -> tuple[list[str], dict[str, int]]:
        """Run a stream to the end of its input; return its rows, and the sums of what it told."""
        query = run_query(windows, self.folder / f"{name}-out", self.folder / f"{name}-cp")
        metrics: Counter[str] = Counter()
        for progress in query.recentProgress:
            for what, observed in progress.observedMetrics.items():
                # Over Connect a row of metrics comes as its values and their schema.
                (counts,) = observed["values"]
                metrics.update({f"{what}.{name}": value for name, value in counts.items()})
        return lines(self.spark.read.parquet(str(self.folder / f"{name}-out"))), metrics


def case(name: str) -> Callable[[Case], Case]:
    """Add a case."""

    def add(function: Case) -> Case:
        CASES[name] = function
        return function

    return add


def lines(frame: DataFrame) -> list[str]:
    """The rows of a frame as sorted text."""
    return sorted(map(repr, frame.toArrow().to_pylist()))


def tables(folder: Path) -> list[pa.Table]:
    """The files of records, in order."""
    return [pq.read_table(path) for path in sorted(folder.iterdir())]


def expected(operator: WindowedAggregation, batches: Iterable[pa.Table], *times: int | None) -> list[str]:
    """What the local runner emits for batches of these stream times, by default the highest event time so far."""
    given = list(batches)
    with operator.local_runner("at") as runner:
        emitted = [
            row
            for batch, time in zip(given, [*times, *[None] * len(given)], strict=False)
            for row in runner.process(batch, time).to_pylist()
        ]
    return sorted(map(repr, emitted))


def by_key(kind: str, results: Mapping[str, Any] = RESULTS) -> WindowedAggregation:
    """The operator of a window kind."""
    return KINDS[kind].group_by("k").aggregate(**results)


def bounded(kind: str) -> Case:
    """The case of a bounded frame: every window, once."""

    def check(client: Client) -> None:
        whole = pa.concat_tables(tables(client.source))
        wanted = expected(by_key(kind), [whole], FAR_FUTURE)
        assert len(wanted) > 50
        assert wanted == lines(by_key(kind).apply(client.bounded, "at"))

    return check


CASES.update({f"bounded, {kind}": bounded(kind) for kind in KINDS})


@case("bounded, days of a zone, two of which meet amid the records")
def _calendar(client: Client) -> None:
    """Every local day, once."""
    windows = TumblingWindows("1 day", zone="Europe/Berlin", offset="23 hours 13 minutes 30 seconds")
    op = windows.group_by("k").aggregate(**RESULTS)
    wanted = expected(op, [pa.concat_tables(tables(client.source))], FAR_FUTURE)
    assert 2 == len({row.partition("'window': ")[2].partition("}")[0] for row in wanted})
    assert wanted == lines(op.apply(client.bounded, "at"))


@case("stream, on close, memory, gaps by an expression")
def _expression(client: Client) -> None:
    """A session gap that is a Spark expression; what the stream tells."""
    gap = F.when(F.col("v") > 0, "200 milliseconds").otherwise("40 milliseconds")
    op = SessionWindows(gap, grace=GRACE).group_by("k").aggregate(**RESULTS)
    reported: list[OperatorBatch] = []
    listener = report_batches(client.spark, reported.append)
    found, metrics = client.run(op.apply(stream(client.spark, client.source, FILES), "at"), "expression")
    plain = SessionWindows(gap_column="gap", grace=GRACE).group_by("k").aggregate(**RESULTS)
    whole = pa.concat_tables(tables(client.source))
    gaps = [[200 if v > 0 else 40 for v in whole.column("v").to_pylist()]]
    assert expected(plain, [whole.append_column("gap", gaps)]) == found
    told = [metrics[f"windows_{name}"] for name in ("in.rows", "in.bad", "out.late", "out.windows")]
    assert [FILES * ROWS, 0, 0, len(found)] == told
    wait_until(
        lambda: sum(one.counts_out["windows"] for one in reported) >= len(found),
        "reports",
        lambda: len(reported),
    )
    client.spark.streams.removeListener(listener)
    assert FILES * ROWS == sum(one.counts_in["rows"] for one in reported)
    assert {"windows"} == {one.operator for one in reported}
    assert [None, True] == [reported[0].watermark, reported[-1].watermark is not None]


@case("stream, from a history, and closed by the clock")
def _history(client: Client) -> None:
    """The state of a bounded frame is where the stream starts; when nothing comes any more, the last windows come out."""
    op, half = by_key("tumbling"), client.bounded.selectExpr("percentile(unix_micros(at), 0.5)").first()[0]
    cut = datetime.fromtimestamp(half // 1_000_000, timezone.utc)
    past = client.bounded.where(F.col("at") < F.lit(cut))
    saved = op.savepoint(past, "at", client.folder / "history", cut)
    rest = stream(client.spark, client.source).where(F.col("at") >= F.lit(cut))
    out = op.apply(rest, "at", options={"state.savepoint": saved.uri}, idle="1 second")
    writer = out.writeStream.format("parquet").option("path", str(client.folder / "history-out"))
    writer = writer.option("checkpointLocation", str(client.folder / "history-cp"))
    for _ in range(2):
        writer.trigger(availableNow=True).start().awaitTermination()
        time.sleep(1.5)
    final = op.apply(past, "at", close_time=cut)
    found = lines(
        final.unionAll(client.spark.read.schema(out.schema).parquet(str(client.folder / "history-out")))
    )
    assert lines(op.apply(client.bounded, "at")) == found


@case("bounded, expressions in place of names")
def _expressions(client: Client) -> None:
    """They are columns of the same names as in a classic session, from which a query can so go on."""
    made = expressions()
    op = operator(KINDS["tumbling"], made.get)
    found = op.apply(client.bounded, made["time"])
    columns = operator(KINDS["tumbling"], str).apply(client.bounded.withColumns(made), "time")
    assert lines(columns.withColumnsRenamed({"key": "k", "third": "(v % 3)"})) == lines(found)
    assert op.prepared(client.bounded, named(made["time"]))[1].columns == [*client.bounded.columns, *MADE]
    said = r"aggregate 'n': Column<'nope'> cannot be resolved: \[UNRESOLVED_COLUMN"
    with pytest.raises(DefinitionError, match=said):
        KINDS["tumbling"].aggregate(n=agg.sum(F.col("nope"))).apply(client.bounded, "at")


@case("stream, on update, rocksdb, user code")
def _user_code(client: Client) -> None:
    """Functions of the client's own program; state in the folder that the server's conf names."""
    longest = agg.fold(0, lambda most, v: max(most, abs(v)), "v", type="bigint", merge=max)
    product = operators.AggregateOperation(
        name="sum of squares",
        state=(int,),
        create=lambda: (0,),
        accumulate=lambda state, v: (state[0] + v * v,),
        combine=lambda a, b: (a[0] + b[0],),
        finish=lambda state: state[0],
        type="bigint",
    )
    op = by_key("hopping", {**RESULTS, "longest": longest, "squares": product("v")}).emit("on_update")
    windows = op.apply(stream(client.spark, client.source), "at", backend="rocksdb")
    assert expected(op, tables(client.source)) == client.run(windows, "update")[0]
    assert list(client.state.glob("*/*-rocksdb/CURRENT"))


@dataclass(frozen=True, kw_only=True)
class NotNegative(operators.KeyedOperator):
    """Cannot take some records."""

    def schema(self, types: Mapping[str, pa.DataType]) -> operators.Declaration:
        return operators.Declaration(["v"], results={"seen": "bigint"})

    def process(self, time: int, record: dict[str, Any], context: Any) -> list[dict[str, int]]:
        if record["v"] < 0:
            raise ValueError(f"cannot take {record['v']}")
        return [{"seen": record["v"]}]


@case("records whose function raises are reported")
def _skipped(client: Client) -> None:
    """The client's own class, with the switch, over a bounded frame."""
    both = NotNegative(on_error="skip").group_by("k").apply_with_late(client.bounded, "at")
    told = both.late.where("reason like '%cannot take %' and record.v < 0").count()
    assert 0 < client.bounded.where("v < 0").count() == told == both.late.count()
    assert client.bounded.where("v >= 0").count() == both.windows.count()


@case("streams of two clients at once")
def _two_clients(client: Client) -> None:
    """Each has its own functions and rows, though operator, plan, columns and names are the same."""
    other = SparkSession.builder.remote(client.url).create()
    for name, value in operators.session_conf(buckets=2).items():
        other.conf.set(name, value)
    clients = {1: client, 100: Client(other, client.url, client.folder, client.state)}

    def counted(by: int) -> list[Any]:
        add = agg.fold(0, lambda n: n + by, type="bigint", merge=lambda a, b: a + b)
        op = by_key("tumbling", {"n": add})
        one = clients[by]
        windows = op.apply(stream(one.spark, client.source), "at", backend="rocksdb")
        run_query(windows, client.folder / f"client-{by}-out", client.folder / f"client-{by}-cp")
        rows = one.spark.read.parquet(str(client.folder / f"client-{by}-out")).toArrow().to_pylist()
        return sorted((str(row["k"]), row["window"]["start"], row["n"]) for row in rows)

    with ThreadPoolExecutor(2) as threads:
        ones, hundreds = threads.map(counted, clients)
    assert ones
    assert [(key, start, 100 * n) for key, start, n in ones] == hundreds
    other.stop()


@case("stream into a table")
def _table(client: Client) -> None:
    """A function for `foreachBatch`, which runs on the server; it cannot see the query's id there."""
    path = client.folder / "table.db"
    op = by_key("session").emit("on_update")
    for query in (None, "visits"):
        upsert = upsert_to(SQLiteSink(path, "visits"), keys=["k"], query=query)
        frame = op.apply(stream(client.spark, client.source), "at")
        writer = frame.writeStream.foreachBatch(upsert)
        start = writer.option("checkpointLocation", str(client.folder / f"table-{query}")).start
        if query is None:
            with pytest.raises(StreamingQueryException, match="give the query a name with query="):
                use_up(start)
        else:
            use_up(start)
    whole = pa.concat_tables(tables(client.source))
    with by_key("session").local_runner("at") as runner:
        wanted = changes_of(runner.process(whole, FAR_FUTURE), ["k"], "all", 0).upserts
    found = read_sqlite(path, "visits", wanted.schema)
    assert sorted(map(repr, wanted.to_pylist())) == sorted(map(repr, found.to_pylist()))


@case("stream, two frames")
def _cogroup(client: Client) -> None:
    """Two streams in one window, each with a watermark."""
    op = KINDS["tumbling"].group_by("k").cogroup(left={"n": agg.count()}, right={"total": agg.sum("v")})
    frames = {name: stream(client.spark, client.source, FILES) for name in ("left", "right")}
    with op.local_runner("at") as runner:
        whole = pa.concat_tables(tables(client.source))
        wanted = runner.process({"left": whole, "right": whole}).to_pylist()
    assert sorted(map(repr, wanted)) == client.run(op.apply(frames, "at"), "cogroup")[0]


@case("stream, aggregates beside each record, and as of labels")
def _rolling(client: Client) -> None:
    """A rolling row for each record of a stream whose time is closed; as of bounded labels, what is beside the records."""
    lookbacks = {"1s": "1 second", "today": "day to date", "ever": "lifetime"}
    windows = RollingWindows(lookbacks, grace=GRACE, zone="Asia/Tokyo")
    op = windows.group_by("k").aggregate(**RESULTS)
    rows = op.apply(stream(client.spark, client.source), "at")
    found, metrics = client.run(rows, "rolling")
    beside = lines(op.apply(client.bounded, "at"))
    assert len(found) == metrics["windows_out.windows"] > 50
    assert set(found) < set(beside)
    labels = client.bounded.select("k", F.col("at").alias("asked"), "v")
    known = op.apply_as_of(labels, client.bounded, "asked", "at").drop("v")
    assert lines(known) == lines(
        op.apply(client.bounded.select("k", F.col("at").alias("asked"), "v", "x"), "asked").drop("v", "x")
    )


@case("stream, windows over windows")
def _chain(client: Client) -> None:
    """An operator over another one, and Spark's own over that; what lost its watermark is refused."""
    first = by_key("sliding").apply(stream(client.spark, client.source, FILES), "at", name="first")
    second = TumblingWindows("3 seconds").group_by("k").aggregate(n=agg.sum("n"))
    windows = second.apply(first.select("k", "n", "window.end"), "end")
    coarse = F.window(F.window_time("window"), "6 seconds")
    found = client.run(windows.groupBy("k", coarse).agg(F.sum("n").alias("n")), "chain")[0]
    bounded = by_key("sliding").apply(client.bounded, "at").select("k", "n", "window.end")
    whole = second.apply(bounded, "end").groupBy("k", coarse).agg(F.sum("n").alias("n"))
    assert len(found) > 10
    assert set(found) < set(lines(whole))
    with pytest.raises(DefinitionError, match="'end' has no watermark"):
        second.apply(first.withColumn("end", F.expr("window.end + interval 1 second")), "end")


@case("state is read, saved, and gone on from with another backend")
def _savepoint(client: Client) -> None:
    """A query on Spark's own state store, then one on RocksDB that starts from its savepoint."""
    op, halves = by_key("sliding"), [client.folder / "first", client.folder / "second"]
    for half, path in zip(halves, sorted(client.source.iterdir()), strict=True):
        half.mkdir()
        (half / path.name).hardlink_to(path)
    first = client.run(op.apply(stream(client.spark, halves[0]), "at", backend="spark"), "first")[0]
    checkpoint, saved = client.folder / "first-cp", client.folder / "saved"
    panes = read_state(checkpoint)
    assert 0 < panes.count() == summarize_state(checkpoint).agg(F.sum("panes")).first()[0]
    assert {"k", "time", *RESULTS} <= set(panes.columns)
    assert panes.count() == sum(file.rows for file in write_savepoint(checkpoint, saved).files)
    options = {"state.savepoint": str(saved)}
    windows = op.apply(stream(client.spark, halves[1]), "at", backend="rocksdb", options=options)
    second = client.run(windows, "second")[0]
    assert expected(op, tables(client.source)) == sorted([*first, *second])
    with pytest.raises(StateError, match="cannot be read"):
        read_state(client.source)


@case("errors of workers are told")
def _failures(client: Client) -> None:
    """What a function of the client's own raised in a worker is found in what Spark makes of it."""
    inverse = agg.fold(0.0, lambda total, v: total + 1 / (v - v), "v", type="double")
    with pytest.raises(PySparkException) as caught:
        by_key("tumbling", {"inverse": inverse}).apply(client.bounded, "at", name="inverses").collect()
    told = operators.what_failed(caught.value)
    assert told is not None
    assert re.match(r"operator 'inverses', .*ZeroDivisionError: ", told, re.DOTALL)


@case("functions of a module that workers do not have")
def _module(client: Client) -> None:
    """Streams do not see what the client sends before Spark 4.4: it is said, and what is sent with the query works."""
    (client.folder / "sent.py").write_text("def add(total, v):\n    return total + v\n")
    sys.path.append(str(client.folder))
    sent = import_module("sent")
    client.spark.addArtifacts(str(client.folder / "sent.py"), pyfile=True)
    op = by_key("tumbling", {"total": agg.fold(0, sent.add, "v", type="bigint", merge=sent.add)})
    whole = pa.concat_tables(tables(client.source))
    assert lines(op.apply(client.bounded, "at")) == expected(op, [whole], FAR_FUTURE)
    if client.spark.version < "4.4":
        with pytest.raises(StreamingQueryException) as caught:
            client.run(op.apply(stream(client.spark, client.source), "at"), "sent")
        told = operators.what_failed(caught.value)
        assert told is not None
        assert "is from: No module named 'sent'. Send the module" in told
    register_pickle_by_value(sent)
    windows = op.apply(stream(client.spark, client.source, FILES), "at")
    assert expected(op, [whole]) == client.run(windows, "by-value")[0]
    unregister_pickle_by_value(sent)


@case("what is wrong is said before anything runs")
def _refusals(client: Client) -> None:
    """A session as the server gives it lacks conf that the client can set; frames and options are checked."""
    plain = SparkSession.builder.remote(client.url).create()
    frame = stream(plain, client.source)
    with pytest.raises(SessionSetupError, match=rf"spark\.conf\.set\('{PROVIDER}'"):
        by_key("sliding").apply(frame, "at")
    for key, value in operators.session_conf().items():
        plain.conf.set(key, value)
    with pytest.warns(UserWarning, match="has 9 buckets"):
        by_key("sliding").apply(frame, "at", options={"state.buckets": 9})
    plain.conf.set("spark.sql.shuffle.partitions", "200")
    with pytest.warns(UserWarning, match="is 200: each partition is a state store"):
        by_key("sliding").apply(frame, "at")
    with pytest.raises(DefinitionError, match="watermark of 5000 ms already"):
        by_key("sliding").apply(frame.withWatermark("at", "5 seconds"), "at")
    plain.conf.set("spark.windows.state.bucket", "4")
    with pytest.raises(ValueError, match=r"did you mean spark\.windows\.state\.buckets"):
        by_key("sliding").apply(frame, "at")


@case("workers take the package that the client sends")
def _artifacts(client: Client) -> None:
    """Packages sent with `addArtifacts` are those that the workers import."""
    root, archive = Path(operators.__file__).parents[1], client.folder / "windows.zip"
    with ZipFile(archive, "w") as file:
        for package in ("operators", "state_backends", "serializers"):
            for path in (root / package).rglob("*.py"):
                file.write(path, path.relative_to(root))
    session = SparkSession.builder.remote(client.url).create()
    session.addArtifacts(str(archive), pyfile=True)

    def where(_: Any) -> Any:
        import operators as imported

        yield pa.RecordBatch.from_pydict({"file": [imported.__file__]})

    (row,) = session.range(1, numPartitions=1).mapInArrow(where, "file string").collect()
    assert "windows.zip" in row.file
    frame = session.read.schema(SCHEMA).parquet(str(client.source))
    assert lines(by_key("tumbling").apply(client.bounded, "at")) == lines(
        by_key("tumbling").apply(frame, "at")
    )


def main(url: str, folder: Path, state: Path, chosen: Sequence[str]) -> None:
    """Run cases on the server at this address."""
    spark = spark_session(remote=url, buckets=2, conf={"spark.sql.session.timeZone": "UTC"})
    assert "JAVA_HOME" not in os.environ
    client = Client(spark, url, folder, state)
    write_source(client.source, FILES, ROWS, seed=5)
    for name, check in CASES.items():
        if name not in chosen:
            continue
        try:
            check(client)
            wrong = None
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the test fails with it
            wrong = traceback.format_exc()
        print(json.dumps({"case": name, "wrong": wrong}), flush=True)  # noqa: T201 - what the test reads
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
