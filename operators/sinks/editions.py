"""All pages of a query as a new edition: in parts that no reader sees, until the last one brings the head that names it.

    writes     | note: X | part of X | part of X | changed pages, head: X, note: the former edition | removal | no note |
    readers    ------------------ the former edition -----------------|---------------------- X ------------------------

The note says which edition is not the one of the head, and may have rows: a driver that comes after a crash removes it. Parts
are numbered as the batches of a query are, and each number is written once. So if two drivers write at once, one of them is
refused before it removes rows of an edition that the other is about to show, or shows an edition that lacks rows.
"""

import hashlib

import pyarrow as pa

from operators.runtime.page_places import HEADS, KEY_COLUMNS, PAGE_ROWS
from operators.sinks.changes import changes_of
from operators.sinks.interface import SinkError
from operators.sinks.pages import FoundPage, PageTable, Wanted
from operators.sinks.published import HEADS_EDITION, note_row, note_value
from serializers import pack_value
from serializers.shapes import count, refusing

_KEY = b"edition"
_VERSION = 1
_WHAT = "the note of an edition in a table of pages"


def wanted_note(definition: int) -> Wanted:
    """Return how the note of a definition is found."""
    return Wanted(HEADS_EDITION, HEADS, _KEY, definition, definition)


def noted_edition(found: FoundPage) -> int:
    """Return the edition that a note names.

    Raises:
        NewerFormatError: a newer version wrote it.
        CorruptDataError: the bytes are something else.
    """
    with refusing(_WHAT):
        return count(note_value(found.page, _VERSION, _WHAT))


class EditionWriter:
    """Writes editions of a definition. Make it before the head and the note are read on which the edition depends.

    Args:
        pages: the table.
        query: id of the query.
        definition: number of the definition.
    """

    def __init__(self, pages: PageTable, query: str, definition: int) -> None:
        self._pages = pages
        self._definition = definition
        self._name = f"{query} {definition:016x} edition"
        last = pages.last_batch(self._name)
        self._number = 0 if last is None else last.number + 1
        self.edition = edition_of(f"{self._name} {self._number}")

    def clean(self, left: int) -> None:
        """Remove an edition that nobody reads, which a driver has left that crashed."""
        self.put(self._note(left))  # Others are refused from here on.
        self._pages.remove(left)
        self.put(self._note(None))

    def begin(self) -> None:
        """Note that the edition is begun."""
        self.put(self._note(self.edition))

    def finish(self, rows: pa.Table, former: int | None) -> None:
        """Write the last rows, with the head that has readers see the edition; then remove the former one.

        Args:
            rows: the rows.
            former: number of the former edition; None if there is none.
        """
        self.put(pa.concat_tables([rows, self._note(former)]))
        if former is not None:
            self._pages.remove(former)
            self.put(self._note(None))

    def put(self, rows: pa.Table) -> None:
        """Write rows.

        Raises:
            SinkError: another driver writes an edition of these features.
        """
        if not self._pages.write(changes_of(rows, KEY_COLUMNS, self._name, self._number, None)):
            raise SinkError(
                f"another driver writes all pages to {self._pages!r} for the same query: stop one of them"
            )
        self._number += 1

    def _note(self, edition: int | None) -> pa.Table:
        """The row that names an edition, or that removes the one that did."""
        page = None if edition is None else pack_value([_VERSION, edition])
        row = note_row(_KEY, self._definition, page, self._number)
        return pa.Table.from_pylist([row], schema=PAGE_ROWS)


def edition_of(text: str) -> int:
    """Return a number of 63 bits for the edition that a text names."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def with_edition(rows: pa.Table, edition: int) -> pa.Table:
    """Return rows of pages as those of an edition."""
    place = rows.schema.get_field_index("edition")
    return rows.set_column(place, PAGE_ROWS.field("edition"), pa.repeat(edition, rows.num_rows)).cast(
        PAGE_ROWS
    )
