"""Rows of the table "Change the operator" in docs/operations.md, done on Spark: with the defaults, and windows of hours."""

import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial, reduce
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import (
    AggregateOperation,
    Declaration,
    Explanation,
    HoppingWindows,
    KeyedOperator,
    RollingWindows,
    SlidingWindows,
    TumblingWindows,
    what_failed,
)
from operators import aggregates as agg
from operators.command.main import main
from operators.runtime.keys_to_forget import encoded_keys
from state_backends import StateError, write_savepoint
from state_backends.durability.request_folder import RequestFolder
from tests.effort import slow_but
from tests.operators.spark.frames import run_query, use_up, write_numbered

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
EIGHT_US = 1_767_600_000_000_000
"""2026-01-05 08:00 UTC."""
KEYS = [None, "a", "b", "c", "d"]
ADAPT = {"state.evolution": "adapt"}
HOURS = TumblingWindows("1 hour", grace="10 minutes").group_by("k")
HOURLY = HOURS.aggregate(n=agg.count(), low=agg.min("v"))


@dataclass
class Pipeline:
    """A query that is stopped and started, over files that are written between.

    Attributes:
        spark: the session.
        folder: of its files.
        types: of the columns.
        checkpoint: name of its checkpoint.
    """

    spark: SparkSession
    folder: Path
    types: str = "k string, at timestamp, v int, b bigint"
    checkpoint: str = "cp"
    files: int = field(default=0, init=False)

    def feed(self, *records: tuple[int, int]) -> None:
        """Write a file with these records for each key: minutes after eight, and v."""
        (self.folder / "in").mkdir(exist_ok=True)
        of_each = [(key, EIGHT_US + minute * 60_000_000, v) for minute, v in records for key in KEYS]
        k, at, v = zip(*of_each, strict=True)
        table = pa.table(
            {"k": k, "at": pa.array(at, pa.timestamp("us", "UTC")), "v": pa.array(v, pa.int32()), "b": [*v]}
        )
        write_numbered(table, self.folder / "in", self.files)
        self.files += 1

    @property
    def stream(self) -> DataFrame:
        """The files as a stream, one a batch."""
        reader = self.spark.readStream.schema(self.types).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / "in"))

    def run(self, op: Any, *records: tuple[int, int], **given: Any) -> None:
        """Start the query with this operator, and stop it when it has read the records too, if it can go on."""
        if records:
            self.feed(*records)
        checkpoint = self.folder / self.checkpoint
        if (checkpoint / "metadata").exists():
            op.check(self.stream, "at", checkpoint, **given)
        run_query(op.apply(self.stream, "at", **given), self.folder / f"out-{self.checkpoint}", checkpoint)

    def refuse(self, op: Any, match: str, **given: Any) -> None:
        """Have both the check and the query, which has a record more to read, refuse this operator for this reason."""
        with pytest.raises(StateError, match=match):
            op.check(self.stream, "at", self.folder / self.checkpoint, **given)
        with pytest.raises(StreamingQueryException) as caught:
            run_query(
                op.apply(self.stream, "at", **given), self.folder / "refused", self.folder / self.checkpoint
            )
        with pytest.raises(StateError, match=match):
            raise StateError(what_failed(caught.value))

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return what came out, which is the same for each key."""
        files = [str(path) for path in sorted(self.folder.glob("out-*/*.parquet"))]
        frame = reduce(
            partial(DataFrame.unionByName, allowMissingColumns=True), map(self.spark.read.parquet, files)
        )
        starts = {"window": ["date_format(window.start, 'HH:mm')"]}
        at = [text for name, texts in starts.items() if name in frame.columns for text in texts]
        of_key: dict[Any, list[tuple[Any, ...]]] = {}
        for key, *row in frame.selectExpr("k", *at, *columns).collect():
            of_key.setdefault(key, []).append(tuple(row))
        found = {key: sorted(rows, key=repr) for key, rows in of_key.items()}
        assert dict.fromkeys(KEYS, found["a"]) == found
        return found["a"]


def explained_by_command(op: Any, q: Pipeline, *arguments: str) -> str:
    """What `windows explain` prints of an operator over the columns of a pipeline."""
    module = ModuleType("job_of_pipeline")
    module.op = op  # type: ignore[attr-defined]
    printed = StringIO()
    columns = ["--schema", q.types, "--event-time", "at"]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setitem(sys.modules, module.__name__, module)
        assert 0 == main(["explain", f"{module.__name__}:op", *columns, *arguments])
    return printed.getvalue()


def result_that_follows(q: Pipeline) -> None:
    """They include the records of before; of a bigint, whose mean has a sum of its own, this is refused."""
    q.run(HOURS.aggregate(total=agg.sum("v"), big=agg.sum("b")), (0, 1), (30, 3))
    q.feed((59, 5), (75, 0))
    of_big = HOURS.aggregate(total=agg.sum("v"), mean=agg.avg("b"), big=agg.sum("b"))
    q.refuse(of_big, r'mean from .*a separate sum\("b"\) is new, and would count from now on')
    q.run(HOURS.aggregate(all=agg.sum("v"), mean=agg.avg("v"), n=agg.count("v"), big=agg.sum("b")))
    assert [("08:00", 9, 3.0, 3, 9)] == q.rows("all", "mean", "n", "big")


def added_removed_widened(q: Pipeline) -> None:
    """What stays goes on, what is new counts from then on; a fold without merge is refused, with its name."""
    merged = agg.fold(0, lambda s, v: s + v, "v", type="bigint", merge=lambda a, b: a + b, name="merged")
    q.run(HOURLY, (0, 1), (30, 3))
    q.feed((40, 5))
    more = HOURLY.aggregate(total=agg.sum("v"), folded=merged)
    q.refuse(more, "total from .*sum.* is new.* set spark.windows.state.evolution to adapt")
    unmerged = agg.fold(0, lambda s, v: s + v, "v", type="bigint")
    q.refuse(
        HOURLY.aggregate(folded=unmerged),
        "'folded' is a fold without merge .* give it a merge",
        options=ADAPT,
    )
    q.run(more.with_since("complete"), options=ADAPT)
    told = " ".join(str(Explanation.of(more, q.stream, "at", checkpoint=q.folder / "cp")).split())
    # The state had windows until nine.
    assert (
        "total counts all records since 2026-01-05 09:00:00 UTC: windows that begin earlier may lack some"
        in told
    )
    assert "low counts all" not in told
    by_command = explained_by_command(more, q, "--checkpoint", str(q.folder / "cp"))
    assert "total counts all records since 2026-01-05 09:00:00 UTC" in " ".join(by_command.split())
    assert "counts all records since" not in explained_by_command(more, q)
    q.types = q.types.replace("v int", "v bigint")
    last = HOURS.aggregate(low=agg.min("v"), total=agg.sum("v")).with_since("complete")
    q.run(last, (50, 0), (75, 9), options=ADAPT)
    found = q.rows("low", "date_format(complete, 'HH:mm') complete", "total")
    assert [("08:00", 0, "09:00")] == [row[:3] for row in found]


def other_code(q: Pipeline) -> None:
    """States of the old code are used by the new one, unless it has another version."""

    def folded(factor: int) -> Any:
        return agg.fold(
            0, lambda s, v: s + factor * v, "v", type="bigint", merge=lambda a, b: a + b, name="weighed"
        )

    def operation(factor: int, version: int = 1) -> Any:
        return AggregateOperation(
            name="weighed too",
            state=(int,),
            create=lambda: (0,),
            accumulate=lambda state, v: (state[0] + factor * v,),
            combine=lambda a, b: (a[0] + b[0],),
            finish=lambda state: state[0],
            type="bigint",
            version=version,
        )("v")

    q.run(HOURS.aggregate(f=folded(1), o=operation(1)), (0, 1))
    q.feed((30, 3), (75, 0))
    q.refuse(
        HOURS.aggregate(f=folded(10), o=operation(10, 2)),
        r"o from weighed too\(v\), version 2 is new.*weighed too\(v\), version 1 is gone",
    )
    q.run(HOURS.aggregate(f=folded(10), o=operation(10)))
    assert [("08:00", 31, 31)] == q.rows("f", "o")

    def latest(factor: int, number: int) -> Any:
        class Total(KeyedOperator):
            """The sum of the values so far."""

            version = number

            def schema(self, types: Any) -> Declaration:
                return Declaration(["v"], results={"total": "bigint"})

            def process(self, time: int, record: Any, context: Any) -> Iterator[dict[str, Any]]:
                context.value = (context.value or 0) + factor * record["v"]
                yield {"total": context.value}

        return Total().group_by("k")

    (q.folder / "custom").mkdir()
    custom = Pipeline(q.spark, q.folder / "custom")
    custom.run(latest(1, 1), (0, 1), (20, 3))  # A record is handled when none before it can follow.
    custom.feed((40, 5))
    custom.refuse(latest(10, 2), "version was 1, is 2")
    custom.run(latest(10, 1))
    assert [(1,), (31,)] == custom.rows("total")


def other_grace(q: Pipeline) -> None:
    """A longer one keeps windows open that were not closed yet, and opens none."""
    longer = TumblingWindows("1 hour", grace="40 minutes").group_by("k").aggregate(n=agg.count())
    q.run(HOURS.aggregate(n=agg.count()), (0, 1), (75, 1))
    q.run(longer, (30, 1), (125, 1))
    q.run(longer, (70, 1))
    q.run(longer, (300, 1))
    assert [("08:00", 1), ("09:00", 2), ("10:00", 1)] == q.rows("n")


def other_lookbacks(q: Pipeline) -> None:
    """New lookbacks and `over` are exact from the first row on; the first one over the lifetime counts from then on."""
    rolling = {"1h": "1 hour", "3h": "3 hours", "ever": "lifetime"}
    before = RollingWindows(rolling, grace="10 minutes").group_by("k")
    limited = {"n": agg.count(), "total": agg.sum("v").over("3h")}
    q.run(before.aggregate(**limited), (0, 1), (90, 2), (180, 4))
    shorter = {"2h": "2 hours", "3h": "3 hours", "ever": "lifetime"}
    after = RollingWindows(shorter, grace="10 minutes").group_by("k")
    q.run(after.aggregate(n=agg.count().over("2h", "ever"), total=agg.sum("v").over("2h")), (200, 8))
    q.feed((230, 16), (300, 0))
    whole = after.aggregate(n=agg.count().over("2h", "ever"), total=agg.sum("v"))
    q.refuse(whole, "total was not over the lifetime, and would count from now on")
    q.run(whole, options=ADAPT)
    columns = ["v", "n_2h", "n_ever", "total_2h", "total_ever"]
    found = {row[0]: row[1:] for row in q.rows(*columns)}
    assert {1: (None, 1, None, None), 2: (None, 2, None, None)}.items() <= found.items()
    assert {4: (2, 3, 6, None), 8: (3, 4, None, None), 16: (3, 5, 16, 16)}.items() <= found.items()


def other_columns(q: Pipeline) -> None:
    """Rows that wait get what was added as null, and what is wider; what is gone is named."""
    op = RollingWindows("2 hours", grace="10 minutes").group_by("k").aggregate(n=agg.count())
    q.run(op, (0, 1), (60, 2))
    q.types = "k string, at timestamp, v bigint, b bigint, s struct<a: int>"
    q.run(op, (120, 4))
    q.types = "k string, at timestamp, v bigint, s struct<a: int>"
    q.feed((200, 8))
    q.refuse(op, "column 'b' is gone, and would be dropped from rows that wait")
    q.run(op, (300, 16), options=ADAPT)
    found = {row[0]: row[1:] for row in q.rows("v", "b", "s", "n")}
    assert {1: (1, None, 1), 2: (2, None, 2), 4: (None, None, 3), 8: (None, None, 2)}.items() <= found.items()


def other_ends(q: Pipeline) -> None:
    """Refused without the option; with it, rows that wait have the new ends."""
    both, left = (
        RollingWindows("2 hours", grace="10 minutes", closed=ends).group_by("k").aggregate(total=agg.sum("v"))
        for ends in ("both", "left")
    )
    q.run(both, (0, 1), (60, 2))
    q.feed((100, 4), (120, 8))
    q.refuse(left, "closed was 'both', is 'left'")
    q.run(left, (200, 0), options=ADAPT)
    assert {(1, 1), (2, 1), (4, 3), (8, 7)} <= {*q.rows("v", "total")}


def other_pauses(q: Pipeline) -> None:
    """A lifetime goes on if a pause is added, ends with one, and stays ended if the pause is removed."""
    kept = RollingWindows({"ever": "lifetime"}, grace="10 minutes").group_by("k").aggregate(n=agg.count())
    windows = RollingWindows({"ever": "lifetime"}, grace="10 minutes", forget_after="5 hours")
    ends = windows.group_by("k").aggregate(n=agg.count())
    q.run(kept, (0, 1), (90, 2))
    q.run(ends, (180, 4), (190, 5))
    q.run(ends, (580, 8), (600, 16))
    q.run(kept, (1_000, 32), (1_100, 0))
    q.run(kept, (1_200, 64), (1_300, 0))
    counts = {1: 1, 2: 2, 4: 3, 5: 4, 8: 1, 16: 2, 32: 3}
    assert counts.items() <= dict(q.rows("v", "n_ever")).items()


def forget_folder(q: Pipeline) -> None:
    """A query that goes on with one applies the requests in it."""
    options = {"state.forget.folder": str(q.folder / "forget")}
    q.run(HOURLY, (0, 1))
    q.run(HOURLY, (10, 2), options=options)
    keys = encoded_keys([{"k": key} for key in KEYS], pa.schema([("k", pa.string())]))
    RequestFolder(options["state.forget.folder"], later_ms=0).write("windows", keys)
    q.run(HOURLY, (20, 4), options=options)
    q.run(HOURLY, (75, 0), options=options)
    assert [("08:00", 1, 4)] == q.rows("n", "low")


def other_segments(q: Pipeline) -> None:
    """Refused on the checkpoint, and moved by a savepoint."""
    q.run(HOURLY, (0, 1), (30, 3))
    longer = {"state.segment": "7 hours"}
    q.feed((40, 5))
    q.refuse(HOURLY, "segment was .*, is 7 hours.* move the state by a savepoint", options=longer)
    saved = write_savepoint(q.folder / "cp", q.folder / "saved")
    (
        q.folder / "in" / "part-0000.parquet"
    ).unlink()  # The new query has a source that begins where the old one stopped.
    q.checkpoint = "next"
    q.run(HOURLY, (75, 0), options={**longer, "state.savepoint": saved.uri})
    assert [("08:00", 3, 1)] == q.rows("n", "low")


def other_backend(q: Pipeline) -> None:
    """Each backend goes on from what another one stored, with snapshots or without, at any trigger."""
    folder = {"state.snapshots.folder": str(q.folder / "snapshots"), "state.snapshots.batches": 1}
    q.run(HOURLY, (0, 4))
    q.run(HOURLY, (10, 3), backend="rocksdb", options=folder)
    q.run(HOURLY, (20, 2), backend="spark")
    q.feed((30, 1))
    op, writer = HOURLY.apply(q.stream, "at", backend="memory", options=folder), {}
    writer = op.writeStream.format("parquet").option("path", str(q.folder / "out-cp"))
    writer = writer.option("checkpointLocation", str(q.folder / "cp")).trigger(availableNow=True)
    use_up(writer.start)
    q.run(HOURLY, (75, 0))
    assert [("08:00", 4, 1)] == q.rows("n", "low")


def other_windows(q: Pipeline) -> None:
    """Refused, naming what differs: by the check, and by a query."""
    q.run(HOURLY, (0, 1))
    q.feed((30, 1))
    results = {"n": agg.count(), "low": agg.min("v")}
    checkpoint = q.folder / "cp"
    for other, match in (
        (TumblingWindows("90 minutes", grace="10 minutes"), "size was 1 hour, is 90 minutes"),
        (HoppingWindows("1 hour", "30 minutes", grace="10 minutes"), "advance was 1 hour, is 30 minutes"),
        (SlidingWindows("1 hour", grace="10 minutes"), "windows were tumbling, are sliding"),
    ):
        with pytest.raises(StateError, match=match):
            other.group_by("k").aggregate(**results).check(q.stream, "at", checkpoint)
    with pytest.raises(StateError, match="emission was 'on_close', is 'on_update'"):
        HOURLY.emit("on_update").check(q.stream, "at", checkpoint)
    by_value = TumblingWindows("1 hour", grace="10 minutes").group_by("k", "v").aggregate(**results)
    q.refuse(by_value, "keys were k: string, are k: string, v: int32. Go back .* with a new checkpoint")

    (q.folder / "chain").mkdir()
    chain = Pipeline(q.spark, q.folder / "chain")
    chain.feed((0, 1))
    first = HOURS.aggregate(n=agg.count())
    second = SlidingWindows("2 hours").group_by("k").aggregate(n=agg.count())

    def chained(one: Any, other: Any) -> DataFrame:
        rows = one.apply(chain.stream, "at", name="one")
        return other.apply(rows.select("k", F.col("window.end").alias("at")), "at", name="other")

    run_query(chained(first, second), chain.folder / "out", chain.folder / "cp")
    chain.feed((300, 1))
    with pytest.raises(StreamingQueryException) as caught:
        run_query(chained(second, first), chain.folder / "out", chain.folder / "cp")
    assert "the checkpoint holds the state of another operator: windows were " in what_failed(caught.value)


ROWS: dict[str, Callable[[Pipeline], None]] = {
    "a result that follows": result_that_follows,
    "an aggregate added": added_removed_widened,
    "the code of": other_code,
    "`grace`": other_grace,
    "other lookbacks": other_lookbacks,
    "another column added": other_columns,
    "`closed`": other_ends,
    "`forget_after`": other_pauses,
    "`state.forget.folder`": forget_folder,
    "`state.segment`": other_segments,
    "the backend": other_backend,
    "the keys": other_windows,
}


SOAKED = [
    "another column added",
    "other lookbacks",
    "`closed`",
    "`forget_after`",
    "`state.forget.folder`",
    "the backend",
]


def test_each_is_a_row_of_the_table() -> None:
    """The page has them. All its rows are tried without Spark."""
    section = PAGE.read_text("utf-8").partition("## Change the operator")[2].partition("\n## ")[0]
    changes = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")][1:]
    assert {*ROWS} == {begin for begin in ROWS for change in changes if change.startswith(begin)}


@pytest.mark.slow
@pytest.mark.parametrize("row", slow_but(["a result that follows"], ROWS, SOAKED))
def test_what_the_table_says_of_a_change_holds(spark: SparkSession, tmp_path: Path, row: str) -> None:
    """With nothing set but what the row says."""
    ROWS[row](Pipeline(spark, tmp_path))
