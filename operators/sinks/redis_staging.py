"""Large batches in Redis, which answers nobody while it carries out a transaction.

The pages of a large batch go beside those that they replace, some at a time, under names that readers pass over. One small
transaction then shows them all, and they take the places of the others, again some at a time. What a driver leaves that is
killed meanwhile is shown or not, as a whole; the next batch of the query finishes it, or takes it out.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgpack

from operators.sinks.interface import SinkError

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

_TOKEN_BYTES = 8
_HIDDEN, _SHOWN, _DROPPED = b"hidden", b"shown", b"dropped"
_IS_OURS = "if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end"
"""What scripts begin with. They do nothing if another driver has gone on with the query's batch."""
_PUT = f"""{_IS_OURS}
local token, places, pages = string.sub(ARGV[2], 1, 8), cmsgpack.unpack(ARGV[3])[2], cmsgpack.unpack(ARGV[4])
for number = 3, #KEYS do
  local page = pages[number - 2]
  redis.call('HSET', KEYS[number], places[number - 2] .. token, page and '+' .. page or '-')
end
redis.call('RPUSH', KEYS[2], ARGV[3])
return 1
"""
_FINISH = f"""{_IS_OURS}
local names = redis.call('LPOP', KEYS[2])
if not names then return 0 end
local token, shown = string.sub(ARGV[2], 1, 8), string.sub(ARGV[2], 9) == 'shown'
local keys, places = unpack(cmsgpack.unpack(names))
for number, key in ipairs(keys) do
  local place, name = places[number], places[number] .. token
  local page = shown and redis.call('HGET', key, name)
  if page == '-' then
    redis.call('HDEL', key, place, name)
  else
    if page then redis.call('HSET', key, place, string.sub(page, 2)) end
    redis.call('HDEL', key, name)
  end
end
return 1
"""
"""For some of the pages that were put, whose names the script finds itself."""
_REPLACE = f"""{_IS_OURS}
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return 1
"""
Part = tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes]]
"""Hashes, places and pages of some rows; no pages for those that are to be removed."""


class Staging:
    """The large batch of a query that is on its way into a table.

    Args:
        client: of the server.
        table: the prefix of the table's keys.
        query: name of the query.
    """

    def __init__(self, client: "Redis", table: str, query: str) -> None:
        self._client = client
        self._table = table
        self._query = query.encode()
        self._entry = b""

    @property
    def name(self) -> str:
        """The name of the hash that has a token for each query, and whether its pages are shown."""
        return staged_name(self._table)

    def put(self, parts: Iterable[Part]) -> None:
        """Put pages beside those that they replace.

        Raises:
            SinkError: another driver has gone on with the query.
        """
        self._entry = os.urandom(_TOKEN_BYTES) + _HIDDEN
        if not self._client.hsetnx(self.name, self._query, self._entry):  # type: ignore[arg-type]
            raise self._refusal  # What it has put would be under a token that nobody knows any more.
        for keys, places, pages in parts:
            if not self._run(_PUT, packed([keys, places]), packed(pages), keys=keys):
                raise self._refusal

    def show(self, batch: "Pipeline") -> None:
        """Have a transaction show what was put."""
        batch.hset(self.name, self._query, self._entry[:_TOKEN_BYTES] + _SHOWN)  # type: ignore[arg-type]

    def check(self, batch: "Pipeline") -> None:
        """Refuse to show what another driver has taken out; the transaction has to watch `name`.

        Raises:
            SinkError: another driver has gone on with the query.
        """
        if batch.hget(self.name, self._query) != self._entry:
            raise self._refusal

    def finish(self) -> None:
        """Have what is shown take the places of what it replaces; take out what is not."""
        while entry := self._client.hget(self.name, self._query):
            self._entry = bytes(entry)  # type: ignore[arg-type]
            if self._entry.endswith(_HIDDEN):
                # From here on, whoever has put it does not show it.
                self._run(_REPLACE, self._entry[:_TOKEN_BYTES] + _DROPPED)
                continue
            while self._run(_FINISH):
                pass
            self._run(_REPLACE, b"")

    def _run(self, script: str, *arguments: bytes, keys: Sequence[bytes] = ()) -> bool:
        """Run a script; return whether the batch was still this driver's, and there was something to do."""
        names = self.name, self._list, *keys
        return bool(self._client.eval(script, len(names), *names, self._query, self._entry, *arguments))  # type: ignore[arg-type]

    @property
    def _list(self) -> str:
        """The name of the list of what was put."""
        return f"{self.name}:{self._entry[:_TOKEN_BYTES].hex()}"

    @property
    def _refusal(self) -> SinkError:
        return SinkError(
            f"another driver writes the batches of query {self._query.decode()} to the table {self._table!r}: see which of the "
            "two is to run, and end the other"
        )


def staged_name(table: str) -> str:
    """Return the name of the hash of what is on its way into a table."""
    return f"{table}:staged"


def shown_tokens(entries: Iterable[bytes]) -> set[bytes]:
    """Return what the names of pages end in that wait and are shown, from the values of the hash of what is on its way."""
    return {entry[:_TOKEN_BYTES] for entry in entries if entry.endswith(_SHOWN)}


def current(
    fields: Mapping[bytes, bytes], shown: Collection[bytes], place_bytes: int
) -> Mapping[bytes, bytes]:
    """Return the pages of a hash by their places, as of the last batch that is shown.

    Args:
        fields: all of the hash.
        shown: the tokens that are shown.
        place_bytes: the bytes of a place.
    """
    pages = {place: page for place, page in fields.items() if len(place) == place_bytes}
    for name, page in fields.items() if shown else ():
        place, token = name[:place_bytes], name[place_bytes:]
        if token in shown and page == b"-":
            pages.pop(place, None)
        elif token in shown:
            pages[place] = page[1:]
    return pages


def packed(values: object) -> bytes:
    """Return an argument for a script, which reads it with `cmsgpack`."""
    # Older servers do not know msgpack's type of bytes.
    return bytes(msgpack.packb(values, use_bin_type=False))
