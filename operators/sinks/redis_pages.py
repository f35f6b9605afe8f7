"""Tables of pages in Redis."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from operators.errors import DefinitionError
from operators.runtime.page_places import KEY_COLUMNS
from operators.sinks.interface import Changes, SinkError, WrittenBatch
from operators.sinks.page_connection import ConnectedFinder
from operators.sinks.pages import FoundPage, PageFinder, PageTable, Wanted
from operators.sinks.redis_staging import Part, Staging, current, packed, shown_tokens, staged_name

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_PLACE = struct.Struct(">qq")
_NOTED = struct.Struct(">qq")
_SOME = 1_000
_COLUMNS = {*KEY_COLUMNS, "page", "sequence"}
_PUT = """
local places, pages = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2])
for number, key in ipairs(KEYS) do
  if pages[number] then
    redis.call('HSET', key, places[number], pages[number])
  else
    redis.call('HDEL', key, places[number])
  end
end
"""
"""Puts pages into hashes, or takes them out. A command for each page takes the driver three times as long."""


@dataclass(frozen=True, slots=True)
class RedisPages(PageTable):
    """A table of pages in a Redis server, version 6 or newer. It needs the extra `redis` (redis-py).

    The pages of a key are one hash. A batch is one transaction, and an answer another, so that each answer is of one batch.
    Redis answers nobody during a transaction, some 3 ms for 1,000 pages: those of a larger batch are put beside the others
    first, in small parts, and one transaction shows them all. That takes twice as long. Pages have no time to live; a server
    that evicts keys is refused, also by each batch, and so is Redis Cluster, whose transactions do not reach over its nodes.
    It needs `EVAL`, which a server may deny to some users.

    Args:
        url: such as "redis://host:6379/0" or "rediss://...". Leave the password to the environment of driver and services.
        table: the prefix of its keys.
        timeout: seconds to wait for an answer.
        at_once: the most pages of a batch that are written in one transaction.

    Raises:
        DefinitionError: `table` is empty, or has a colon; or `at_once` is negative.
    """

    url: str = field(repr=False)
    table: str
    timeout: float = 10.0
    at_once: int = 20_000

    def __post_init__(self) -> None:
        if not self.table or ":" in self.table:
            raise DefinitionError(
                f"table is {self.table!r}: give a name of at least one character, without a colon"
            )
        if self.at_once < 0:
            raise DefinitionError(f"at_once is {self.at_once}: give a number of pages, or 0 for all in parts")

    def check(self) -> None:
        with self._client() as client:
            found = {**client.info("cluster"), **client.info("memory")}
        if found.get("cluster_enabled"):
            raise SinkError(
                "the server is a node of Redis Cluster, whose transactions do not reach over nodes: give one server"
            )
        _refuse_eviction(found)

    def write(self, changes: Changes) -> bool:
        names = {*changes.upserts.column_names}
        if names != _COLUMNS or (*changes.keys,) != KEY_COLUMNS:
            raise SinkError(
                f"RedisPages takes the columns of pages, {', '.join(sorted(_COLUMNS))}, not {sorted(names)}"
            )

        def act(batch: "Pipeline") -> bool:
            if self._has(batch, changes):
                return False
            if large:
                staging.check(batch)
            batch.multi()
            if large:
                staging.show(batch)
            else:
                for keys, places, pages in _parts(self, changes):
                    batch.eval(_PUT, len(keys), *keys, packed(places), packed(pages))
            batch.hset(self._batches, changes.query, _NOTED.pack(changes.batch, changes.fingerprint))
            return True

        with self._client() as client:
            _refuse_eviction(client.info("memory"))
            staging = Staging(client, self.table, changes.query)
            staging.finish()
            large = changes.deletes.num_rows + changes.upserts.num_rows > self.at_once
            watched = [self._batches]
            if large:
                if self._has(client, changes):
                    return False
                staging.put(_parts(self, changes))
                watched.append(staging.name)
            # Begun again when another query has noted a batch in between.
            written = client.transaction(act, *watched, value_from_callable=True)  # type: ignore[arg-type]
            if large:
                staging.finish()
            return bool(written)

    def last_batch(self, query: str) -> WrittenBatch | None:
        with self._client() as client:
            return self._last(client, query)

    def _last(self, client: "Redis", query: str) -> WrittenBatch | None:
        """The query's last batch, over a connection or a transaction that has not begun."""
        data: Any = client.hget(self._batches, query)
        return None if data is None else WrittenBatch(*_NOTED.unpack(data))

    def _has(self, client: "Redis", changes: Changes) -> bool:
        """Whether the table has this batch of the query, or a later one."""
        last = self._last(client, changes.query)
        return last is not None and last.number >= changes.batch

    def finder(self) -> AbstractContextManager[PageFinder]:
        return closing(_Finder(self))

    def remove(self, edition: int) -> None:
        pattern = _escaped(f"{self.table}:{edition}:") + b"*"
        with self._client() as client:
            some: list[Any] = []
            for key in client.scan_iter(match=pattern, count=_SOME):
                some.append(key)
                if len(some) == _SOME:
                    client.unlink(*some)
                    some = []
            if some:
                client.unlink(*some)

    @property
    def _batches(self) -> str:
        return f"{self.table}:batches"

    @contextmanager
    def _client(self) -> Iterator["Redis"]:
        """Connect for one call; say which server an error is of."""
        import redis

        client = self.connect()
        try:
            yield client
        except redis.RedisError as error:
            raise SinkError(
                f"Redis refused the table {self.table!r}: {error}. Check the url, and that it runs"
            ) from error
        finally:
            client.close()

    def connect(self) -> "Redis":
        """Return a client.

        Raises:
            ImportError: redis-py is not installed.
        """
        try:
            import redis
        except ImportError as missing:
            raise ImportError(
                "RedisPages needs redis-py: pip install 'spark-stateful-windows[redis]'"
            ) from missing
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        client: Redis = redis.Redis.from_url(
            self.url,
            protocol=2,
            socket_timeout=self.timeout,
            socket_connect_timeout=self.timeout,
            retry=Retry(NoBackoff(), 0),
        )
        return client


