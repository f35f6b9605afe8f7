"""Errors in workers: raised with the place where they happened, and found in Spark's errors on the driver."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

from operators.errors import WorkerError
from operators.spark.base.executors import gone_lately
from operators.spark.base.inside import (
    APPENDED,
    DEAD_WORKER,
    checkpoint_of_query,
    lost_executors,
    other_sources,
    texts_of,
)
from operators.spark.base.kafka_failures import kafka_failed
from state_backends.checkpoints.metadata import lost_state
from state_backends.checkpoints.query import last_batch
from state_backends.checkpoints.spark_files import WITHOUT_ID, damaged_file

_MARK = f"{WorkerError.__name__}: "
_ON_DRIVER = re.compile(
    r"^(?:operators\.sinks\.interface\.SinkError|operators\.errors\.DefinitionError): ", re.MULTILINE
)
"""How the last line of a traceback begins that ends in an error of a table, or of a batch that cannot go into one."""
_HIDDEN = re.compile(r"ImportError: (another module named '\w+' hides the one of this library: .*)")
_MISSING = re.compile(
    r"ModuleNotFoundError: (No module named '((?:operators|state_backends|serializers)(?:\.\w+)*)')"
)
_UNPICKLED = re.compile(
    r"cloudpickle\.loads\(.*\n(?:[\s~^]+\n)?ModuleNotFoundError: (No module named '[\w.]+')"
)
"""How the traceback ends of a worker, or of Spark's own look at a stream, that could not import what a function is from."""
_NOT_SEEN = "Through Spark Connect, streams before Spark 4.4 do not see what the client sends with addArtifacts (SPARK-61959)"
_NOT_THERE = (
    "the Python of the workers does not have this library: {0}. Install it there, or set PYSPARK_PYTHON to a Python that "
    f"has it. {_NOT_SEEN}"
)
_NO_MODULE = (
    "the Python of the workers does not have the module that a function of this query is from: {0}. Send the module with "
    "spark.addArtifacts(path, pyfile=True), or install it there, or have its functions sent with the query: "
    f"pyspark.cloudpickle.register_pickle_by_value(module), before apply. {_NOT_SEEN}"
)
_ANOTHER = (
    "the workers import another module named {1!r} in the place of this library's: {0}. It is in a file that was added to the "
    "job, as by addPyFile or --py-files, or in the folder in which the workers run: rename it, or move it into a package"
)
MOVE_STATE = (
    "move the state: write_savepoint(checkpoint, folder), then start with a new checkpoint and "
    "options={'state.savepoint': folder}"
)
"""The way out where a query cannot go on from its checkpoint, but its state can."""
_LOST_MESSAGE = (
    "executors of Spark were lost ({0}), and with them what their tasks had sent to others. Nothing is lost of the query: "
    "start it again, and it continues from its last batch. Spark gives up after spark.stage.maxConsecutiveAttempts losses of "
    "one stage in a row, or spark.task.maxFailures losses of one task (4 by default): set these higher where executors come "
    "and go. The logs of the executors or of the cluster say why they ended; code 137 means that memory ran out, or that the "
    "machine was taken away"
)
_FULL = "No space left on device", "Disk quota exceeded"
_LONGEST_PATH = 500
_FULL_MESSAGE = (
    "a disk is full{0}: {1}. Free space, then start the query again: it continues from its last batch, and nothing is lost. "
    "Spark writes to the checkpoint, to the folder of a file sink and to spark.local.dir, and workers to "
    "spark.windows.state.directory"
)
_REAL_TIME = "[STREAMING_REAL_TIME_MODE."
_REAL_TIME_MESSAGE = (
    "Spark refuses trigger(realTime=...) for this query. An operator of this library needs micro-batches: leave the trigger "
    "out, so that a batch follows the one before at once, or use trigger(processingTime=...). Leave "
    "spark.sql.streaming.realTimeMode.allowlistCheck as it is"
)
_METADATA = "com.fasterxml.jackson.", ".StreamMetadata"
"""What Spark's error has if it cannot read the file, in its first lines and in its trace."""
_NO_METADATA = (
    "Spark cannot read the file 'metadata' of the checkpoint, which has the id of the query: it is empty, cut off or altered. "
    f"{WITHOUT_ID}"
)
_DEAD_MESSAGE = (
    "a Python worker of Spark died without an error message: it was killed, perhaps because memory ran out, or crashed in "
    "native code. The executor's stderr may have more; spark.python.worker.faulthandler.enabled=true shows where it crashed. "
    "The state of a stream is safe: start the query again"
)


@contextmanager
def located(where: str) -> Iterator[None]:
    """Raise errors of the block as a WorkerError that says where they happened.

    Args:
        where: operator, bucket and batch, as far as known.
    """
    try:
        yield
    except GeneratorExit:
        raise
    except WorkerError:
        raise
    except Exception as error:
        raise WorkerError(f"{where}: {type(error).__name__}: {error}") from error


