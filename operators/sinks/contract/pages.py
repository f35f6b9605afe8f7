"""Promises about tables of pages: what was written is found by key, as of one batch."""

import multiprocessing
import pickle
import random
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from operators.runtime.page_places import KEY_COLUMNS, PAGE_ROWS
from operators.sinks.contract.base import check, number_of
from operators.sinks.interface import Changes, WrittenBatch
from operators.sinks.pages import PageTable, Wanted

Place = tuple[int, int, bytes, int, int]
"""Edition, bucket, key, segment, start."""
_LEAST, _MOST = -(2**63), 2**63 - 1
_KEYS = 5
_PAGES = 40
_DAY_US = 86_400_000_000
_STANDS_SECONDS = 2.0


def page_changes(
    batch: int,
    upserts: Mapping[Place, bytes],
    deletes: Sequence[Place] = (),
    query: str = "one",
    fingerprint: int = 0,
) -> Changes:
    """Return a batch of pages."""
    schema = pa.schema([PAGE_ROWS.field(name) for name in KEY_COLUMNS])
    gone = pa.Table.from_pylist(
        [dict(zip(KEY_COLUMNS, place, strict=True)) for place in deletes], schema=schema
    )
    rows = [
        {**dict(zip(KEY_COLUMNS, place, strict=True)), "page": page, "sequence": batch}
        for place, page in upserts.items()
    ]
    values = [PAGE_ROWS.field(name) for name in ("page", "sequence")]
    return Changes(
        query, batch, gone, pa.Table.from_pylist(rows, schema=pa.schema([*schema, *values])), fingerprint
    )


def pages_of(table: PageTable, wanted: Sequence[Wanted]) -> dict[tuple[int, int, int], bytes]:
    """Return what is found, by the position of what was wanted, segment and start."""
    with table.finder() as finder:
        found = finder.find(wanted)
    return {(row.wanted, row.segment, row.start): bytes(row.page) for row in found}


def _batch(number: int) -> dict[Place, bytes]:
    """Pages that all say the number of their batch."""
    return {(1, n % 3, b"\x01k%d" % (n % _KEYS), n, n): b"%d" % number for n in range(_PAGES)}


def _all() -> list[Wanted]:
    return [Wanted(1, bucket, b"\x01k%d" % key, _LEAST, _MOST) for bucket in range(3) for key in range(_KEYS)]


def write_pages_forever(table: PageTable, ready: Connection) -> None:
    """Write batches that replace every page, until the process is killed."""
    last = number_of(table.last_batch("one"))
    for batch in count(0 if last is None else last + 1):
        table.write(page_changes(batch, _batch(batch)))
        ready.send(batch)


