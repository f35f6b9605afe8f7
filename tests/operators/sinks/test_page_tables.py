"""The contract of tables of pages on those that are shipped, and on tables that break it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from operators import DefinitionError
from operators.sinks import (
    Changes,
    FoundPage,
    PageFinder,
    PageTable,
    PostgresPages,
    RedisPages,
    SinkError,
    SQLitePages,
    Wanted,
)
from operators.sinks.confirmations import confirm
from operators.sinks.contract import PageContract
from operators.sinks.contract.base import changes, row
from tests.operators.sinks.publishing import Publisher, moment
from tests.operators.sinks.redis_server import redis_server
from tests.operators.sinks.test_features_now import MINUTE, SIMPLE
from tests.operators.sinks.test_page_sums import CountedFinder


class TestSQLitePages(PageContract):
    """A SQLite file."""

    def table(self, place: Any, name: str) -> PageTable:
        return SQLitePages(place / "pages.db", name)


class TestPostgresPages(PageContract):
    """A PostgreSQL database."""

    @pytest.fixture
    def place(self, database: str) -> str:
        return database

    def table(self, place: Any, name: str) -> PageTable:
        return PostgresPages(place, name)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a Redis server."""
    with redis_server() as url:
        yield url


@pytest.fixture
def redis_url(server: str) -> str:
    """The URL of an empty Redis server."""
    with redis.Redis.from_url(server) as client:
        client.flushall()
    return server


class TestRedisPages(PageContract):
    """A Redis server."""

    @pytest.fixture
    def place(self, redis_url: str) -> str:
        return redis_url

    def table(self, place: Any, name: str) -> PageTable:
        return RedisPages(place, name)


@pytest.mark.slow
class TestRedisPagesInParts(TestRedisPages):
    """A Redis server, where every batch is a large one, of several parts."""

    kills = 6

    def table(self, place: Any, name: str) -> PageTable:
        return RedisPages(place, name, at_once=7)


@pytest.fixture(params=["postgres", "redis"])
def remote(request: pytest.FixtureRequest) -> PageTable:
    """A table on a server."""
    if request.param == "redis":
        return RedisPages(request.getfixturevalue("redis_url"), "pages")
    return PostgresPages(request.getfixturevalue("database"), "pages")


def test_servers_answer_features(remote: PageTable) -> None:
    """Over several batches, one of which expires segments, and after their connection has ended."""
    remote.check()
    with Publisher(SIMPLE, remote) as publisher, SIMPLE.reader(remote) as reader:
        for batch in range(4):
            publisher.step([("a", batch * 4 * MINUTE + n * 100, 1) for n in range(200)])
            at = batch * 4 * MINUTE + 20_000
            wanted = sum(
                at - 5 * MINUTE <= b * 4 * MINUTE + n * 100 for b in range(batch + 1) for n in range(200)
            )
            assert wanted == reader.get({"k": "a"}, moment(at))["n_5m"]
            reader.close()


def test_servers_note_that_a_query_is_idle(remote: PageTable) -> None:
    """By their own clock, which the batch has, too."""
    with Publisher(SIMPLE, remote) as publisher, SIMPLE.reader(remote) as reader:
        publisher.step([("a", 1, 1)])
        before = reader.get({"k": "a"}, moment(1), max_age="1 hour").freshness
        assert before.confirmed == before.written
        assert confirm(remote, "one", publisher.publish.definition.number, 0)
        after = reader.get({"k": "a"}, moment(1), max_age="1 hour").freshness
        assert before.written == after.written < after.confirmed
        assert not confirm(remote, "one", publisher.publish.definition.number, 1)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    """When the query starts, and when a reader asks."""
    nowhere = RedisPages(f"unix://{tmp_path}/none", "pages", timeout=1)
    for act in (nowhere.check, lambda: SIMPLE.reader(nowhere).get({"k": "a"})):
        with pytest.raises(SinkError, match="Check the url, and that it runs"):
            act()
    gone = PostgresPages(f"host={tmp_path} dbname=none", "pages")
    for act in (gone.check, lambda: SIMPLE.reader(gone).get({"k": "a"})):
        with pytest.raises(SinkError, match="PostgreSQL cannot be reached"):
            act()


def test_redis_that_evicts_or_is_a_cluster_is_refused() -> None:
    """Its answers would lack records, or be of several batches."""
    with (
        redis_server("--maxmemory-policy", "allkeys-lru") as url,
        pytest.raises(SinkError, match="'allkeys-lru', which removes"),
    ):
        RedisPages(url, "pages").check()
    with (
        redis_server("--cluster-enabled", "yes") as url,
        pytest.raises(SinkError, match="a node of Redis Cluster"),
    ):
        RedisPages(url, "pages").check()


