"""A writer of streams that is told when its query has found nothing new to read."""

import atexit
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from operators.spark.base.inside import checkpoint_of_query, wait_for_listeners
from state_backends.checkpoints.query import last_batch

_MOST_MS_AT_END = 5_000
_NOT_NOTED = (
    "the query is idle, which %r could not note, so that readers with max_age will refuse its table: %s. The query goes on, "
    "and tries again"
)
_LOG = logging.getLogger(__name__)
NoteIdle = Callable[[str, int | None], object]
"""Notes that a query is idle: gets its id, and the last batch that it has committed, if that is known."""


class IdleWriter(DataStreamWriter):
    """Spark's writer, which watches the query that it starts.

    Args:
        df: the stream.
        note: is called when the query has found nothing new to read.
    """

    def __init__(self, df: DataFrame, note: NoteIdle) -> None:
        super().__init__(df)
        self._session = df.sparkSession
        self._note = note

    def start(self, *arguments: Any, **options: Any) -> StreamingQuery:
        """Start the query, as the writer of Spark does."""
        query = super().start(*arguments, **options)
        IdleListener(self._session, query, self._note).begin()
        return query


class IdleListener(StreamingQueryListener):
    """Calls a function each time that Spark says that a query is idle: every 10 seconds by default.

    Spark says so at the end of a trigger that has found nothing new. So a query that hangs, in a batch or while it asks its
    source, is not idle.

    Args:
        spark: the session that the query was started in.
        query: the query.
        note: the function.
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery, note: NoteIdle) -> None:
        self._spark = spark
        self._query, self._run = str(query.id), str(query.runId)
        self._checkpoint = checkpoint_of_query(query)
        self._note = note
        self._committed: int | None = None
        self._turn = Lock()
        self._fails = False

    def begin(self) -> None:
        """Listen until the query ends, or Python does: Java would go on calling, and print a stack trace."""
        self._spark.streams.addListener(self)
        atexit.register(self._end_with_python)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Remember which batch was committed."""
        if str(event.progress.runId) == self._run:
            self._committed = event.progress.batchId

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Have it noted by another thread: the listeners of all queries wait for this call."""
        if str(event.runId) == self._run:
            Thread(target=self._call, name="windows-idle", daemon=True).start()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Stop listening."""
        if str(event.runId) == self._run:
            atexit.unregister(self._end_with_python)
            with suppress(Exception):  # The session was stopped.
                self._spark.streams.removeListener(self)

    def _call(self) -> None:
        """Have it noted, unless the call before has not ended. A failure is logged once, until it is over."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            if self._committed is None and self._checkpoint is not None:
                self._committed = last_batch(self._checkpoint)
            self._note(self._query, self._committed)
            self._fails = False
        except Exception as error:  # noqa: BLE001 - of a third party's table, too
            if not self._fails:
                _LOG.warning(_NOT_NOTED, self._note, error)
            self._fails = True
        finally:
            self._turn.release()

    def _end_with_python(self) -> None:
        with suppress(Exception):  # The session was stopped, or Java is gone.
            self._spark.streams.removeListener(self)
            # It may be in the middle of a call.
            wait_for_listeners(self._spark, _MOST_MS_AT_END)
