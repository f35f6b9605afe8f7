"""The operators with state that Spark lists in a checkpoint, and the error for state that cannot be read."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from state_backends.errors import StateError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

JOURNAL_VARIABLE = "journal"
_STATE_OF_OPERATOR = re.compile(r"/state/\d+$")
_NAMED_COMMIT = re.compile(r'NumberFormatException: For input string: "\d+_[0-9a-f]{8}-')
_NO_BATCH = "STDS_COMMITTED_BATCH_UNAVAILABLE"
UNCOMMITTED, UNLOADABLE = "STATE_STORE_COMMIT_VALIDATION_FAILED", "CANNOT_LOAD_STATE_STORE"
"""Conditions of errors: a batch whose state was not committed in every bucket, and state that Spark cannot load."""
_UNCOMMITTED = re.compile(rf"\[{UNCOMMITTED}\][^\n]{{0,200}}? batch (\d{{1,18}})")
_UNLOADABLE = re.compile(rf"\[{UNLOADABLE}[.]\w{{1,100}}\] (?P<why>[^\n]*)")
_NO_OPERATORS = "STDS_FAILED_TO_READ_OPERATOR_METADATA"
_LOCATION = re.compile(r"checkpointLocation=([^\n,\]]{1,400}?)(?: and batchId=|[\n,\]])")
"""The folder of a query, among the options that the error of a query ends with, or that of an operator's state in it."""
_LONGEST_CAUSE = 300
_CAUSED = re.compile(r"Caused by: ([^\n]{1,300})")
_FILE = re.compile(
    r"/state/\d{1,9}/\d{1,9}/(?:\w{1,100}/)?(?:(\d{1,18})(?:_[0-9a-f-]{36})?[.](?:changelog|delta|zip)\b)?"
)
"""A file of Spark's state store, and the version in its name: one more than the number of the batch that wrote it."""
_LONGEST_PATH = 500
_SCHEME = re.compile(r"\b[a-z][a-z0-9]{1,9}:/")
_PARTLY_READ = (
    "batch {0} was not committed in every bucket: the function of foreachBatch read only some of its rows, as limit, first and "
    "show do. Have it read all: rows.persist() at its beginning, rows.count() at its end. The query cannot go on from this "
    "checkpoint. {1}"
)
_NOT_LOADED = (
    "Spark cannot load its own state store{0}: {1} A file was damaged or removed, or the function of foreachBatch read only "
    "some rows of a batch. Restore it from a copy of the checkpoint. Or go on without it. {2}"
)
_LEFT_OPEN = (
    "Spark's own state store was left in the midst of a batch in one executor, by an attempt at a task that was cancelled or "
    "lost, and each further attempt there fails. Nothing is damaged or lost: start the query again"
)
_ASSERTION, _CHANGELOG = "java.lang.AssertionError: assertion failed", "StateStoreChangelogWriter"
_EARLIER = (
    "Save the state of {0}: write_savepoint(checkpoint, folder, batch={1}). Start with a new checkpoint and "
    "options={{'state.savepoint': folder}}, and read the sources from where the savepoint's origin says: what was written of "
    "later batches comes again"
)
_OPERATORS_LOST = (
    "Spark cannot read its list of the operators with state in {0}: a file below state/*/_metadata was damaged or removed. "
    "Restore it from a copy of the checkpoint. Without it, neither Spark nor write_savepoint can read the state: start with a "
    "new checkpoint"
)
_LAST = (
    "The last batch was {0}, and Spark does not say from which one on the state is damaged: if that of batch {1} cannot be "
    "read, try earlier ones. "
)
_NO_EARLIER = "No batch before it has state: start with a new checkpoint"


class NoBatchError(StateError):
    """A checkpoint without a committed batch: it is new, or the folder is not of a query."""


@dataclass(frozen=True, slots=True)
class StoredOperator:
    """An operator with state, as Spark lists it.

    Attributes:
        number: its number in the query's plan, from 0.
        name: Spark's for its kind.
        is_ours: whether its state is that of this library.
        batch: number of the last batch in the checkpoint.
    """

    number: int
    name: str
    is_ours: bool
    batch: int


