"""The task's side of a conversation with the process that has a bucket's copy: what it hears, and what it says to it.

It has no socket: `where_held` carries the messages, and a test can.
"""

import sys
from dataclasses import replace

from operators.spark.inputs.spool import Spool
from operators.spark.replicas.calls import Done, Functions, Request
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
    encode_blob,
    encode_functions,
    encode_request,
)
from operators.spark.replicas.protocol import Heard
from serializers.shapes import refusing
from state_backends.journal import Journal

_WORKING = Wanted, Emitted, Done, Failed
_NEXT: dict[type[Answer] | None, tuple[type[Answer], ...]] = {
    None: (Ready, Refused),
    Ready: (WantedFunctions, *_WORKING, Refused),
    WantedFunctions: _WORKING,
    Wanted: _WORKING,
    Emitted: (Emitted, Done),
}
"""What may follow which message of the process; after all others, nothing does."""


class Conversation:
    """One conversation. It is over as soon as it knows what it has `heard`.

    Args:
        functions: of the operator, to be sent.
        journal: the journal of the bucket, to be read.
        request: what is to be done.
        emitted: takes the rows of the answer.

    Attributes:
        asked: whether the process was asked for work: if it dies from then on, that may be why.
        heard: what came of asking; None until then.
        answer: with which values.
    """

    def __init__(self, functions: Functions, journal: Journal, request: Request, emitted: Spool) -> None:
        self._functions = functions
        self._journal = journal
        self._request = request
        self._emitted = emitted
        self._last: type[Answer] | None = None
        self.asked = False
        self.heard: Heard | None = None
        self.answer: Done | Failed | None = None

    def hear(self, message: bytes) -> bytes | None:
        """Take a message of the process, and return what is to be sent; None if it is the process's turn again, or all is said.

        Raises:
            SerializationError: the message is no answer, or nothing that may be said now.
        """
        answer = decode_answer(message, self._request.pointer.store_id)
        with refusing("what the process that has a bucket's copy says"):
            if self.heard is not None or type(answer) not in _NEXT[self._last]:
                raise ValueError(f"{type(answer).__name__} is out of turn")
        self._last = type(answer)
        return self._reply(answer)

    def _reply(self, answer: Answer) -> bytes | None:
        match answer:
            case Ready():
                self.asked = True
                return encode_request(Asked(self._functions.origin, self._request))
            case WantedFunctions():
                return encode_functions(self._functions, sys.path)
            case Wanted(name):
                return encode_blob(self._journal.get(name))
            case Emitted(blob):
                self._emitted.extend([blob])
            case Done():
                self.heard = Heard.DONE
                self.answer = replace(answer, outcome=replace(answer.outcome, blobs=self._emitted))
            case Failed():
                self.heard, self.answer = Heard.FAILED, answer
            case Refused():
                self.heard = Heard.REFUSED
        return None
