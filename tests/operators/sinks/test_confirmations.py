"""A quiet query's table stays current, and a dead one's does not, by the clock of the table's server."""

import datetime as dt
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from operators import RollingWindows
from operators import aggregates as agg
from operators.sinks import FoundPage, PageFinder, SQLitePages, StaleError, Wanted
from operators.sinks.confirmations import TableClock, confirm
from serializers import CorruptDataError, NewerFormatError, pack_value
from tests.operators.sinks.publishing import Publisher, moment
from tests.operators.sinks.test_features_now import MINUTE, SIMPLE

MINUTE_US = 60_000_000


@dataclass(frozen=True)
class Clocked(SQLitePages):
    """A table with a clock of its own, so many microseconds ahead of the machine's."""

    ahead_us: int = 0

    @contextmanager
    def finder(self) -> Iterator[PageFinder]:
        with super().finder() as finder:
            yield ClockedFinder(finder, self.ahead_us)


@dataclass
class ClockedFinder:
    """The finder of such a table."""

    finder: PageFinder
    ahead_us: int

    def find(self, wanted: Sequence[Wanted]) -> list[FoundPage]:
        """Do as the finder does."""
        return self.finder.find(wanted)

    def now_us(self) -> int:
        """Return the time of this clock."""
        return time.time_ns() // 1_000 + self.ahead_us

    def close(self) -> None:
        """Do as the finder does."""
        self.finder.close()


def is_fresh(pages: SQLitePages, max_age: str = "30 seconds") -> bool:
    """Whether a reader takes the table for new enough."""
    with SIMPLE.reader(pages) as reader:
        try:
            reader.get({"k": "a"}, moment(MINUTE), max_age=max_age)
        except StaleError:
            return False
        return True


@pytest.mark.parametrize("ahead_us", [0, -3_600_000_000, 86_400_000_000])
def test_a_quiet_query_stays_current_and_a_dead_one_does_not(ahead_us: int, tmp_path: Path) -> None:
    """Whatever the clock of the machine says."""

    def at(minutes: int) -> Clocked:
        return Clocked(tmp_path / "f.db", "pages", ahead_us=ahead_us + minutes * MINUTE_US)

    with Publisher(SIMPLE, at(0)) as publisher:
        publisher.step([("a", 1, 1)])
        number = publisher.publish.definition.number
    assert [True, False] == [is_fresh(at(minutes)) for minutes in (0, 1)]
    for minutes in (1, 2):
        assert confirm(at(minutes), "one", number, 0)
        assert [True, False] == [is_fresh(at(minutes + more)) for more in (0, 1)]
    with SIMPLE.reader(at(3)) as reader:
        freshness = reader.get({"k": "a"}, moment(MINUTE)).freshness
    since = dt.timedelta(minutes=2), dt.timedelta(minutes=1)
    for expected, found in zip(since, (freshness.confirmed - freshness.written, freshness.age), strict=True):
        assert expected <= found < expected + dt.timedelta(seconds=50)


def test_a_batch_makes_a_table_current_as_well(tmp_path: Path) -> None:
    """The later one counts: that of the batch, or that of the idle query."""
    first, later = (Clocked(tmp_path / "f.db", "pages", ahead_us=n * MINUTE_US) for n in (0, 5))
    with Publisher(SIMPLE, first) as publisher, Publisher(SIMPLE, later) as again:
        publisher.step([("a", 1, 1)])
        assert confirm(first, "one", publisher.publish.definition.number, 0)
        again.step([("a", 1, 1)])  # the batch that is in the table already
        again.step([("a", 2, 1)])
    with SIMPLE.reader(later) as reader:
        freshness = reader.get({"k": "a"}, moment(MINUTE), max_age="30 seconds").freshness
    assert (1, freshness.written) == (freshness.batch, freshness.confirmed)


def test_what_is_not_current_is_not_said_to_be(tmp_path: Path) -> None:
    """A table without these features, with those of another query, or behind what the query has committed."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(SIMPLE, pages) as publisher:
        number = publisher.publish.definition.number
        assert not confirm(pages, "one", number, None)
        publisher.step([("a", 1, 1)])
    refused = [("two", number, 0), ("one", number + 1, 0), ("one", number, 1)]
    assert [False] * 3 == [confirm(pages, *given) for given in refused]
    assert confirm(pages, "one", number, None)
    with SIMPLE.reader(pages) as reader:
        assert reader.get({"k": "a"}, moment(MINUTE)).freshness.batch == 0


def test_definitions_are_confirmed_apart(tmp_path: Path) -> None:
    """One query goes on, that of the former definition is dead."""
    longer = RollingWindows({"1h": "1 hour"}).group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))
    now, later = (Clocked(tmp_path / "f.db", "pages", ahead_us=n * MINUTE_US) for n in (0, 1))
    with Publisher(SIMPLE, now) as old, Publisher(longer, now, query="two") as new:
        old.step([("a", 1, 1)])
        new.step([("a", 1, 1)])
        assert confirm(later, "two", new.publish.definition.number, 0)
    assert not is_fresh(later)
    with longer.reader(later) as reader:
        assert 1 == reader.get({"k": "a"}, moment(MINUTE), max_age="30 seconds")["n_1h"]


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (b"\xff", CorruptDataError),
        (pack_value([1]), CorruptDataError),
        (pack_value([1, "x"]), CorruptDataError),
        (pack_value([1, 2**62]), CorruptDataError),
        (pack_value([9, 1]), NewerFormatError),
    ],
)
def test_a_damaged_confirmation_is_named(page: bytes, error: type[Exception], tmp_path: Path) -> None:
    """Not taken for a time."""
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(SIMPLE, pages) as publisher:
        publisher.step([("a", 1, 1)])
        assert confirm(pages, "one", publisher.publish.definition.number, 0)
    with closing(sqlite3.connect(pages.path)) as db, db:
        changed = db.execute("UPDATE pages SET page = ? WHERE key = ?", (page, b"one"))
        assert changed.rowcount == 1
    with SIMPLE.reader(pages) as reader, pytest.raises(error, match="the time until which a table of pages"):
        reader.get({"k": "a"}, moment(MINUTE))


def test_a_reader_asks_for_the_time_once_a_minute() -> None:
    """In between it follows a steady clock, which is not behind the table's."""

    class Asked(ClockedFinder):
        times = 0

        def now_us(self) -> int:
            self.times += 1
            return 1_000

    finder = Asked(None, 0)  # type: ignore[arg-type]
    clock = TableClock(finder)
    found = [clock.now_us() for _ in range(3)]
    assert (1, sorted(found)) == (finder.times, found)
    assert found[0] >= 1_000
