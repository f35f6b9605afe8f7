"""Which process works on a bucket: the one that has its copy.

Spark gives a bucket to any of its workers, and with many of them each would have a copy of each bucket, which it brings up to
date from the changelog before each use. So a worker that opens a copy announces itself in the bucket's local directory, and
listens on a socket. A worker that gets the bucket later sends it the call, reads the bucket's journal for it, and writes what
it is told to write once all is done. If that process has died, stands still, is busy with the same bucket, fails, or answers
anything else, the worker opens a copy of its own: nothing was written by then, so the call simply begins again.

The functions of the operator are not sent: only a process to which Spark has sent the same ones works for others.
"""

import logging
import time
from contextlib import suppress
from pathlib import Path

from operators.spark.bucket import Job, Origin, Outcome, Request
from operators.spark.connection import PATIENCE_S, Connection
from operators.spark.copies import has_free_copy
from operators.spark.logs import warn_once
from operators.spark.messages import Done, Wanted, decode_answer, encode_blob, encode_request
from operators.spark.private_files import read_small, write_small
from operators.spark.serving import listening, remember
from operators.spark.sockets import socket_of
from serializers import SerializationError
from state_backends.journal import Journal

_OWNER = "owner"
_REST_S = 300.0
"""How long a process is not asked again that stood still, or answered what is no answer."""
_LOG = logging.getLogger(__name__)
_resting: dict[str, float] = {}
"""Until when such processes are not asked, in monotonic seconds, by the names of their sockets."""


def work(job: Job, origin: Origin, journal: Journal, request: Request) -> Outcome:
    """Work on a bucket, in the process that has its copy. If there is none, this one opens a copy.

    Args:
        job: of the operator.
        origin: of its functions.
        journal: of the bucket.
        request: what is to be done.
    """
    store_id = request.pointer.store_id
    home = job.config.directory / store_id
    has_copy = has_free_copy(job.config, store_id)
    done = None if has_copy else _asked(home, origin, journal, request)
    if done is not None:
        for name, blob in done.changes:
            if blob is None:
                journal.remove(name)
            else:
                journal.put(name, blob)
        journal.commit()
        return done.outcome
    outcome = job.run(journal, request)
    remember(origin, job, store_id)
    if not has_copy:
        _announce(home)
    return outcome


def _announce(home: Path) -> None:
    """Say in the bucket's directory where this process listens."""
    name = listening()
    if name is not None:
        with suppress(OSError):  # Then others open copies of their own.
            write_small(home / _OWNER, name)


def _asked(home: Path, origin: Origin, journal: Journal, request: Request) -> Done | None:
    """What the process that has the bucket's copy made of the request; None if there is none, or it could not."""
    try:
        path = socket_of(read_small(home / _OWNER))
        if path is None or time.monotonic() < _resting.get(path.name, 0.0):
            return None
        try:
            with Connection.to(path, PATIENCE_S) as owner:
                return _answered(owner, origin, journal, request)
        except (TimeoutError, SerializationError) as error:
            _resting[path.name] = time.monotonic() + _REST_S
            warn_once(_LOG, "a process that has copies of buckets is not asked for %g s: %s", _REST_S, error)
    except (OSError, EOFError) as error:
        _LOG.debug("no process works on %s for this one: %s", home.name, error)
    return None


def _answered(owner: Connection, origin: Origin, journal: Journal, request: Request) -> Done | None:
    owner.send(encode_request(origin, request))
    while True:
        answer = decode_answer(owner.receive(), request.pointer.store_id)
        if not isinstance(answer, Wanted):
            return answer
        owner.send(encode_blob(journal.get(answer.name)))
