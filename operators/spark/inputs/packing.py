"""Rows on their way to buckets, as Arrow IPC blobs: one row per bucket and task goes through the shuffle, not one per record.

What a task sends follows from the set of its input rows, the plan and the batch alone. An executor may be lost when others have
read what it sent; then a task runs again, elsewhere, and Spark compares the sums of what both attempts sent. Where they differ,
Spark ends the query, since some buckets may have committed what the others do not know. So nothing here depends on the process,
on the order in which a shuffle delivers rows, or on how Spark cuts them into batches.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from queue import Queue
from threading import Condition, Event, Thread
from time import perf_counter_ns
from typing import Any, cast

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.columns.content import content_order
from operators.columns.ranges import Ints
from operators.columns.records import RecordColumns, UsableRows, most_ticks, number_keys
from operators.runtime.binding import Binding
from operators.spark.base.failures import located, task
from operators.spark.base.observed import COUNTS
from operators.spark.base.task_context import partition
from operators.spark.base.workers import prepare_worker
from operators.spark.inputs import blobs
from operators.spark.inputs.blobs import to_blobs
from operators.steps.partials import Partials, to_table
from serializers.arrays import row_bytes, take_rows
from serializers.keys import NO_COLUMNS, bucket_of, encode_keys

PACKED_COUNTS = ("rows", "bad", "sent", "row_bytes", "sent_bytes", "sort_ms")
"""What is counted: usable and bad records, rows that cross the shuffle, bytes of records and of blobs, time of sorting."""
PACKED = pa.schema(
    [
        ("bucket", pa.int32()),
        ("kind", pa.int32()),
        ("place", pa.int64()),
        ("blob", pa.binary()),
        (COUNTS, pa.list_(pa.int64())),
    ]
)
"""A blob for a bucket, what it is, and its place among those of all tasks; one of several has the counts of all of them."""
TO_BUCKETS = pa.schema([PACKED.field(name) for name in ("bucket", "kind", "place", "blob")])
"""The columns that go through the shuffle; the counts do not."""
CALL, ARRIVED, ROWS, PARTIALS = range(4)
"""Kinds: no blob, to wake the bucket; a task has records, and their highest event time; records; partial aggregates."""
Times = tuple[int | None, ...]
"""A time of each input, or None where it has no record of use."""
_BATCHES_AHEAD = 32
_SAMPLE_ROWS = 16_384
_LEAST_SAVING = 2
_MOST_BLOBS_BITS = 40
_Part = tuple[int, int, int, int, int, int, bytes | None]
"""Bucket, rows, bad, sent, row_bytes, kind and blob, as in `PACKED` and `PACKED_COUNTS`."""


class Stopwatch:
    """Time of blocks, until it is taken."""

    def __init__(self) -> None:
        self._ns = 0

    def __enter__(self) -> None:
        self._ns -= perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        self._ns += perf_counter_ns()

    def take_ms(self) -> int:
        """Return the time in milliseconds, rounded up, and begin anew."""
        taken, self._ns = self._ns, 0
        return -(-taken // 1_000_000)


@dataclass(frozen=True)
class Pack:
    """Puts a task's rows into buckets by the hash of their key, accumulated if that makes them fewer.

    Attributes:
        binding: names the columns.
        labels: one bucket label per slice of the key space.
        name: the name of the operator, in errors.
        tells: whether each task that has records tells all buckets so, and the highest event time of each input. So buckets
            know which windows are closed, and when the stream is quiet.
        markers: the columns that tell several inputs apart: each is true in the rows of one.
        sorts: whether rows arrive in any order, because a shuffle lies below. A task sorts them then by what they hold, and has
            all of them in memory, as its buckets have.
    """

    binding: Binding
    labels: tuple[int, ...]
    name: str = "windows"
    tells: bool = False
    sorts: bool = False
    markers: tuple[str, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row per bucket and blob, for every few hundred thousand rows, or fewer if they are wide."""
        prepare_worker()
        with located(f"operator {self.name!r}, reading rows in {task()}"):
            number, place = partition(), 0
            sorting = Stopwatch()
            for all_parts in self._buckets(batches, sorting, first=number == 0):
                for parts in _some_at_a_time(all_parts):
                    yield _pack(parts, (number << _MOST_BLOBS_BITS) + place, sorting.take_ms())
                    place += len(parts)

    def _buckets(
        self, batches: Iterable[pa.RecordBatch], sorting: Stopwatch, *, first: bool
    ) -> Iterator[Iterable[_Part]]:
        """Yield what goes to buckets. The first task calls all of them, so that those without records work, too."""
        columns, arrivals = self.binding.inputs.records, list[Times]()
        for table in self._tables(batches, sorting):
            if self.tells:
                arrivals.append(self._max_event_times_us(table))
            if self.binding.sifts:  # A bad row is reported, or comes out, where its key is.
                yield self._whole(table)
                continue
            usable = columns.usable(table)
            with self.binding.windows_named():
                partials = self._first_stage(columns, usable)
            parts = self._records(usable.table) if partials is None else self._sent(partials, usable)
            bad = [_call(self.labels[0], bad=usable.bad)] if usable.bad else []
            yield chain(parts, bad)
        if arrivals:
            arrival = cast("bytes", msgpack.packb(latest_of(arrivals)))
            yield [_call(label, ARRIVED, arrival) for label in self.labels]
        elif first:
            yield [_call(label) for label in self.labels]

    def _max_event_times_us(self, table: pa.Table) -> Times:
        """The highest event time of the rows of each input in microseconds; None if none of them can be used."""
        inputs = self.binding.inputs
        column = table.column(inputs.event_time)
        most = most_ticks(column.type, inputs.tick_us, inputs.reach) * inputs.tick_us
        words = column.cast(pa.int64())
        if (pc.max(words).as_py() or 0) >= most:
            words = pc.if_else(pc.less(words, most), words, None)
        if not self.markers:
            return (pc.max(words).as_py(),)
        known = {
            name: pc.fill_null(table.column(name), False)
            for name in self.markers
            if name in table.column_names
        }
        # Rows of one input may have no mark of their own, if nothing needs it.
        rest = pc.invert(reduce(pc.or_, known.values()))
        return tuple(pc.max(words.filter(known.get(name, rest))).as_py() for name in self.markers)

    def _tables(self, batches: Iterable[pa.RecordBatch], sorting: Stopwatch) -> Iterator[pa.Table]:
        """The task's rows, a few hundred thousand at a time, or fewer if they are wide."""
        inputs = self.binding.inputs
        if not self.sorts:
            for part in gather(batches, blobs.BLOB_ROWS):
                yield part.rename_columns(inputs.names)
            return
        arrived = list(read_ahead(batches))
        if not arrived:
            return
        table = pa.Table.from_batches(arrived).rename_columns(inputs.names)
        with sorting:
            table = take_rows(table, content_order(table, [inputs.event_time]))
        yield from cut_tables(table.to_batches(), blobs.BLOB_ROWS)

    def _first_stage(self, columns: RecordColumns, usable: UsableRows) -> Partials | None:
        """The rows accumulated, if that makes the first ones so much fewer that it is worth it."""
        plan = self.binding.plan.first_stage
        if plan is None:
            return None
        sample = columns.records(usable.head(_SAMPLE_ROWS))
        worth_it = len(plan.accumulate(sample)) * _LEAST_SAVING <= len(sample)
        return plan.accumulate(columns.records(usable)) if worth_it else None

    def _sent(self, partials: Partials, usable: UsableRows) -> Iterator[_Part]:
        bucket = self._buckets_of(partials.keys)[partials.entries.key]
        size = usable.table.nbytes / max(usable.table.num_rows, 1)
        for label, rows in self._by_bucket(bucket):
            count = int(partials.records[rows].sum())
            counts = count, 0, len(rows), int(count * size)
            yield from _parts(label, counts, PARTIALS, to_table(partials, rows))

    def _whole(self, table: pa.Table) -> Iterator[_Part]:
        """All rows; those that cannot be used in blobs of their own, so that the others need not be copied again."""
        _, _, usable = self.binding.inputs.records.times(table)
        for label, rows in self._rows(table):
            if usable is None or usable[rows].all():
                yield from self._part(label, table, rows, len(rows))
                continue
            for some in (rows[usable[rows]], rows[~usable[rows]]):
                yield from self._part(label, table, some, int(np.count_nonzero(usable[some])))

    def _records(self, table: pa.Table) -> Iterator[_Part]:
        for label, rows in self._rows(table):
            yield from self._part(label, table, rows, len(rows))

    @staticmethod
    def _part(label: int, table: pa.Table, rows: Ints, usable: int) -> Iterator[_Part]:
        part = take_rows(table, rows) if len(rows) < table.num_rows else table
        # In one chunk, since a blob shows where chunks end.
        counts = usable, len(rows) - usable, len(rows), part.nbytes
        yield from _parts(label, counts, ROWS, part.combine_chunks())

    def _rows(self, table: pa.Table) -> Iterator[tuple[int, Ints]]:
        keys = [table.column(name) for name in self.binding.inputs.group_by]
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