def task() -> str:
    """Return the task of Spark that this is, as text."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "a task" if context is None else f"partition {context.partitionId()}"


def what_failed(failed: Any) -> str | None:
    """Return what went wrong in a worker or in a table, in a few sentences, without Spark's stack traces.

    Args:
        failed: a streaming query, or the exception that one or an action on a frame raised.

    Returns:
        operator, bucket and batch, the error and its message; or what `upsert_to` or its sink raised; or that a worker process
        died, or could not import this library; that executors were lost, or that a disk is full; that Spark's own state store
        is damaged, or was not committed in every bucket, or that another file of Spark's in the checkpoint is damaged; that the
        query has other sources than its checkpoint, as one that gets `idle`; what is the matter with a topic of Kafka; or that
        it has a trigger for real time. Of a query, also how many buckets have no snapshot that was completed in time. None if
        nothing of this library failed.
    """
    if not hasattr(failed, "lastProgress"):
        return _explain_any(failed)
    from operators.spark.base.overdue import overdue_snapshots

    told = _explain_any(failed.exception(), failed), overdue_snapshots(failed)
    return "\n".join(filter(None, told)) or None


def _explain_any(error: object, query: Any = None) -> str | None:
    """What is said of an error, or else of one of its causes."""
    texts = [*texts_of(error)]
    told = (_explain(text, texts[number + 1 :], query) for number, text in enumerate(texts))
    return next(filter(None, told), None) or _file_damaged(texts, query)


def _file_damaged(texts: Sequence[str], query: Any) -> str | None:
    """Which of Spark's own files in the checkpoint was damaged, if the query has failed; None if none was."""
    checkpoint = checkpoint_of_query(query) if texts and query is not None else None
    found = None if checkpoint is None else damaged_file(checkpoint)
    return found or (_NO_METADATA if any(all(part in text for part in _METADATA) for text in texts) else None)


def _explain(text: str, causes: Sequence[str], query: Any) -> str | None:
    """What is said of the text of an error with these causes, of a query if that is known."""
    _, mark, message = text.rpartition(_MARK)
    if mark:
        return without_traces(message)
    if on_driver := [*_ON_DRIVER.finditer(text)]:
        said = text[on_driver[-1].end() :]
        return "\n".join(filter(None, (without_traces(said), _executors_lost(said))))
    found = _not_imported(text) or _other_sources(text) or _executors_lost(text)
    found = found or _disk_full(text) or _state_lost(text, causes, query) or kafka_failed(text)
    found = found or (_REAL_TIME_MESSAGE if _REAL_TIME in text else None)
    return found or (_DEAD_MESSAGE if DEAD_WORKER in text else None)


def _state_lost(text: str, causes: Sequence[str], query: Any) -> str | None:
    """What is said of Spark's own state store, with the query's folder and its last batch where they can be seen."""
    return lost_state(text, None if query is None else checkpoint_of_query(query), causes, last_batch)


def _disk_full(text: str) -> str | None:
    """Which disk is full, from the error of Spark, which found it so before a worker did; None if none is."""
    why = next((why for why in _FULL if why in text), None)
    if why is None:
        return None
    at = text.index(why)
    before = text[max(at - _LONGEST_PATH, 0) : at]
    path = before.split()[-2] if before.endswith(" (") and len(before.split()) > 1 else ""
    return _FULL_MESSAGE.format(path and f", that of {path}", why)


def without_traces(message: str) -> str:
    """Return a message up to the first line that is not its own: line by line, since it may quote a whole record."""
    first, *more = message.split("\n")
    own = takewhile(lambda line: APPENDED.match(line.lstrip()) is None, more)
    return "\n".join([first, *own]).rstrip()


def _other_sources(text: str) -> str | None:
    """Why a query cannot start on a checkpoint that has another number of sources; None if that is not what failed."""
    from operators.spark.base.heartbeats import NAME

    found = other_sources(text)
    if found is None:
        return None
    before, now = found
    added = now > before and NAME in text
    idle = (
        "This one has idle, which adds a source: leave it out"
        if added
        else "Go back to the former sources, among which idle counts as one"
    )
    return (
        f"the checkpoint is of a query with {before} {'source' if before == 1 else 'sources'}, and this one has {now}: Spark "
        f"neither adds sources to a checkpoint nor removes them. {idle}. Or {MOVE_STATE}"
    )


def _executors_lost(text: str) -> str | None:
    """Which executors were lost, from the error of a job that Spark gave up for that; None if it did not."""
    named = lost_executors(text)
    if named is None:
        return None
    which = ", ".join(f"executor {name}" for name in sorted(named))
    told = [f"{len(named)} named: {which}"] if named else []
    if gone := gone_lately():
        told.append(f"{len(gone)} in the last ten minutes: {', '.join(f'executor {name}' for name in gone)}")
    return _LOST_MESSAGE.format("; ".join(told) or "none is named")


def _not_imported(text: str) -> str | None:
    """Why workers could not import this library, from the error that Spark passed on; None if they could."""
    if hidden := _HIDDEN.search(text):
        return hidden[1]
    missing = _MISSING.search(text)
    if missing is None:
        unpickled = _UNPICKLED.search(text)
        return None if unpickled is None else _NO_MODULE.format(unpickled[1])
    message, module = missing.groups()
    if "." not in module:
        return _NOT_THERE.format(message)
    return _ANOTHER.format(message, module.partition(".")[0]) if _is_ours(module) else None


def _is_ours(module: str) -> bool:
    """Whether this library has a module of this name; if not, it is one of the user's that was not found."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
