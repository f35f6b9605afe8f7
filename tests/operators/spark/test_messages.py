"""Messages between a task and the process that has a bucket's copy: what is sent is what arrives."""

from dataclasses import replace

import pytest

from operators.runtime.batch_clock import Call
from operators.spark.replicas.calls import Blobs, Done, Functions, Origin, Outcome, Request
from operators.spark.replicas.messages import (
    Answer,
    Asked,
    Emitted,
    Failed,
    Ready,
    Refused,
    Wanted,
    WantedFunctions,
    decode_answer,
    decode_blob,
    decode_functions,
    decode_request,
    encode_answer,
    encode_blob,
    encode_functions,
    encode_request,
)
from state_backends.durability.pointer import Pointer

POINTER = Pointer.fresh()
REQUEST = Request(
    POINTER, 3, 7, Call(5, 6, max_event_times_us=(7, None), fired=4), Blobs([b"a", b""], [b"b"])
)


@pytest.mark.parametrize(
    "request_",
    [
        REQUEST,
        replace(REQUEST, batch=None, call=Call(-5, 6), blobs=Blobs([], [])),
        replace(REQUEST, begins=True),
    ],
)
def test_requests(request_: Request) -> None:
    asked = Asked(Origin("run", "digest"), request_)
    assert asked == decode_request(encode_request(asked))


@pytest.mark.parametrize(
    "outcome", [Outcome([b"rows", b""], {"rows": 2, "late": 0}, 9), Outcome([], {}, None)]
)
def test_answers(outcome: Outcome) -> None:
    """Rows come before, in messages of their own."""
    done = Done([("pointer", POINTER.encode()), ("log-1", None)], outcome)
    without_rows = replace(done, outcome=replace(outcome, blobs=()))
    assert without_rows == decode_answer(encode_answer(done), POINTER.store_id)


@pytest.mark.parametrize(
    "answer",
    [
        Wanted("log-2"),
        WantedFunctions(),
        Emitted(b"rows"),
        Ready(),
        Refused(),
        Failed("ValueError: bad\nline"),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_other_answers(answer: Answer) -> None:
    assert answer == decode_answer(encode_answer(answer), POINTER.store_id)


def test_functions() -> None:
    """With the places where the task's process looks for modules."""
    functions = Functions(Origin("run", "digest"), "debug", b"pickled")
    assert ("debug", b"pickled", ["", "/lib"]) == decode_functions(encode_functions(functions, ["", "/lib"]))


def test_blobs() -> None:
    assert [b"blob", b"", None] == [decode_blob(encode_blob(blob)) for blob in (b"blob", b"", None)]
