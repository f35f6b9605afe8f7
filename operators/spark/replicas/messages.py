"""What a task and a process that has buckets' copies say to each other: msgpack, checked before use.

    the task            the process
                   <-   ready, once it is the task's turn; or refused
    request        ->
                   <-   functions, if it does not have those of the request
    functions      ->
                   <-   wanted: the name of a blob of the journal, any number of times
    blob           ->
                   <-   emitted: a blob of rows, any number of times
                   <-   done; or refused, or failed

Functions of the operator are pickled, as Spark sends them. Nothing else is. Bytes that are none of these raise an error of
serialization, and nothing else.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, cast

import msgpack

from operators.runtime.batch_clock import Call
from operators.spark.replicas.calls import Blobs, Done, Functions, Origin, Outcome, Request
from serializers.shapes import instance, int64, list_of, refusing
from state_backends.durability.pointer import Pointer

_FORMAT = 7
_WANTED, _DONE, _REFUSED, _FAILED, _FUNCTIONS, _EMITTED, _READY = range(7)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a task asks for.

    Attributes:
        origin: the origin of the functions to work with.
        request: what is to be done.
    """

    origin: Origin
    request: Request


@dataclass(frozen=True, slots=True)
class Ready:
    """The process works for no other task now."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The process needs a blob of the journal.

    Attributes:
        name: the name of the blob.
    """

    name: str


@dataclass(frozen=True, slots=True)
class WantedFunctions:
    """The process needs the functions of the request's origin."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """Some of the rows of the work that is about to be done.

    Attributes:
        blob: the rows.
    """

    blob: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """The process is of another version; or it works for a task that has ended, and nobody knows for how long."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The work raised an error in the process.

    Attributes:
        error: its type and its message.
    """

    error: str


Answer = Ready | Wanted | WantedFunctions | Emitted | Done | Refused | Failed
_PLAIN: dict[int, Answer] = {_READY: Ready(), _REFUSED: Refused(), _FUNCTIONS: WantedFunctions()}
"""Answers without values."""


def encode_request(asked: Asked) -> bytes:
    """Return the message that asks for work."""
    request = asked.request
    blobs = list(request.blobs.rows), list(request.blobs.partials)
    call = astuple(request.call)
    plain = (
        request.pointer.encode(),
        request.label,
        request.batch,
        call,
        blobs,
        request.begins,
        request.in_files,
    )
    return _pack([_FORMAT, *astuple(asked.origin), *plain])


def decode_request(data: bytes) -> Asked | None:
    """Return a message of `encode_request`; None for one of another version of this library.

    Raises:
        SerializationError: the bytes are no such message.
    """
    with refusing("a request for work on a bucket"):
        form, *rest = msgpack.unpackb(data)
        if int64(form) != _FORMAT:
            return None
        run, digest, pointer, label, batch, call, blobs, begins, in_files = rest
        rows, partials = (list_of(bytes, part) for part in blobs)
        request = Request(
            Pointer.decode(instance(bytes, pointer)),
            int64(label),
            _optional(batch),
            _call(*call),
            Blobs(rows, partials),
            instance(bool, begins),
            instance(bool, in_files),
        )
        return Asked(Origin(instance(str, run), instance(str, digest)), request)


def encode_functions(functions: Functions, path: Sequence[str]) -> bytes:
    """Return the answer to `WantedFunctions`.

    Args:
        functions: to be sent.
        path: where the task's process looks for modules.
    """
    return _pack([functions.log_level, functions.pickled, list(path)])


def decode_functions(data: bytes) -> tuple[str, bytes, list[str]]:
    """Return the log level, the pickled job and the path of a message of `encode_functions`.

    Raises:
        SerializationError: the bytes are no such message.
    """
    with refusing("the functions of an operator"):
        level, pickled, path = msgpack.unpackb(data)
        return instance(str, level), instance(bytes, pickled), list_of(str, path)


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


def encode_answer(answer: Answer) -> bytes:
    """Return the message of an answer; of `Done`, without the rows, which are `Emitted` before."""
    match answer:
        case Wanted(name):
            return _pack([_WANTED, name])
        case Emitted(blob):
            return _pack([_EMITTED, blob])
        case Ready() | WantedFunctions() | Refused():
            return _pack([next(kind for kind, plain in _PLAIN.items() if plain == answer)])
        case Failed(error):
            return _pack([_FAILED, error])
        case Done(changes, outcome):
            return _pack([_DONE, list(changes), outcome.metrics, outcome.timer])


def decode_answer(data: bytes, store_id: str) -> Answer:
    """Return what the process answers.

    Args:
        data: the message.
        store_id: the id of the bucket's state, which the pointer among the changes has to name.

    Raises:
        SerializationError: the bytes are no answer.
    """
    with refusing("the answer of the process that has a bucket's copy"):
        kind, *rest = msgpack.unpackb(data)
        if kind == _DONE:
            return _done(rest, store_id)
        if kind == _WANTED:
            (name,) = rest
            return Wanted(instance(str, name))
        if kind == _EMITTED:
            (blob,) = rest
            return Emitted(instance(bytes, blob))
        if kind == _FAILED:
            (error,) = rest
            return Failed(instance(str, error))
        if rest:
            raise ValueError(f"kind {kind} with values")
        return _PLAIN[kind]


def _done(rest: list[Any], store_id: str) -> Done:
    changes, metrics, timer = rest
    changed = [_change(*change) for change in changes]
    if Pointer.decode(dict(changed)["pointer"] or b"").store_id != store_id:
        raise ValueError("its pointer names another state")
    return Done(changed, Outcome((), _metrics(metrics), _optional(timer)))


def _call(watermark_ms: Any, now_ms: Any, max_event_times_us: Any, fired: Any) -> Call:
    return Call(int64(watermark_ms), int64(now_ms), _times(max_event_times_us), _optional(fired))


def _times(told: Any) -> tuple[int | None, ...]:
    return tuple(_optional(time) for time in instance(list, told))


def _change(name: Any, blob: Any) -> tuple[str, bytes | None]:
    return instance(str, name), None if blob is None else instance(bytes, blob)


def _metrics(plain: Any) -> dict[str, int]:
    return {instance(str, name): int64(value) for name, value in instance(dict, plain).items()}


def _optional(value: Any) -> int | None:
    return None if value is None else int64(value)


def _pack(value: Any) -> bytes:
    return cast("bytes", msgpack.packb(value))
