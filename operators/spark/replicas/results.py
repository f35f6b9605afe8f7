"""Rows of a bucket on their way from the process that has its copy to the worker that makes rows of Spark of them.

A row of Spark with all of them goes through two sockets, two workers and Java, and is copied some fifteen times. So where both
processes see the same files, the rows are in one, and what goes through Spark is its name. That they do is not assumed: the
worker that reads has left a sign in the directory of local state, by the executor that it belongs to.
"""

import hashlib
import logging
import os
import re
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from operators.spark.base.logs import warn_once
from operators.spark.base.private_files import check_owner, read_small, write_small
from operators.spark.base.workers import prepare_worker
from operators.spark.inputs.blobs import to_batches, to_blobs
from operators.spark.inputs.spool import Spool
from operators.spark.replicas.local_files import ROWS, is_rows_file, rows_files, sweep
from operators.spark.replicas.parents import Parent, parent
from state_backends import StateConfig, StateError
from state_backends.durability.scratch import MARKER

LEAST_BYTES = 1 << 20
"""Bytes of a table from which on it goes into a file. Those of a smaller one are copied in less time than a file takes."""
_NAMED = b"\0rows in the file "
"""How a blob begins that names a file. One of rows begins with bytes of 255, as Arrow has it."""
_CONTENT = struct.Struct(">QI")
"""What follows: the file's bytes, and their CRC-32. Then comes its path."""
_READ_BYTES = 1 << 20
_SIGN = "reads-{}"
_SIGNS = re.compile(_SIGN.format("[0-9a-f]{16}(-[0-9a-f]{16})?"))
"""Names of signs, and of those whose writer was killed."""
_UNREAD_S = 3_600.0
"""A sign that was not renewed for so long is one of an executor that has ended."""
_RENEWED_S = 600.0
"""How old a sign is when it is renewed, and the directory swept, also by workers that open no copy."""
_LOG = logging.getLogger(__name__)


class Results:
    """Collects rows of a call of a bucket.

    Args:
        config: the configuration of the local state.
        bucket_dir: the bucket's folder in its directory.
        in_files: whether the worker that makes rows of Spark of them reads files of that folder.
        batch: what is the same in all attempts at a batch, and in no other one. Files of other batches are removed: attempts
            that failed have left them.
    """

    def __init__(self, config: StateConfig, bucket_dir: Path, *, in_files: bool, batch: str = "") -> None:
        self._bucket_dir = bucket_dir
        self._in_files = in_files
        self._mark = _mark_of(batch)
        remove_unread(bucket_dir, batch)
        self.blobs = Spool(config.directory)
        """What goes through Spark, in order."""

    def add(self, table: pa.Table) -> None:
        """Add rows. Each table has a file of its own, or goes as blobs."""
        name = self._write(table) if self._in_files and table.nbytes >= LEAST_BYTES else None
        self.blobs.extend(to_blobs(table) if name is None else [name])

    def _write(self, table: pa.Table) -> bytes | None:
        """Write a file and return the blob that names it; None if it cannot be written."""
        path = self._bucket_dir / ROWS.format(self._mark + os.urandom(4).hex())
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                sink = _Checked(file)
                with pa.ipc.new_stream(pa.PythonFile(sink, "w"), table.schema) as writer:
                    for batch in to_batches(table):
                        writer.write_batch(batch)
        except OSError as error:
            path.unlink(missing_ok=True)
            warn_once(_LOG, "rows go through Spark, since the worker cannot write them to a file: %s", error)
            return None
        return _NAMED + _CONTENT.pack(sink.size, sink.check) + bytes(path)


class _Checked:
    """A file that is written, and the number and the CRC-32 of the bytes that were meant for it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = self.check = 0
        self.closed = False

    def write(self, data: pa.Buffer | bytes) -> int:
        """Write to the end of the file."""
        self.check = zlib.crc32(data, self.check)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Write what is held back."""
        self._file.flush()


@dataclass(frozen=True)
class Unpack:
    """Makes rows of Spark of what goes through it.

    Attributes:
        schema: the rows' Arrow schema.
        config: the configuration of the local state.
    """

    schema: pa.Schema
    config: StateConfig

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each blob.

        Raises:
            StateError: a file is gone, cut or altered. The task has to run again.
        """
        prepare_worker()
        leave_sign(self.config.directory, parent())
        for batch in batches:
            for blob in batch.column("blob"):
                if blob.is_valid:
                    yield from self._rows(blob.as_buffer())

    def _rows(self, blob: pa.Buffer) -> Iterator[pa.RecordBatch]:
        if blob[: len(_NAMED)].to_pybytes() != _NAMED:
            yield from pa.ipc.open_stream(blob)
            return
        named = blob[len(_NAMED) :].to_pybytes()
        path = Path(os.fsdecode(named[_CONTENT.size :]))
        if not is_rows_file(path) or path.parent.parent != self.config.directory:
            raise StateError(f"rows are not read from {path}: it is not in {self.config.directory}")
        try:
            found = _content(path)
            source = pa.memory_map(str(path))
            path.unlink()
        except OSError as error:
            raise StateError(
                f"rows that a bucket wrote to {path} cannot be read: {error}. If somebody removes files there, set "
                "spark.windows.state.directory to a directory that is left alone"
            ) from error
        if found != (expected := _CONTENT.unpack_from(named)):
            raise StateError(
                f"rows that a bucket wrote to {path} were cut or altered: {found[0]} bytes with the checksum {found[1]:08x} "
                f"instead of {expected[0]} with {expected[1]:08x}. Spark runs the task again; if that happens often, replace "
                "the disk, or set spark.windows.state.directory to a directory on another one"
            )
        with source:
            yield from pa.ipc.open_stream(source)


def _content(path: Path) -> tuple[int, int]:
    """The number of a file's bytes and their CRC-32. Where they cannot be read, a mapped file would end the process."""
    size = check = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_READ_BYTES):
            size, check = size + len(piece), zlib.crc32(piece, check)
    return size, check


def remove_unread(bucket_dir: Path, batch: str) -> None:
    """Remove rows of a bucket's other batches, which attempts that failed have left; `batch` as for `Results`."""
    with suppress(OSError):
        for file in rows_files(bucket_dir):
            if not file.name.startswith(ROWS.format(_mark_of(batch))):
                file.unlink(missing_ok=True)


def _mark_of(batch: str) -> str:
    return hashlib.sha256(batch.encode()).hexdigest()[:8]


def leave_sign(directory: Path, executor: Parent) -> None:
    """Have others of this executor know that this worker sees the directory, if it is there yet; sweep it from time to time."""
    sign = directory / _SIGN.format(executor.key)
    with suppress(OSError):
        check_owner(directory)
        known = _is_sign(sign)
        if known and time.time() - sign.lstat().st_mtime < _RENEWED_S:
            return
        if known:
            os.utime(sign, follow_symlinks=False)
        for left in directory.iterdir():
            if _SIGNS.fullmatch(left.name) and _is_sign(left):
                _remove_old(left)
        if not known:
            write_small(sign, MARKER)
        sweep(directory)


def sees_files(directory: Path, executor: Parent) -> bool:
    """Whether workers of this executor that make rows of Spark see the directory, as far as is known."""
    return _is_sign(directory / _SIGN.format(executor.key))


def _is_sign(path: Path) -> bool:
    """Whether a file is a sign that this user's workers have left. A link is none."""
    try:
        return read_small(path) == MARKER
    except OSError:
        return False


def _remove_old(file: Path) -> None:
    with suppress(OSError):
        if file.lstat().st_mtime < time.time() - _UNREAD_S:
            file.unlink()