def operators_in(path: str, spark: "SparkSession") -> list[StoredOperator]:
    """Return the operators with state of a checkpoint; an empty list without a batch."""
    found = {}
    for row in spark.read.format("state-metadata").load(path).collect():
        properties = json.loads(row.operatorProperties or "{}")
        variables = {variable.get("stateName") for variable in properties.get("stateVariables", [])}
        is_ours = row.operatorName.startswith("transformWithState") and JOURNAL_VARIABLE in variables
        found[row.operatorId] = StoredOperator(row.operatorId, row.operatorName, is_ours, row.maxBatchId)
    return [found[number] for number in sorted(found)]


def check_begun(path: str, spark: "SparkSession", shown: str) -> None:
    """Refuse a folder in which no query has begun.

    Args:
        path: the path of the checkpoint, as Spark takes it.
        spark: the session.
        shown: the checkpoint's path as it was given.

    Raises:
        StateError: the folder does not exist, or lacks the file that Spark writes first.
    """
    from pyspark.errors import AnalysisException

    try:
        spark.read.text(f"{path}/metadata").collect()
    except AnalysisException as error:
        raise StateError(
            f"there is no checkpoint in {shown}: it has no file 'metadata', which Spark writes when a query starts. Give the "
            "checkpointLocation of the query; one that has not started yet has nothing to check"
        ) from error


def sources_at(path: str, batch: int, spark: "SparkSession") -> list[str]:
    """Return where each source of a query stood after a batch, as Spark wrote it."""
    (row,) = spark.read.text(f"{path}/offsets/{batch}", wholetext=True).collect()
    return row.value.splitlines()[2:]


def unreadable(
    path: str, number: int, batch: int | None, error: "PySparkException", spark: "SparkSession", shown: str
) -> StateError:
    """Return the error to raise where Spark cannot read an operator's state: why, and what to do.

    Args:
        path: the path of the checkpoint, as Spark takes it.
        number: the number of the operator.
        batch: the batch of the requested state; None for the last one.
        error: Spark's.
        spark: the session.
        shown: the checkpoint's path as it was given.
    """
    from pyspark.errors import PySparkException

    if error.getCondition() == _NO_BATCH and batch is None:
        return NoBatchError(
            f"the state in {shown} cannot be read: no batch was committed. Give the checkpoint folder of a query that "
            "has run"
        )
    try:
        there = operators_in(path, spark)
    except PySparkException:
        return StateError(f"the state in {shown} cannot be read: {error}")
    ours = [operator.number for operator in there if operator.is_ours]
    listed = ", ".join(f"{operator.number} ({operator.name})" for operator in there)
    if number in ours:
        after = "" if batch is None else f" after batch {batch}, its last one is {there[0].batch}"
        why = f"{after}: {error}"
    elif ours:
        why = f": it is not an operator of this library. The query has {listed}: give operator={' or '.join(map(str, ours))}"
    else:
        kept = f"the state of other operators: {listed}" if there else "no state"
        why = f": the query has {kept}. Give the checkpoint of a query with an operator of this library"
    return StateError(f"the state of operator {number} in {shown} cannot be read{why}")


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the types of errors that reading state raises: Spark's, and Java's where Spark has none of its own."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    except ImportError:  # a client of Spark Connect alone
        return (PySparkException,)
    return PySparkException, Py4JJavaError


