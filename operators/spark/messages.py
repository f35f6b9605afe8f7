"""What a task and the process that has a bucket's copy say to each other: msgpack, never pickled, and checked before use.

    the task            the process
    request        ->
                   <-   wanted: the name of a blob of the journal, any number of times
    blob           ->
                   <-   done; or elsewhere, and the task's process has to work itself

Bytes that are none of these raise an error of serialization, and nothing else.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, cast

import msgpack

from operators.spark.bucket import Blobs, Call, Origin, Outcome, Request
from serializers.shapes import instance, int64, list_of, refusing
from state_backends.durability.pointer import Pointer

_FORMAT = 2
_WANTED, _DONE, _ELSEWHERE = range(3)
ELSEWHERE: bytes = msgpack.packb([_ELSEWHERE])


@dataclass(frozen=True, slots=True)
class Wanted:
    """The process needs a blob of the journal.

    Attributes:
        name: of the blob.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Done:
    """The process has worked.

    Attributes:
        changes: of the journal: names and blobs, None for one to be removed.
        outcome: of the request.
    """

    changes: Sequence[tuple[str, bytes | None]]
    outcome: Outcome


def encode_request(origin: Origin, request: Request) -> bytes:
    """Return the message that asks for work."""
    blobs = list(request.blobs.rows), list(request.blobs.partials)
    call = astuple(request.call)
    plain = request.pointer.encode(), request.label, request.batch, call, blobs, request.begins
    return _pack([_FORMAT, *astuple(origin), *plain])


def decode_request(data: bytes) -> tuple[Origin, Request] | None:
    """Return a message of `encode_request`; None for one of another version of this library.

    Raises:
        SerializationError: the bytes are no such message.
    """
    with refusing("a request for work on a bucket"):
        form, *rest = msgpack.unpackb(data)
        if int64(form) != _FORMAT:
            return None
        run, digest, pointer, label, batch, call, blobs, begins = rest
        rows, partials = (list_of(bytes, part) for part in blobs)
        request = Request(
            Pointer.decode(instance(bytes, pointer)),
            int64(label),
            _optional(batch),
            _call(*call),
            Blobs(rows, partials),
            instance(bool, begins),
        )
        return Origin(instance(str, run), instance(str, digest)), request


def encode_wanted(name: str) -> bytes:
    """Return the message that asks for a blob."""
    return _pack([_WANTED, name])


def encode_blob(blob: bytes | None) -> bytes:
    """Return the answer to `Wanted`: the blob, or None."""
    return _pack(blob)


def decode_blob(data: bytes) -> bytes | None:
    """Return a message of `encode_blob`.

    Raises:
        SerializationError: the bytes are no such message.
    """
    with refusing("a blob of a journal"):
        blob = msgpack.unpackb(data)
        return None if blob is None else cast("bytes", instance(bytes, blob))


def encode_done(done: Done) -> bytes:
    """Return the message that work is done."""
    return _pack([_DONE, list(done.changes), *astuple(done.outcome)])


def decode_answer(data: bytes, store_id: str) -> Wanted | Done | None:
    """Return what the process answers; None if the task's process has to work itself.

    Args:
        data: the message.
        store_id: of the bucket's state, which the pointer among the changes has to name.

    Raises:
        SerializationError: the bytes are no answer.
    """
    with refusing("the answer of the process that has a bucket's copy"):
        kind, *rest = msgpack.unpackb(data)
        if kind == _ELSEWHERE:
            return None
        if kind == _WANTED:
            (name,) = rest
            return Wanted(instance(str, name))
        if kind != _DONE:
            raise ValueError(f"kind {kind}")
        changes, blobs, metrics, timer = rest
        done = Done(
            [_change(*change) for change in changes],
            Outcome(list_of(bytes, blobs), _metrics(metrics), _optional(timer)),
        )
        if Pointer.decode(dict(done.changes)["pointer"] or b"").store_id != store_id:
            raise ValueError("its pointer names another state")
        return done


def _call(watermark: Any, clock: Any, arrived: Any, fired: Any) -> Call:
    return Call(int64(watermark), int64(clock), instance(bool, arrived), _optional(fired))


def _change(name: Any, blob: Any) -> tuple[str, bytes | None]:
    return instance(str, name), None if blob is None else instance(bytes, blob)


def _metrics(plain: Any) -> dict[str, int]:
    return {instance(str, name): int64(value) for name, value in instance(dict, plain).items()}


def _optional(value: Any) -> int | None:
    return None if value is None else int64(value)


def _pack(value: Any) -> bytes:
    return cast("bytes", msgpack.packb(value))
