"""Which process works on a bucket: one of the library's own, which has the bucket's copy as long as the executor lives.

Spark gives a bucket to any of its workers, and ends each worker that has no task for a minute. So a copy is in a process that
Spark does not know (`state_process`). The bucket's local directory says where that listens. A worker sends it the call, reads
the bucket's journal for it, and writes what it is told to write once all is done. If that process stands still, is busy with
the same bucket, fails, or answers anything else, and where none can be started, the worker opens a copy of its own: nothing was
written by then, so the call simply begins again.
"""

import logging
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import SubprocessError

from operators.spark.base.logs import warn_once
from operators.spark.base.private_files import read_small, write_small
from operators.spark.inputs.spool import Spool
from operators.spark.replicas import parents
from operators.spark.replicas.bucket import Functions, Job, Outcome, Request
from operators.spark.replicas.connection import PATIENCE_S, Connection
from operators.spark.replicas.copies import drop_copy
from operators.spark.replicas.messages import (
    Asked,
    Done,
    Emitted,
    Failed,
    Refusal,
    Unknown,
    Wanted,
    WantedFunctions,
    decode_answer,
    encode_blob,
    encode_functions,
    encode_request,
)
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.slots import Slot, free_slot, remove_old_slots
from operators.spark.replicas.sockets import is_listening, socket_of
from operators.spark.replicas.starting import start
from serializers import SerializationError
from state_backends import StateError
from state_backends.journal import Journal

_OWNER = "owner"
_REST_S = 300.0
"""How long is not asked again: a process that stood still or answered what is no answer; any, for functions that fail there."""
_ENDING_S = 1.0
"""How long a process that has closed its connections may take to end."""
_START = "start"
_NOT_STARTED = (
    "no process for state can be started, and this worker keeps it itself for %g s, which costs a restore after each pause of "
    "a minute: %s"
)
_DEAD = (
    "the process that had the bucket's state died, and so did the one that took its place, without an error message: they were "
    "killed, perhaps for lack of memory, or crashed in native code. The executor's stderr may have more. The state is safe in "
    "the checkpoint"
)
_DIED = (
    "the process that had the copy of %s has died without an error message: it was killed, perhaps for lack of memory, or "
    "crashed in native code. The copy is rebuilt from the checkpoint: %s"
)
_LOG = logging.getLogger(__name__)
_resting: dict[str, float] = {}
"""Until when they are not asked, in monotonic seconds: by the names of sockets, by origins, and for the start of processes."""


def work(job: Job, functions: Functions, journal: Journal, request: Request) -> Outcome:
    """Work on a bucket, in the process that has its copy; if need be, one is started.

    Args:
        job: of the operator.
        functions: the same, to be sent.
        journal: of the bucket.
        request: what is to be done.

    Raises:
        StateError: two such processes have died of the request, one after the other.
    """
    answer = None
    large = request.blobs.large  # Too large for memory is too large for a message.
    if not large and not _rests(repr(functions.origin)):
        home = job.config.directory / request.pointer.store_id
        answer = _Call(home, functions, journal, request).answer()
    if isinstance(answer, Done):
        drop_copy(job.config, request.pointer.store_id)
        for name, blob in answer.changes:
            if blob is None:
                journal.remove(name)
            else:
                journal.put(name, blob)
        journal.commit()
        return answer.outcome
    outcome = job.run(journal, request)
    if large:  # The next batch is worked on where the state is.
        drop_copy(job.config, request.pointer.store_id)
    if isinstance(answer, Failed):
        _rest(repr(functions.origin))
        warn_once(
            _LOG,
            "functions of the operator fail in the process that has copies of buckets, and not in Spark's workers. For %g s, "
            "workers have copies of their own, which cost a restore after each pause of a minute: %s",
            _REST_S,
            answer.error,
        )
    return outcome


