"""That a table is current though no batch comes: what a query notes that has found nothing new to read.

A stream without new records writes no batches. So that its table can be told from that of a dead query, the query notes the
time of the table's clock each time that Spark says that it is idle: a row for each query and definition.

    batch 7              idle     idle     idle   (killed)
    -----|-----------------|--------|--------|---------X----------------------->  clock of the table
         written           `--------`--------` confirmed                   ^ a reader's max_age is compared with this distance:
                                             |<----------------------------|  from the last of these to now
"""

import time

import pyarrow as pa

from operators.runtime.moments import moment_of
from operators.runtime.page_places import HEADS, KEY_COLUMNS, PAGE_ROWS
from operators.sinks.interface import Changes
from operators.sinks.pages import PageFinder, PageTable, Wanted
from operators.sinks.published import HEADS_EDITION, find_head, note_row, note_value
from serializers import pack_value
from serializers.shapes import int64, refusing

_VERSION = 1
_WHAT = "the time until which a table of pages is current"
_ASK_AGAIN_NS = 60 * 10**9


def wanted_confirmation(query: str, definition: int) -> Wanted:
    """Return how the row of a query is found."""
    return Wanted(HEADS_EDITION, HEADS, query.encode(), definition, definition)


def confirmed_us(page: bytes) -> int:
    """Return the time that a row has, in microseconds since the epoch.

    Raises:
        NewerFormatError: a newer version wrote it.
        CorruptDataError: the bytes are something else.
    """
    with refusing(_WHAT):
        found = int64(note_value(page, _VERSION, _WHAT))
        moment_of(found, 1)
        return found


def confirm(pages: PageTable, query: str, definition: int, least_batch: int | None) -> bool:
    """Note that a query has found nothing new to read.

    Args:
        pages: the table.
        query: id of the query.
        definition: number of the definition that it writes.
        least_batch: the last batch that the query has committed; None if that is not known.

    Returns:
        Whether it was noted. A table that lacks a batch, or has the features of another query, is not current.

    Raises:
        SinkError: the table cannot be reached or written to.
    """
    with pages.finder() as finder:
        head, now_us = find_head(finder, definition), finder.now_us()
    if head is None or head.query != query or (least_batch is not None and head.batch < least_batch):
        return False
    row = note_row(query.encode(), definition, pack_value([_VERSION, now_us]), now_us)
    rows = pa.Table.from_pylist([row], schema=PAGE_ROWS).drop_columns(["change"])
    # Numbered by the time: notes of a query only go on.
    name = f"{query} {definition:016x} idle"
    return pages.write(Changes(name, now_us, rows.select(KEY_COLUMNS).slice(0, 0), rows))


class TableClock:
    """The clock of a table, as a reader knows it: asked once a minute, and followed by a steady clock of the machine.

    Args:
        finder: asks the table.
    """

    def __init__(self, finder: PageFinder) -> None:
        self._finder = finder
        self._asked: tuple[int, int] | None = None

    def now_us(self) -> int:
        """Return the time, in microseconds since the epoch; it may be ahead of the table's by one round trip."""
        if self._asked is None or time.monotonic_ns() - self._asked[0] > _ASK_AGAIN_NS:
            begin = time.monotonic_ns()
            self._asked = begin, self._finder.now_us()
        begin, now_us = self._asked
        return now_us + (time.monotonic_ns() - begin) // 1_000
