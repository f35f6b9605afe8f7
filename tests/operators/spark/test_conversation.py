"""What the task says in a conversation, without sockets: all that a process may say, in every order."""

from itertools import product
from pathlib import Path

import pytest

from operators.runtime.batch_clock import Call
from operators.spark.inputs.spool import Spool
from operators.spark.replicas.calls import Blobs, Done, Functions, Origin, Outcome, Request
from operators.spark.replicas.conversation import Conversation
from operators.spark.replicas.messages import (
    Answer,
    Emitted,
    Failed,
    Ready,
    Refused,
    Wanted,
    WantedFunctions,
    decode_blob,
    decode_functions,
    decode_request,
    encode_answer,
)
from operators.spark.replicas.protocol import Heard
from serializers import SerializationError
from state_backends.durability.pointer import Pointer
from state_backends.journal import MemoryJournal

POINTER = Pointer.fresh()
REQUEST = Request(POINTER, 3, 7, Call(5, 6), Blobs([b"a"], []))
FUNCTIONS = Functions(Origin("run", "digest"), "debug", b"pickled")
ANSWERS: dict[str, Answer] = {
    "r": Ready(),
    "x": Refused(),
    "f": WantedFunctions(),
    "w": Wanted("log-1"),
    "e": Emitted(b"rows"),
    "d": Done([("pointer", POINTER.encode())], Outcome((), {"rows": 2}, 9)),
    "!": Failed("ValueError: bad"),
}


def conversation(folder: Path) -> Conversation:
    journal = MemoryJournal()
    journal.put("log-1", b"entry")
    journal.commit()
    return Conversation(FUNCTIONS, journal, REQUEST, Spool(folder))


def may_be_said(said: str) -> bool:
    """Whether a process says that, or begins with it: told apart from the table of the code."""
    rest = said.removeprefix("r")
    if rest == said:
        return said in ("", "x")
    before = rest.removeprefix("f").lstrip("w")
    end = before.lstrip("e")
    return end in ("", "d") or (end == "!" and before == "!") or rest == "x"


def test_messages_in_every_order(tmp_path: Path) -> None:
    """What is out of turn is refused at once, and nothing is sent for it; so is what follows the end."""
    for said in map("".join, product(ANSWERS, repeat=4)):
        talk = conversation(tmp_path)
        for place, kind in enumerate(said):
            message = encode_answer(ANSWERS[kind])
            if not may_be_said(said[: place + 1]):
                before = talk.heard, talk.answer, talk.asked
                with pytest.raises(SerializationError, match="out of turn"):
                    talk.hear(message)
                assert before == (talk.heard, talk.answer, talk.asked)
                break
            reply = talk.hear(message)
            assert (kind in "rfw") == (reply is not None)
            assert (kind in "xd!") == (talk.heard is not None)
            assert talk.asked == (said[0] == "r")


def test_what_is_sent_and_heard(tmp_path: Path) -> None:
    talk = conversation(tmp_path)

    def hear(kind: str) -> bytes:
        reply = talk.hear(encode_answer(ANSWERS[kind]))
        assert reply is not None
        return reply

    asked = decode_request(hear("r"))
    assert asked is not None
    assert (FUNCTIONS.origin, REQUEST) == (asked.origin, asked.request)
    assert ("debug", b"pickled") == decode_functions(hear("f"))[:2]
    assert b"entry" == decode_blob(hear("w"))
    for message in "eed":
        assert talk.hear(encode_answer(ANSWERS[message])) is None
    assert Heard.DONE is talk.heard
    assert isinstance(talk.answer, Done)
    assert [b"rows", b"rows"] == [*talk.answer.outcome.blobs]
    assert ({"rows": 2}, 9) == (talk.answer.outcome.metrics, talk.answer.outcome.timer)


@pytest.mark.parametrize(
    ("said", "heard"), [("x", Heard.REFUSED), ("rx", Heard.REFUSED), ("rw!", Heard.FAILED)]
)
def test_other_ends(said: str, heard: Heard, tmp_path: Path) -> None:
    talk = conversation(tmp_path)
    for kind in said:
        talk.hear(encode_answer(ANSWERS[kind]))
    assert heard is talk.heard
    assert (ANSWERS["!"] if heard is Heard.FAILED else None) == talk.answer