def _call(label: int, kind: int = CALL, blob: bytes | None = None, bad: int = 0) -> _Part:
    """A row without records."""
    return label, 0, bad, 0, 0, kind, blob


def latest_of(times: Iterable[Times]) -> Times:
    """Return the latest of several times of each input."""
    by_input = zip(*times, strict=True)
    return tuple(max((time for time in of if time is not None), default=None) for of in by_input)


def read_arrivals(arrivals: Iterable[bytes]) -> Times:
    """Return the highest event time of each input that tasks told, in microseconds."""
    return latest_of(tuple(msgpack.unpackb(each)) for each in arrivals)


def _parts(label: int, counts: tuple[int, int, int, int], kind: int, table: pa.Table) -> Iterator[_Part]:
    """The rows of a bucket, with their counts beside the first blob."""
    for blob in to_blobs(table):
        yield label, *counts, kind, blob
        counts = 0, 0, 0, 0


def _some_at_a_time(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Yield parts together, but not too many bytes."""
    waiting: list[_Part] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part[-1] or b"")
        if size >= blobs.AT_ONCE_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _pack(parts: list[_Part], place: int, sort_ms: int) -> pa.RecordBatch:
    """Parts as rows, the first of which has this place, and the counts of all, which the place tells from others."""
    buckets, *counts, kinds, sent = zip(*parts, strict=True)
    totals = [place + 1, *map(sum, counts), sum(len(blob) for blob in sent if blob is not None), sort_ms]
    places, told = range(place, place + len(parts)), [totals, *[None] * (len(parts) - 1)]
    columns = zip((buckets, kinds, places, sent, told), PACKED.types, strict=True)
    arrays = [pa.array(column, type_) for column, type_ in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKED)


def gather(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield all rows as tables of so many rows, while a thread reads ahead; see `cut_tables`."""
    yield from cut_tables(read_ahead(batches), rows)


def cut_tables(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield all rows as tables of so many rows; the last one, and those of very long rows, have fewer.

    Where a table ends depends on the rows alone, not on how they are cut into batches.
    """
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        ends = np.cumsum(row_bytes(pa.Table.from_batches([batch])))
        first = 0
        while first < batch.num_rows:
            before = int(ends[first - 1]) if first else 0
            fitting = int(np.searchsorted(ends, before + blobs.AT_ONCE_BYTES - size, "right"))
            last = max(min(fitting, first + rows - count), first if count else first + 1)
            if last > first:
                waiting.append(batch.slice(first, last - first))
                count, size, first = count + last - first, size + int(ends[last - 1]) - before, last
            if count >= rows or first < batch.num_rows:
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
