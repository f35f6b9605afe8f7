"""A reader of what is committed that keeps when it saw each message."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, TopicPartition

from benchmarks.kafka.records import Row, Window

_QUIET_SECONDS = 0.3
"""Without a message, until a table is compared: that costs what is measured."""
Read = Callable[[str, bytes, bytes | None], tuple[Window, Row | None, int]]


class Reader:
    """Reads a topic in a thread, and folds it into the table that it stands for.

    Attributes:
        last: when the last message came, in seconds since 1970; 0 before any.
        seen: of each key, in the order in which they came: when a message was seen, and when its newest record was sent, in
            milliseconds.
    """

    def __init__(self, servers: str, topic: str, partitions: int, window: str, read: Read) -> None:
        self.last = 0.0
        self.seen: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self._window, self._read = window, read
        self._heard: list[tuple[float, bytes, bytes | None]] = []
        self._folded = 0
        self._table: dict[Window, Row] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "benchmark",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def messages(self) -> int:
        """How many messages there were."""
        return len(self._heard)

    def table(self) -> Mapping[Window, Row]:
        """Return the table as of now."""
        heard = self._heard
        while self._folded < len(heard):
            seen, key, value = heard[self._folded]
            self._folded += 1
            window, row, sent = self._read(self._window, key, value)
            if row is None:
                self._table.pop(window, None)
            else:
                self._table[window] = row
                self.seen[window[0]].append((seen, sent))
        return self._table

    def wait_for(self, wanted: Mapping[Window, Row], seconds: float) -> None:
        """Wait until the table is the wanted one.

        Raises:
            TimeoutError: it was not in time; says how many windows differ.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if time.time() - self.last > _QUIET_SECONDS and self.table() == wanted:
                return
            time.sleep(0.2)
        table = self.table()
        differ = len(table.items() ^ wanted.items())
        raise TimeoutError(f"{differ} rows differ between {len(table)} and {len(wanted)} windows")

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            messages = self._consumer.consume(10_000, 0.02)
            now = time.time()
            heard = [(now, one.key(), one.value()) for one in messages if not one.error()]
            if heard:
                self._heard += heard
                self.last = now


def delays(seen: Mapping[str, Sequence[tuple[float, int]]], sent: Sequence[tuple[str, int]]) -> list[float]:
    """Return how many seconds after it was sent each record was in a committed row.

    Both systems take the records of a key in order, so that a row with a newer record has the older ones behind it.

    Args:
        seen: of each key, when a row was seen, and when its newest record was sent, in milliseconds.
        sent: key and time of each record, in order.
    """
    at: dict[str, int] = dict.fromkeys(seen, 0)
    found = []
    for key, when in sent:
        rows = seen[key]
        while rows[at[key]][1] < when:
            at[key] += 1
        found.append(rows[at[key]][0] - when / 1_000)
    return found
