"""Keys with many pages are answered from sums: exactly, in two round trips, and from few bytes."""

import datetime as dt
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from operators import RollingWindows
from operators import aggregates as agg
from operators.definitions.rolling import RollingAggregation
from operators.sinks import SinkError, SQLitePages
from operators.sinks.page_reader import FeatureReader
from operators.sinks.pages import FoundPage, PageFinder, Wanted
from serializers import CorruptDataError, pack_value
from tests.operators.sinks.publishing import Publisher, Record, moment

MINUTE = 60_000
KEYS = "abcdefghijx"


def features(lookbacks: dict[str, str], closed: str = "both", **arguments: Any) -> RollingAggregation:
    """Return features whose states have a fixed width."""
    made = RollingWindows(lookbacks, closed=closed, **arguments).group_by("k")
    return made.aggregate(
        n=agg.count(), s=agg.sum("v"), low=agg.min("v"), mean=agg.avg("v"), last=agg.last("v")
    )


def batch(rnd: random.Random, now: int, most: int) -> list[Record]:
    """Return records of keys with many, with bursts and pauses, ties and late ones."""
    found = []
    for key in "aaabbbcd" + KEYS[:-1]:
        begin, length = now + rnd.randrange(MINUTE), rnd.choice([1, 50, MINUTE])
        count = rnd.randrange(most) if key in "abc" else rnd.randrange(3)
        found += [(key, max(0, begin - rnd.randrange(length)), rnd.randrange(-9, 50)) for _ in range(count)]
    rnd.shuffle(found)
    return found


def expected(
    made: RollingAggregation, records: Sequence[Record], at: int, keys: Sequence[str]
) -> list[dict[str, Any]]:
    """What the lookbacks of each key hold, by brute force."""
    rows = []
    for key in keys:
        row: dict[str, Any] = {"k": key}
        ordered = sorted((ms, v) for k, ms, v in records if k == key)
        for name, length in zip(made.windows.lookbacks, made.windows.lookback_ticks, strict=True):
            first = -1 if length is None else at - length
            closed = made.windows.closed
            values = [
                v
                for ms, v in ordered
                if (first < ms or (ms == first and closed in ("both", "left")))
                and (ms < at or (ms == at and closed in ("both", "right")))
            ]
            row |= {
                f"n_{name}": len(values),
                f"s_{name}": sum(values) if values else None,
                f"low_{name}": min(values, default=None),
                f"mean_{name}": sum(values) / len(values) if values else None,
                f"last_{name}": values[-1] if values else None,
            }
        rows.append(row)
    return rows


def rows_of(pages: SQLitePages) -> dict[tuple[Any, ...], bytes]:
    """Return what a table has of keys, without editions."""
    with closing(sqlite3.connect(pages.path)) as db:
        found = db.execute("SELECT bucket, key, segment, start, page FROM pages WHERE key <> x''").fetchall()
    return {tuple(row[:4]): row[4] for row in found}


class Counted(SQLitePages):
    """A table of pages that notes how many bytes each round reads, and calls a function after each."""

    def __init__(self, pages: SQLitePages, after: Callable[[int], None] = lambda _: None) -> None:
        super().__init__(pages.path, pages.table)
        object.__setattr__(self, "rounds", [])
        object.__setattr__(self, "_after", after)

    rounds: list[int]
    _after: Callable[[int], None]

    @contextmanager
    def finder(self) -> Iterator[PageFinder]:
        with super().finder() as finder:
            yield CountedFinder(finder, self)


@dataclass
class CountedFinder:
    """The finder of such a table."""

    finder: PageFinder
    pages: Counted

    def find(self, wanted: Sequence[Wanted]) -> list[FoundPage]:
        """Find rows, and note how many bytes they have."""
        found = self.finder.find(wanted)
        self.pages.rounds.append(sum(len(row.page) for row in found))
        self.pages._after(len(self.pages.rounds))
        return found

    def now_us(self) -> int:
        """Do as the finder does."""
        return self.finder.now_us()

    def close(self) -> None:
        """Do as the finder does."""
        self.finder.close()


