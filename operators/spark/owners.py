"""Which process works on a bucket: the one that has its copy.

Spark gives a bucket to any of its workers, and with many of them each would have a copy of each bucket, which it brings up to
date from the changelog before each use. So a worker that opens a copy announces itself in the bucket's local directory, and
listens on a socket. A worker that gets the bucket later sends it the call, reads the bucket's journal for it, and writes what
it is told to write once all is done. If that process has died, stands still, is busy with the same bucket, or fails, the worker
opens a copy of its own: nothing was written by then, so the call simply begins again.

The messages are msgpack, never pickled. The functions of the operator are not sent: only a process to which Spark has sent
those of the same run works for others.
"""

import logging
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Lock, Thread
from typing import Any, cast

import msgpack

from operators.spark.bucket import Blobs, Call, Job, Outcome, Request
from operators.spark.copies import drop_copy, has_free_copy
from state_backends.durability.pointer import Pointer
from state_backends.journal import Blob, Journal, blob_bytes

_FORMAT = 1
_GET, _DONE, _ELSEWHERE = range(3)
_OWNER = "owner"
_PATIENCE_S = 20.0
"""How long a process may be silent before it is asked whether it is alive, and then until it answers."""
_MOST_JOBS = 100
_LOG = logging.getLogger(__name__)
Run = tuple[str, str]
"""Of a query, and the name of an operator in it."""
_jobs: dict[Run, Job] = {}
_starting = Lock()
_address: dict[int, str | None] = {}
"""Where this process listens, by its number: a forked process starts without one."""


def work(job: Job, run: Run | None, journal: Journal, request: Request) -> Outcome:
    """Work on a bucket, in the process that has its copy. If there is none, this one opens a copy.

    Args:
        job: of the operator.
        run: which run of which operator it is; None if other processes cannot know it.
        journal: of the bucket.
        request: what is to be done.
    """
    if run is None:
        return job.run(journal, request)
    _remember(run, job)
    store_id = request.pointer.store_id
    if has_free_copy(job.config, store_id):
        return job.run(journal, request)
    home = job.config.directory / store_id
    outcome = None if request.begins else _asked(home, run, journal, request)
    if outcome is not None:
        return outcome
    outcome = job.run(journal, request)
    _announce(home)
    return outcome


def _remember(run: Run, job: Job) -> None:
    _jobs[run] = job
    for old in list(_jobs)[:-_MOST_JOBS]:
        _jobs.pop(old, None)


def _announce(home: Path) -> None:
    """Say in the bucket's directory where this process listens."""
    address = _listening()
    if address is None:
        return
    with suppress(OSError):  # Then others open copies of their own.
        written = home / f"{_OWNER}-{os.getpid()}"
        written.write_text(address)
        written.replace(home / _OWNER)


def _asked(home: Path, run: Run, journal: Journal, request: Request) -> Outcome | None:
    """What the process that has the bucket's copy made of the request; None if there is none, or it could not."""
    try:
        address = (home / _OWNER).read_text()
        if address == _address.get(os.getpid()):
            return None
        with Client(address, "AF_UNIX") as owner:
            owner.send_bytes(_pack([_FORMAT, run, *_plain(request)]))
            while True:
                _wait_for(owner, address)
                kind, *answer = _unpack(owner.recv_bytes())
                if kind == _GET:
                    owner.send_bytes(_pack(journal.get(answer[0])))
                else:
                    break
    except (OSError, EOFError) as error:
        _LOG.debug("the process that has %s does not answer: %s", home.name, error)
        return None
    if kind == _ELSEWHERE:
        return None
    changes, blobs, metrics, timer = answer
    for name, blob in changes:
        if blob is None:
            journal.remove(name)
        else:
            journal.put(name, blob)
    journal.commit()
    return Outcome(blobs, metrics, timer)


def _wait_for(owner: Connection, address: str) -> None:
    """Wait for a message, as long as the process is alive.

    Raises:
        OSError: the process has died or stands still.
    """
    while not owner.poll(_PATIENCE_S):
        with Client(address, "AF_UNIX") as probe:
            probe.send_bytes(_pack([_FORMAT]))
            if not probe.poll(_PATIENCE_S):
                raise TimeoutError(f"no answer within {_PATIENCE_S:g} s")


