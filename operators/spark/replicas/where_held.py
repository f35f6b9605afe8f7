"""The task's side of the protocol: it has a bucket worked on where the bucket's copy is, or works on it itself.

`protocol` says what is done after which answer. Nothing is written before all is done.
"""

import logging
import time
from pathlib import Path
from subprocess import SubprocessError

from operators.spark.base.logs import warn_once
from operators.spark.inputs.spool import Spool
from operators.spark.replicas import parents
from operators.spark.replicas.calls import Done, Functions, Outcome, Request, Work
from operators.spark.replicas.connection import PATIENCE_S, Connection
from operators.spark.replicas.conversation import Conversation
from operators.spark.replicas.copies import drop_copy
from operators.spark.replicas.messages import Failed
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.protocol import NEXT, Heard, TaskState
from operators.spark.replicas.sockets import living, socket_of
from operators.spark.replicas.starting import start
from serializers import SerializationError
from state_backends import StateError
from state_backends.journal import Journal

_REST_S = 300.0
"""How long is not asked again: a process that stood still or answered what is no answer; any, for functions that fail there."""
_ENDING_S = 1.0
"""How long a process that has closed its connections may take to end."""
_START = "start"
_NOT_STARTED = (
    "no process for state can be started: for %g s, this worker keeps the state itself, and restores it after each pause of a "
    "minute: %s"
)
_DEAD = (
    "the process that had the bucket's state died, and so did the one that took its place, without an error message: they were "
    "killed, perhaps because memory ran out, or crashed in native code. The executor's stderr may have more. The state is safe "
    "in the checkpoint"
)
_DIED = (
    "the process that had the copy of %s has died without an error message: it was killed, perhaps because memory ran "
    "out, or crashed in native code. The copy is rebuilt from the checkpoint: %s"
)
_LOG = logging.getLogger(__name__)
_resting: dict[str, float] = {}
"""Until when they are not asked, in monotonic seconds: by the names of sockets, by origins, and for the start of processes."""


def run_where_held(
    job: Work, functions: Functions, journal: Journal, request: Request, number: int
) -> Outcome:
    """Work on a bucket, in the process that has its copy; if need be, it is started.

    Args:
        job: the job of the operator.
        functions: the same, to be sent.
        journal: the journal of the bucket.
        request: what is to be done.
        number: the number of the process among those of the executor.

    Raises:
        StateError: two such processes have died of the request, one after the other.
    """
    answer = None
    large = request.blobs.large  # Too large for memory is too large for a message.
    if not large and not _rests(repr(functions.origin)):
        bucket_dir = job.config.directory / request.pointer.store_id
        answer = _Call(bucket_dir, functions, journal, request, number).run()
    done = answer if isinstance(answer, Done) else job.run(journal.get, request)
    if done is answer or large:  # The next batch is worked on where the state is.
        drop_copy(job.config, request.pointer.store_id)
    outcome = done.write_to(journal)
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
        bucket_dir: the bucket's local directory.
        functions: to be sent.
        journal: the journal of the bucket, to be read.
        request: what is to be done.
        number: the number of the process.
    """

    def __init__(
        self, bucket_dir: Path, functions: Functions, journal: Journal, request: Request, number: int
    ) -> None:
        self._bucket_dir = bucket_dir
        self._functions = functions
        self._journal = journal
        self._request = request
        self._number = number

    def run(self) -> Done | Failed | None:
        """What came of it; None if no process answers, or none may work on it now.

        Raises:
            StateError: two processes have died, one after the other.
        """
        state, answer = TaskState.ASK, None
        while state.asks:
            heard, answer = self._ask()
            state = NEXT[state, heard]
        if state is TaskState.FAIL:
            raise StateError(_DEAD)
        return answer

    def _ask(self) -> tuple[Heard, Done | Failed | None]:
        """Ask the bucket's process, which is started if it does not live."""
        parent = parents.parent()
        name = f"{parent.key}-{self._number}"
        if _rests(name):
            return Heard.NOBODY, None
        try:
            token = living(name) or self._started(parent, name)
            return self._ask_process(name, token) if token else (Heard.NOBODY, None)
        except OSError as error:
            warn_once(_LOG, "workers cannot start processes for state, and keep state themselves: %s", error)
            return Heard.NOBODY, None

    @staticmethod
    def _started(parent: Parent, name: str) -> str:
        """Start the process of this name, and return its token; "" if that fails."""
        if _rests(_START):
            return ""
        try:
            start(parent, name)
        except (OSError, ValueError, SubprocessError) as error:
            _rest(_START)
            warn_once(_LOG, _NOT_STARTED, _REST_S, error)
            return ""
        return living(name)

    def _ask_process(self, name: str, token: str) -> tuple[Heard, Done | Failed | None]:
        """Ask the process with this token that listens at a socket of this name."""
        path = socket_of(name)
        if path is None:
            return Heard.NOBODY, None
        talk = Conversation(self._functions, self._journal, self._request, Spool(self._bucket_dir.parent))
        try:
            with Connection.to(path, PATIENCE_S) as process:
                try:
                    return converse(talk, process)
                except (ConnectionError, EOFError) as error:
                    if not talk.asked:
                        raise
                    return self._has_ended(name, token, error), None
        except (TimeoutError, SerializationError) as error:
            return self._rest_from(name, error), None
        except (OSError, EOFError) as error:
            _LOG.debug("the process at %s ended before it was asked: %s", name, error)
            return Heard.NOBODY, None

    @staticmethod
    def _rest_from(name: str, error: Exception) -> Heard:
        _rest(name)
        warn_once(
            _LOG,
            "the worker waits %g s before it asks the process for state again, and works itself meanwhile: %s",
            _REST_S,
            error,
        )
        return Heard.SILENT

    def _has_ended(self, name: str, token: str, error: Exception) -> Heard:
        """It died of the request or by chance; or it took the request for something else, and closed the connection."""
        deadline = time.monotonic() + _ENDING_S
        while (lives := living(name) == token) and time.monotonic() < deadline:
            time.sleep(_ENDING_S / 100)
        if lives:
            return self._rest_from(name, error)
        _LOG.warning(_DIED, self._bucket_dir.name, error)
        return Heard.DIED


def converse(talk: Conversation, process: Connection) -> tuple[Heard, Done | Failed | None]:
    """Carry the messages of a conversation until it is over; return what came of it.

    Raises:
        OSError, EOFError: the process has ended, or is silent.
        SerializationError: it says what is no answer.
    """
    while talk.heard is None:
        reply = talk.hear(process.receive())
        if reply is not None:
            process.send(reply)
    return talk.heard, talk.answer


def _rests(what: str) -> bool:
    return time.monotonic() < _resting.get(what, 0.0)


def _rest(what: str) -> None:
    _resting[what] = time.monotonic() + _REST_S
