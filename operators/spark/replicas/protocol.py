"""Which process works on a bucket: the protocol between a task and the processes that hold buckets' copies.

Theory of operation
-------------------
*Who there is.* Spark gives a bucket to any of its workers, and ends each worker that has no task for a minute. So copies are
held by **state processes** (`state_process`), of which Spark knows nothing: one for each task that runs at a time in an
executor. The bucket's local directory names the one that has its copy (the file `owner`). The folder of sockets has a numbered
**slot** for each (`slots`). A state process ends with the executor, or after an hour without work.

*What a task does.* It asks the process that the directory names. If that one is gone, or has no such copy, it locks a free slot
and asks the process there; an empty slot gets a new process (`starting`). `NEXT` says what follows.

*What is said.* `messages` has the order of a conversation. Only the task can read Spark's state, so the process asks it for
what it needs, and answers with all that is to be written. `bucket_service` is its side, `where_held` the task's.

*Why a failure costs time, and nothing else.* The process writes only to its copy, and a copy may be wrong at any time: it is
compared with the pointer before each batch (`Durable.align`). The task writes only after `DONE`, all at once, and Spark counts
that or nothing. So whatever is heard in between, the request begins again, with another process or in the task itself.

*Why two copies of a bucket do no harm.* A task that works alone opens one in its worker, in a directory of its own (`copies`).
Either may be behind afterwards, and the next call finds that out.

*How long it lasts.* Each wait has a deadline (`connection.PATIENCE_S`); a process that works sends signs of life. One that is
silent is not asked again for some minutes, and the task does not try others: it has waited long enough. Two deaths in a row are
taken as caused by the request, which fails then: alone, it would take the worker with it.
"""

from enum import Enum


class TaskState(Enum):
    """What a task does next."""

    ASK_HOLDER = "ask the process that has the copy"
    ASK_FREE = "ask a free one"
    ASK_ANOTHER = "ask another"
    ASK_FREE_AFTER_DEATH = "one died: ask a free one"
    ASK_ANOTHER_AFTER_DEATH = "one died: ask another"
    WRITE = "write what came of it"
    WORK_ALONE = "work in the task"
    FAIL = "fail"

    @property
    def asks(self) -> bool:
        """Whether a process is asked."""
        return self in _ON


class Heard(Enum):
    """What comes of asking."""

    DONE = "done"
    """It has worked."""
    BUSY = "busy"
    """It works on the same bucket at this moment, for another task."""
    FAILED = "failed"
    """Functions of the operator, or the storage, raised an error there."""
    UNKNOWN = "unknown"
    """It is of another executor, and has not worked with these functions before; or it has other messages."""
    NOBODY = "nobody"
    """Nobody listens there, or what listens is not to be asked now."""
    DIED = "died"
    """It ended after it was asked."""
    SILENT = "silent"
    """It did not answer in time, or not in this protocol."""
    CANNOT = "cannot start"
    """No process can be started, or the folder of sockets cannot be used."""


_ON = {
    TaskState.ASK_HOLDER: (TaskState.ASK_FREE, TaskState.ASK_FREE_AFTER_DEATH),
    TaskState.ASK_FREE: (TaskState.ASK_ANOTHER, TaskState.ASK_ANOTHER_AFTER_DEATH),
    TaskState.ASK_ANOTHER: (TaskState.WORK_ALONE, TaskState.WORK_ALONE),
    TaskState.ASK_FREE_AFTER_DEATH: (TaskState.ASK_ANOTHER_AFTER_DEATH, TaskState.FAIL),
    TaskState.ASK_ANOTHER_AFTER_DEATH: (TaskState.WORK_ALONE, TaskState.FAIL),
}
"""What follows if it is not the process to ask, and if it died."""
NEXT: dict[tuple[TaskState, Heard], TaskState] = {
    (state, heard): after
    for state, (if_another, if_died) in _ON.items()
    for heard, after in (
        (Heard.DONE, TaskState.WRITE),
        (Heard.BUSY, TaskState.WORK_ALONE),
        (Heard.FAILED, TaskState.WORK_ALONE),
        (Heard.UNKNOWN, if_another),
        (Heard.NOBODY, if_another),
        (Heard.DIED, if_died),
        (Heard.SILENT, TaskState.WORK_ALONE),
        (Heard.CANNOT, TaskState.WORK_ALONE),
    )
}
"""What a task does next: by its state, and by what it has heard. Each state leads on, so it asks three times at most."""
