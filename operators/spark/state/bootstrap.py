"""Bootstrap: the state that a bounded frame leaves, as a savepoint from which a stream starts.

    rows in order of key and time -> OpenPages: what the store has at the end -> by bucket and key -> WritePages -> header

The first half is that of a bounded run. Pages go from task to task, and to files: no state passes through the driver.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

from operators.errors import DefinitionError
from operators.runtime.binding import Binding, Runnable
from operators.runtime.fill import Fill, history_of
from operators.spark.base.failures import located, task
from operators.spark.base.session import check_workers
from operators.spark.base.types import spark_schema
from operators.spark.base.workers import prepare_worker
from operators.spark.batch.bounded import BoundedRun, refuse_late
from operators.spark.batch.bounded_input import input_columns, sort_input
from operators.spark.inputs.arguments import Arguments
from operators.spark.inputs.prepare import Prepared, prepare
from operators.spark.inputs.watermarks import utc
from operators.steps.plan import Engine
from operators.steps.step import Step
from serializers.keys import bucket_of
from serializers.pages import PageLayout
from state_backends.checkpoints.labels import partition_labels
from state_backends.checkpoints.saved_files import (
    SAVED,
    SavedFile,
    SavedPage,
    in_parts,
    saved_pages,
    write_files,
)
from state_backends.checkpoints.savepoint import Savepoint, check_new, write_header
from state_backends.durability.folders import Folder, absolute
from state_backends.store.page_ids import key_of

PAGES = pa.schema([("label", pa.int32()), ("crc", pa.int64()), ("key", pa.binary()), ("page", pa.binary())])
"""A page as it goes to the task that writes it: the label of its bucket, and the fields of a `SavedPage`."""
_NAME = "savepoint"
_CALLER = 5
"""How far up the stack who called `savepoint` is from its warning."""


@dataclass(frozen=True)
class OpenPages(BoundedRun):
    """Runs a binding over one partition of a bounded frame, and yields the pages that its store has at the end.

    Attributes:
        labels: the labels of the files: each has a slice of the keys, and its label a shuffle partition.
    """

    labels: tuple[int, ...] = (0,)

    def _step(self, engine: Engine, table: pa.Table, close_time: int) -> Iterator[pa.RecordBatch]:
        """Process rows, and drop what is emitted."""
        step = Step(engine.state.close_time, close_time)
        engine.step(self._batch(table).records, step)
        refuse_late(step.counters)
        return iter(())

    def _last_step(self, engine: Engine, table: pa.Table) -> Iterator[pa.RecordBatch]:
        yield from self._step(engine, table, self.close_time)
        # The backend is empty: all pages are changes.
        puts = engine.state.store.drain_changes().puts.values()
        named = ((key_of(name), page) for pages in puts for name, page in pages.items())
        yield from map(self._rows, in_parts(saved_pages(named)))

    def _rows(self, pages: list[SavedPage]) -> pa.RecordBatch:
        crcs, keys, values = zip(*pages, strict=True)
        labels = [self.labels[bucket_of(key, len(self.labels))] for key in keys]
        columns = [labels, crcs, keys, values]
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, PAGES.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=PAGES)


@dataclass(frozen=True, slots=True)
class WritePages:
    """Writes the pages of one partition into files.

    Attributes:
        uri: the savepoint's folder.
        labels: the labels of the buckets.
        layout: the layout of the pages.
        close_time: close time in ticks.
    """

    uri: str
    labels: tuple[int, ...]
    layout: PageLayout
    close_time: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row that describes each file. Rows come in order of bucket and CRC-32."""
        with located(f"writing a savepoint in {task()}"):
            folder = Folder(self.uri)
            for label, rows in groupby(chain.from_iterable(map(_rows, batches)), itemgetter(0)):
                pages = (SavedPage(*page) for _, *page in rows)
                number = self.labels.index(label)
                for file in write_files(folder, number, self.layout, pages, self.close_time):
                    yield from file.table().to_batches()


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows of `PAGES` as tuples."""
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


@dataclass(frozen=True, slots=True)
class FillBuckets:
    """Joins the buckets of a partition: those of a running query, and of its history.

    Attributes:
        fill: the join.
        uri: the folder of the savepoint that is written.
        buckets: how many there are.
    """

    fill: Fill
    uri: str
    buckets: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row that describes each file; rows in are numbers of buckets."""
        prepare_worker()
        with located(f"filling a savepoint in {task()}"):
            for number in chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
                for file in self.fill.files(Folder(self.uri), number, self.buckets):
                    yield from file.table().to_batches()


