"""All pages as a new edition: part by part, unseen until it is whole, whatever stops in between."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators.runtime.page_rows import PAGE_ROWS, in_parts
from operators.sinks import Changes, PageTable, PostgresPages, RedisPages, SinkError, SQLitePages
from operators.sinks.editions import noted_edition
from operators.sinks.pages import FoundPage
from operators.sinks.published import find_heads
from serializers import CorruptDataError, NewerFormatError, pack_value
from tests.operators.sinks.publishing import PART_BYTES, Publisher, moment
from tests.operators.sinks.redis_server import redis_server
from tests.operators.sinks.test_features_now import MINUTE, SIMPLE

KEYS = [f"key-{n}" for n in range(30)]


class Stopping(SQLitePages):
    """A table whose writes and removals are counted, one of which fails.

    Args:
        path: its file.
        stop: the number of the call that fails.
        after: whether that call has been carried out.
    """

    def __init__(self, path: Path, stop: int | None = None, *, after: bool = False) -> None:
        super().__init__(path, "pages")
        object.__setattr__(self, "calls", 0)
        object.__setattr__(self, "sizes", [])
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "after", after)

    calls: int
    sizes: list[int]
    stop: int | None
    after: bool

    def write(self, changes: Changes) -> bool:
        self.sizes.append(sum(map(len, changes.upserts.column("page").to_pylist())))
        return bool(self._counted(lambda: super(Stopping, self).write(changes)))

    def remove(self, edition: int) -> None:
        self._counted(lambda: super(Stopping, self).remove(edition))

    def _counted(self, act: Callable[[], Any]) -> Any:
        number = self.calls
        object.__setattr__(self, "calls", number + 1)
        if number != self.stop:
            return act()
        if self.after:
            act()
        raise SinkError("stopped here")


def records(second: int) -> list[tuple[str, int, int]]:
    """A record of each key."""
    return [(key, 10 * MINUTE + second * 1_000, second) for key in KEYS]


def sums(pages: PageTable) -> tuple[set[int], int]:
    """What all keys hold, and as of which batch."""
    with SIMPLE.reader(pages) as reader:
        found = reader.get_many([{"k": key} for key in KEYS], moment(11 * MINUTE))
    return {*found.table.column("s_5m").to_pylist()}, found.freshness.batch


def editions(pages: SQLitePages) -> tuple[set[int], int, int]:
    """The editions that have rows, the edition of the head, and how many notes there are."""
    with closing(sqlite3.connect(pages.path)) as db:
        found = {
            edition for (edition,) in db.execute("SELECT DISTINCT edition FROM pages WHERE edition <> 0")
        }
        ((notes,),) = db.execute("SELECT count(*) FROM pages WHERE key = 'edition' OR key = ?", (b"edition",))
    with pages.finder() as finder:
        return found, find_heads(finder)[0].edition, notes


def behind(pages: SQLitePages, publisher: Publisher) -> None:
    """Have the table lack a batch."""
    publisher.publish = type(publisher.publish)(pages, publisher.publish.definition, 1)
    publisher.step(records(1))
    publisher.process(records(2))
    publisher.process(records(4))


def test_all_pages_are_written_in_parts(tmp_path: Path) -> None:
    """Each of few bytes, and the former edition goes."""
    pages = Stopping(tmp_path / "f.db")
    with Publisher(SIMPLE, pages) as publisher:
        behind(pages, publisher)
        first = editions(pages)[1]
        changed = pages.sizes[0]
        pages.sizes.clear()
        publisher.write(whole=True)
        assert ({7}, 2) == sums(pages)
        found, edition, notes = editions(pages)
        assert ({edition}, 0) == (found, notes)
        assert edition != first
        assert len(pages.sizes) > 6
        *parts, last, _, _ = pages.sizes  # The last two are a note that is taken back, and that of the batch.
        assert max(parts) <= PART_BYTES * 1.1 < changed <= last
        publisher.step(records(8))
        assert ({15}, 3) == sums(pages)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_driver_may_stop_anywhere(tmp_path: Path, *, after: bool) -> None:
    """Readers see the former edition, or the new one; the next driver writes it anew, and nothing else is left."""
    with Publisher(SIMPLE, SQLitePages(tmp_path / "g.db", "pages")) as publisher:
        counted = Stopping(tmp_path / "0.db")
        behind(counted, publisher)
        object.__setattr__(counted, "calls", 0)
        publisher.write(whole=True)
        calls = counted.calls
    assert calls > 8
    for stop in range(0, calls, 2):  # After one call is before the next one.
        with Publisher(SIMPLE, SQLitePages(tmp_path / "g.db", "pages")) as publisher:
            pages = SQLitePages(tmp_path / f"{stop}-{after}.db", "pages")
            behind(pages, publisher)
            stopping = Stopping(Path(pages.path), stop, after=after)
            publisher.publish = type(publisher.publish)(stopping, publisher.publish.definition, 1)
            with pytest.raises(SinkError, match="stopped here"):
                publisher.write(whole=True)
            assert sums(pages) in (({1}, 0), ({7}, 2))
            object.__setattr__(stopping, "stop", None)
            publisher.write(whole=True)
            assert ({7}, 2) == sums(pages)
            publisher.step(records(8))
            assert ({15}, 3) == sums(pages)
            found, edition, notes = editions(pages)
            assert ({edition}, 0) == (found, notes)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_of_two_drivers_one_is_refused(tmp_path: Path, at: int) -> None:
    """Before it removes rows that the other shows; what readers see is whole."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(SIMPLE, pages) as publisher:
        behind(pages, publisher)
        whole = publisher._before

        def parts(*, other: bool) -> Iterator[pa.Table]:
            for number, part in enumerate(in_parts([whole], PART_BYTES)):
                if other and number == at:
                    publisher.publish.write(publisher.changed, 2, "one", lambda: parts(other=False))
                yield part

        with pytest.raises(
            SinkError, match=r"another driver writes all pages to SQLitePages.*: stop one of them"
        ):
            publisher.publish.write(publisher.changed, 2, "one", lambda: parts(other=True))
        assert ({7}, 2) == sums(pages)
        publisher.step(records(8))
        assert ({15}, 3) == sums(pages)
        found, edition, notes = editions(pages)
        assert ({edition}, 0) == (found, notes)


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_servers_take_parts(request: pytest.FixtureRequest, kind: str) -> None:
    """As a file does."""
    with redis_server() as url:
        pages: PageTable = RedisPages(url, "pages")
        if kind == "postgres":
            pages = PostgresPages(request.getfixturevalue("database"), "pages")
        with Publisher(SIMPLE, pages) as publisher:
            behind(pages, publisher)  # type: ignore[arg-type]
            assert ({1}, 0) == sums(pages)
            publisher.write(whole=True)
            assert ({7}, 2) == sums(pages)