LOOKBACKS: list[tuple[dict[str, str], str]] = [
    ({"1s": "1 second", "90s": "90 seconds", "10m": "10 minutes"}, "both"),
    ({"90s": "90 seconds", "ever": "lifetime"}, "left"),
    ({"10m": "10 minutes"}, "right"),
    ({"1s": "1 second", "ever": "lifetime"}, "none"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "lookbacks", "closed"),
    [(("memory", "rocksdb")[n % 2], *lookbacks) for n, lookbacks in enumerate(LOOKBACKS)],
)
def test_answers_are_exact_and_the_table_is_that_of_the_state(
    backend: str, lookbacks: dict[str, str], closed: str, tmp_path: Path
) -> None:
    """For keys with one page and with many, which come and go; and no row is left of what has gone."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - to repeat the test
    rnd, made = random.Random(seed), features(lookbacks, closed)
    pages, records, now = SQLitePages(tmp_path / "f.db", "pages"), list[Record](), 0
    with Publisher(made, pages, backend) as publisher, made.reader(pages) as reader:
        assert publisher._binding.plan.summed is not None
        for number in range(7):
            some = batch(rnd, now, rnd.choice([3, 60, 500]))
            close_time = now
            now += rnd.choice([1_000, MINUTE, 3 * MINUTE])
            kept = [record for record in some if record[1] >= close_time]
            forget = [{"k": "b"}] if number == 5 else None
            publisher.step(kept, stream_time=moment(now), **({} if forget is None else {"forget": forget}))
            if forget is not None:  # Before the records of the batch.
                records = [record for record in records if record[0] != "b"]
            records += kept
            whole = {
                (row["bucket"], row["key"], row["segment"], row["start"]): row["page"]
                for row in publisher._whole().to_pylist()
                if row["key"]
            }
            assert whole == rows_of(pages)
            for at in (now + rnd.choice([0, 1]), now + rnd.randrange(12 * MINUTE)):
                for keys in (KEYS, "ab", "c"):
                    found = reader.get_many([{"k": key} for key in keys], moment(at)).table.to_pylist()
                    assert expected(made, records, at, keys) == found


MANY = 200_000


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> SQLitePages:
    """A table with a key that has very many records, and with one that has few."""
    pages = SQLitePages(tmp_path_factory.mktemp("busy") / "f.db", "pages")
    at = np.sort(np.random.default_rng(1).integers(0, 30 * MINUTE, MANY))
    with Publisher(BUSY, pages, options={}) as publisher:
        for begin in range(0, MANY, MANY // 4):
            times = at[begin : begin + MANY // 4]
            publisher.step([("a", int(ms), int(ms) % 7) for ms in times] + [("b", int(times[0]), 1)])
    return pages


BUSY = features({"1m": "1 minute", "10m": "10 minutes", "30m": "30 minutes"})


@pytest.mark.slow
def test_a_busy_key_is_answered_in_two_rounds_from_few_bytes(busy: SQLitePages) -> None:
    """Also where windows begin in the middle of segments, and end before the last record."""
    records = np.sort(np.random.default_rng(1).integers(0, 30 * MINUTE, MANY))
    for at in (int(records[-1]), 30 * MINUTE + 12_345, 35 * MINUTE + 1, 59 * MINUTE):
        counted = Counted(busy)
        with BUSY.reader(counted) as reader:
            reader.get({"k": "b"}, moment(at))
            assert len(counted.rounds) == 2  # The head, and the answer.
            counted.rounds.clear()
            row = reader.get({"k": "a"}, moment(at))
        for name, length in {"1m": MINUTE, "10m": 10 * MINUTE, "30m": 30 * MINUTE}.items():
            inside = records[(records >= at - length) & (records <= at)]
            assert (row[f"n_{name}"], row[f"s_{name}"]) == (
                len(inside),
                int((inside % 7).sum()) if len(inside) else None,
            )
        assert len(counted.rounds) <= 2
        assert sum(counted.rounds) <= 64 << 10


INCOMPLETE = "lacks a row of this key, so that an answer would lack records"


def answered(reader: FeatureReader, at: dt.datetime) -> object:
    """Return the answer for a key, or that the table is incomplete."""
    try:
        return reader.get({"k": "a"}, at).results
    except SinkError as error:
        return INCOMPLETE if INCOMPLETE in str(error) else error


@pytest.mark.slow
def test_a_row_that_something_else_deleted_is_an_error(busy: SQLitePages, tmp_path: Path) -> None:
    """A sum, or the pages of a part: an answer would lack records."""
    copied = SQLitePages(tmp_path / "f.db", "pages")
    at, refused = moment(30 * MINUTE + 12_345), 0
    with BUSY.reader(busy) as reader:
        right = answered(reader, at)
    for kind in (b"\xc1b", b"\xc1c", b"\xc1p"):
        Path(copied.path).write_bytes(Path(busy.path).read_bytes())
        with closing(sqlite3.connect(copied.path)) as db, db:
            db.execute("DELETE FROM pages WHERE substr(key, 1, 2) = ?", (kind,))
        with BUSY.reader(copied) as reader:
            found = answered(reader, at)
        assert found in (right, INCOMPLETE)
        refused += found == INCOMPLETE
    assert refused >= 2


@pytest.mark.slow
def test_rounds_are_of_one_batch(tmp_path: Path) -> None:
    """A batch that is written between two rounds makes the reader begin again."""
    made, pages = features({"1m": "1 minute"}), SQLitePages(tmp_path / "f.db", "pages")
    records = [("a", n * 20, n % 5) for n in range(3_000)]
    with Publisher(made, pages) as publisher:
        publisher.step(records)
        more = [("a", 59_999 - n, 3) for n in range(500)]

        def write(number: int) -> None:
            if number in (2, 4):
                publisher.step(more, stream_time=moment(0))

        counted = Counted(pages, write)
        with made.reader(counted) as reader:
            at = 60_005
            row = reader.get({"k": "a"}, moment(at))
    assert len(counted.rounds) > 4
    written = records + more * row.freshness.batch
    assert [{"k": "a", **row}] == expected(made, written, at, "a")
    assert row.freshness.batch == 2


def test_a_table_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """With the way out."""
    made, pages = features({"1m": "1 minute"}), SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(made, pages) as publisher:
        publisher.step([("a", 1, 1)])
    with closing(sqlite3.connect(pages.path)) as db, db:
        db.execute("UPDATE pages SET page = ? WHERE edition = 0", (pack_value([1]),))
    with (
        made.reader(pages) as reader,
        pytest.raises(CorruptDataError, match=r"earlier version wrote it. Remove it"),
    ):
        reader.get({"k": "a"}, moment(5))