def _filled_savepoint(prepared: Prepared, path: str | Path, running: Savepoint) -> Savepoint:
    """Write a running query's state with added aggregates filled from a bounded frame."""
    target = Folder(absolute(path))
    check_new(target)
    earliest = min([file.close_time for file in running.files], default=running.close_time)
    history = _savepoint(prepared, history_of(target), earliest, None)
    micros = _newest(prepared)
    newest = None if micros is None else micros // prepared.binding.tick_us
    fill = Fill.of(prepared.binding, running, history, newest)
    buckets = prepared.buckets
    numbers = prepared.df.sparkSession.range(0, buckets, 1, buckets)
    run = FillBuckets(fill, target.uri, buckets)
    saved = [SavedFile(*row) for row in numbers.mapInArrow(run, spark_schema(SAVED)).collect()]
    return fill.write_header(target, saved)


def savepoint(
    operator: Runnable,
    df: DataFrame,
    event_time: str | Column,
    path: str | Path,
    close_time: datetime | str | None,
    running: Savepoint | None,
    options: Mapping[str, object] | None,
) -> Savepoint:
    """Write the state that a bounded frame leaves; see `RunnableOperator.savepoint`."""
    prepared = prepare(operator, df, event_time, Arguments(options=options))
    if (close_time is None) == (running is None):
        raise DefinitionError(
            "savepoint takes either close_time, up to which the frame is complete, or running, the savepoint of a stopped "
            "query whose added aggregates are filled from the frame"
        )
    if close_time is not None:
        return _savepoint(prepared, path, prepared.close_ticks(close_time), close_time)
    assert running is not None  # noqa: S101 - one of both is given
    return _filled_savepoint(prepared, path, running)


def _savepoint(
    prepared: Prepared, path: str | Path, close_ticks: int, close_time: datetime | str | None
) -> Savepoint:
    """Write the state of a frame at a close time in ticks, which the user gave as `close_time`, if at all."""
    if prepared.df.isStreaming:
        raise DefinitionError(
            "savepoint takes a bounded frame, not a stream: for the state of a stopped query, use write_savepoint"
        )
    check_workers(prepared.df.sparkSession)
    target = Folder(absolute(path))
    check_new(target)
    binding = prepared.binding
    labels = tuple(partition_labels(prepared.buckets))
    input_ = sort_input(input_columns(prepared.df, binding, streaming=False), binding, _NAME)
    run = OpenPages(
        binding, input_.source, _NAME, input_.step, prepared.config.log_level, close_ticks, labels
    )
    pages = input_.df.mapInArrow(run, spark_schema(PAGES)).repartition(len(labels), "label")
    write = WritePages(target.uri, labels, binding.plan.layout, close_ticks)
    files = pages.sortWithinPartitions("label", "crc").mapInArrow(write, spark_schema(SAVED)).collect()
    origin = {"stream_time": close_ticks + binding.grace, "sequence": 1}
    saved = [SavedFile(*row) for row in files]
    if close_time is not None and _may_be_beyond(binding, saved):
        _warn_of_close_time(prepared, close_time, close_ticks, target.uri)
    return write_header(target, binding.identity(), binding.stored_schema(), close_ticks, saved, origin)


def _newest(prepared: Prepared) -> int | None:
    """The event time of the newest record in microseconds, or None without records."""
    micros = F.unix_micros(utc(prepared.df, prepared.event_time))
    (row,) = prepared.df.select(F.max(micros)).collect()
    newest: int | None = row[0]
    return newest


def _may_be_beyond(binding: Binding, saved: Sequence[SavedFile]) -> bool:
    """Whether a close time may lie far after all records: nothing is open then but what stays open whatever the time."""
    return binding.plan.keeps_state or not saved


def _warn_of_close_time(prepared: Prepared, close_time: datetime | str, close_ticks: int, uri: str) -> None:
    """Warn of a close time that lies after the newest record by more than the grace and a window."""
    binding = prepared.binding
    micros = _newest(prepared)
    longest = (binding.grace + binding.plan.max_bound_offset) * binding.tick_us
    if micros is None or close_ticks * binding.tick_us - micros <= longest:
        return
    newest = datetime(1970, 1, 1) + timedelta(microseconds=micros)
    warnings.warn(
        f"close_time is {str(close_time)!r}, and the newest record is of {newest} (UTC), earlier by more than grace and a "
        "window. A stream that starts from this savepoint emits nothing until then, since all records before close_time are "
        f"late. If you mean another time, remove {uri} and write the savepoint again",
        stacklevel=_CALLER,
    )
