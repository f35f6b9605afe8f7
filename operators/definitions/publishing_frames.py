"""What windows over several frames can do for services: publish what they hold, and read it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from operators.aggregates.sides import EVENT_TIME
from operators.columns.expressions import refuse_expressions
from operators.definitions.publishing import published_stream, reader_of
from operators.runtime.binding import Binding
from operators.runtime.identity import CLOCK
from state_backends import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from operators.sinks.page_reader import FeatureReader
    from operators.sinks.pages import PageTable
    from operators.sinks.published import Definition


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
