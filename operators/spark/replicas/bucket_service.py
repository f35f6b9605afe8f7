"""The side of a process that holds buckets' copies: it works for the tasks of an executor."""

import importlib
import logging
import os
import pickle
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event, Lock, Thread

from operators.spark.base.logs import log_at, warn_once
from operators.spark.base.user_code_lock import end_if_forked
from operators.spark.base.workers import prepare_worker
from operators.spark.inputs.spool import Spool
from operators.spark.replicas.calls import Origin, Work
from operators.spark.replicas.connection import PATIENCE_S, Connection
from operators.spark.replicas.copies import drop_copy, drop_unused, is_held, open_copies
from operators.spark.replicas.messages import (
    Answer,
    Asked,
    Busy,
    Emitted,
    Failed,
    Unknown,
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
"""How long no connection is accepted after one could not be: for lack of threads, of open files, of memory."""
_ENDED_RUN_S = 600.0
"""How long copies of another run stay without a call once a new run begins: its query has perhaps ended."""
_REFUSED = "work on a bucket failed in the process that has its copy, and the task begins it again itself: %s"
_FAILED = (
    f"{_REFUSED}. If it fails there, too, the task raises the error. If not, functions of the operator may depend on a thread "
    "or a process"
)
_LOG = logging.getLogger(__name__)


class BucketService:
    """Works on buckets for the tasks of an executor.

    Args:
        key: the key of the executor.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._process = os.getpid()
        self._jobs: dict[Origin, Work] = {}
        """Those with which this process has copies."""
        self._origins: dict[str, Origin] = {}
        """Of the job that worked last on a bucket, by the name of its state, as long as this process has its copy."""
        self._changing = Lock()
        self._working: set[Connection] = set()
        """To tasks that wait for work."""
        self._used = time.monotonic()
        self.known = False
        """Whether a task has asked for work yet."""
        self._ends = Event()

    def idle_s(self) -> float:
        """Return for how many seconds no task has asked for work; 0 while one waits for it."""
        return 0.0 if self._working else time.monotonic() - self._used

    def end(self) -> None:
        """Accept no more connections. To be called before the listener is closed."""
        self._ends.set()

    def leave(self) -> None:
        """Leave the tasks to the process that this one was forked from."""
        for task in tuple(self._working):
            task.leave()

    def accept(self, listener: socket.socket) -> None:
        """Serve each connection on a thread of its own, and send signs of life to those that wait for long, until `end`."""
        listener.settimeout(_SIGNS_S)
        signed = time.monotonic()
        while not self._ends.is_set():
            try:
                self._serve_next(listener)
            except TimeoutError:
                pass
            except (OSError, RuntimeError, MemoryError) as error:
                if self._ends.is_set():
                    return
                warn_once(_LOG, "the process for state cannot work for a task at this moment: %s", error)
                time.sleep(_PAUSE_S)
            if time.monotonic() - signed >= _SIGNS_S:
                signed = time.monotonic()
                for task in tuple(self._working):
                    task.sign()

    def _serve_next(self, listener: socket.socket) -> None:
        connected, _ = listener.accept()
        try:
            Thread(target=self._serve, args=(connected,), name="bucket", daemon=True).start()
        except BaseException:
            connected.close()
            raise

    def _serve(self, connected: socket.socket) -> None:
        """Work for a task."""
        try:
            with Connection(connected, PATIENCE_S) as task:
                asked = task.receive()
                self.known = True
                with self._waited_for(task):
                    answer = encode_answer(self._answer(task, asked))
                task.send(answer)
        except (OSError, EOFError, _TaskEndedError) as error:
            _LOG.debug("a task that asked for work has ended: %s", error)
        except Exception as error:  # noqa: BLE001 - whatever came, it is no reason not to work for others
            _LOG.warning("ignored an invalid request: %s", error)

    @contextmanager
    def _waited_for(self, task: Connection) -> Iterator[None]:
        self._working.add(task)
        try:
            yield
        finally:
            self._used = time.monotonic()
            self._working.discard(task)

    def _answer(self, task: Connection, data: bytes) -> Answer:
        asked = decode_request(data)
        if asked is None:
            return Unknown()
        store_id = asked.request.pointer.store_id
        if is_held(store_id):
            return Busy()
        try:
            job = self._job(task, asked)
            if job is None:
                return Unknown()
            done = job.run(partial(_read_journal, task), asked.request)
        except _TaskEndedError:
            raise
        except BaseException as error:  # noqa: BLE001 - the task works on it itself, and raises its error as it is
            end_if_forked(self._process)
            text = f"{type(error).__name__}: {error}"
            warn_once(_LOG, _REFUSED if isinstance(error, StateError) else _FAILED, text)
            return Failed(text)
        end_if_forked(self._process)
        self._remember(asked.origin, job, store_id)
        # Too large for memory is too large for a message.
        if isinstance(done.outcome.blobs, Spool) and done.outcome.blobs.on_disk:
            for blob in done.outcome.blobs:
                task.send(encode_answer(Emitted(blob)))
            return replace(done, outcome=replace(done.outcome, blobs=()))
        return done

    def _job(self, task: Connection, asked: Asked) -> Work | None:
        """The functions to work with; None if they are not for this process."""
        store_id, origin = asked.request.pointer.store_id, asked.origin
        with self._changing:
            job = self._jobs.get(origin)
            before = self._origins.get(store_id)
            former = None if before is None else self._jobs.get(before)
        mine = asked.key == self._key
        answers = mine or before == origin
        # With other functions, nothing of the operator that worked with the former ones may stay; or another process will.
        if former is not None and before is not None and (before.digest != origin.digest or not answers):
            drop_copy(former.config, store_id)
        if job is not None or not answers:
            return job if answers else None
        self._drop_ended(origin.run)
        return _load_functions(task)

    def _drop_ended(self, run: str) -> None:
        with self._changing:
            others = {store_id for store_id, origin in self._origins.items() if origin.run != run}
        drop_unused(others, _ENDED_RUN_S)

    def _remember(self, origin: Origin, job: Work, store_id: str) -> None:
        """Keep the functions as long as a copy that they were used with."""
        kept = {name for name, _ in open_copies()}
        with self._changing:
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
