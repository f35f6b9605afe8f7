"""What a bucket is asked for in one call of Spark, and what comes of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from operators.runtime.batch_clock import Call
from operators.spark.inputs.packing import PARTIALS, ROWS
from operators.spark.inputs.spool import Spool
from state_backends import StateConfig
from state_backends.durability.pointer import Pointer
from state_backends.journal import Journal


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the functions of an operator come from. Processes that have those of the same origin can work for one another.

    Attributes:
        run: the query's run, as far as tasks know it: users can give several runs the same name.
        digest: the digest of all that the driver sent: plan, code, output, watermark_rule, backend.
    """

    run: str
    digest: str


@dataclass(frozen=True, slots=True)
class Functions:
    """An operator's job as the driver sent it, and what it takes to load it in another process.

    Attributes:
        origin: the origin of the job.
        log_level: the log level of the library in the process.
        pickled: the job, with its functions.
    """

    origin: Origin
    log_level: str
    pickled: bytes


@dataclass(frozen=True, slots=True)
class Blobs:
    """What tasks sent to a bucket: rows as they are, and partial aggregates; in a `Spool` if that may be much."""

    rows: Sequence[bytes] = ()
    partials: Sequence[bytes] = ()

    def __bool__(self) -> bool:
        return bool(self.rows or self.partials)

    def unload(self) -> None:
        """Let go of what was read of files."""
        for some in (self.rows, self.partials):
            if isinstance(some, Spool):
                some.unload()

    @property
    def large(self) -> bool:
        """Whether they are too large for memory."""
        return any(isinstance(some, Spool) and some.on_disk for some in (self.rows, self.partials))


def in_place(parts: Iterable[tuple[int, int, bytes | None]], folder: Path) -> Blobs:
    """Return the blobs among what tasks sent, in the order of the tasks and of each task's rows, however they arrived.

    Args:
        parts: place, kind and blob, as `Pack` sends them.
        folder: where it puts what is too large for memory.
    """
    found = {kind: (list[int](), Spool(folder)) for kind in (ROWS, PARTIALS)}
    for place, kind, blob in parts:
        if kind in found and blob is not None:
            places, spool = found[kind]
            places.append(place)
            spool.extend([blob])
    for places, spool in found.values():
        spool.reorder(sorted(range(len(places)), key=places.__getitem__))
    return Blobs(found[ROWS][1], found[PARTIALS][1])


@dataclass(frozen=True, slots=True)
class Request:
    """A call of a bucket that has work to do.

    Attributes:
        pointer: the pointer of the bucket's journal.
        label: the label of the bucket.
        batch: number of the micro-batch, if it is known.
        call: Spark's call.
        blobs: the batch's rows.
        begins: whether the bucket starts, from the savepoint if there is one.
        in_files: whether many rows to emit may go into a file, of which the blob to emit has the name.
    """

    pointer: Pointer
    label: int
    batch: int | None
    call: Call
    blobs: Blobs
    begins: bool = False
    in_files: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request, once the journal is written.

    Attributes:
        blobs: the rows to emit.
        metrics: what is reported of the call.
        timer: the event-time timer that the bucket needs, in milliseconds; None if it has no state.
    """

    blobs: Sequence[bytes]
    metrics: dict[str, int]
    timer: int | None


@dataclass(frozen=True, slots=True)
class Done:
    """A request that was worked on, before its journal is written.

    Attributes:
        changes: the changes of the journal: names and blobs, None for one to be removed. They are read once.
        outcome: the outcome of the request, once they are written.
    """

    changes: Iterable[tuple[str, bytes | None]]
    outcome: Outcome

    def write_to(self, journal: Journal) -> Outcome:
        """Write the changes to the bucket's journal, commit them, and return the outcome."""
        for name, blob in self.changes:
            if blob is None:
                journal.remove(name)
            else:
                journal.put(name, blob)
        journal.commit()
        return self.outcome


@runtime_checkable
class Work(Protocol):
    """What is done with a bucket's copy, in whichever process has it: `stream/job.py`."""

    @property
    def config(self) -> StateConfig:
        """The backend."""

    def run(self, read: Callable[[str], bytes | None], request: Request) -> Done:
        """Work on a bucket with this process's copy.

        Args:
            read: returns a blob of the bucket's journal, or None.
            request: what is to be done.
        """
