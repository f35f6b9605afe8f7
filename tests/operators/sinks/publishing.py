"""A local runner that publishes the pages of its batches to a table."""

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from operators.definitions.publishing import PublishedFeatures
from operators.definitions.rolling import RollingAggregation
from operators.runtime.local import LocalRunner
from operators.runtime.page_rows import all_pages, check_published, in_parts
from operators.sinks import PageTable
from operators.sinks.publish import Publish
from operators.sinks.published import Definition
from state_backends import WindowStore, resolve

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC")), ("v", pa.int64())])
PART_BYTES = 800
"""So that all pages are many parts."""
SEGMENT = {"state.segment": "1 minute"}
Record = tuple[Any, int, int]
"""Key, milliseconds after BEGIN, value."""


def moment(ms: int) -> dt.datetime:
    """Return the time so long after BEGIN."""
    return BEGIN + dt.timedelta(milliseconds=ms)


def table_of(records: Sequence[Record], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Return records as a table."""
    rows = [{"k": k, "at": moment(ms), "v": v} for k, ms, v in records]
    return pa.Table.from_pylist(rows, schema=schema)


class Publisher:
    """Processes batches, and publishes what they change. Use it as a context manager."""

    def __init__(
        self,
        features: RollingAggregation,
        pages: PageTable,
        backend: str = "memory",
        schema: pa.Schema = SCHEMA,
        query: str = "one",
        directory: Path | None = None,
        options: Mapping[str, str] = SEGMENT,
    ) -> None:
        published, config = PublishedFeatures(features), resolve(backend, options)
        self.runner = LocalRunner(lambda s, c: published.bind(s, "at", c), config, directory)
        self._binding = published.bind(schema, "at", config)
        self.publish = Publish(pages, Definition.of(self._binding, schema), 1)
        self._schema, self._query = schema, query
        self.batch = -1
        self.changed = self._before = pa.table({})

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runner.close()

    def process(self, records: Sequence[Record], **arguments: Any) -> None:
        """Process the next batch, without publishing it."""
        if self.batch >= 0:
            self._before = self._whole()
        self.changed = self.runner.process(table_of(records, self._schema), **arguments)
        self.batch += 1

    def step(self, records: Sequence[Record], **arguments: Any) -> None:
        """Process the next batch, and publish it."""
        self.process(records, **arguments)
        self.write()

    def write(self, *, whole: bool = False) -> None:
        """Publish the last batch; with `whole`, all pages can be read."""
        before = self._before
        self.publish.write(
            self.changed, self.batch, self._query, (lambda: in_parts([before], PART_BYTES)) if whole else None
        )

    def _whole(self) -> pa.Table:
        with self.runner._stored() as bucket:
            check_published(bucket.schema, self._binding.stored_schema())
            plan = self._binding.plan
            store = WindowStore(bucket.backend, plan.layout, bucket.schema.segment)
            return pa.concat_tables(list(all_pages(store, plan.summed, 0, bucket)))
