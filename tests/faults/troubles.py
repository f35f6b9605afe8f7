"""Steps behind the operator, in the same stage, that make task attempts fail or come late after the operator did its work.

Each notes what it did as a file, named by batch, partition and attempt, by which tests see that it happened.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
from pyspark import TaskContext

from tests.patience import files, wait_until


class _Step:
    """A step that passes its rows through."""

    def __init__(self, notes: Path, schema: pa.Schema) -> None:
        self._notes = notes
        self._schema = schema
        notes.mkdir(parents=True, exist_ok=True)

    def note(self, what: str, context: TaskContext) -> None:
        """Leave a note of what was done."""
        batch = context.getLocalProperty("streaming.sql.batchId")
        name = f"{what}-{batch}-{context.partitionId()}-{context.attemptNumber()}"
        (self._notes / name).touch()

    def wait_for(self, name: str) -> None:
        """Wait for a note of another attempt."""
        wait_until((self._notes / name).exists, name, files(self._notes))


class FailFirst(_Step):
    """First attempts fail: in some tasks at their first rows, in others when the operator is done with all of them."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the rows through, or fail."""
        context = TaskContext.get()
        assert context is not None
        turn = (int(context.getLocalProperty("streaming.sql.batchId") or 0) + context.partitionId()) % 3
        doomed = context.attemptNumber() == 0 and turn > 0
        for batch in batches:
            if doomed and turn == 1:
                self.note("early", context)
                raise RuntimeError("an attempt that fails at its first rows")
            yield batch
        if doomed:
            self.note("late", context)
            raise RuntimeError("an attempt that fails when all is done")
        self.note("done", context)


class Overtaken(_Step):
    """First attempts of partition 0 wait until their speculative twin has done its work; then one or the other wins."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the rows through; the attempt that is to lose waits then until Spark ends it."""
        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        yield from list(batches)
        if context.partitionId() == 0 and int(batch or 0) % 2:
            twin_wins = int(batch or 0) % 4 == 1
            if context.attemptNumber() > 0:
                self.note("twin", context)
                if not twin_wins:
                    self.wait_for("never")
            else:
                self.note("first", context)
                self.wait_for("never" if twin_wins else f"twin-{batch}-0-1")
        self.note("done", context)


class _LastOfStage(_Step):
    """In each batch but one, the last task of a stage does something to its executor when the others have written."""

    _PARTITIONS = 3
    _WRITTEN_S = 1.5
    """What a task takes to commit its output, and the driver to hear of it, after its last row."""
    _SPARED = 1
    """This batch: the next one is the second that the workers see which have survived it."""
    what: str
    """What it does, as its notes have it."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the rows through, and strike if it is its turn."""
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        yield from batches
        turn = batch % self._PARTITIONS == context.partitionId() and batch != self._SPARED
        if turn and not list(self._notes.glob(f"{self.what}-{batch}-*")):
            wait_until(lambda: self._done(batch) >= self._PARTITIONS - 1, "the others", files(self._notes))
            time.sleep(self._WRITTEN_S)
            self.note(self.what, context)
            yield from self.strike()
        self.note("done", context)

    def strike(self) -> Iterator[pa.RecordBatch]:
        """Do it, and give what rows it takes."""
        raise NotImplementedError

    def _done(self, batch: int) -> int:
        """How many partitions are done."""
        return len({path.name.split("-")[2] for path in self._notes.glob(f"done-{batch}-*")})


class Killed(_LastOfStage):
    """The executor is killed.

    What the first stage's tasks of that executor sent is lost with it, so that they run again elsewhere.
    """

    what = "killed"

    def strike(self) -> Iterator[pa.RecordBatch]:
        """Kill it, and wait until Spark's end of the pipe is gone."""
        os.kill(_executor(), signal.SIGKILL)
        time.sleep(60)
        yield from ()


class KilledInARow(_Step):
    """A task kills its executor each time that it runs, until a test spares it: more often than Spark bears it."""

    SPARED = "spared"
    """The file of the test, beside the notes."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the rows through, and kill the executor."""
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 0 and not (self._notes / self.SPARED).exists():
            self.note("killed", context)
            os.kill(_executor(), signal.SIGKILL)
            time.sleep(60)
        self.note("done", context)


class Decommissioned(_LastOfStage):
    """The executor is told to go, as where a machine is taken away in a minute: it sends its blocks to another first."""

    what = "told"

    def strike(self) -> Iterator[pa.RecordBatch]:
        """Tell it, and be done while it sends."""
        os.kill(_executor(), signal.SIGPWR)
        time.sleep(self._WRITTEN_S)
        yield from ()


class OutOfMemory(_LastOfStage):
    """The executor's JVM runs out of memory, and ends."""

    BYTES = 300_000_000
    """Of a value, which the JVM copies into an array of twice the size: the heap has to be smaller."""
    what = "filled"

    def strike(self) -> Iterator[pa.RecordBatch]:
        """Give a row that is too large."""
        row = {field.name: _any_value(field.type) for field in self._schema}
        # Its end is sent when no more rows follow: so nothing is waited for here.
        yield pa.RecordBatch.from_pylist([row | {"k": "k" * self.BYTES}], self._schema)


class ShuffleGone(_Step):
    """The first tasks of a stage delete what their executor has for the others to fetch, and the executor lives.

    With one core for each of two executors, the third task begins when one of them has written.
    """

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the rows through, and delete the files once in a batch and partition."""
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        yield from batches
        if context.partitionId() < 2 and not list(
            self._notes.glob(f"deleted-{batch}-{context.partitionId()}-*")
        ):
            self.note("deleted", context)
            self.delete()
        self.note("done", context)

    def delete(self) -> None:
        """Delete the files of shuffles of this executor."""
        for folder in os.environ["SPARK_EXECUTOR_DIRS"].split(":"):
            for path in Path(folder).glob("blockmgr-*/*/shuffle_*"):
                path.unlink(missing_ok=True)


def _any_value(type_: pa.DataType) -> Any:
    if pat.is_struct(type_):
        return {field.name: _any_value(field.type) for field in type_}
    return "" if pat.is_string(type_) else [] if pat.is_list(type_) else 0


def _executor() -> int:
    """The JVM of this worker: the parent of the daemon that started it."""
    fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])