def lost_state(
    text: str,
    checkpoint: str | None = None,
    causes: Sequence[str] = (),
    last: Callable[[str], int | None] | None = None,
) -> str | None:
    """Return why Spark's own store of a query's state cannot be used, and the way out; None if an error is not about that.

    Args:
        text: the text of an error that Spark or Java raised.
        checkpoint: the folder of the query; None if only the text may name it.
        causes: the texts of the error's causes, the innermost last.
        last: returns the number of the last committed batch of a folder, or None; called if no file with a batch is named.
    """
    if found := _UNCOMMITTED.search(text):
        batch = int(found[1])
        return _PARTLY_READ.format(batch, way_out_from(batch - 1))
    if _NO_OPERATORS in text:
        return _OPERATORS_LOST.format(checkpoint or _folder_in(text) or "the checkpoint")
    found = _UNLOADABLE.search(text)
    if found is None:
        return None
    why = found["why"].partition(" If the stream job is restarted")[0].partition(" SQLSTATE")[0].rstrip(". ")
    if "UNCATEGORIZED" in found[0] and (cause := _innermost(text[found.end() :], causes)):
        why = f"{why}: {cause}"
    every = "\n".join([text, *causes])
    if why.endswith(_ASSERTION) and _CHANGELOG in every:
        return _LEFT_OPEN
    named = next((file for file in _FILE.finditer(every) if file[1]), None)
    place = checkpoint or _folder_in(every)
    way_out = (
        _way_out_before(last(place) if last and place else None)
        if named is None
        else way_out_from(int(named[1]) - 2)
    )
    return _NOT_LOADED.format(place and f" in {place}", f"{why.rstrip('.')}.", way_out)


def _innermost(rest: str, causes: Sequence[str]) -> str | None:
    """The first line of the innermost cause: of the texts of causes, or else of what a trace says."""
    found = [cause.strip().partition("\n")[0] for cause in causes]
    found = found or [one[1] for one in _CAUSED.finditer(rest)]
    found = [one for one in found if one and "[CIRCULAR REFERENCE" not in one and UNLOADABLE not in one]
    return found[-1][:_LONGEST_CAUSE] if found else None


def _folder_in(text: str) -> str:
    """The checkpoint that an error names, as the place of a file or among the options of the query; "" if it names none."""
    file = _FILE.search(text)
    if file is not None and (folder := _folder_before(text, file.start())):
        return folder
    location = _LOCATION.search(text)
    return _STATE_OF_OPERATOR.sub("", location[1]) if location else ""


def _folder_before(text: str, end: int) -> str:
    """The path that ends at a place of a text, if it is a URI, which may have spaces, or an absolute path without them."""
    line = text[max(end - _LONGEST_PATH, 0) : end].rpartition("\n")[2]
    schemes = [*_SCHEME.finditer(line)]
    if schemes:
        return line[schemes[-1].start() :]
    word = line.rpartition(" ")[2]
    return word if word.startswith("/") else ""


def _way_out_before(last: int | None) -> str:
    """How to go on where the damaged version is not known, but perhaps the last batch."""
    if last is None or last < 1:
        return way_out_from(None if last is None else -1)
    return _LAST.format(last, last - 1) + way_out_from(last - 1)


def way_out_from(batch: int | None) -> str:
    """Return how to go on from a batch, or from one that is not known."""
    if batch is not None and batch < 0:
        return _NO_EARLIER
    if batch is None:
        return _EARLIER.format("an earlier batch", "its number")
    return _EARLIER.format(f"batch {batch}", batch)


def moved_error(error: Exception, shown: str) -> StateError | None:
    """Return the error to raise for a checkpoint that is not where it was written; None if that is not the reason.

    Args:
        error: an error that Spark or Java raised.
        shown: the checkpoint's path as it was given.
    """
    # Line by line, since the error may quote anything.
    lines = (
        line for line in str(error).splitlines() if "/_stateSchema/" in line and " does not exist" in line
    )
    file = next(lines, "").partition("File ")[2].partition("/_stateSchema/")[0]
    place = _STATE_OF_OPERATOR.search(file)
    if place is None:
        return None
    before = file[: place.start()]
    return StateError(
        f"the checkpoint {shown} was moved or copied, or is damaged: Spark looks for its state in {before}, since it writes "
        "absolute paths into checkpoints. Put it back there, or link that path to it"
    )


def named_commits_error(error: Exception) -> StateError | None:
    """Return the error to raise for a checkpoint of format 2, which Spark 4.0 writes but cannot read; None for others.

    Args:
        error: the error that Java raised when it loaded the state.
    """
    if _NAMED_COMMIT.search(str(error)) is None:
        return None
    from pyspark import __version__

    return StateError(
        f"Spark {__version__} cannot read state from a checkpoint of format 2 "
        "(spark.sql.streaming.stateStore.checkpointFormatVersion): read it with Spark 4.1 or newer. The query itself can go on"
    )