def test_redis_that_begins_to_evict_is_refused(redis_url: str) -> None:
    """By the next batch: nothing is written any more."""
    pages = RedisPages(redis_url, "pages")
    with Publisher(SIMPLE, pages) as publisher, redis.Redis.from_url(redis_url) as client:
        publisher.step([("a", 1, 1)])
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(SinkError, match="'allkeys-lru', which removes pages"):
                publisher.step([("a", 2, 1)])
        finally:
            client.config_set("maxmemory-policy", "noeviction")
        publisher.write()
    with SIMPLE.reader(pages) as reader:
        assert 2 == reader.get({"k": "a"}, moment(10))["n_5m"]


def test_servers_answer_busy_keys_from_sums(remote: PageTable) -> None:
    """In two round trips, and from few bytes."""
    records = [("a", n * 5, n % 7) for n in range(20_000)]
    with Publisher(SIMPLE, remote) as publisher, SIMPLE.reader(remote) as reader:
        publisher.step(records)
        reader.get({"k": "b"}, moment(6 * MINUTE))
        rounds: Any = SimpleNamespace(rounds=[], _after=lambda _: None)
        reader._finder = CountedFinder(reader._finder, rounds)
        at = 5 * MINUTE + 12_347
        inside = [v for _, ms, v in records if at - 5 * MINUTE <= ms <= at]
        assert {"n_5m": len(inside), "s_5m": sum(inside)} == dict(reader.get({"k": "a"}, moment(at)))
    assert len(rounds.rounds) <= 2
    assert sum(rounds.rounds) <= 64 << 10


def test_redis_takes_pages_alone(redis_url: str) -> None:
    """Other rows are for other sinks; a name with a colon could be that of another table."""
    with pytest.raises(SinkError, match="RedisPages takes the columns of pages"):
        RedisPages(redis_url, "pages").write(changes(0, [row("a")]))
    with pytest.raises(DefinitionError, match="without a colon"):
        RedisPages(redis_url, "a:b")
    with pytest.raises(DefinitionError, match="at_once is -1"):
        RedisPages(redis_url, "a", at_once=-1)


_BEGIN_US = time.time_ns() // 1_000


@dataclass(frozen=True)
class BrokenPages(SQLitePages):
    """A table that breaks a promise."""

    breaks: str = ""

    def write(self, changes: Changes) -> bool:
        if self.breaks == "beside" and changes.query == "query 2":
            return False
        if self.breaks == "repeats":
            written = SQLitePages(self.path, self.table).write(
                Changes(f"{changes.query}{id(changes)}", changes.batch, changes.deletes, changes.upserts)
            )
            return written and super().write(changes) is not None
        if self.breaks == "deletes":
            changes = Changes(
                changes.query,
                changes.batch,
                changes.deletes.slice(0, 0),
                changes.upserts,
                changes.fingerprint,
            )
        return super().write(changes)

    def remove(self, edition: int) -> None:
        for other in (edition, 12) if self.breaks == "removes" else ():
            super().remove(other)

    @contextmanager
    def finder(self) -> Iterator[PageFinder]:
        with super().finder() as finder:
            yield _BrokenFinder(finder, self.breaks)


@dataclass
class _BrokenFinder:
    finder: PageFinder
    breaks: str

    def find(self, wanted: Sequence[Wanted]) -> list[FoundPage]:
        if self.breaks == "torn":
            return [
                page._replace(wanted=number)
                for number, one in enumerate(wanted)
                for page in self.finder.find([one])
            ]
        if self.breaks == "twice":
            wanted = list(dict.fromkeys(wanted))
        if self.breaks == "range":
            return [page for page in self.finder.find(wanted) if page.segment < wanted[page.wanted].last]
        return self.finder.find(wanted)

    def now_us(self) -> int:
        now_us = self.finder.now_us()
        return {"unit": now_us // 1_000, "stands": _BEGIN_US}.get(self.breaks, now_us)

    def close(self) -> None:
        self.finder.close()


@pytest.mark.parametrize(
    ("breaks", "test", "promise"),
    [
        ("repeats", "test_a_repeated_batch_changes_nothing", "a batch that was written is not written again"),
        ("deletes", "test_pages_are_replaced_and_deleted", "pages are replaced, inserted and deleted"),
        ("removes", "test_an_edition_is_removed_alone", "an edition is removed alone"),
        (
            "beside",
            "test_queries_write_beside_each_other",
            "batches of queries that write at once are written",
        ),
        ("unit", "test_the_clock_goes_on", "the clock counts microseconds since the epoch"),
        ("stands", "test_the_clock_goes_on", "the clock does not stand"),
        ("torn", "test_an_answer_is_of_one_batch", "an answer has the pages of one batch"),
        (
            "range",
            "test_pages_are_found_by_key_and_segment",
            "the pages of a key in a range of segments are found",
        ),
    ],
)
def test_broken_promises_are_named(breaks: str, test: str, promise: str, tmp_path: Path) -> None:
    """A table that breaks a promise fails the test of it, and is told which."""
    tests = TestSQLitePages()
    tests.table = lambda place, name: BrokenPages(place / "t.db", name, breaks=breaks)  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match=f"a promise of Sink is broken: {promise}"):
        getattr(tests, test)(tmp_path)
