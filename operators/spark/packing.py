"""Rows in and out of buckets as Arrow IPC blobs: one row per bucket and task goes through the shuffle, not one per record."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from queue import Queue
from threading import Condition, Event, Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.columns.ranges import Ints
from operators.columns.records import RecordColumns, UsableRows, number_keys
from operators.runtime.program import Program
from operators.spark import blobs
from operators.spark.blobs import to_blobs
from operators.spark.failures import located, task
from operators.spark.runs import is_first_batch
from operators.spark.user_code import one_at_a_time
from operators.spark.workers import prepare_worker
from operators.steps.partials import Partials, TwoStagePlan, to_table
from serializers.arrays import take_rows
from serializers.keys import NO_COLUMNS, bucket_of, encode_keys

PACKED = pa.schema(
    [
        ("bucket", pa.int32()),
        ("rows", pa.int64()),
        ("bad", pa.int64()),
        ("sent", pa.int64()),
        ("row_bytes", pa.int64()),
        ("kind", pa.int32()),
        ("blob", pa.binary()),
    ]
)
"""A blob for a bucket: how many usable and bad records it stands for, and what it is."""
TO_BUCKETS = pa.schema([PACKED.field(name) for name in ("bucket", "kind", "blob")])
"""The columns that go through the shuffle; the others are only counted."""
CALL, ARRIVED, ROWS, PARTIALS = range(4)
"""Kinds: no blob, to wake the bucket; the same, where records arrived, for whichever bucket; records; partial aggregates."""
_BATCHES_AHEAD = 32
_SAMPLE_ROWS = 16_384
_LEAST_SAVING = 2
_Part = tuple[int, int, int, int, int, int, bytes | None]
"""A row of `PACKED`."""


@dataclass(frozen=True)
class Pack:
    """Puts a task's rows into buckets by the hash of their key, accumulated if that makes them fewer.

    Attributes:
        program: names the columns.
        labels: one bucket label per slice of the key space.
        name: of the operator, in errors.
        wakes: whether each task sends a row to each bucket, so that buckets without records work in each batch, too. In the
            first batch of a run it always does, so that stored state of another operator is found at once.
        tells: whether each task that has records tells all buckets so, for them to know when the stream is quiet.
    """

    program: Program
    labels: tuple[int, ...]
    name: str = "windows"
    wakes: bool = False
    tells: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row per bucket and blob, for every few hundred thousand rows, or fewer if they are wide."""
        prepare_worker()
        with located(f"operator {self.name!r}, reading rows in {task()}"):
            yield from self._buckets(batches)

    def _buckets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.wakes or is_first_batch():
            yield _packed([_call(label) for label in self.labels])
        columns = self.program.inputs.records
        for number, part in enumerate(gathered(batches, blobs.BLOB_ROWS)):
            if self.tells and not number:
                yield _packed([_call(label, ARRIVED) for label in self.labels])
            table = part.rename_columns(self.program.inputs.names)
            if self.program.sifts:  # A bad row is reported, or comes out, where its key is.
                yield from _batches(self._whole(table))
                continue
            usable = columns.usable(table)
            with one_at_a_time(self.program):
                partials = self._first_stage(columns, usable)
            parts = self._records(usable.table) if partials is None else self._sent(partials, usable)
            bad = [_call(self.labels[0], bad=usable.bad)] if usable.bad else []
            yield from _batches(chain(parts, bad))

    def _first_stage(self, columns: RecordColumns, usable: UsableRows) -> Partials | None:
        """The rows accumulated, if that makes the first ones so much fewer that it is worth it."""
        plan = self.program.plan
        if not isinstance(plan, TwoStagePlan):
            return None
        sample = columns.records(usable.head(_SAMPLE_ROWS))
        worth_it = len(plan.accumulate(sample)) * _LEAST_SAVING <= len(sample)
        return plan.accumulate(columns.records(usable)) if worth_it else None

    def _sent(self, partials: Partials, usable: UsableRows) -> Iterator[_Part]:
        bucket = self._buckets_of(partials.keys)[partials.entries.key]
        row_bytes = usable.table.nbytes / max(usable.table.num_rows, 1)
        for label, rows in self._by_bucket(bucket):
            count = int(partials.records[rows].sum())
            counts = count, 0, len(rows), int(count * row_bytes)
            yield from _parts(label, counts, PARTIALS, to_table(partials, rows))

    def _whole(self, table: pa.Table) -> Iterator[_Part]:
        """All rows, those that cannot be used among them."""
        _, _, usable = self.program.inputs.records.times(table)
        for label, rows in self._rows(table):
            count = len(rows) if usable is None else int(np.count_nonzero(usable[rows]))
            yield from self._part(label, table, rows, count)

    def _records(self, table: pa.Table) -> Iterator[_Part]:
        for label, rows in self._rows(table):
            yield from self._part(label, table, rows, len(rows))

    @staticmethod
    def _part(label: int, table: pa.Table, rows: Ints, usable: int) -> Iterator[_Part]:
        part = take_rows(table, rows) if len(rows) < table.num_rows else table
        yield from _parts(label, (usable, len(rows) - usable, len(rows), part.nbytes), ROWS, part)

    def _rows(self, table: pa.Table) -> Iterator[tuple[int, Ints]]:
        keys = [table.column(name) for name in self.program.inputs.group_by]
        number, distinct = number_keys(keys, table.num_rows)
        encoded = encode_keys(distinct) if distinct else [NO_COLUMNS]
        yield from self._by_bucket(self._buckets_of(encoded)[number])

    def _buckets_of(self, keys: list[bytes]) -> npt.NDArray[Any]:
        small = np.uint16 if len(self.labels) < 2**16 else np.uint32  # 16 bits are sorted by counting
        return np.fromiter((bucket_of(key, len(self.labels)) for key in keys), small, len(keys))

    def _by_bucket(self, bucket: npt.NDArray[Any]) -> Iterator[tuple[int, Ints]]:
        """Yield the label and the rows of each bucket that has any, in their order."""
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(len(self.labels) + 1))
        for label, start, end in zip(self.labels, edges[:-1], edges[1:], strict=True):
            if end > start:
                yield label, order[start:end]


