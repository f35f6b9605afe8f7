"""Tables of pages: sinks that also find the pages of keys, for readers of what the windows of a key hold at a moment."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from operators.sinks.interface import Sink


class Wanted(NamedTuple):
    """Rows to find: those of one key in a range of segments, by the columns that identify a row.

    Attributes:
        edition, bucket, key: the edition, bucket and key of the rows.
        first, last: segments.
    """

    edition: int
    bucket: int
    key: bytes
    first: int
    last: int


class FoundPage(NamedTuple):
    """A row that was found.

    Attributes:
        wanted: position of what it was found for.
        segment, start: the segment and start of the row.
        page: its bytes.
    """

    wanted: int
    segment: int
    start: int
    page: bytes


class PageFinder(Protocol):
    """Finds rows, over a connection that it keeps. One call at a time; any thread."""

    def find(self, wanted: Sequence[Wanted]) -> list[FoundPage]:
        """Return all rows that are wanted, as one batch left them: never some of one batch and some of another.

        The same row may be wanted several times. Rows come in any order. After an error the next call connects again.

        Raises:
            SinkError: the table cannot be reached; says why.
        """

    def now_us(self) -> int:
        """Return the time by the clock of the table's server, in microseconds since the epoch.

        How old a table is, is judged by this clock alone, whatever the clocks of the query and of its readers say.

        Raises:
            SinkError: the table cannot be reached; says why.
        """

    def close(self) -> None:
        """Release the connection. May be called twice."""


class PageTable(Sink):
    """A sink for the rows of `operators.runtime.page_places.PAGE_ROWS`, which readers find by key.

    `write` takes their columns but for `change`; the first five are the key. It is also called in an empty table and with
    tables of other editions in it. Every batch has rows, so that each is noted.
    """

    @abstractmethod
    def finder(self) -> AbstractContextManager[PageFinder]:
        """Return what finds rows. Nothing is connected before its first call. A table that does not exist has no rows."""

    @abstractmethod
    def remove(self, edition: int) -> None:
        """Delete the rows of an edition that no reader asks for any more.

        Raises:
            SinkError: the table cannot be reached or written to; says why.
        """