class _Call:
    """A request for the process that has the bucket's copy.

    Args:
        home: the bucket's local directory.
        functions: to be sent.
        journal: of the bucket, to be read.
        request: what is to be done.
    """

    def __init__(self, home: Path, functions: Functions, journal: Journal, request: Request) -> None:
        self._home = home
        self._functions = functions
        self._journal = journal
        self._request = request
        self._deaths = 0
        self._given_up = False

    def answer(self) -> Done | Refusal | None:
        """What came of it; None if no process answers.

        Raises:
            StateError: two processes have died, one after the other.
        """
        try:
            for ask in (self._of_announced, self._of_free, self._of_free):
                answer = ask()
                if answer is not None and not isinstance(answer, Unknown):
                    return answer
                if self._given_up:
                    break
                if self._deaths > 1:
                    raise StateError(_DEAD)
        except OSError as error:
            warn_once(
                _LOG,
                "workers cannot have processes of their own for state, and keep it themselves: %s",
                error,
            )
        return None

    def _of_announced(self) -> Done | Refusal | None:
        """By the process that has said that it has the copy."""
        try:
            return self._of(read_small(self._home / _OWNER) or "")
        except OSError:
            return None

    def _of_free(self) -> Done | Refusal | None:
        """By one that has no work at this moment, for which the bucket is new."""
        parent = parents.parent()
        passed = frozenset(name for name in [*_resting] if _rests(name))
        with free_slot(parent.key, passed) as slot:
            name = self._filled(slot, parent)
            answer = self._of(name)
            if isinstance(answer, Done):
                with suppress(OSError):  # Then each call looks for a process.
                    write_small(self._home / _OWNER, name)
            return answer

    def _filled(self, slot: Slot, parent: Parent) -> str:
        """The name of the process in the slot, which is started if need be; "" if that fails."""
        if is_listening(slot.name):
            return slot.name
        if not _rests(_START):
            try:
                remove_old_slots()
                slot.fill(start(parent))
            except (OSError, ValueError, SubprocessError) as error:
                _rest(_START)
                warn_once(_LOG, _NOT_STARTED, _REST_S, error)
            else:
                return slot.name
        self._given_up = True
        return ""

    def _of(self, name: str) -> Done | Refusal | None:
        path = socket_of(name)
        if path is None or _rests(name):
            return None
        try:
            process = Connection.to(path, PATIENCE_S)
        except TimeoutError as error:
            self._stands_still(name, error)
            return None
        except OSError as error:
            _LOG.debug("nobody listens at %s: %s", name, error)
            return None
        with process:
            try:
                return self._answered(process)
            except (TimeoutError, SerializationError) as error:
                self._stands_still(name, error)
            except (OSError, EOFError) as error:
                self._has_ended(name, error)
        return None

    def _answered(self, process: Connection) -> Done | Refusal:
        request, emitted = self._request, Spool(self._home.parent)
        process.send(encode_request(Asked(parents.parent().key, self._functions.origin, request)))
        while True:
            answer = decode_answer(process.receive(), request.pointer.store_id)
            if isinstance(answer, Wanted):
                process.send(encode_blob(self._journal.get(answer.name)))
            elif isinstance(answer, WantedFunctions):
                process.send(encode_functions(self._functions, sys.path))
            elif isinstance(answer, Emitted):
                emitted.extend([answer.blob])
            elif isinstance(answer, Done) and emitted:
                emitted.extend(answer.outcome.blobs)
                return replace(answer, outcome=replace(answer.outcome, blobs=emitted))
            else:
                return answer

    def _stands_still(self, name: str, error: Exception) -> None:
        self._given_up = True
        _rest(name)
        warn_once(_LOG, "a process that has copies of buckets is not asked for %g s: %s", _REST_S, error)

    def _has_ended(self, name: str, error: Exception) -> None:
        """It died of the request or by chance; or it took the request for something else, and closed the connection."""
        deadline = time.monotonic() + _ENDING_S
        while is_listening(name) and time.monotonic() < deadline:
            time.sleep(_ENDING_S / 100)
        if is_listening(name):
            self._stands_still(name, error)
            return
        self._deaths += 1
        _LOG.warning(_DIED, self._home.name, error)


def _rests(what: str) -> bool:
    return time.monotonic() < _resting.get(what, 0.0)


def _rest(what: str) -> None:
    _resting[what] = time.monotonic() + _REST_S