def _call(label: int, kind: int = CALL, bad: int = 0) -> _Part:
    """A row without a blob."""
    return label, 0, bad, 0, 0, kind, None


def _parts(label: int, counts: tuple[int, int, int, int], kind: int, table: pa.Table) -> Iterator[_Part]:
    """The rows of a bucket, with their counts beside the first blob."""
    for blob in to_blobs(table):
        yield label, *counts, kind, blob
        counts = 0, 0, 0, 0


def _batches(parts: Iterable[_Part]) -> Iterator[pa.RecordBatch]:
    """Yield rows of `PACKED`, some at a time."""
    waiting: list[_Part] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part[-1] or b"")
        if size >= blobs.AT_ONCE_BYTES:
            yield _packed(waiting)
            waiting, size = [], 0
    if waiting:
        yield _packed(waiting)


def _packed(parts: list[_Part]) -> pa.RecordBatch:
    columns = list(zip(*parts, strict=True)) or [()] * len(PACKED)
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, PACKED.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKED)


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield the batches as tables of at least this many rows; the last one, and those of wide rows, may have fewer."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in read_ahead(batches):
        waiting.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= rows or size >= blobs.AT_ONCE_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, count, size = [], 0, 0
    if count:
        yield pa.Table.from_batches(waiting)


def read_ahead(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, which a thread reads ahead: Spark converts rows while earlier ones are processed."""
    ready: Queue[pa.RecordBatch | None] = Queue(_BATCHES_AHEAD)
    failed: list[BaseException] = []
    stopped = Event()
    changed = Condition()
    ahead = 0

    def read() -> None:
        nonlocal ahead
        try:
            for batch in batches:
                size = batch.nbytes
                with changed:
                    while ahead and ahead + size > blobs.AT_ONCE_BYTES and not stopped.is_set():
                        changed.wait()
                    ahead += size
                ready.put(batch)
                if stopped.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - raised again by the reader
            failed.append(error)
        ready.put(None)

    Thread(target=read, name="read-ahead", daemon=True).start()
    try:
        for batch in iter(ready.get, None):
            with changed:
                ahead -= batch.nbytes
                changed.notify()
            yield batch
    finally:
        with changed:
            stopped.set()
            changed.notify()
        while not ready.empty():  # else the thread would wait for room
            ready.get_nowait()
    if failed:
        raise failed[0]


@dataclass(frozen=True)
class Unpack:
    """Unpacks result blobs into rows.

    Attributes:
        schema: the rows' Arrow schema.
    """

    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each blob."""
        prepare_worker()
        for batch in batches:
            for blob in batch.column("blob"):
                if blob.is_valid:
                    yield from pa.ipc.open_stream(blob.as_buffer())