def test_parts_have_all_rows_in_their_order() -> None:
    """Of about so many bytes, from small tables and from large ones; also a row that is larger than that."""

    def rows(begin: int, count: int, size: int) -> pa.Table:
        made = [
            dict.fromkeys(PAGE_ROWS.names, 0)
            | {"start": n, "page": b"x" * size, "key": b"k", "change": "update"}
            for n in range(begin, begin + count)
        ]
        return pa.Table.from_pylist(made, schema=PAGE_ROWS)

    tables = [rows(0, 5, 10), rows(5, 500, 100), rows(505, 1, 50_000), rows(506, 0, 1), rows(506, 20, 1_000)]
    parts = [*in_parts(tables, 10_000)]
    assert pa.concat_tables(tables).equals(pa.concat_tables(parts).combine_chunks())
    sizes = [part.nbytes for part in parts if part.num_rows > 1]
    assert max(sizes) <= 10_500
    assert len(parts) > 8


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (b"\xff", CorruptDataError),
        (pack_value([1]), CorruptDataError),
        (pack_value([1, 2, 3]), CorruptDataError),
        (pack_value([1, "x"]), CorruptDataError),
        (pack_value([2, 7]), NewerFormatError),
    ],
)
def test_a_note_that_is_damaged_or_newer_is_named(page: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match="the note of an edition in a table of pages"):
        noted_edition(FoundPage(0, 0, 0, page))
