"""Large batches in Redis: drivers that end in the midst of one, and two drivers at once."""

import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis

from operators.sinks import Changes, RedisPages, SinkError, Wanted
from operators.sinks.contract.pages import Place, page_changes, pages_of, write_pages_forever
from operators.sinks.redis_staging import Staging, current, shown_tokens
from tests.operators.sinks.redis_server import redis_server

KEYS = 30


@pytest.fixture
def url() -> Iterator[str]:
    with redis_server() as url:
        yield url


def pages(url: str) -> RedisPages:
    return RedisPages(url, "t", at_once=8)


def batch(number: int) -> Changes:
    """A page of each key that says the number, and one that the next batch deletes."""
    kept: dict[Place, bytes] = {(1, 0, b"k%d" % key, 0, 0): b"%d" % number for key in range(KEYS)}
    new: dict[Place, bytes] = {(1, 0, b"k0", 1, number): b"%d" % number}
    return page_changes(number, kept | new, [(1, 0, b"k0", 1, number - 1)])


def expected(number: int) -> dict[tuple[int, int, int], bytes]:
    return {(key, 0, 0): b"%d" % number for key in range(KEYS)} | {(0, 1, number): b"%d" % number}


def found(url: str) -> dict[tuple[int, int, int], bytes]:
    return pages_of(pages(url), [Wanted(1, 0, b"k%d" % key, 0, 9) for key in range(KEYS)])


def left(url: str) -> list[bytes]:
    """Names of what a batch leaves that is not yet where it belongs."""
    with redis.Redis.from_url(url) as client:
        names = [name for name in client.scan_iter() if b":staged" in name]
        fields = [field for key in client.scan_iter(match="t:1:*") for field in client.hkeys(key)]
    return names + [field for field in fields if len(field) != 16]


def test_nothing_is_left_of_a_batch(url: str) -> None:
    for number in range(3):
        assert pages(url).write(batch(number))
        assert expected(number) == found(url)
        assert [] == left(url)
        assert not pages(url).write(batch(number))


def test_a_batch_is_shown_or_not_wherever_its_driver_ends(url: str) -> None:
    """After each command of it. What is shown stays so until the next batch, which leaves nothing."""
    pages(url).write(batch(0))
    seen = set()
    for commands in range(200):
        # The server ends the driver's connection at this command.
        ended = _write_some(url, batch(1), commands)
        last = pages(url).last_batch("one")
        assert last is not None
        assert expected(last.number) == found(url)
        seen.add((last.number, bool(left(url))))
        # What the next driver makes of it may be another batch.
        assert (last.number == 0) == pages(url).write(page_changes(1, {(1, 0, b"k1", 0, 0): b"other"}))
        assert (expected(1) if last.number else expected(0) | {(1, 0, 0): b"other"}) == found(url)
        assert [] == left(url)
        with redis.Redis.from_url(url) as client:
            client.flushall()
        pages(url).write(batch(0))
        if not ended:
            break
    assert {(0, False), (0, True), (1, True), (1, False)} == seen


def _ending(url: str, commands: int) -> redis.Redis:
    """A client that ends after so many commands."""
    sent = 0

    class Ending(redis.Redis):
        def execute_command(self, *args: object, **options: object) -> object:
            nonlocal sent
            sent += 1
            if sent > commands:
                raise redis.ConnectionError("the driver has ended")
            return super().execute_command(*args, **options)

    return Ending.from_url(url)


def _write_some(url: str, changes: Changes, commands: int) -> bool:
    """Write a batch until so many commands are sent; return whether that was before its end."""

    class EndingPages(RedisPages):
        def connect(self) -> redis.Redis:
            return _ending(self.url, commands)

    try:
        EndingPages(url, "t", at_once=8).write(changes)
    except SinkError:
        return True
    return False


@pytest.mark.slow
def test_killed_drivers(url: str) -> None:
    """An answer is of the batch that the table names; the next driver leaves nothing of the one before."""
    spawn = multiprocessing.get_context("spawn")
    for _ in range(5):
        reader, writer = spawn.Pipe(duplex=False)
        process = spawn.Process(target=write_pages_forever, args=(pages(url), writer), daemon=True)
        process.start()
        writer.close()
        reader.recv()
        time.sleep(random.random() / 20)
        process.kill()
        process.join()
        last = pages(url).last_batch("one")
        assert last is not None
        wanted = [
            Wanted(1, bucket, b"\x01k%d" % key, -(2**63), 2**63 - 1)
            for bucket in range(3)
            for key in range(5)
        ]
        assert {b"%d" % last.number} == {*pages_of(pages(url), wanted).values()}
        pages(url).write(page_changes(last.number + 1, {(1, 0, b"k", 0, 0): b"page"}))
        assert [] == left(url)
        with redis.Redis.from_url(url) as client:
            client.flushall()


