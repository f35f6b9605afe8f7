"""The side of a process that holds buckets' copies: it works for the tasks of an executor, one after the other.

The main thread works. Another one accepts connections, and sends signs of life to the tasks that wait.
"""

import importlib
import logging
import os
import pickle
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue

from operators.spark.base.forked import end_if_forked
from operators.spark.base.logs import log_at, warn_once
from operators.spark.base.workers import prepare_worker
from operators.spark.replicas.calls import Origin, Work
from operators.spark.replicas.connection import PATIENCE_S, Connection
from operators.spark.replicas.copies import drop_copy, drop_unused, open_copies
from operators.spark.replicas.messages import (
    Answer,
    Asked,
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
from serializers import SerializationError
from state_backends import StateError

_SIGNS_S = PATIENCE_S / 4
"""How often a task that waits for work is sent a sign of life."""
_PAUSE_S = 0.2
"""How long no connection is accepted after one could not be: for lack of open files or of memory."""
_ENDED_RUN_S = 600.0
"""How long copies of another run stay without a call once a new run begins: its query has perhaps ended."""
_REFUSED = "work on a bucket failed in the process that has its copy, and the task begins it again itself: %s"
_FAILED = (
    f"{_REFUSED}. If it fails there, too, the task raises the error. If not, functions of the operator may depend on the "
    "process"
)
_LOG = logging.getLogger(__name__)


class BucketService:
    """Works on buckets for the tasks of an executor."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._jobs: dict[Origin, Work] = {}
        """Jobs with which this process has copies."""
        self._origins: dict[str, Origin] = {}
        """The origin of the job that worked last on a bucket, by the name of its state, as long as its copy is here."""
        self._queue = SimpleQueue[Connection]()
        """Connections of the tasks that wait for their turn."""
        self._accepted: set[Connection] = set()
        """Connections of these tasks, and of the one that is worked for."""
        self._worked_for: Connection | None = None
        """The connection of the task that waits for what is worked on."""
        self._signed = self._used = time.monotonic()
        self.known = False
        """Whether a task has asked for work yet."""
        self._ends = False

    def idle_s(self) -> float:
        """Return for how many seconds no task has asked for work; 0 while one waits for it."""
        return 0.0 if self._accepted else time.monotonic() - self._used

    def end(self) -> None:
        """Accept no more connections. To be called before the listener is closed."""
        self._ends = True

    def leave(self) -> None:
        """Leave the tasks to the process that this one was forked from."""
        for task in tuple(self._accepted):
            task.leave()

    # The thread that accepts connections.

    def accept(self, listener: socket.socket) -> None:
        """Accept one connection, or wait as long as the listener does; send signs of life when it is time to."""
        try:
            connected, _ = listener.accept()
            self.take(Connection(connected, PATIENCE_S))
        except TimeoutError:
            pass
        except (OSError, RuntimeError, MemoryError) as error:
            if not self._ends:
                warn_once(_LOG, "the process for state cannot work for a task at this moment: %s", error)
            time.sleep(_PAUSE_S)
        if time.monotonic() - self._signed >= _SIGNS_S:
            self._signed = time.monotonic()
            for task in tuple(self._accepted):
                task.sign()
            self._send_away()

    def take(self, task: Connection) -> None:
        """Have a task wait for its turn."""
        self._accepted.add(task)
        self._queue.put(task)
        self._send_away()

    def _send_away(self) -> None:
        """Send the waiting tasks away if the one that is worked for has ended: nobody knows how long it would have taken."""
        worked_for = self._worked_for
        if worked_for is None or not worked_for.has_ended():
            return
        with suppress(Empty):
            while True:
                task = self._queue.get_nowait()
                with suppress(OSError), task:
                    task.send(encode_answer(Refused()))
                self._accepted.discard(task)

    # The main thread.

    def serve_next(self, patience_s: float) -> bool:
        """Work for the next task; return whether there was one within this time, in seconds."""
        try:
            task = self._queue.get(timeout=patience_s)
        except Empty:
            return False
        try:
            with task:
                self._serve(task)
        except (OSError, EOFError, _TaskEndedError) as error:
            _LOG.debug("a task that asked for work has ended: %s", error)
        except Exception as error:  # noqa: BLE001 - whatever came, it is no reason not to work for others
            _LOG.warning("ignored an invalid request: %s", error)
        finally:
            self._worked_for = None
            self._used = time.monotonic()
            self._accepted.discard(task)
        return True

    def _serve(self, task: Connection) -> None:
        """Have a conversation with a task."""
        task.send(encode_answer(Ready()))
        self._worked_for = task
        asked = task.receive()
        self.known = True
        answer = self._answer(task, asked)
        # It ends as soon as it has the answer: those that wait are not to be sent away then.
        self._worked_for = None
        task.send(encode_answer(answer))

    def _answer(self, task: Connection, data: bytes) -> Answer:
        asked = decode_request(data)
        if asked is None:
            return Refused()
        try:
            job = self._job(task, asked)
            done = job.run(partial(_read_journal, task), asked.request)
        except _TaskEndedError:
            raise
        except BaseException as error:  # noqa: BLE001 - the task works on it itself, and raises its error as it is
            end_if_forked(self._process)
            text = f"{type(error).__name__}: {error}"
            warn_once(_LOG, _REFUSED if isinstance(error, StateError) else _FAILED, text)
            return Failed(text)
        end_if_forked(self._process)
        self._remember(asked.origin, job, asked.request.pointer.store_id)
        # One by one: they may be too large for memory, and so for one message.
        for blob in done.outcome.blobs:
            task.send(encode_answer(Emitted(blob)))
        return done

    def _job(self, task: Connection, asked: Asked) -> Work:
        """The functions to work with."""
        store_id, origin = asked.request.pointer.store_id, asked.origin
        before = self._origins.get(store_id)
        former = None if before is None else self._jobs.get(before)
        # With other functions, nothing of the operator that worked with the former ones may stay.
        if former is not None and before is not None and before.digest != origin.digest:
            drop_copy(former.config, store_id)
        job = self._jobs.get(origin)
        if job is None:
            drop_unused({name for name, one in self._origins.items() if one.run != origin.run}, _ENDED_RUN_S)
            job = _load_functions(task)
        return job

    def _remember(self, origin: Origin, job: Work, store_id: str) -> None:
        """Keep the functions as long as a copy that they were used with."""
        kept = {name for name, _ in open_copies()}
        self._jobs[origin] = job
        self._origins[store_id] = origin
        self._origins = {name: one for name, one in self._origins.items() if name in kept}
        used = {*self._origins.values()}
        self._jobs = {one: job for one, job in self._jobs.items() if one in used}


def _load_functions(task: Connection) -> Work:
    """The functions that the task has. What they are imported from is looked for where its process looks."""
    try:
        task.send(encode_answer(WantedFunctions()))
        level, pickled, path = decode_functions(task.receive())
    except (OSError, EOFError, SerializationError) as error:
        raise _TaskEndedError(f"the task does not send its functions: {error}") from error
    missing = [folder for folder in path if folder not in sys.path]
    if missing:
        sys.path[1:1] = missing
        importlib.invalidate_caches()
    log_at(level)
    job = pickle.loads(pickled)  # noqa: S301 - from a process of this user that Spark has sent them to
    prepare_worker()
    if not isinstance(job, Work):
        raise TypeError(f"{type(job).__name__} is not the job of an operator")
    return job


class _TaskEndedError(Exception):
    """The task that asked for work has ended, or stands still. It is none of the errors that storage raises."""


def _read_journal(task: Connection, name: str) -> bytes | None:
    """The blob of the bucket's journal, which the process of the task has."""
    try:
        task.send(encode_answer(Wanted(name)))
        return decode_blob(task.receive())
    except (OSError, EOFError, SerializationError) as error:
        raise _TaskEndedError(f"the task does not send {name!r} of its journal: {error}") from error
