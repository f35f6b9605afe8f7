"""The buckets that a worker process has open, and the processor that Spark calls with each bucket's rows.

Spark gives a bucket to any of its workers. Each worker keeps copies of the buckets that it has seen, each in a directory of
its own, and brings a copy up to date from the changelog in Spark's state before it uses it.
"""

import fcntl
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from operators.runtime.closing import Closing
from operators.runtime.evolution import stored_change
from operators.runtime.metrics import line, names
from operators.runtime.program import Program
from operators.runtime.stateful import Outcome, StatefulOperator
from operators.spark.failures import located
from operators.spark.logs import log_at
from operators.spark.packing import from_blobs, to_blob
from operators.spark.runs import batch_number
from serializers import SerializationError
from state_backends import StateConfig, StateError
from state_backends.checkpoints.savepoint import Savepoint
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.journal import Blob, made

_PART_BYTES = 4 << 20
_ROWS_PER_BLOB = 250_000
_IDLE_SECONDS = 600.0
_ORPHAN_SECONDS = 86_400.0
_LOG = logging.getLogger(__name__)


def result_ddl(counts: Sequence[str]) -> str:
    """Return the columns of what a bucket gives back: its metrics, those of the operator's own behind, and rows as a blob."""
    return ", ".join(["bucket int", *(f"`{name}` bigint" for name in names(counts)), "blob binary"])


class SparkJournal:
    """A journal in a MapState of the bucket; Spark commits it with the micro-batch. Blobs are cut into parts."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._map = handle.getMapState("journal", "name string, part int", "parts int, blob binary")
        self._parts: dict[str, int] = {}
        """Parts of the blobs that were read or written; what is written again was read before, or is new."""

    def get(self, name: str) -> bytes | None:
        """Return the blob, or None."""
        first = self._map.getValue((name, 0))
        if first is None:
            return None
        self._parts[name] = first[0]
        rest = [self._map.getValue((name, part)) for part in range(1, first[0])]
        if None in rest:
            raise StateError(
                f"the changelog entry {name!r} lacks a part: the checkpoint was altered from outside"
            )
        return b"".join([bytes(first[1]), *(bytes(part[1]) for part in rest if part is not None)])

    def put(self, name: str, blob: Blob) -> None:
        """Write the blob, over an earlier one of that name."""
        data = made(blob)
        pieces = [data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES)] or [b""]
        before = self._parts.get(name, 1)
        for part, piece in enumerate(pieces):
            self._map.updateValue((name, part), (len(pieces), piece))
        for part in range(len(pieces), before):
            self._map.removeKey((name, part))
        self._parts[name] = len(pieces)

    def remove(self, name: str) -> None:
        """Remove the blob if it is there."""
        first = self._map.getValue((name, 0))
        for part in range(first[0] if first is not None else 0):
            self._map.removeKey((name, part))
        self._parts.pop(name, None)

    def commit(self) -> None:
        """Leave it to Spark, which commits with the micro-batch."""

    def rollback(self) -> None:
        """Leave it to Spark, which drops what a failed attempt wrote."""


@dataclass(slots=True)
class _Copy:
    """An open bucket, the lock on its directory, and when it was last used (monotonic seconds)."""

    operator: StatefulOperator
    lock: IO[str]
    used: float

    def close(self) -> None:
        """Release the directory, whatever its backend says: the changelog has all that counts."""
        try:
            self.operator.close()
        except StateError as error:
            _LOG.warning("a local copy was not closed well: %s", error)
        finally:
            self.lock.close()


_copies: dict[tuple[str, StateConfig], _Copy] = {}


def open_copy(program: Program, config: StateConfig, store_id: str) -> StatefulOperator:
    """Return this process's copy of a bucket, opened if need be; close those that were idle for long."""
    now = time.monotonic()
    for key in [key for key, copy in _copies.items() if now - copy.used > _IDLE_SECONDS]:
        _copies.pop(key).close()
    copy = _copies.get((store_id, config))
    if copy is not None and copy.operator.takes(program):
        copy.used = now
        return copy.operator
    if copy is not None:
        _copies.pop((store_id, config)).close()
    directory, lock = _claim(config.directory, store_id, config.backend)
    try:
        copy = _Copy(_opened(program, config, directory), lock, now)
    except BaseException:
        lock.close()
        raise
    _copies[store_id, config] = copy
    return copy.operator


