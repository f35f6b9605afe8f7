"""Requests to forget keys, as the buckets of a streaming query find and apply them."""

import logging
from dataclasses import dataclass, replace
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
_TAKEN = (
    "an operator named {name!r} of another checkpoint looks for requests to forget keys in the folder {folder}: one of the two "
    "would keep keys that the other one has forgotten. Set state.forget.folder to another folder, or give apply another name. "
    "If the other query has ended for good, delete the file {file}, and make requests again that are not done"
)
_listed: dict[str, tuple[int, list[RequestFile]]] = {}
"""By folder the requests that there were when a batch first looked in this process, and the clock of that batch."""
_noted: dict[str, set[str]] = {}
"""By folder what buckets have noted, as far as this process knows."""
_folder = lru_cache(maxsize=16)(RequestFolder)


@dataclass(frozen=True)
class Requests:
    """The requests that the buckets of an operator look for.

    While the folder cannot be read, requests wait, and the query goes on.

    Attributes:
        folder: URI of the folder.
        reader: the operator.
        labels: the labels of all buckets, in their order.
    """

    folder: str
    reader: RequestReader
    labels: tuple[int, ...]

    @classmethod
    def of(cls, folder: str | None, name: str, keys: pa.Schema, labels: tuple[int, ...]) -> "Requests | None":
        """Return those of an operator of this name with these key columns; None without a folder."""
        return None if folder is None else cls(folder, RequestReader(name, keys, len(labels)), labels)

    def announce(self, state: str = "") -> None:
        """Say in the folder that this operator looks for requests.

        Args:
            state: id of the query's checkpoint.

        Raises:
            StateError: an operator of this name, of another checkpoint, does.
        """
        try:
            taken = _folder(self.folder).announce(replace(self.reader, state=state))
        except (StateError, SerializationError) as error:
            warn_once(_LOG, "requests to forget keys cannot be read while the query runs: %s", error)
            return
        if taken is not None:
            raise StateError(
                _TAKEN.format(name=self.reader.name, folder=_folder(self.folder).shown, file=taken)
            )

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

        A request without keys that can be read is passed, and never counts as applied.

        Args:
            forgotten, now_ms: as for `due`.
            label: the label of the bucket.
        """
        folder, found = _folder(self.folder), dict[bytes, None]()
        for file in self.due(forgotten, now_ms):
            try:
                keys = _keys_of(folder, file)
                if keys is None:
                    folder.miss(file, label)
            except StateError as error:
                warn_once(_LOG, _UNREADABLE, error)
                break
            forgotten = file.number
            mine = (key for key in keys or () if self.labels[bucket_of(key, len(self.labels))] == label)
            found.update(dict.fromkeys(mine))
        return forgotten, list(found)

    def note(self, forgotten: int, now_ms: int, label: int, state: str = "") -> None:
        """Note in the folder which requests the committed state of a bucket has applied.

        The last bucket takes the keys out of a request. If its worker is killed before, the bucket of label 0 does in a later
        batch.

        Args:
            forgotten: number of the last one.
            now_ms: the clock of the batch, in milliseconds since the epoch.
            label: the label of the bucket.
            state: id of the query's checkpoint.
        """
        files = self._files(now_ms) if forgotten else []
        done = [file for file in files if file.number <= forgotten and file.has_keys]
        if not done:
            return
        reader = replace(self.reader, state=state)
        try:
            folder = _folder(self.folder)
            if self.folder not in _noted:
                _noted[self.folder] = folder.notes()
            for file in done:
                if file.note_of(label, state) not in _noted[self.folder]:
                    folder.note(file, label, reader)
                    _noted[self.folder].add(file.note_of(label, state))
                elif label == 0:
                    folder.finish(file, reader)
        except (StateError, SerializationError) as error:
            warn_once(_LOG, "the report that keys were forgotten cannot be written: %s", error)


def _keys_of(folder: RequestFolder, file: RequestFile) -> tuple[bytes, ...] | None:
    """The keys of a request; None if it has none any more, or is damaged."""
    try:
        keys = folder.read(file).keys
    except SerializationError as error:
        _LOG.warning("the query skips request %d to forget keys: make it again. %s", file.number, error)
        return None
    if keys is None:
        _LOG.warning(
            "request %d to forget keys was applied by all buckets before, and has no keys any more. If the query went "
            "back to an earlier batch or savepoint, make the request again",
            file.number,
        )
    return keys
