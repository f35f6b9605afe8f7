"""How long does an answer from a table of pages take, of a usual and of a busy key, and what does publishing add to a batch?

Three lookbacks up to 30 days and five aggregates; keys have 30 records on average, and one key has a share of all.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.serving.filled import DAY_MS, DAYS, FEATURES, publish_to, runner_of
from operators.sinks import PageTable, PostgresPages, RedisPages, SQLitePages
from tests.operators.sinks.postgres_server import postgres_server
from tests.operators.sinks.redis_server import redis_server

BATCHES, QUESTIONS, MANY = 10, 200, 1_000
BUSY = 1_000
"""Records of the busy key in a batch."""


@dataclass
class Published:
    """A table of pages with thirty days of records, and the processor time of its last batch, in seconds."""

    pages: PageTable
    keys: int
    processing: float = 0.0
    publishing: float = 0.0

    def fill(self) -> None:
        """Process and publish all batches."""
        publish = publish_to(self.pages, FEATURES)
        with runner_of(FEATURES) as runner:
            for batch in range(BATCHES):
                records = self._records(batch)
                begin = time.process_time()
                changed = runner.process(records)
                done = time.process_time()
                publish.write(changed, batch, "query")
                self.processing, self.publishing = done - begin, time.process_time() - done

    def _records(self, batch: int) -> pa.Table:
        rng, days = np.random.default_rng(batch), DAYS // BATCHES
        usual = rng.integers(1, self.keys, 30 * self.keys // BATCHES)
        key = np.concatenate([usual, np.zeros(BUSY, np.int64)])
        at = batch * days * DAY_MS + np.sort(rng.integers(0, days * DAY_MS, len(key)))
        rng.shuffle(key)
        return pa.table({"k": key, "at": pa.array(at, pa.timestamp("ms")), "v": rng.random(len(key))})


@pytest.fixture(scope="module", params=["sqlite", "postgres", "redis"])
def pages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageTable]:
    """An empty table of each kind."""
    if request.param == "sqlite":
        folder: Path = tmp_path_factory.mktemp("pages")
        yield SQLitePages(folder / "pages.db", "pages")
        return
    with postgres_server() if request.param == "postgres" else redis_server() as place:
        yield PostgresPages(place, "pages") if request.param == "postgres" else RedisPages(place, "pages")


@pytest.fixture(scope="module", params=[10_000, full(100_000)])
def published(request: pytest.FixtureRequest, pages: PageTable) -> Published:
    """The table, filled."""
    found = Published(pages, request.param)
    found.fill()
    return found


@pytest.mark.parametrize("key", ["usual", "busy"])
def test_get(measure: Measure, published: Published, key: str) -> None:
    """The time of one answer; its hundredth part that takes longest is beside it, in milliseconds."""
    taken: list[float] = []
    with FEATURES.reader(published.pages) as reader:

        def ask() -> int:
            for number in range(QUESTIONS):
                begin = time.perf_counter()
                reader.get({"k": 1 + number % (published.keys - 1) if key == "usual" else 0}, DAYS * DAY_MS)
                taken.append(time.perf_counter() - begin)
            return QUESTIONS

        measure(ask, section="answers", system=_name(published), rows=QUESTIONS, key=key, keys=published.keys)
    half, last = np.percentile(taken[QUESTIONS:], [50, 99]) * 1_000
    measure.note(p50_ms=round(half, 2), p99_ms=round(last, 2))


def test_get_many(measure: Measure, published: Published) -> None:
    """A thousand keys at once."""
    keys = pa.table({"k": np.arange(1, MANY + 1)})
    with FEATURES.reader(published.pages) as reader:
        measure(
            lambda: reader.get_many(keys, DAYS * DAY_MS),
            section="answers for many keys",
            system=_name(published),
            rows=MANY,
            keys=published.keys,
        )


def test_what_publishing_adds(measure: Measure, published: Published) -> None:
    """Processor time of the last batch, without and with the table."""
    measure.benchmark.pedantic(lambda: None, rounds=1)
    both = published.processing + published.publishing
    rows = 30 * published.keys // BATCHES + BUSY
    measure.taken([both], section="publishing", system=_name(published), rows=rows, keys=published.keys)
    measure.note(times_the_batch=round(both / published.processing, 2))


def _name(published: Published) -> str:
    return type(published.pages).__name__
