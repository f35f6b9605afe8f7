"""The topic of the batches' numbers: what is noted there of each query, read up to its end."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka.admin import AdminClient

from operators.sinks.interface import SinkError
from operators.sinks.kafka_reading import Reader
from operators.sinks.kafka_topics import Cluster, in_words
from serializers import SerializationError
from serializers.shapes import count, instance, int64, list_of, refusing

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

    Args:
        cluster: where the sink's topics are.
        admin: a client of it that has had an answer; it ends with this object.

    Attributes:
        notes: the notes of each query.
        topic: what is noted of the topic, or None.
    """

    def __init__(self, cluster: Cluster, admin: AdminClient) -> None:
        self.notes: dict[str, Note] = {}
        self.topic: TopicNote | None = None
        self._cluster = cluster
        self._reader = Reader(cluster, cluster.numbers, 1, admin)

    @classmethod
    def of(cls, cluster: Cluster) -> "Numbers | None":
        """Return what is noted now, or None if nothing ever was."""
        with in_words(cluster):
            numbers = cls._existing(cluster)
            if numbers is None:
                return None
            try:
                numbers.look()
            finally:
                numbers.close()
            return numbers

    @classmethod
    def _existing(cls, cluster: Cluster) -> "Numbers | None":
        admin = cluster.admin()  # here rather than in `of`, whose frame an error may keep for long
        return cls(cluster, admin) if cluster.has_numbers(admin) else None

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
        note = read_note(self._cluster.numbers, key, value)
        if isinstance(note, TopicNote):
            self.topic = note
        else:
            self.notes[key.removeprefix(_QUERY_KEY).decode(errors="replace")] = note


def read_note(topic: str, key: bytes, value: bytes) -> Note | TopicNote:
    """Return what a message of the topic of numbers says.

    Args:
        topic: the topic.
        key, value: the message's key and value.

    Raises:
        SinkError: a newer version wrote it, or something else than this library.
    """
    try:
        with refusing(f"a message of topic {topic!r}"):
            noted = instance(dict, json.loads(value.decode()))
            found = noted.pop("format", None)
            if found == _FORMAT and key == _TOPIC_KEY:
                names = (tuple(list_of(str, noted[name])) for name in ("keys", "columns"))
                return TopicNote(instance(str, noted["id"]), count(noted["partitions"]), *names)
            if found == _FORMAT:
                note = Note(**noted)
                numbers = (int64(one) for one in (note.batch, note.fingerprint) if one is not None)
                _ = [*numbers, count(note.incarnation), instance(str, note.writer)]
                return note
            count(found)
    except SerializationError as error:
        raise SinkError(
            f"{error}. Nothing else than this library may write to that topic: give it another one, and a new query"
        ) from error
    raise SinkError(f"topic {topic!r} was written by a newer version of this library: update it here, too")


def note_of(query: str, note: Note) -> tuple[bytes, bytes]:
    """Return the key and the value of a query's note."""
    return _QUERY_KEY + query.encode(), _value(asdict(note))


def note_of_topic(note: TopicNote) -> tuple[bytes, bytes]:
    """Return the key and the value of the topic's note."""
    return _TOPIC_KEY, _value(asdict(note))


def _value(noted: dict[str, Any]) -> bytes:
    return json.dumps({"format": _FORMAT, **noted}).encode()
