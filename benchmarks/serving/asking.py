"""Questions to a table of pages, and how long each takes."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from benchmarks.serving.filled import DAY_MS, DAYS, FEATURES
from operators.sinks import FoundPage, PageFinder, PageTable, Wanted
from operators.sinks.page_reader import FeatureReader

NOW = DAYS * DAY_MS
LATER = NOW + 12_345
"""A moment at which no window begins where a page does. It is after all records: earlier ones are not held."""
BUSY = 0
PERIOD = 0.1
"""Seconds between two questions of a client."""


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the hundredth part that takes longest, in milliseconds."""
    half, last = np.percentile(np.array(seconds), [50, 99]) * 1_000
    return {"p50_ms": round(float(half), 2), "p99_ms": round(float(last), 2)}


def usual(number: int, keys: int) -> int:
    """Return a key with few records."""
    return 1 + number * 7_919 % (keys - 1)


def timed(ask: Callable[[int], object], count: int) -> list[float]:
    """Ask, after some questions that warm up; return the seconds that each took."""
    taken = []
    for number in range(-20, count):
        begin = time.perf_counter()
        ask(number)
        taken.append(time.perf_counter() - begin)
    return taken[20:]


def plain_loop(count: int) -> list[float]:
    """Return the seconds that the same loop takes each time: how far the machine itself is from steady."""
    return timed(lambda _: sum(range(50_000)), count)


@dataclass
class CountedFinder:
    """A finder that counts round trips, and the bytes of pages."""

    finder: PageFinder
    rounds: int = 0
    size: int = 0

    def find(self, wanted: Sequence[Wanted]) -> list[FoundPage]:
        """Find rows, and count."""
        found = self.finder.find(wanted)
        self.rounds += 1
        self.size += sum(len(row.page) for row in found)
        return found

    def now_us(self) -> int:
        """Do as the finder does."""
        return self.finder.now_us()

    def close(self) -> None:
        """Do as the finder does."""
        self.finder.close()


@contextmanager
def counting(pages: PageTable) -> Iterator[tuple[FeatureReader, CountedFinder]]:
    """Yield a reader that has asked once, and what it counts."""
    with FEATURES.reader(pages) as reader:
        reader.get({"k": 1}, NOW)
        counted = CountedFinder(reader._finder)  # noqa: SLF001 - readers make their own
        reader._finder = counted  # noqa: SLF001
        yield reader, counted


def one_key(pages: PageTable, keys: int, count: int, *, busy: bool) -> dict[str, float]:
    """The time, the round trips and the bytes of one answer."""

    def key(number: int) -> dict[str, int]:
        return {"k": BUSY if busy else usual(number, keys)}

    with counting(pages) as (reader, counted):
        reader.get(key(1), LATER)
        beside = {"rounds": counted.rounds, "bytes": counted.size}
    with FEATURES.reader(pages) as reader:
        return percentiles(timed(lambda number: reader.get(key(number), LATER), count)) | beside


def many_keys(pages: PageTable, keys: int, count: int, many: int) -> dict[str, float]:
    """The time, the round trips and the bytes of an answer for many keys."""

    def some(number: int) -> list[dict[str, int]]:
        return [{"k": usual(number * many + n, keys)} for n in range(many)]

    with counting(pages) as (reader, counted):
        reader.get_many(some(1), NOW)
        beside = {"rounds": counted.rounds, "bytes": counted.size}
    with FEATURES.reader(pages) as reader:
        return percentiles(timed(lambda number: reader.get_many(some(number), NOW), count)) | beside


def _client(pages: PageTable, keys: int, number: int, until: float) -> list[float]:
    """Ask at a steady pace; a question that comes late counts from when it was due."""
    taken = []
    with FEATURES.reader(pages) as reader:
        reader.get({"k": 1}, NOW)
        due = time.perf_counter() + PERIOD * (number % 64) / 64
        while due < until:
            time.sleep(max(0.0, due - time.perf_counter()))
            reader.get({"k": usual(number * 1_000 + len(taken), keys)}, NOW)
            taken.append(time.perf_counter() - due)
            due += PERIOD
    return taken


def several_clients(pages: PageTable, keys: int, clients: int, seconds: float) -> dict[str, float]:
    """The time of answers to clients, threads of one process, of which each asks ten times a second."""
    until = time.perf_counter() + seconds
    with ThreadPoolExecutor(clients) as pool:
        found = pool.map(lambda number: _client(pages, keys, number, until), range(clients))
        return percentiles([one for taken in found for one in taken])


def _ask_until_told(pages: PageTable, keys: int, told: Connection) -> None:
    taken = []
    with FEATURES.reader(pages) as reader:
        reader.get({"k": 1}, NOW)
        told.send(None)
        while not told.poll():
            begin = time.perf_counter()
            reader.get({"k": usual(len(taken), keys)}, NOW)
            taken.append(time.perf_counter() - begin)
            time.sleep(0.005)
    told.send(taken)


def beside_writing(pages: PageTable, keys: int, write: Callable[[], float]) -> dict[str, float]:
    """The time of answers to another process while a batch is written, and the seconds of the batch."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_ask_until_told, args=(pages, keys, there))
    process.start()
    here.recv()
    seconds = write()
    here.send(None)
    taken = here.recv()
    process.join()
    return percentiles(taken) | {
        "longest_ms": round(max(taken) * 1_000, 1),
        "answers": len(taken),
        "batch_s": round(seconds, 1),
    }
