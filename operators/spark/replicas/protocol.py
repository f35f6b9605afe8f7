"""Which process works on a bucket: the protocol between a task and the processes that hold buckets' copies.

Theory of operation
-------------------
*Who there is.* Spark gives a bucket to any of its workers, and ends each worker that has no task for a minute. So copies are
held by **state processes** (`state_process`), of which Spark knows nothing: as many for each executor as it has cores. Bucket
b belongs to process b modulo that number. A process listens under a name that follows from the executor and its number, so
that nobody has to look for it. It ends with the executor, or after an hour without work.

*What a task does.* It asks the process of its bucket, which it starts if there is none (`starting`). `NEXT` says what follows.

*What is said.* `messages` has the order of a conversation. A process works for one task at a time, on its main thread, as
Spark's workers do, so that nothing in it needs a lock; others wait for their turn. Only the task can read Spark's state, so the
process asks it for what it needs, and answers with all that is to be written. `bucket_service` is its side, `where_held` the
task's.

*Why a failure costs time, and nothing else.* The process writes only to its copy, and a copy may be wrong at any time: it is
compared with the pointer before each batch (`Durable.align`). The task writes only after `DONE`, all at once, and Spark counts
that or nothing. So whatever is heard in between, the request begins again, with another process or in the task itself.

*Why two copies of a bucket do no harm.* A task that works alone opens one in its worker, in a directory of its own (`copies`).
Either may be behind afterwards, and the next call finds that out.

*How long it lasts.* Each wait has a deadline (`connection.PATIENCE_S`); a process that works sends signs of life, also to those
that wait for their turn. One that is silent is not asked again for some minutes. One that works for a task that was cancelled
sends the others away. Two deaths in a row at one request are taken as caused by it, and it fails then: alone, it would take the
worker with it. Those that waited for their turn at such a death work alone.
"""

from enum import Enum


class TaskState(Enum):
    """What a task does next."""

    ASK = "ask the bucket's process"
    ASK_AFTER_DEATH = "it died: ask its successor"
    WRITE = "write what came of it"
    WORK_ALONE = "work in the task"
    FAIL = "fail"

    @property
    def asks(self) -> bool:
        """Whether a process is asked."""
        return self in _IF_DIED


class Heard(Enum):
    """What comes of asking."""

    DONE = "done"
    """It has worked."""
    DIED = "died"
    """It ended after it was asked."""
    FAILED = "failed"
    """Functions of the operator, or the storage, raised an error there."""
    REFUSED = "refused"
    """It works for a task that has ended; or it has other messages."""
    SILENT = "silent"
    """It did not answer in time, or not in this protocol."""
    NOBODY = "nobody"
    """It is not to be asked now, cannot be started, or ended before it was asked; or the folder of sockets cannot be used."""


_IF_DIED = {TaskState.ASK: TaskState.ASK_AFTER_DEATH, TaskState.ASK_AFTER_DEATH: TaskState.FAIL}
NEXT: dict[tuple[TaskState, Heard], TaskState] = {
    (state, heard): after
    for state, if_died in _IF_DIED.items()
    for heard, after in (
        (Heard.DONE, TaskState.WRITE),
        (Heard.DIED, if_died),
        (Heard.FAILED, TaskState.WORK_ALONE),
        (Heard.REFUSED, TaskState.WORK_ALONE),
        (Heard.SILENT, TaskState.WORK_ALONE),
        (Heard.NOBODY, TaskState.WORK_ALONE),
    )
}
"""What a task does next: by its state, and by what it has heard."""
