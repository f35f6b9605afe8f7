"""Requests to forget keys, as the buckets of a streaming query find and apply them."""

import logging
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from operators.spark.base.logs import warn_once
from serializers import SerializationError
from serializers.keys import bucket_of
from state_backends import StateError
from state_backends.durability.request_folder import (
    RequestFile,
    RequestFolder,
    RequestReader,
    operator_hash,
)

_LOG = logging.getLogger(__name__)
_UNREADABLE = "requests to forget keys are not applied for now: %s"
_listed: dict[str, tuple[int, list[RequestFile]]] = {}
"""By folder the requests that there were when a batch first looked in this process, and the clock of that batch."""
_noted: dict[str, set[str]] = {}
"""By folder what buckets have noted, as far as this process knows."""
_announced: set[tuple[str, str]] = set()
_folder = lru_cache(maxsize=16)(RequestFolder)


@dataclass(frozen=True)
class Requests:
    """The requests that the buckets of an operator look for.

    While the folder cannot be read, requests wait, and the query goes on.

    Attributes:
        folder: URI of the folder.
        reader: the operator.
        labels: of all buckets, in their order.
    """

    folder: str
    reader: RequestReader
    labels: tuple[int, ...]

    @classmethod
    def of(cls, folder: str | None, name: str, keys: pa.Schema, labels: tuple[int, ...]) -> "Requests | None":
        """Return those of an operator of this name with these key columns; None without a folder."""
        return None if folder is None else cls(folder, RequestReader(name, keys, len(labels)), labels)

    def announce(self) -> None:
        """Say in the folder that this operator looks for requests, once in each process."""
        if (self.folder, self.reader.name) in _announced:
            return
        try:
            _folder(self.folder).announce(self.reader)
            _announced.add((self.folder, self.reader.name))
        except StateError as error:
            warn_once(_LOG, "keys to forget cannot be named while the query runs: %s", error)

    def due(self, forgotten: int, now_ms: int) -> list[RequestFile]:
        """Return the requests that a batch applies, in their order.

        Args:
            forgotten: number of the last one that was applied.
            now_ms: the clock of the batch, in milliseconds since the epoch.
        """
        return [file for file in self._files(now_ms) if forgotten < file.number <= now_ms]

    def _files(self, now_ms: int) -> list[RequestFile]:
        known = _listed.get(self.folder)
        if known is None or known[0] != now_ms:
            try:
                files = _folder(self.folder).files()
            except StateError as error:
                warn_once(_LOG, _UNREADABLE, error)
                files = []
            known = _listed[self.folder] = now_ms, files
        own = operator_hash(self.reader.name)
        return [file for file in known[1] if file.operator == own]

    def keys(self, forgotten: int, now_ms: int, label: int) -> tuple[int, list[bytes]]:
        """Return the number of the last request that a batch applies, and the keys of all of them that a bucket has.

        Args:
            forgotten, now_ms: as for `due`.
            label: of the bucket.
        """
        folder, found = _folder(self.folder), dict[bytes, None]()
        for file in self.due(forgotten, now_ms):
            try:
                keys = folder.read(file).keys
            except (StateError, SerializationError) as error:
                warn_once(_LOG, _UNREADABLE, error)
                break
            forgotten = file.number
            if keys is None:
                _LOG.warning(
                    "request %d to forget keys was applied by all buckets before, and has no keys any more. If the query went "
                    "back to an earlier batch or savepoint, make the request again",
                    file.number,
                )
            mine = (key for key in keys or () if self.labels[bucket_of(key, len(self.labels))] == label)
            found.update(dict.fromkeys(mine))
        return forgotten, list(found)

    def note(self, forgotten: int, now_ms: int, label: int) -> None:
        """Note in the folder which requests the committed state of a bucket has applied.

        Args:
            forgotten: number of the last one.
            now_ms: the clock of the batch, in milliseconds since the epoch.
            label: of the bucket.
        """
        done = [file for file in self._files(now_ms) if file.number <= forgotten] if forgotten else []
        if not done:
            return
        try:
            folder = _folder(self.folder)
            if self.folder not in _noted:
                _noted[self.folder] = folder.notes()
            for file in done:
                if file.note_of(label) not in _noted[self.folder]:
                    folder.note(file, label, len(self.labels))
                    _noted[self.folder].add(file.note_of(label))
        except (StateError, SerializationError) as error:
            warn_once(_LOG, "that keys were forgotten cannot be noted: %s", error)
