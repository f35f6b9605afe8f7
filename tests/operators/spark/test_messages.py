"""Messages between a task and the process that has a bucket's copy: what is sent is what arrives."""

from dataclasses import replace

import pytest

from operators.spark.bucket import Blobs, Call, Origin, Outcome, Request
from operators.spark.messages import (
    ELSEWHERE,
    Done,
    Wanted,
    decode_answer,
    decode_blob,
    decode_request,
    encode_blob,
    encode_done,
    encode_request,
    encode_wanted,
)
from state_backends.durability.pointer import Pointer

POINTER = Pointer.fresh()
REQUEST = Request(POINTER, 3, 7, Call(5, 6, arrived=True, fired=4), Blobs([b"a", b""], [b"b"]))


@pytest.mark.parametrize(
    "request_",
    [
        REQUEST,
        replace(REQUEST, batch=None, call=Call(-5, 6), blobs=Blobs([], [])),
        replace(REQUEST, begins=True),
    ],
)
def test_requests(request_: Request) -> None:
    origin = Origin("run", "digest")
    assert (origin, request_) == decode_request(encode_request(origin, request_))


@pytest.mark.parametrize(
    "outcome", [Outcome([b"rows", b""], {"rows": 2, "late": 0}, 9), Outcome([], {}, None)]
)
def test_answers(outcome: Outcome) -> None:
    done = Done([("pointer", POINTER.encode()), ("log-1", None)], outcome)
    assert done == decode_answer(encode_done(done), POINTER.store_id)
    assert Wanted("log-2") == decode_answer(encode_wanted("log-2"), POINTER.store_id)
    assert decode_answer(ELSEWHERE, POINTER.store_id) is None


def test_blobs() -> None:
    assert [b"blob", b"", None] == [decode_blob(encode_blob(blob)) for blob in (b"blob", b"", None)]
