"""The records of a topic, the windows that follow from them, and a clock's pace of sending."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import Producer

from operators import SessionWindows, SlidingWindows, WindowedAggregation
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE

BEGIN_MS = time.time_ns() // 3_600_000_000_000 * 3_600_000
"""Event time of the first record: this hour, since brokers delete what is older than the retention of a topic."""
DISORDER_MS = 5_000
GRACE_MS = 60_000
LENGTHS_MS = {"sliding": 10_000, "session": 1_000}
"""Size of sliding windows and gap of sessions."""
Window = tuple[str, int, int]
"""Key, and the first and last event time that belong to it, in milliseconds."""
Row = tuple[int, int]
"""Count and sum."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its event time is in the message's timestamp, in milliseconds."""

    key: str
    at: int
    value: int


def records(first: int, count: int, keys: int, seed: int) -> Iterator[Record]:
    """Yield records, one each millisecond of event time, up to `DISORDER_MS` late.

    Args:
        first: number of the first.
        count: how many.
        keys: different keys.
        seed: of the choices.
    """
    rng = random.Random(seed * 1_000_003 + first)
    for number in range(first, first + count):
        late = rng.randrange(DISORDER_MS) if rng.random() < 0.1 else 0
        yield Record(f"key-{rng.randrange(keys)}", BEGIN_MS + number - late, rng.randrange(1_000))


def operator(window: str) -> WindowedAggregation:
    """Return our operator of a benchmark: count, sum, and when the newest record was sent."""
    of = SlidingWindows if window == "sliding" else SessionWindows
    windows = of(f"{LENGTHS_MS[window]} ms", grace=f"{GRACE_MS} ms").group_by("key")
    return windows.aggregate(n=agg.count(), total=agg.sum("value"), sent=agg.max("sent")).emit("on_update")


def expected(window: str, given: list[Record]) -> dict[Window, Row]:
    """Return the windows of records, by a run without Spark and without Kafka."""
    columns = {
        "key": [one.key for one in given],
        "at": pa.array([one.at for one in given], pa.timestamp("ms", "UTC")),
        "value": [one.value for one in given],
        "sent": [0] * len(given),
    }
    with operator(window).local_runner("at") as runner:
        rows = runner.process(pa.table(columns), FAR_FUTURE)
    keys, bounds = rows.column("key").to_pylist(), rows.column("window").combine_chunks()
    starts, ends = (bounds.field(name).cast(pa.int64()).to_pylist() for name in ("start", "end"))
    counted = zip(rows.column("n").to_pylist(), rows.column("total").to_pylist(), strict=True)
    return {
        (key, start, last_time(window, end)): row
        for key, start, end, row in zip(keys, starts, ends, counted, strict=True)
    }


def last_time(window: str, end: int) -> int:
    """Return the last event time of a window of ours: a session of Kafka Streams ends at its last record."""
    return end - LENGTHS_MS["session"] if window == "session" else end


class Sender:
    """Sends records to a topic, all at once or at a pace, and keeps when each was sent."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self.sent: list[tuple[str, int]] = []

    def send_all(self, given: list[Record]) -> None:
        """Send records as fast as the broker takes them; 0 stands for when they were sent."""
        for one in given:
            self._send(one, 0)
        self._producer.flush()

    def send_paced(self, given: Iterator[Record], per_second: float, seconds: float) -> None:
        """Send records by the clock, and note key and time of each, in milliseconds since 1970."""
        begin = time.time()
        for number, one in enumerate(given):
            due = begin + number / per_second
            if due > begin + seconds:
                break
            time.sleep(max(0.0, due - time.time()))
            now = time.time_ns() // 1_000_000
            self._send(one, now)
            self.sent.append((one.key, now))
        self._producer.flush()

    def _send(self, one: Record, sent: int) -> None:
        while True:
            try:
                self._producer.produce(self._topic, f"{one.value},{sent}", one.key, timestamp=one.at)
                self._producer.poll(0)
            except BufferError:  # its queue is full
                self._producer.poll(0.1)
            else:
                return
