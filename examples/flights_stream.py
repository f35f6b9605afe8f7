"""The stream: flights from files in micro-batches, windows into files."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from examples.flights_data import SOURCE_DDL
from examples.flights_log import Batch, RunLog
from operators import SlidingWindows, WindowedAggregation, spark_session
from operators import aggregates as agg

BUCKETS = 2
DEFAULT_BACKEND = "rocksdb"
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Folders:
    """Where a run keeps what it reads and writes, all below one folder."""

    out: Path

    @property
    def source(self) -> Path:
        """The stream's files."""
        return self.out / "source"

    @property
    def checkpoint(self) -> Path:
        """Where the run is, with its state."""
        return self.out / "checkpoint"

    @property
    def windows(self) -> Path:
        """The results."""
        return self.out / "windows"

    @property
    def state(self) -> Path:
        """The workers' local copies of the state."""
        return self.out / "state"

    @property
    def log(self) -> Path:
        """What each batch reported."""
        return self.out / "run.json"

    @property
    def picture(self) -> Path:
        """The picture."""
        return self.out / "flights.png"

    @property
    def messages(self) -> Path:
        """What Spark has to say."""
        return self.out / "spark.log"


def delays(grace: str) -> WindowedAggregation:
    """Return the operator: every distinct hour of departures of each airport."""
    return (
        SlidingWindows(size="60 minutes", grace=grace)
        .group_by("origin")
        .aggregate(flights=agg.count(), mean_delay=agg.avg("dep_delay"), worst=agg.max("dep_delay"))
        .emit("on_close")
    )


@contextmanager
def flights_session(folders: Folders) -> Iterator[SparkSession]:
    """Yield a Spark session for a run, whose messages go to a file, and stop it at the end."""
    with quiet_session("flights", folders.messages, folders.state) as spark:
        yield spark


@contextmanager
def quiet_session(
    name: str, messages: Path, state: Path, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a Spark session whose messages go to a file, and stop it at the end.

    Ctrl-C has to wait until the session is there: a Java process that is broken off as it starts would stay behind.

    Args:
        name: of the application.
        messages: the file.
        state: where workers keep their local copies of the state.
        conf: further settings.
    """
    with _interruption() as interrupted, _errors_into(messages):
        spark = spark_session(
            name,
            buckets=BUCKETS,
            conf={
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                "spark.windows.state.directory": str(state.resolve()),
                **(conf or {}),
            },
        )
    try:
        if interrupted():
            raise KeyboardInterrupt
        yield spark
    finally:
        spark.stop()


@contextmanager
def _errors_into(path: Path) -> Iterator[None]:
    """Have the file descriptor of stderr, which Spark's processes inherit, lead to a file for a while."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def run(
    spark: SparkSession,
    folders: Folders,
    log: RunLog,
    *,
    backend: str | None = None,
    stop_after: int | None = None,
    tell: Callable[[Batch], None] = print,
) -> bool:
    """Run the stream from where its checkpoint is; return False if it was stopped before its end.

    Args:
        spark: the session.
        folders: of the run; the source must be there.
        log: is brought up to date with each batch.
        backend: name of the state backend; else Spark's conf, else rocksdb.
        stop_after: batches after which to stop; Ctrl-C stops it too.
        tell: is called with each batch that is done.
    """
    backend = backend or spark.conf.get("spark.windows.state.backend", None) or DEFAULT_BACKEND
    files = spark.readStream.schema(SOURCE_DDL).option("maxFilesPerTrigger", 1).parquet(str(folders.source))
    windows = delays(log.grace).apply(files, event_time="departure", backend=backend)
    with _interruption() as interrupted:
        query = _start(windows, folders)
        batches = _Batches(query, backend, log, tell)
        while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
            if interrupted() or _reached(batches.look(), stop_after):
                query.stop()
                batches.look()
                return False
    batches.look()
    log.finish()
    return True


def _reached(batches: int, stop_after: int | None) -> bool:
    return stop_after is not None and batches >= stop_after


def _start(windows: DataFrame, folders: Folders) -> StreamingQuery:
    return (
        windows.writeStream.format("parquet")
        .option("path", str(folders.windows))
        .option("checkpointLocation", str(folders.checkpoint))
        .trigger(availableNow=True)
        .start()
    )


class _Batches:
    """The batches of a query that are done: each is written down and told once."""

    def __init__(
        self, query: StreamingQuery, backend: str, log: RunLog, tell: Callable[[Batch], None]
    ) -> None:
        self._query = query
        self._backend = backend
        self._log = log
        self._tell = tell
        self._seen: set[int] = set()

    def look(self) -> int:
        """Return how many there are by now."""
        for progress in self._query.recentProgress:
            if progress["batchId"] not in self._seen and "addBatch" in progress["durationMs"]:
                self._seen.add(progress["batchId"])
                batch = Batch.from_progress(progress, self._backend)
                self._log.add(batch)
                self._tell(batch)
        return len(self._seen)


@contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C was pressed; a second time it breaks off as usual."""
    pressed = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
