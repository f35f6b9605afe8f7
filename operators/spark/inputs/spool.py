"""Blobs of one call, in memory while they are few, and else in a file that only this process has.

The file is mapped: what is read of it is in memory as long as the system has room for it, and only once.
"""

import mmap
import os
import tempfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import pyarrow as pa

from operators.spark.base.private_files import state_folder
from state_backends import StateError

IN_MEMORY_BYTES = 128 << 20
"""Bytes of the blobs of a call up to which they stay in memory."""


class Spool(Sequence[bytes]):
    """Blobs in the order in which they were added, or that they were put into.

    Args:
        folder: the directory of local state, for the file. It is made if it is needed.
        most_bytes: that stay in memory.
    """

    def __init__(self, folder: Path, most_bytes: int | None = None) -> None:
        self._folder = folder
        self._most_bytes = IN_MEMORY_BYTES if most_bytes is None else most_bytes
        self._blobs: list[bytes] = []
        self._spans: list[tuple[int, int]] = []
        self._checks: list[int] = []
        """The CRC-32 of each blob of the file."""
        self._size = 0
        self._file: int | None = None
        self._map: mmap.mmap | None = None

    @property
    def size(self) -> int:
        """Bytes of all blobs."""
        return self._size

    @property
    def on_disk(self) -> bool:
        """Whether the blobs are in a file."""
        return self._file is not None

    def extend(self, blobs: Iterable[bytes]) -> None:
        """Add blobs.

        Raises:
            OSError: the file cannot be written; it names the folder.
        """
        for blob in blobs:
            self._blobs.append(blob)
            self._spans.append((self._size, self._size + len(blob)))
            self._size += len(blob)
            if self.on_disk or self.size > self._most_bytes:
                self._write()

    def _write(self) -> None:
        """Move what is in memory to the end of the file."""
        try:
            if self._file is None:
                self._file = self._new_file()
            for blob in self._blobs:
                self._checks.append(zlib.crc32(blob))
                rest = memoryview(blob)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror}: a batch of more than {self._most_bytes >> 20} MiB in one bucket is kept in a file while "
                "it is worked on. Make room, or have another folder in spark.windows.state.directory",
                str(self._folder),
            ) from error
        self._blobs.clear()

    def _new_file(self) -> int:
        """The descriptor of a file without a name.

        Raises:
            PermissionError: the folder is another user's.
        """
        with tempfile.TemporaryFile(dir=state_folder(self._folder)) as file:
            return os.dup(file.fileno())

    def reorder(self, order: Sequence[int]) -> None:
        """Put all blobs into another order, by their positions now. Nothing can be added afterwards."""
        self._spans = [self._spans[n] for n in order]
        if self._file is None:
            self._blobs = [self._blobs[n] for n in order]
        else:
            self._checks = [self._checks[n] for n in order]

    def map_blobs(self) -> list[pa.Buffer]:
        """Return all blobs; those of a file as parts of it, without a copy. They stay when the spool is closed.

        Cost: O(bytes) for the checksums of a file.

        Raises:
            StateError: the file was cut or altered, or cannot be read, which would end a process that has mapped it.
        """
        if self._file is None:
            return list(map(pa.py_buffer, self._blobs))
        deque(self, maxlen=0)
        self._map = mmap.mmap(self._file, self.size, access=mmap.ACCESS_READ)
        whole = pa.py_buffer(self._map)
        return [whole.slice(a, b - a) for a, b in self._spans]

    def unload(self) -> None:
        """Let go of what was read of the mapped file, which counts as memory of the process; it can be read again."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def __iter__(self) -> Iterator[bytes]:
        """Read one blob after another."""
        return map(self.__getitem__, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        """Read a blob.

        Raises:
            StateError: its file was cut or altered, or cannot be read.
        """
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        if self._file is None:
            return self._blobs[number]
        begin, end = self._spans[number]
        pieces = []
        while begin < end:
            try:
                piece = os.pread(self._file, end - begin, begin)
            except OSError as error:
                raise self._unreadable(f"cannot be read: {error}") from error
            if not piece:
                raise self._unreadable("was cut")
            pieces.append(piece)
            begin += len(piece)
        blob = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if zlib.crc32(blob) != self._checks[number]:
            raise self._unreadable("was altered")
        return blob

    def _unreadable(self, why: str) -> StateError:
        return StateError(
            f"a file of rows in {self._folder} {why}. Spark runs the task again; if that happens often, replace the disk, or "
            "set spark.windows.state.directory to a directory on another one"
        )

    def __len__(self) -> int:
        return len(self._spans)

    def close(self) -> None:
        """Give the file back. The disk's room is free once nothing is mapped any more."""
        if self._file is not None:
            os.close(self._file)
            self._file = self._map = None
        self._blobs.clear()
        self._spans.clear()
        self._checks.clear()
        self._size = 0

    def __del__(self) -> None:
        self.close()
