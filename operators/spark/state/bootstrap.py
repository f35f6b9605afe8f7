"""Bootstrap: the state that a bounded frame leaves, as a savepoint from which a stream starts.

    rows in order of key and time -> OpenEntries: what the store has at the end -> by file and key -> WriteEntries -> header

The first half is that of a bounded run. Entries go from task to task, and to files: no state passes through the driver.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, groupby, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

from operators.errors import DefinitionError
from operators.runtime.binding import Binding, Runnable
from operators.spark.base.failures import located, task
from operators.spark.base.session import check_workers
from operators.spark.base.types import spark_schema
from operators.spark.base.user_code_lock import one_at_a_time
from operators.spark.batch.bounded import BoundedRun, refuse_late
from operators.spark.batch.bounded_input import input_columns, sort_input
from operators.spark.inputs.prepare import Prepared, prepare
from operators.spark.inputs.watermarks import utc
from operators.steps.plan import Engine
from operators.steps.step import Step
from serializers.keys import bucket_of
from state_backends.checkpoints.labels import partition_labels
from state_backends.checkpoints.savepoint import (
    SAVED,
    SavedBucket,
    Savepoint,
    check_new,
    saved_columns,
    saved_entries,
    write_entries,
    write_header,
)
from state_backends.durability.folders import Folder, absolute

_FILE, _PLACE = "file", "place"
_NAME = "savepoint"
_CALLER = 4
"""How far up the stack who called `savepoint` is from its warning."""


@dataclass(frozen=True)
class OpenEntries(BoundedRun):
    """Runs a binding over one partition of a bounded frame, and yields the entries that its store has at the end.

    Attributes:
        labels: of the files: each has a slice of the keys, and its label a shuffle partition.
    """

    labels: tuple[int, ...] = (0,)

    @property
    def columns(self) -> pa.Schema:
        """The columns of a row: the label of its file, its place among the entries of its key, and the entry."""
        places = [pa.field(_FILE, pa.int32()), pa.field(_PLACE, pa.int64())]
        return pa.schema([*places, *saved_columns(self.binding.stored_schema())])

    def _step(self, engine: Engine, table: pa.Table, close_time: int) -> Iterator[pa.RecordBatch]:
        """Process rows, and drop what is emitted."""
        step = Step(engine.state.close_time, close_time)
        with one_at_a_time(self.binding):
            engine.step(self._batch(table).records, step)
        refuse_late(step.counters)
        return iter(())

    def _last_step(self, engine: Engine, table: pa.Table) -> Iterator[pa.RecordBatch]:
        yield from self._step(engine, table, self.close_time)
        columns, place = saved_columns(self.binding.stored_schema()), 0
        for keys, entries in engine.state.store.scan():
            labels = np.array([self.labels[bucket_of(key, len(self.labels))] for key in keys], np.int32)
            begin = 0
            for rows in saved_entries(keys, entries.key, entries.columns, columns):
                end = begin + rows.num_rows
                places = np.arange(place + begin, place + end)
                arrays = [pa.array(labels[entries.key[begin:end]]), pa.array(places), *rows.columns]
                yield from pa.Table.from_arrays(arrays, schema=self.columns).to_batches()
                begin = end
            place += begin


@dataclass(frozen=True, slots=True)
class WriteEntries:
    """Writes the entries of one partition into files.

    Attributes:
        uri: the savepoint's folder.
        labels: of the files.
        columns: of the files, as `saved_columns` returns them.
        close_time: in ticks.
    """

    uri: str
    labels: tuple[int, ...]
    columns: pa.Schema
    close_time: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row that describes each file. Rows come in order of file and key."""
        with located(f"writing a savepoint in {task()}"):
            for label, parts in groupby(chain.from_iterable(map(_by_file, batches)), lambda part: part[0]):
                tables = (table.drop_columns([_FILE, _PLACE]) for _, table in parts)
                number = self.labels.index(label)
                saved = write_entries(Folder(self.uri), number, self.columns, tables, self.close_time)
                yield from saved.table().to_batches()


def _by_file(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each file in a batch, which are next to one another."""
    table = pa.Table.from_batches([batch])
    labels = table.column(_FILE).to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), table.num_rows]
    for start, end in pairwise(edges):
        if end > start:
            yield int(labels[start]), table.slice(start, end - start)


def savepoint(
    operator: Runnable,
    df: DataFrame,
    event_time: str | Column,
    path: str | Path,
    close_time: datetime | str,
    options: Mapping[str, object] | None,
) -> Savepoint:
    """Write the state that a bounded frame leaves; see `RunnableOperator.savepoint`."""
    prepared = prepare(operator, df, event_time, None, options)
    if df.isStreaming:
        raise DefinitionError(
            "savepoint takes a bounded frame, not a stream: for the state of a stopped query, use write_savepoint"
        )
    check_workers(df.sparkSession)
    target = Folder(absolute(path))
    check_new(target)
    binding, close_ticks = prepared.binding, prepared.close_ticks(close_time)
    labels = tuple(partition_labels(prepared.buckets))
    input_ = sort_input(input_columns(prepared.df, binding, streaming=False), binding, _NAME)
    run = OpenEntries(
        binding, input_.source, _NAME, input_.step, prepared.config.log_level, close_ticks, labels
    )
    entries = input_.df.mapInArrow(run, spark_schema(run.columns)).repartition(len(labels), _FILE)
    entries = entries.sortWithinPartitions(_FILE, "crc", "key", _PLACE)
    write = WriteEntries(target.uri, labels, saved_columns(binding.stored_schema()), close_ticks)
    files = entries.mapInArrow(write, spark_schema(SAVED)).collect()
    origin = {"stream_time": close_ticks + binding.grace, "sequence": 1}
    saved = [SavedBucket(*row) for row in files]
    if _may_be_beyond(binding, saved):
        _warn_of_close_time(prepared, close_time, close_ticks, target.uri)
    return write_header(target, binding.identity(), binding.stored_schema(), close_ticks, saved, origin)


def _may_be_beyond(binding: Binding, saved: Sequence[SavedBucket]) -> bool:
    """Whether a close time may lie far after all records: nothing is open then but what stays open whatever the time."""
    return binding.plan.keeps_state or not any(bucket.rows for bucket in saved)


def _warn_of_close_time(prepared: Prepared, close_time: datetime | str, close_ticks: int, uri: str) -> None:
    """Warn of a close time that lies after the newest record by more than the grace and a window."""
    binding = prepared.binding
    micros = F.unix_micros(utc(prepared.df, prepared.event_time))
    (row,) = prepared.df.select(F.max(micros)).collect()
    longest = (binding.grace + binding.plan.max_bound_offset) * binding.tick_us
    if row[0] is None or close_ticks * binding.tick_us - row[0] <= longest:
        return
    newest = datetime(1970, 1, 1) + timedelta(microseconds=row[0])
    warnings.warn(
        f"close_time is {str(close_time)!r}, and the newest record is of {newest} (UTC), earlier by more than grace and a "
        "window. A stream that starts from this savepoint emits nothing until then, since all records before close_time are "
        f"late. If you mean another time, remove {uri} and write the savepoint again",
        stacklevel=_CALLER,
    )