def _opened(program: Program, config: StateConfig, directory: Path) -> StatefulOperator:
    """An operator over a local copy; one that cannot be opened is thrown away, as the changelog has all that it had."""
    try:
        return StatefulOperator(program, config, directory)
    except (StateError, SerializationError) as error:
        if not directory.exists():
            raise
        _LOG.warning("a local copy cannot be opened and is made anew: %s", error)
        shutil.rmtree(directory, ignore_errors=True)
        return StatefulOperator(program, config, directory)


def drop_copy(config: StateConfig, store_id: str) -> None:
    """Close this process's copy of a bucket and forget it, after an error that may have left it in disorder."""
    copy = _copies.pop((store_id, config), None)
    if copy is not None:
        copy.close()


def _claim(root: Path, store_id: str, backend: str) -> tuple[Path, IO[str]]:
    """Return a directory that no other live process uses: one that a dead process left is taken over.

    Raises:
        StateError: there can be none; names the root and the option.
    """
    try:
        return _claimed(root, store_id, backend)
    except OSError as error:
        raise StateError(
            f"local state cannot be kept in {root}: {error}. Set spark.windows.state.directory to a directory that all "
            "workers can make and write to"
        ) from error


def _claimed(root: Path, store_id: str, backend: str) -> tuple[Path, IO[str]]:
    _sweep(root)
    home = root / store_id
    home.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        lock = (home / f"{number}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            number += 1
            continue
        # Who finds the lock's file deleted makes a new one: it must not meet one who still holds the old one.
        owner = f"{number}-{os.fstat(lock.fileno()).st_ino:x}"
        return home / f"{owner}-{backend.replace(':', '.').replace('/', '.')}", lock


def _sweep(root: Path) -> None:
    """Remove local copies that nobody has held for a day: their queries are gone."""
    if not root.is_dir():
        return
    for home in root.iterdir():
        locks = list(home.glob("*.lock")) if home.is_dir() else []
        fresh = any(time.time() - lock.stat().st_mtime < _ORPHAN_SECONDS for lock in locks)
        if locks and not fresh and not any(map(_held, locks)):
            shutil.rmtree(home, ignore_errors=True)


def _held(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def check_buckets(progress: Mapping[str, Any], buckets: int) -> None:
    """Refuse another number of buckets than that of the stored state.

    Args:
        progress: of the state's pointer.
        buckets: of the query.

    Raises:
        StateError: with both numbers and the ways out.
    """
    before = progress.get("buckets", buckets)
    if before != buckets:
        raise StateError(
            f"the checkpoint has {before} buckets, this query has {buckets}: set spark.windows.state.buckets and "
            f"spark.sql.shuffle.partitions back to {before}. Or move the state: write_savepoint(checkpoint, folder), then "
            "start with a new checkpoint and options={'state.savepoint': folder}"
        )


class BucketProcessor(StatefulProcessor):
    """Runs the program over one bucket per call: one commit, and one event-time timer while state is left.

    Args:
        program: what is run.
        config: the backend.
        labels: of all buckets, in their order.
        name: of the operator, in errors and in the log.
        closing: how close times follow from the watermark.
        savepoint: what a query without a checkpoint starts from.
    """

    def __init__(
        self,
        program: Program,
        config: StateConfig,
        labels: tuple[int, ...],
        name: str,
        closing: Closing,
        savepoint: Savepoint | None = None,
    ) -> None:
        self._program = program
        self._name = name
        self._metrics = names(program.counts)
        self._config = config
        self._labels = labels
        self._closing = closing
        self._savepoint = savepoint

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep Spark's handle and open the journal."""
        log_at(self._config.log_level)
        self._handle = handle
        self._journal = SparkJournal(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Take a bucket's packed rows."""
        blobs = [blob for frame in rows for blob in frame["blob"] if blob is not None]
        return self._run(key[0], blobs, timerValues.getCurrentWatermarkInMs(), fired=None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Close windows because the watermark moved."""
        fired = expiredTimerInfo.getExpiryTimeInMs()
        return self._run(key[0], [], timerValues.getCurrentWatermarkInMs(), fired)

    def close(self) -> None:
        """Keep the copies open for the next batch."""

    def _run(
        self, label: int, blobs: list[bytes], watermark: int, fired: int | None
    ) -> Iterator[pd.DataFrame]:
        buckets, batch = len(self._labels), batch_number()
        # With another number of buckets a timer may be of one that there is no more.
        bucket = (
            f"bucket {self._labels.index(label)} of {buckets}" if label in self._labels else "an old bucket"
        )
        with located(f"operator {self._name!r}, {bucket}, batch {batch}"):
            yield from self._batch(label, batch, blobs, watermark, fired)

    def _batch(
        self, label: int, batch: int | None, blobs: list[bytes], watermark: int, fired: int | None
    ) -> Iterator[pd.DataFrame]:
        stored = read_pointer(self._journal)
        pointer = stored or Pointer.fresh()
        check_buckets(pointer.progress, len(self._labels))
        # The bucket of label 0, which there is with any number of buckets, begins with the first batch: its pointer tells
        # queries with other buckets, or with another operator, that they cannot go on from here.
        begins = stored is None and (self._savepoint is not None or label == 0)
        timer = pointer.progress.get("timer")
        # In a chain each bucket works in each batch, to know the close time of the batch before in the next one.
        wanted = timer == fired if fired is not None else begins or self._closing.chained
        if not (blobs or wanted):
            # A timer that a later one has replaced, or a call that only wakes buckets to begin, or to be checked.
            stored_change(self._program, pointer.progress, self._config.evolution)
            return
        operator = open_copy(self._program, self._config, pointer.store_id)
        try:
            pointer = operator.open(self._journal, pointer)
            first = self._begun(operator, label) if begins else []
            outcome = self._step(operator, pointer, blobs, watermark, fired, batch)
        except BaseException:
            drop_copy(self._config, pointer.store_id)
            raise
        outcome.metrics["windows"] += sum(table.num_rows for table in first)
        told = self._name, self._labels.index(label), batch, line(outcome.metrics)
        _LOG.info("operator=%s bucket=%d batch=%s %s", *told)
        rows = self._program.joined(pa.concat_tables([*first, outcome.rows]), outcome.late)
        yield from self._results(label, rows, outcome.metrics)

    def _results(self, label: int, rows: pa.Table, metrics: dict[str, int]) -> Iterator[pd.DataFrame]:
        """The result blobs; the metrics stand beside the first."""
        tables = [rows.slice(at, _ROWS_PER_BLOB) for at in range(0, rows.num_rows, _ROWS_PER_BLOB)]
        for table in tables or [None]:
            counts = [metrics.get(name, 0) for name in self._metrics]
            values = (label, *counts, None if table is None else to_blob(table))
            yield pd.DataFrame([values], columns=["bucket", *self._metrics, "blob"])
            metrics = {}

    def _begun(self, operator: StatefulOperator, label: int) -> list[pa.Table]:
        """Start from the savepoint; return the rows that fell due on the way."""
        if self._savepoint is None:
            return []
        return [operator.start_from(self._savepoint, self._labels.index(label), len(self._labels))]

    def _step(
        self,
        operator: StatefulOperator,
        pointer: Pointer,
        blobs: list[bytes],
        watermark: int,
        fired: int | None,
        batch: int | None,
    ) -> Outcome:
        tables = from_blobs(blobs) or [self._program.empty()]
        return operator.run(
            tables,
            self._closing.closes(watermark, self._program.tick_us),
            self._journal,
            pointer,
            lambda: {
                "buckets": len(self._labels),
                "timer": self._set_timer(operator, pointer.progress.get("timer"), watermark + 1, fired),
            },
            batch,
        )

    def _set_timer(
        self, operator: StatefulOperator, old: int | None, new: int, fired: int | None
    ) -> int | None:
        """Have the next move of the watermark call this bucket as long as it has state; return the timer."""
        wanted = None if operator.store.is_empty() else new
        if old is not None and old not in (wanted, fired):
            self._handle.deleteTimer(old)
        if wanted is not None and (wanted != old or fired is not None):
            self._handle.registerTimer(wanted)
        return wanted