class _SentJournal:
    """A bucket's journal in the process of the task. What is written is kept until the work is done."""

    def __init__(self, task: Connection, known: Mapping[str, bytes]) -> None:
        self._task = task
        self._known = dict(known)
        self.changes: dict[str, Blob | None] = {}

    def get(self, name: str) -> bytes | None:
        """Return the blob, or None."""
        if name in self.changes:
            blob = self.changes[name]
            return None if blob is None else blob_bytes(blob)
        if name not in self._known:
            self._task.send_bytes(_pack([_GET, name]))
            return cast("bytes | None", _unpack(self._task.recv_bytes()))
        return self._known[name]

    def put(self, name: str, blob: Blob) -> None:
        """Keep the blob until the work is done."""
        self.changes[name] = blob

    def remove(self, name: str) -> None:
        """Have the blob removed when the work is done."""
        self.changes[name] = None

    def commit(self) -> None:
        """Leave it to the task, which writes the changes and commits with the micro-batch."""

    def rollback(self) -> None:
        """Forget what was to be written."""
        self.changes.clear()


def _listening() -> str | None:
    """Where this process listens, from its first call on; None if it cannot."""
    with _starting:
        if os.getpid() not in _address:
            _address[os.getpid()] = None
            try:
                address = str(_sockets() / f"{os.getpid()}-{os.urandom(4).hex()}")
                listener = Listener(address, "AF_UNIX", backlog=128)
            except OSError as error:
                _LOG.warning("each worker opens its own copies of buckets: no socket can be made: %s", error)
                return None
            Thread(target=_accept, args=(listener,), name="bucket-owner", daemon=True).start()
            _address[os.getpid()] = address
        return _address[os.getpid()]


def _sockets() -> Path:
    """The folder of sockets, which only this user can enter. Those of processes that have ended are removed.

    Raises:
        PermissionError: another user made a folder of this name.
    """
    folder = Path(tempfile.gettempdir(), f"spark-windows-{os.getuid()}")
    folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder that only this user can enter")
    for socket in folder.iterdir():
        with suppress(OSError, ValueError):
            try:
                os.kill(int(socket.name.partition("-")[0]), 0)
            except ProcessLookupError:
                socket.unlink()
    return folder


def _accept(listener: Listener) -> None:
    while True:
        with suppress(OSError, EOFError):
            task = listener.accept()
            Thread(target=_serve, args=(task,), name="bucket-owner", daemon=True).start()


def _serve(task: Connection) -> None:
    """Work for a task in another process."""
    with task:
        try:
            task.send_bytes(_answer(task))
        except (OSError, EOFError) as error:
            _LOG.debug("a task that asked for work has ended: %s", error)
        except Exception as error:  # noqa: BLE001 - whatever came, it is no reason not to work for others
            _LOG.warning("a message that is no request for work is refused: %s", error)


def _answer(task: Connection) -> bytes:
    elsewhere = _pack([_ELSEWHERE])
    form, *rest = _unpack(task.recv_bytes())
    if form != _FORMAT or not rest:  # Without a request, the other process asks whether this one is alive.
        return elsewhere
    run, *plain = rest
    request = _request(*plain)
    job, store_id = _jobs.get(tuple(run)), request.pointer.store_id
    if job is None:  # A later run of the query: the task's process takes over the directory.
        for config in {job.config for job in list(_jobs.values())}:
            drop_copy(config, store_id)
        return elsewhere
    if not has_free_copy(job.config, store_id):
        return elsewhere
    journal = _SentJournal(task, {"pointer": request.pointer.encode()})
    try:
        outcome = job.run(journal, request)
    except Exception as error:  # noqa: BLE001 - the task's process works on it again, and raises its error as it is
        _LOG.debug("work for another process failed: %s", error)
        return elsewhere
    changes = [(name, None if blob is None else blob_bytes(blob)) for name, blob in journal.changes.items()]
    return _pack([_DONE, changes, *astuple(outcome)])


def _plain(request: Request) -> list[Any]:
    call, blobs = astuple(request.call), (list(request.blobs.rows), list(request.blobs.partials))
    return [request.pointer.encode(), request.label, request.batch, call, blobs]


def _request(pointer: bytes, label: int, batch: int | None, call: list[Any], blobs: list[Any]) -> Request:
    return Request(Pointer.decode(pointer), label, batch, Call(*call), Blobs(*blobs))


def _pack(value: Any) -> bytes:
    return cast("bytes", msgpack.packb(value))


def _unpack(data: bytes) -> Any:
    return msgpack.unpackb(data)