@pytest.mark.parametrize("parts", [0, 1, 5, 8])
def test_of_two_drivers_one_is_refused(parts: int, url: str) -> None:
    """The one that has begun first: the other has taken out what it had put, and nothing of it is shown or left."""
    pages(url).write(batch(0))
    keys = [b"t:1:0:k%d" % key for key in range(KEYS)]
    with redis.Redis.from_url(url) as client:
        first = Staging(client, "t", "one")

        def some() -> Iterator[tuple[list[bytes], list[bytes], list[bytes]]]:
            for number in range(8):
                if number == parts:
                    pages(url).write(batch(1))
                yield keys, [bytes(16)] * KEYS, [b"of the first"] * KEYS

        if parts < 8:
            with pytest.raises(SinkError, match="another driver writes the batches of query one"):
                first.put(some())
        else:
            first.put(some())
            pages(url).write(batch(1))
            with client.pipeline() as transaction:
                transaction.watch(first.name)
                with pytest.raises(SinkError, match="another driver writes the batches of query one"):
                    first.check(transaction)
    assert expected(1) == found(url)
    assert [] == left(url)


def test_a_driver_that_begins_beside_another_is_refused(url: str) -> None:
    """It looked before the other one began. The other one goes on, and nothing is left of either."""
    pages(url).write(batch(0))
    keys = [b"t:1:0:k%d" % key for key in range(KEYS)]
    with redis.Redis.from_url(url) as client:
        first, second = (Staging(client, "t", "one") for _ in range(2))

        def some() -> Iterator[tuple[list[bytes], list[bytes], list[bytes]]]:
            yield keys[:9], [bytes(16)] * 9, [b"1"] * 9
            with pytest.raises(SinkError, match="another driver writes the batches of query one"):
                second.put([(keys, [bytes(16)] * KEYS, [b"2"] * KEYS)])
            yield keys[9:], [bytes(16)] * (KEYS - 9), [b"1"] * (KEYS - 9)

        first.put(some())
        first.finish()
    assert expected(0) == found(url)
    assert [] == left(url)


def test_what_is_being_taken_out_is_not_shown(url: str) -> None:
    """A driver that goes on, when another one has begun to take out what it had put: it shows all of it, or is refused."""
    outcomes = set()
    for commands in range(40):
        pages(url).write(batch(0))
        keys = [b"t:1:0:k%d" % key for key in range(KEYS)]
        with redis.Redis.from_url(url) as client, _ending(url, commands) as ending:
            first = Staging(client, "t", "one")
            first.put(([key], [bytes(16)], [b"1"]) for key in keys)
            with suppress(redis.ConnectionError):
                Staging(ending, "t", "one").finish()
            try:
                with client.pipeline() as transaction:
                    transaction.watch(first.name)
                    first.check(transaction)
                    transaction.multi()
                    first.show(transaction)
                    transaction.execute()
                shown = {(key, 0, 0): b"1" for key in range(KEYS)}
            except SinkError:
                shown = {}
            outcomes.add(bool(shown))
            assert expected(0) | shown == found(url)
            first.finish()
            assert expected(0) | shown == found(url)
            assert [] == left(url)
            client.flushall()
    assert {True, False} == outcomes


def test_pages_that_wait_are_passed_over() -> None:
    """Until their token is shown; a page may be one that says that it goes."""
    fields = {
        b"a": b"1",
        b"b": b"2",
        b"a12345678": b"+3",
        b"b12345678": b"-",
        b"c12345678": b"+",
        b"a00000000": b"+9",
    }
    shown = {b"a": b"3", b"c": b""}
    assert {b"a": b"1", b"b": b"2"} == current(
        fields, shown_tokens([b"12345678hidden", b"00000000dropped"]), 1
    )
    assert shown == current(fields, shown_tokens([b"12345678shown", b"00000000hidden"]), 1)
