"""The topic of the batches' numbers: what is noted there of each query, read up to its end."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from operators.sinks.interface import SinkError
from operators.sinks.kafka_reading import Reader
from operators.sinks.kafka_topics import Cluster, in_words

_FORMAT = 1
_TOPIC_KEY = b"topic"
_QUERY_KEY = b"query:"


@dataclass(frozen=True, slots=True)
class Note:
    """What the topic of numbers has of a query.

    Attributes:
        batch, fingerprint: the number and fingerprint of its last batch; None before the first.
        incarnation: a number that is larger for each query that came to the topic later.
        writer: names the process that may write: whoever came last.
    """

    batch: int | None
    fingerprint: int | None
    incarnation: int
    writer: str


@dataclass(frozen=True, slots=True)
class TopicNote:
    """What is noted of the topic itself by the first batch.

    Attributes:
        id: the id of the topic: one that is made anew has another.
        partitions: how many it has, by which messages were placed.
        keys, columns: the key columns, and all columns, of the rows.
    """

    id: str
    partitions: int
    keys: tuple[str, ...]
    columns: tuple[str, ...]


class Numbers:
    """A reader of a sink's topic of numbers that knows what it has read.

    Attributes:
        notes: the notes of each query.
        topic: what is noted of the topic, or None.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.notes: dict[str, Note] = {}
        self.topic: TopicNote | None = None
        self._cluster = cluster
        self._reader = Reader(cluster, cluster.numbers, 1)

    @classmethod
    def of(cls, cluster: Cluster) -> "Numbers | None":
        """Return what is noted now, or None if nothing ever was."""
        with in_words(cluster):
            if not cluster.has_numbers():
                return None
            numbers = cls(cluster)
            try:
                numbers.look()
            finally:
                numbers.close()
            return numbers

    def look(self, *, stable: bool = False, until: Callable[[], bool] = lambda: False) -> None:
        """Read to the end.

        Args:
            stable: read only what no open transaction of another query holds back, without waiting for its end.
            until: nothing more is read once it is true.
        """
        for message in self._reader.read(stable=stable):
            self._learn(message.key() or b"", message.value() or b"{}")
            if until():
                return

    def next_incarnation(self) -> int:
        """Return the number of a query that is new to the topic."""
        return 1 + max((note.incarnation for note in self.notes.values()), default=0)

    def close(self) -> None:
        """End the connections."""
        self._reader.close()

    def _learn(self, key: bytes, value: bytes) -> None:
        noted: dict[str, Any] = json.loads(value)
        if noted.pop("format", None) != _FORMAT:
            raise SinkError(
                f"topic {self._cluster.numbers!r} was written by a newer version of this library: update it here, too"
            )
        if key == _TOPIC_KEY:
            self.topic = TopicNote(
                noted["id"], noted["partitions"], tuple(noted["keys"]), tuple(noted["columns"])
            )
        else:
            self.notes[key.removeprefix(_QUERY_KEY).decode()] = Note(**noted)


def note_of(query: str, note: Note) -> tuple[bytes, bytes]:
    """Return the key and the value of a query's note."""
    return _QUERY_KEY + query.encode(), _value(asdict(note))


def note_of_topic(note: TopicNote) -> tuple[bytes, bytes]:
    """Return the key and the value of the topic's note."""
    return _TOPIC_KEY, _value(asdict(note))


def _value(noted: dict[str, Any]) -> bytes:
    return json.dumps({"format": _FORMAT, **noted}).encode()