class PageContract:
    """Tests of one table of pages. Subclass it, with a name that begins with `Test`, and implement `table`.

    Attributes:
        kills: how often the writing process is killed.
    """

    kills: ClassVar[int] = 2

    @abstractmethod
    def table(self, place: Any, name: str) -> PageTable:
        """Return the table of this name; each call returns a new object, of the same table."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Any:
        """Where the tables of one test are: by default an empty directory."""
        return tmp_path

    def test_a_table_that_does_not_exist_has_no_pages(self, place: Any) -> None:
        """It can be asked before the first batch, also by a reader that stays."""
        table = self.table(place, "t")
        with table.finder() as finder:
            check("a table that does not exist has no pages", [], list(finder.find(_all())))
            table.write(page_changes(0, _batch(0)))
            check("a reader sees a table that came later", _PAGES, len(finder.find(_all())))

    def test_pages_are_found_by_key_and_segment(self, place: Any) -> None:
        """With both ends of the range, and nothing of other editions, buckets and keys."""
        table = self.table(place, "t")
        key = b"\x01\x00\xff'\"%:*k"
        stored: dict[Place, bytes] = {
            (edition, bucket, name, segment, start): b"\x00\xff%d %d" % (segment, start)
            for edition in (1, 2**63 - 1)
            for bucket in (-1, 0, 7)
            for name in (b"", key, key + b"x")
            for segment, start in [(-(2**62), _LEAST), (-1, -5), (0, 0), (0, 9), (3, 30), (2**62, _MOST)]
        }
        table.write(page_changes(0, stored))
        for first, last in [(0, 0), (-1, 2), (_LEAST, _MOST), (4, 5)]:
            expected = {
                (0, place_[3], place_[4]): page
                for place_, page in stored.items()
                if place_[:3] == (1, 7, key) and first <= place_[3] <= last
            }
            found = pages_of(table, [Wanted(1, 7, key, first, last)])
            check("the pages of a key in a range of segments are found", expected, found)

    def test_the_same_page_may_be_wanted_twice(self, place: Any) -> None:
        """Each time it is found for its own position."""
        table = self.table(place, "t")
        table.write(page_changes(0, {(1, 0, b"\x01a", 5, 0): b"page"}))
        twice = [Wanted(1, 0, b"\x01a", 0, 5), Wanted(1, 0, b"\x01b", 0, 5), Wanted(1, 0, b"\x01a", 5, 9)]
        expected = {(0, 5, 0): b"page", (2, 5, 0): b"page"}
        check("a page is found for each position that wants it", expected, pages_of(table, twice))

    def test_pages_are_replaced_and_deleted(self, place: Any) -> None:
        """A deleted page that does not exist does no harm."""
        table, (a, b, c) = self.table(place, "t"), [(1, 0, b"\x01a", n, 0) for n in range(3)]
        table.write(page_changes(0, {a: b"1", b: b"1"}))
        table.write(page_changes(1, {a: b"2", c: b""}, [b, (1, 0, b"\x01z", 0, 0)]))
        found = pages_of(table, [Wanted(1, 0, b"\x01a", _LEAST, _MOST)])
        check("pages are replaced, inserted and deleted", {(0, 0, 0): b"2", (0, 2, 0): b""}, found)

    def test_a_repeated_batch_changes_nothing(self, place: Any) -> None:
        """Nor does an earlier one; the last one and its fingerprint are known."""
        place_ = (1, 0, b"\x01a", 0, 0)
        check("a new table has no batch", None, self.table(place, "t").last_batch("one"))
        check(
            "a new batch is written",
            True,
            self.table(place, "t").write(page_changes(3, {place_: b"1"}, fingerprint=5)),
        )
        for batch in (3, 2):
            again = self.table(place, "t").write(page_changes(batch, {place_: b"2"}, fingerprint=6))
            check("a batch that was written is not written again", False, again)
        found = pages_of(self.table(place, "t"), [Wanted(1, 0, b"\x01a", 0, 0)])
        check("a repeated batch changes nothing", {(0, 0, 0): b"1"}, found)
        last = self.table(place, "t").last_batch("one")
        check("the last batch and its fingerprint are known", WrittenBatch(3, 5), last)
        check(
            "queries are counted apart",
            True,
            self.table(place, "t").write(page_changes(0, {}, query="a\"'b")),
        )

    def test_an_edition_is_removed_alone(self, place: Any) -> None:
        """Others stay, also those whose number begins with the same digits."""
        table = self.table(place, "t*")
        for batch, edition in enumerate((1, 12, 2)):
            table.write(page_changes(batch, {(edition, 0, b"\x01a", 0, 0): b"page"}))
        table.remove(1)
        wanted = [Wanted(edition, 0, b"\x01a", 0, 0) for edition in (1, 12, 2)]
        check("an edition is removed alone", {1, 2}, {number for number, _, _ in pages_of(table, wanted)})

    def test_tables_are_apart(self, place: Any) -> None:
        """Under names that need to be quoted, too."""
        for name in ("t", 'two "words" %s', "drop;--"):
            self.table(place, name).write(page_changes(0, {(1, 0, b"\x01a", 0, 0): name.encode()}))
        for name in ("t", 'two "words" %s', "drop;--"):
            found = pages_of(self.table(place, name), [Wanted(1, 0, b"\x01a", 0, 0)])
            check("each table has its own pages", {(0, 0, 0): name.encode()}, found)

    def test_a_table_can_be_pickled(self, place: Any) -> None:
        """As Spark does with what a query holds."""
        copied = pickle.loads(pickle.dumps(self.table(place, "t")))  # noqa: S301 - its own bytes
        check("a table that was pickled can be written", True, copied.write(page_changes(0, _batch(0))))

    def test_queries_write_beside_each_other(self, place: Any) -> None:
        """Two definitions of one feature live in one table while services move, and a query notes that it is idle."""
        key, batches = b"\x01a", 25

        def write(edition: int) -> list[bool]:
            return [
                self.table(place, "t").write(
                    page_changes(batch, {(edition, 0, key, 0, 0): b"%d" % batch}, query=f"query {edition}")
                )
                for batch in range(batches)
            ]

        self.table(place, "t").write(page_changes(0, {}))
        with ThreadPoolExecutor() as pool:
            written = [*pool.map(write, (1, 2))]
        check("batches of queries that write at once are written", [[True] * batches] * 2, written)
        found = pages_of(self.table(place, "t"), [Wanted(edition, 0, key, 0, 0) for edition in (1, 2)])
        check("each query's last page is there", {b"%d" % (batches - 1)}, {*found.values()})
        check("each query's page is there", 2, len(found))

    def test_the_clock_goes_on(self, place: Any) -> None:
        """It is the same for all, counts microseconds since the epoch, and needs no table."""
        with self.table(place, "t").finder() as one, self.table(place, "t").finder() as other:
            times = [one.now_us(), other.now_us(), one.now_us()]
            check("the clock is the same for all, and goes on", sorted(times), times)
            apart_us = abs(times[0] - time.time_ns() // 1_000)
            check("the clock counts microseconds since the epoch", True, apart_us < _DAY_US)
            begin = time.monotonic()
            while one.now_us() == times[-1] and time.monotonic() - begin < _STANDS_SECONDS:
                time.sleep(0.001)
            check("the clock does not stand", True, one.now_us() > times[-1])

    def test_an_answer_is_of_one_batch(self, place: Any) -> None:
        """While another thread writes; and it never goes back."""
        table, stop = self.table(place, "t"), Event()
        table.write(page_changes(0, _batch(0)))

        def write() -> None:
            for batch in count(1):
                if stop.is_set():
                    return
                self.table(place, "t").write(page_changes(batch, _batch(batch)))

        writer = Thread(target=write, daemon=True)
        writer.start()
        seen = 0
        try:
            with table.finder() as finder:
                for _ in range(100):
                    found = [int(bytes(row.page)) for row in finder.find(_all())]
                    check("an answer has the pages of one batch", (_PAGES, 1), (len(found), len({*found})))
                    check("an answer is not older than the one before", True, found[0] >= seen)
                    seen = found[0]
        finally:
            stop.set()
            writer.join()

    def test_a_killed_writer_leaves_whole_batches_of_pages(self, place: Any) -> None:
        """The pages are those of the last batch, which is not older than what was reported."""
        spawn = multiprocessing.get_context("spawn")
        for _ in range(self.kills):
            reader, writer = spawn.Pipe(duplex=False)
            process = spawn.Process(
                target=write_pages_forever, args=(self.table(place, "t"), writer), daemon=True
            )
            process.start()
            writer.close()
            reported = reader.recv()
            time.sleep(random.random() / 10)
            process.kill()
            process.join()
            last = number_of(self.table(place, "t").last_batch("one"))
            check(
                "a batch that was written outlives its process", True, last is not None and last >= reported
            )
            found = {*pages_of(self.table(place, "t"), _all()).values()}
            check("a batch is written whole, with its number, or not at all", {b"%d" % (last or 0)}, found)
