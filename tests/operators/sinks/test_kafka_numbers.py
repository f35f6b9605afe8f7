"""What a topic of numbers says, and what it says if others write to it."""

import json
import random

import pytest

from operators.sinks import SinkError
from operators.sinks.kafka_numbers import Note, TopicNote, note_of, note_of_topic, read_note
from tests.hostile.mutate import mutated, written

NOTE = Note(batch=7, fingerprint=-(2**63), incarnation=2, writer="w")
NEW = Note(batch=None, fingerprint=None, incarnation=1, writer="w")
TOPIC = TopicNote("id", 3, ("k", "window"), ("k", "window", "n"))
MESSAGES = [note_of("a query", NOTE), note_of("ü", NEW), note_of_topic(TOPIC)]


def test_notes_come_back() -> None:
    assert [NOTE, NEW, TOPIC] == [read_note("t", *message) for message in MESSAGES]


@pytest.mark.parametrize("seed", range(40))
def test_messages_of_others_are_refused(seed: int) -> None:
    """With the name of the topic; what can be read has the types of a note."""
    rng = random.Random(seed)
    for key, value in MESSAGES:
        for forged in (mutated(rng, value), written(rng, value), rng.randbytes(9), b"", b"null"):
            shown, note = "topic 'numbers'", None
            try:
                note = read_note("numbers", key, forged)
            except SinkError as error:
                shown = str(error)
            assert "topic 'numbers'" in shown
            assert len(shown) < 2_000
            if isinstance(note, Note):
                assert {int, type(None)} >= {type(note.batch), type(note.fingerprint)}
                assert (int, str) == (type(note.incarnation), type(note.writer))
            if isinstance(note, TopicNote):
                assert {str} >= {*map(type, (note.id, *note.keys, *note.columns))}


def test_a_newer_version_is_told() -> None:
    key, value = MESSAGES[0]
    with pytest.raises(
        SinkError, match="topic 't' was written by a newer version of this library: update it"
    ):
        read_note("t", key, json.dumps({**json.loads(value), "format": 2}).encode())
