"""Tables of pages that are filled with thirty days of records, and what filling them took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import five_aggregates
from operators import RollingAggregation, RollingWindows
from operators.definitions.publishing import PublishedFeatures
from operators.runtime.local import LocalRunner
from operators.sinks import PageTable, PostgresPages, RedisPages, SQLitePages
from operators.sinks.publish import Publish
from operators.sinks.published import Definition
from state_backends import resolve
from tests.operators.sinks.postgres_server import postgres_server
from tests.operators.sinks.redis_server import redis_server

DAY_MS, DAYS = 86_400_000, 30
SCHEMA = pa.schema([("k", pa.int64()), ("at", pa.timestamp("ms")), ("v", pa.float64())])
FEATURES = (
    RollingWindows({"1h": "1 hour", "1d": "1 day", "30d": "30 days"})
    .group_by("k")
    .aggregate(**five_aggregates())
)
TABLES = "sqlite", "postgres", "redis"
QUERY = "query"


@contextmanager
def table_of(kind: str, folder: Path) -> Iterator[PageTable]:
    """Yield an empty table of a kind, with its server."""
    if kind == "sqlite":
        yield SQLitePages(folder / "pages.db", "pages")
    elif kind == "postgres":
        with postgres_server() as conninfo:
            yield PostgresPages(conninfo, "pages")
    else:
        with redis_server() as url:
            yield RedisPages(url, "pages")


def records(batch: int, batches: int, keys: int, busy: int) -> pa.Table:
    """Return the records of a batch: one of each key, and a share of those of the key 0."""
    rng, days = np.random.default_rng(batch), DAYS / batches
    key = np.concatenate([rng.permutation(np.arange(1, keys)), np.zeros(busy // batches, np.int64)])
    at = ((batch + rng.random(len(key))) * days * DAY_MS).astype(np.int64)
    return pa.table({"k": key, "at": pa.array(at, pa.timestamp("ms")), "v": rng.random(len(key))})


def runner_of(features: RollingAggregation) -> LocalRunner:
    """Return a runner whose rows are the pages that a batch changes."""
    published = PublishedFeatures(features)
    return LocalRunner(lambda schema, config: published.bind(schema, "at", config), resolve("memory"), None)


def publish_to(pages: PageTable, features: RollingAggregation) -> Publish:
    """Return what writes these pages into a table."""
    binding = PublishedFeatures(features).bind(SCHEMA, "at", resolve("memory"))
    return Publish(pages, Definition.of(binding, SCHEMA), 1)


@dataclass
class Filled:
    """Tables with the same pages.

    Attributes:
        tables: tables by kind.
        keys: how many keys there are.
        processing: seconds that each batch took without a table.
        publishing: by kind, seconds that its pages took.
        last: the pages that the last batch changed.
        batch: its number.
    """

    tables: dict[str, PageTable]
    keys: int
    processing: list[float] = field(default_factory=list)
    publishing: dict[str, list[float]] = field(default_factory=dict)
    last: pa.Table | None = None
    batch: int = -1

    def fill(self, batches: int, busy: int) -> None:
        """Process the batches, and publish each to all tables."""
        with runner_of(FEATURES) as runner:
            for self.batch in range(batches):
                some = records(self.batch, batches, self.keys, busy)
                begin = time.perf_counter()
                self.last = runner.process(some)
                self.processing.append(time.perf_counter() - begin)
                for kind in self.tables:
                    self.publishing.setdefault(kind, []).append(self.write(kind, self.batch))

    def write(self, kind: str, batch: int) -> float:
        """Write the pages of the last batch as a batch of this number; return the seconds that it took."""
        publish = publish_to(self.tables[kind], FEATURES)
        begin = time.perf_counter()
        publish.write(self.last, batch, QUERY)
        return time.perf_counter() - begin
