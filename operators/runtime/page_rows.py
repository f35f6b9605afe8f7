"""The pages that a batch changed, as rows for a table from which services read what the windows of a key hold.

A row is a page, by the bucket, the key, the segment and the tick at which the page starts. It is the batch's changelog entry
with whole pages: a row that retracts stands for a page that is gone. Each bucket that has worked has a row without key, too.
Keys with several pages in a segment have rows with the sums of these, if the plan sums pages (`page_places` says where).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from operators.runtime.page_places import NO_KEY, PAGE_ROWS, BucketHead
from operators.runtime.page_sum_rows import PageRow, PageTrees
from serializers.keys import stored_key
from state_backends.errors import StateError
from state_backends.store.page_ids import keys_and_starts

if TYPE_CHECKING:
    from operators.steps.plan import Summed
    from operators.steps.timed_store import TimedStore
    from state_backends import WindowStore
    from state_backends.checkpoints.stored_bucket import Bucket
    from state_backends.interface import WriteBatch
    from state_backends.store.schema import StoredSchema


def check_published(running: "StoredSchema", given: "StoredSchema") -> None:
    """Refuse to publish pages in another form than that of the definition that readers have.

    Args:
        running: the state's binding.
        given: the definition's binding.

    Raises:
        StateError: they differ.
    """
    if running.layout != given.layout or running.states != given.states:
        raise StateError(
            "pages of a state that was converted from another definition cannot be published: start the query with a new "
            "checkpoint, from a savepoint of this one"
        )


def changed_pages(
    state: "TimedStore",
    summed: "Summed | None",
    changes: "WriteBatch",
    bucket: int,
    sequence: int,
) -> pa.Table:
    """Return the rows of the pages that a batch changes.

    Args:
        state: the state after the batch. Its backend does not have the changes yet, and still has pages of dropped segments.
        summed: how pages are summed, if they are.
        changes: the changes of the batch.
        bucket: its number.
        sequence: the sequence of the batch, above those of earlier ones.

    Cost: O(changed pages), and the names of the pages in dropped segments. Keys with several pages in a segment: array work on
    the sums of these.
    """
    store, below = state.store, changes.drop_segments_below
    trees = None if summed is None else PageTrees(store, summed, state.sums)
    parts = [_head(bucket, sequence, state.close_time, store.segment_ticks)]
    for segment in store.backend.segments() if below is not None else ():
        if below is not None and segment < below:
            names = [name for some in store.backend.scan_keys(segment) for name in some]
            rows = _plain(store, segment, names) if trees is None else trees.gone(segment, names)
            parts.append(_table(bucket, sequence, segment, rows))
    for segment in {**changes.puts, **changes.deletes}:
        puts, gone = changes.puts.get(segment, {}), changes.deletes.get(segment, ())
        if trees is not None:
            parts.append(_table(bucket, sequence, segment, trees.changed(segment, puts, gone)))
        else:
            rows = _plain(store, segment, [*puts, *gone], list(puts.values()))
            parts.append(_table(bucket, sequence, segment, rows))
    store.forget_reads()  # They were of the backend before it has the changes.
    return pa.concat_tables(parts)


def all_pages(
    store: "WindowStore", summed: "Summed | None", bucket: int, stored: "Bucket"
) -> Iterator[pa.Table]:
    """Yield the rows of all pages of a bucket, segment by segment.

    Args:
        store: a store over the backend of the bucket.
        summed: how pages are summed, if they are.
        bucket: its number.
        stored: the bucket.
    """
    sequence = stored.pointer.number
    yield _head(bucket, sequence, stored.close_time, store.segment_ticks)
    trees = None if summed is None else PageTrees(store, summed)
    for segment in stored.backend.segments():
        plain = (_plain(store, segment, *some) for some in stored.backend.scan(segment))
        for rows in plain if trees is None else trees.all(segment):
            yield _table(bucket, sequence, segment, rows)


def in_parts(tables: Iterable[pa.Table], most_bytes: int) -> Iterator[pa.Table]:
    """Yield the rows of tables as tables of about so many bytes at most; a row with more bytes is one of its own."""
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        # Rows of a table differ little in length: a page has at most some dozens of entries.
        step = max(1, table.num_rows * most_bytes // max(table.nbytes, 1))
        for begin in range(0, table.num_rows, step):
            some = table.slice(begin, step)
            if held and size + some.nbytes > most_bytes:
                yield pa.concat_tables(held)
                held, size = [], 0
            held.append(some)
            size += some.nbytes
    if held:
        yield pa.concat_tables(held)


def _plain(
    store: "WindowStore", segment: int, names: Sequence[bytes], pages: Sequence[bytes] = ()
) -> list[PageRow]:
    """The rows of pages without sums: of those with bytes, and then of those that are gone."""
    keys, starts = keys_and_starts(list(names), store.span_of(segment)[0])
    rows = zip(keys, starts.tolist(), chain(pages, repeat(None)), strict=False)
    return [PageRow(stored_key(key), start, page) for key, start, page in rows]


def _head(bucket: int, sequence: int, close_time: int, segment: int) -> pa.Table:
    head = BucketHead(close_time, segment).encode()
    return _table(bucket, sequence, 0, [PageRow(NO_KEY, 0, head)])


def _table(bucket: int, sequence: int, segment: int, rows: Sequence[PageRow]) -> pa.Table:
    count = len(rows)
    names, starts, pages = zip(*rows, strict=True) if rows else ((), (), ())
    bodies = pa.array(pages, pa.binary())
    arrays = [
        pa.repeat(pa.scalar(0, pa.int64()), count),
        pa.repeat(pa.scalar(bucket, pa.int32()), count),
        pa.array(names, pa.binary()),
        pa.repeat(pa.scalar(segment, pa.int64()), count),
        pa.array(starts, pa.int64()),
        bodies,
        pc.if_else(pc.is_null(bodies), "retract", "update"),
        pa.repeat(pa.scalar(sequence, pa.int64()), count),
    ]
    return pa.Table.from_arrays(arrays, schema=PAGE_ROWS)