class _Finder(ConnectedFinder):
    """Finds rows by one transaction."""

    def __init__(self, pages: RedisPages) -> None:
        super().__init__()
        self._pages = pages

    @property
    def errors(self) -> tuple[type[Exception], tuple[type[Exception], ...]]:
        import redis

        return redis.RedisError, (redis.ConnectionError,)

    def connect(self) -> "Redis":
        return self._pages.connect()

    def find_over(self, connection: "Redis", wanted: Sequence[Wanted]) -> list[FoundPage]:
        keys = {_key(self._pages.table, *one[:3]): None for one in wanted}
        with connection.pipeline(transaction=True) as together:
            together.hvals(staged_name(self._pages.table))
            for key in keys:
                together.hgetall(key)
            staged, *hashes = together.execute()
        shown = shown_tokens(staged)
        found = {key: current(fields, shown, _PLACE.size) for key, fields in zip(keys, hashes, strict=True)}
        return [
            FoundPage(number, segment, start, page)
            for number, one in enumerate(wanted)
            for place, page in found[_key(self._pages.table, *one[:3])].items()
            for segment, start in [_PLACE.unpack(place)]
            if one.first <= segment <= one.last
        ]

    def now_us(self) -> int:
        seconds, us = self.answer(lambda client: client.time())
        return int(seconds) * 1_000_000 + int(us)

    def refusal(self, error: Any) -> SinkError:
        return SinkError(f"Redis cannot read pages: {error}. Check the url, and that it runs; then ask again")


def _refuse_eviction(info: "Mapping[str, Any]") -> None:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise SinkError(
            f"the server's maxmemory-policy is {policy!r}, which removes pages, so that answers would lack records: set it to "
            "noeviction, and remove the table if it has removed some"
        )


def _key(table: str, edition: int, bucket: int, key: bytes) -> bytes:
    """The name of the hash of a key."""
    return f"{table}:{edition}:{bucket}:".encode() + key


def _parts(pages: RedisPages, changes: Changes) -> Iterator[Part]:
    """What a batch changes, some rows at a time."""
    step = min(max(pages.at_once, 1), _SOME)
    for rows in (changes.deletes, changes.upserts):
        for first in range(0, rows.num_rows, step):
            some = rows.slice(first, step)
            edition, bucket, key, segment, start = (some.column(name).to_pylist() for name in KEY_COLUMNS)
            keys = [_key(pages.table, *one) for one in zip(edition, bucket, key, strict=True)]
            put = some.column("page").to_pylist() if rows is changes.upserts else []
            yield keys, [*map(_PLACE.pack, segment, start)], put


def _escaped(text: str) -> bytes:
    """The text as a pattern that matches it alone."""
    return b"".join(b"\\" + bytes([byte]) if byte in b"*?[]^\\-" else bytes([byte]) for byte in text.encode())
