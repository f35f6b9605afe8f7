"""What a day of batches at one minute leaves in tables of pages, whose pages expire after six hours."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa

from benchmarks.data import five_aggregates
from benchmarks.serving.filled import publish_to, runner_of, table_of
from operators import RollingWindows
from operators.sinks import PageTable, PostgresPages, RedisPages, SQLitePages

_MINUTE_MS = 60_000
_FEATURES = RollingWindows({"1h": "1 hour", "6h": "6 hours"}).group_by("k").aggregate(**five_aggregates())


def days(folder: Path, kinds: list[str], keys: int, rows: int, batches: int) -> Iterator[dict[str, Any]]:
    """Yield the bytes of each table after each sixth of the batches, and the median time of a batch in it."""
    for kind in kinds:
        with table_of(kind, folder) as pages:
            yield from _day(kind, pages, keys, rows, batches)


def _day(kind: str, pages: PageTable, keys: int, rows: int, batches: int) -> Iterator[dict[str, Any]]:
    publish, rng = publish_to(pages, _FEATURES), np.random.default_rng(7)
    if isinstance(pages, PostgresPages):
        _vacuum_often(pages.conninfo)
    times = list[float]()
    with runner_of(_FEATURES) as runner:
        for batch in range(batches):
            at = np.sort(rng.integers(0, _MINUTE_MS, rows)) + batch * _MINUTE_MS
            some = {
                "k": rng.integers(0, keys, rows),
                "at": pa.array(at, pa.timestamp("ms")),
                "v": rng.random(rows),
            }
            changed, begin = runner.process(pa.table(some)), time.perf_counter()
            publish.write(changed, batch, "query")
            times.append(time.perf_counter() - begin)
            if not (batch + 1) % max(batches // 6, 1):
                milliseconds = round(float(np.median(times[-batches // 6 :])) * 1_000, 1)
                yield {
                    "table": kind,
                    "batches": batch + 1,
                    "batch_ms": milliseconds,
                    **_SIZES[type(pages)](pages),
                }


def _vacuum_often(conninfo: str) -> None:
    """Have the server look for dead rows each second: a day goes by in minutes here."""
    with psycopg.connect(conninfo, autocommit=True) as db:
        db.execute("ALTER SYSTEM SET autovacuum_naptime = '1s'")
        db.execute("SELECT pg_reload_conf()")


def _of_sqlite(pages: SQLitePages) -> dict[str, Any]:
    path = Path(pages.path)
    log = path.with_name(f"{path.name}-wal")
    return {"bytes": path.stat().st_size, "log_bytes": log.stat().st_size if log.exists() else 0}


def _of_postgres(pages: PostgresPages) -> dict[str, Any]:
    asked = (
        "SELECT pg_total_relation_size(relid), pg_relation_size(relid), n_live_tup, n_dead_tup FROM pg_stat_user_tables "
        "WHERE relname = %s"
    )
    with psycopg.connect(pages.conninfo) as db:
        total, heap, live, dead = db.execute(asked, [pages.table]).fetchall()[0]
        packed = db.execute("SELECT sum(length(page)) FROM pages").fetchall()[0][0]
    return {"bytes": total, "heap_bytes": heap, "rows": live, "dead_rows": dead, "page_bytes": int(packed)}


def _of_redis(pages: RedisPages) -> dict[str, Any]:
    import redis

    with redis.Redis.from_url(pages.url) as client:
        return {"bytes": client.info("memory")["used_memory"]}


_SIZES: dict[type[PageTable], Callable[[Any], dict[str, Any]]] = {
    SQLitePages: _of_sqlite,
    PostgresPages: _of_postgres,
    RedisPages: _of_redis,
}
