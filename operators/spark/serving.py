"""The side of a worker that works for tasks of other processes, on the buckets that it has copies of."""

import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock, Thread

from operators.spark.bucket import Job, Origin
from operators.spark.connection import PATIENCE_S, Connection
from operators.spark.copies import drop_copy, has_free_copy, open_copies
from operators.spark.logs import warn_once
from operators.spark.messages import (
    ELSEWHERE,
    Done,
    decode_blob,
    decode_request,
    encode_done,
    encode_wanted,
)
from operators.spark.sockets import listen
from serializers import SerializationError
from state_backends.journal import Blob, blob_bytes

_SIGNS_S = PATIENCE_S / 4
"""How often a task that waits for work is sent a sign of life."""
_PAUSE_S = 0.2
"""How long no connection is accepted after one could not be: for lack of threads, of open files, of memory."""
_FAILED = (
    "work for a task of another process failed, and that process begins it again itself: %s: %s. If it fails there, too, the "
    "task raises the error. If not, functions of the operator may depend on a thread or a process: several threads of a "
    "process call them, one at a time"
)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """The functions that this process has for a bucket.

    Attributes:
        origin: where they come from.
        job: has them.
    """

    origin: Origin
    job: Job


_known: dict[str, _Known] = {}
"""By the name of the bucket's state, as long as this process has its copy."""
_starting = Lock()
_names: dict[int, str] = {}
"""The name of this process's socket, by its number: a forked process starts without one."""
_working: set[Connection] = set()
"""To tasks that wait for work."""


def remember(origin: Origin, job: Job, store_id: str) -> None:
    """Work on a bucket, whose copy this process has, for others that have functions of the same origin."""
    _known[store_id] = _Known(origin, job)
    kept = open_copies()
    for other, known in list(_known.items()):
        if (other, known.job.config) not in kept:
            _known.pop(other, None)


def listening() -> str | None:
    """Return the name of this process's socket, on which it listens from the first call on; None if it cannot now."""
    with _starting:
        process = os.getpid()
        if process not in _names:
            try:
                _names[process] = _begun()
            except (OSError, RuntimeError) as error:
                warn_once(
                    _LOG, "this worker cannot listen, so that others open copies of their own: %s", error
                )
                return None
        return _names[process]


def _begun() -> str:
    """Begin to listen, and return the name of the socket.

    Raises:
        OSError: no socket can be made.
        RuntimeError: no thread can be started.
    """
    place = listen()
    try:
        Thread(target=_accept, args=(place.listener,), name="bucket-owner", daemon=True).start()
    except RuntimeError:
        place.close()
        raise
    return place.name


def _accept(listener: socket.socket) -> None:
    """Serve each connection on a thread of its own, and send signs of life to those that wait for long."""
    listener.settimeout(_SIGNS_S)
    signed = time.monotonic()
    while True:
        try:
            _serve_next(listener)
        except TimeoutError:
            pass
        except (OSError, RuntimeError, MemoryError) as error:
            warn_once(_LOG, "a task of another process cannot be worked for at this moment: %s", error)
            time.sleep(_PAUSE_S)
        if time.monotonic() - signed >= _SIGNS_S:
            signed = time.monotonic()
            for task in tuple(_working):
                task.sign()


def _serve_next(listener: socket.socket) -> None:
    connected, _ = listener.accept()
    try:
        Thread(target=_serve, args=(connected,), name="bucket-owner", daemon=True).start()
    except BaseException:
        connected.close()
        raise


def _serve(connected: socket.socket) -> None:
    """Work for a task in another process."""
    try:
        with Connection(connected, PATIENCE_S) as task:
            asked = task.receive()
            _working.add(task)
            try:
                answer = _answer(task, asked)
            finally:
                _working.discard(task)
            task.send(answer)
    except (OSError, EOFError, _TaskEndedError) as error:
        _LOG.debug("a task that asked for work has ended: %s", error)
    except Exception as error:  # noqa: BLE001 - whatever came, it is no reason not to work for others
        _LOG.warning("a message that is no request for work is refused: %s", error)


def _answer(task: Connection, asked: bytes) -> bytes:
    decoded = decode_request(asked)
    if decoded is None:
        return ELSEWHERE
    origin, request = decoded
    job = _job(origin, request.pointer.store_id)
    if job is None:
        return ELSEWHERE
    journal = _SentJournal(task, {"pointer": request.pointer.encode()})
    try:
        outcome = job.run(journal, request)
    except _TaskEndedError:
        raise
    except Exception as error:  # noqa: BLE001 - the task's process works on it again, and raises its error as it is
        warn_once(_LOG, _FAILED, type(error).__name__, error)
        return ELSEWHERE
    return encode_done(Done(list(journal.changes.items()), outcome))


def _job(origin: Origin, store_id: str) -> Job | None:
    """The functions of this origin for a bucket whose copy this process has and no thread holds."""
    known = _known.get(store_id)
    if known is None:
        return None
    if known.origin != origin:  # Other functions: the task's process takes over the directory.
        drop_copy(known.job.config, store_id)
        return None
    return known.job if has_free_copy(known.job.config, store_id) else None


class _TaskEndedError(Exception):
    """The task that asked for work has ended, or stands still. It is none of the errors that storage raises."""


class _SentJournal:
    """A bucket's journal in the process of the task. What is written is kept until the work is done."""

    def __init__(self, task: Connection, known: Mapping[str, bytes]) -> None:
        self._task = task
        self._known = dict(known)
        self.changes: dict[str, bytes | None] = {}

    def get(self, name: str) -> bytes | None:
        """Return the blob, or None."""
        if name in self.changes:
            return self.changes[name]
        if name not in self._known:
            return self._asked(name)
        return self._known[name]

    def _asked(self, name: str) -> bytes | None:
        try:
            self._task.send(encode_wanted(name))
            return decode_blob(self._task.receive())
        except (OSError, EOFError, SerializationError) as error:
            raise _TaskEndedError(f"the task does not send {name!r} of its journal: {error}") from error

    def put(self, name: str, blob: Blob) -> None:
        """Keep the blob until the work is done: as bytes, since a function that makes them may hold a whole snapshot."""
        self.changes[name] = blob_bytes(blob)

    def remove(self, name: str) -> None:
        """Have the blob removed when the work is done."""
        self.changes[name] = None

    def commit(self) -> None:
        """Leave it to the task, which writes the changes and commits with the micro-batch."""

    def rollback(self) -> None:
        """Forget what was to be written."""
        self.changes.clear()
