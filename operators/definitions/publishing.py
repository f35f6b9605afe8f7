"""Features that are published: an operator whose batches leave the changed pages of its state in a table, and its reader."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from operators.aggregates.sides import EVENT_TIME
from operators.columns.expressions import refuse_expressions
from operators.errors import DefinitionError
from operators.runtime.binding import Binding, Runnable
from operators.runtime.identity import CLOCK
from state_backends import StateConfig, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from operators.sinks.page_reader import FeatureReader
    from operators.sinks.pages import PageTable
    from operators.sinks.published import Definition
    from operators.spark.inputs.arguments import Arguments
    from operators.spark.inputs.chains import Incoming


@dataclass(frozen=True, slots=True)
class PublishedFeatures(Runnable):
    """An operator that only keeps its state, for others who read it; what comes out are changed pages.

    Attributes:
        features: the operator.
    """

    features: Any

    @property
    def final(self) -> bool:
        return False

    @property
    def windows(self) -> Any:
        """The window definition."""
        return self.features.windows

    @property
    def input_arguments(self) -> Iterator[tuple[str, str]]:
        """What is given for columns: the argument, and the name or expression."""
        yield from self.features.input_arguments

    def bind(self, schema: pa.Schema, event_time: str, config: StateConfig) -> Binding:
        binding = self.features.for_readers(event_time).bind(schema, event_time, config)
        return replace(binding, plan=binding.plan.without_rows(), times=(), publishes=True)

    def prepared(self, df: "DataFrame", event_time: str) -> "tuple[PublishedFeatures, DataFrame, str]":
        """Return what it is given: a reader knows columns by name only, so that expressions are refused.

        Raises:
            DefinitionError: a key, an aggregate or the event time is an expression of Spark.
        """
        refuse_expressions([("event_time", event_time), *self.input_arguments])
        if getattr(self.windows, "row_gap", None) is not None:
            raise DefinitionError(
                "sessions with a gap of their own for each record cannot be published: give one gap"
            )
        return self, df, event_time


class PublishableFeatures:
    """What windows can do for services: publish what they hold, and read it."""

    __slots__ = ()

    def for_readers(self, event_time: str) -> Any:
        """Return the operator as a table has its state: without what comes out, and what is only stored for that.

        Args:
            event_time: the column of event times.
        """
        del event_time
        return replace(self.as_on_close(), since=None)  # type: ignore[attr-defined]

    def publish(
        self,
        df: "DataFrame",
        event_time: str,
        to: "PageTable",
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
    ) -> "DataStreamWriter":
        """Return a writer of a stream that keeps a table in which services read what the windows of a key hold now.

        What is written are the pages of the state that a batch changes, with its number, in one transaction: a batch that comes
        again changes nothing. If the table lacks a batch, as a new or a restored one does, all pages are written, part by part.
        A query that finds nothing new to read notes that in the table. No rows come out: `apply` is a query of its own.

        Start it with a checkpoint, as in `.option("checkpointLocation", ...).start()`.

        Args:
            df: a stream.
            event_time: its event-time column; keys and aggregates are of columns by name, too.
            to: the table of pages, such as `SQLitePages`.
            backend, options, name: as for `apply`.

        Raises:
            DefinitionError: the frame is bounded, `to` is something else, an argument is an expression; or as `apply`.
            SinkError: the table cannot be reached or written to.
        """
        from operators.spark.inputs.arguments import Arguments

        return published_stream(self, df, event_time, to, Arguments(backend, options, name))

    def reader(self, pages: "PageTable") -> "FeatureReader":
        """Return a reader of what the windows of a key hold, for a service: it needs neither Spark nor Java.

        Nothing is read before its first question.

        Args:
            pages: the table to which `publish` writes.

        Raises:
            DefinitionError: `pages` is not a table of pages, or an argument of the operator is an expression of Spark.
        """
        return reader_of(PublishedFeatures(self).input_arguments, pages, partial(_bind, self))


def published_stream(
    features: Any,
    df: "DataFrame",
    event_time: str,
    to: "PageTable",
    arguments: "Arguments",
    incoming: "Incoming | None" = None,
) -> "DataStreamWriter":
    """Return a writer of a stream that keeps a table of pages.

    Args:
        features: the operator.
        df: the stream.
        event_time: its event-time column.
        to: the table.
        arguments: the other arguments of the user.
        incoming: what is known of the event time of a stream that was made of several.

    Raises:
        DefinitionError, SinkError: as `PublishableFeatures.publish`.
    """
    from operators.sinks.pages import PageTable
    from operators.sinks.publish import Publish
    from operators.sinks.published import Definition
    from operators.spark.apply import apply
    from operators.spark.base.idle import IdleWriter
    from operators.spark.base.inside import is_connect_client
    from operators.spark.base.types import arrow_schema
    from operators.spark.inputs.prepare import prepare
    from operators.spark.state.read_pages import WholeState

    _check_table("publish", to, PageTable)
    if is_connect_client():
        raise DefinitionError(
            "publish needs a session of Spark itself: a client of Spark Connect does not see its query"
        )
    published = PublishedFeatures(features)
    prepared = prepare(published, df, event_time, arguments)
    if not df.isStreaming:
        raise DefinitionError(
            "publish takes a stream: to publish what a bounded frame leaves, write a savepoint, and start a stream from it"
        )
    to.check()
    definition = Definition.of(prepared.binding, arrow_schema(prepared.df.schema))
    whole = WholeState(df.sparkSession, prepared.binding, prepared.config.snapshots.folder)
    changed = apply(published, df, event_time, arguments, incoming=incoming)
    publish = Publish(to, definition, prepared.buckets, whole)
    return IdleWriter(changed, publish.note_idle).outputMode("append").foreachBatch(publish)


def reader_of(
    input_arguments: Iterable[tuple[str, str]], pages: "PageTable", bind: "Callable[[Definition], Binding]"
) -> "FeatureReader":
    """Return a reader of a table of pages.

    Args:
        input_arguments: what the operator is given for columns.
        pages: the table.
        bind: returns the operator as it is bound to the columns of what is published.

    Raises:
        DefinitionError: as `PublishableFeatures.reader`.
    """
    from operators.sinks.page_reader import FeatureReader
    from operators.sinks.pages import PageTable

    _check_table("reader", pages, PageTable)
    refuse_expressions(input_arguments)
    return FeatureReader(pages, bind)


def _bind(features: Any, published: "Definition") -> Binding:
    event_time = published.event_time
    binding: Binding = features.for_readers(event_time).bind(published.schema, event_time, resolve("memory"))
    return binding


def _check_table(what: str, table: object, kind: type) -> None:
    if not isinstance(table, kind):
        raise DefinitionError(
            f"{what} takes a table of pages, such as SQLitePages('features.db', 'pages'), not {table!r}"
        )


class PublishableFrames:
    """What a co-grouping has in common with windows over one frame, where it is published."""

    __slots__ = ()

    joint: Any
    """The operator over the frames as one."""
    _unite: Any

    def publish(
        self,
        frames: Mapping[str, "DataFrame"],
        event_time: str | Mapping[str, str],
        to: "PageTable",
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
    ) -> "DataStreamWriter":
        """Return a writer of streams that keeps a table in which services read open windows, as `WindowedAggregation.publish`.

        Args:
            frames: the streams by the names that `cogroup` was given.
            event_time: event-time column of all frames, or by frame.
            to, backend, options, name: as in `WindowedAggregation.publish`.

        Raises:
            DefinitionError, SinkError: as there.
        """
        from operators.spark.inputs.arguments import Arguments

        times = event_time.values() if isinstance(event_time, Mapping) else [event_time]
        refuse_expressions([*(("event_time", time) for time in times), *self.joint.input_arguments])
        joint, frame, incoming = self._unite(frames, event_time)
        return published_stream(joint, frame, EVENT_TIME, to, Arguments(backend, options, name), incoming)

    def reader(self, pages: "PageTable") -> "FeatureReader":
        """Return a reader of the open windows of a key, as `WindowedAggregation.reader` does."""
        return reader_of(self.joint.input_arguments, pages, self._bind_published)

    def _bind_published(self, published: "Definition") -> Binding:
        # The times of the frames as one do not tell whether they had a zone.
        joint = replace(self.joint, clock=published.identity.get(CLOCK))
        event_time = published.event_time
        binding: Binding = joint.for_readers(event_time).bind(published.schema, event_time, resolve("memory"))
        return binding
