"""What Spark's own files in a checkpoint say about its query."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serializers import CorruptDataError
from serializers.shapes import instance, int64, refusing
from state_backends.checkpoints.metadata import NoBatchError
from state_backends.checkpoints.spark_files import damaged_file
from state_backends.durability.folders import Folder
from state_backends.errors import StateError


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A query as its checkpoint describes it.

    Attributes:
        id: Spark's for the query; None if the file that has it is missing.
        batch: number of the batch.
        planned_ms: when Spark planned the batch, in milliseconds since the epoch, or None.
        watermark_ms: the watermark after the batch, in milliseconds since the epoch, or None.
        conf: Spark's settings that the checkpoint fixes.
        sources: where each source stood after the batch.
    """

    id: str | None
    batch: int
    planned_ms: int | None
    watermark_ms: int | None
    conf: dict[str, str]
    sources: list[Any]


def stored_query(checkpoint: str, batch: int | None = None) -> StoredQuery:
    """Return the query of a checkpoint.

    Args:
        checkpoint: the folder, absolute or a URI.
        batch: number of a batch; None for the last committed one.

    Raises:
        NoBatchError: no batch was committed.
        StateError: the storage fails.
        CorruptDataError: one of the files is damaged.
    """
    folder = Folder(checkpoint)
    batch = _last_batch(folder) if batch is None else batch
    try:
        return _described(folder, checkpoint, batch)
    except CorruptDataError as error:
        if (damaged := damaged_file(checkpoint)) is None:
            raise
        raise CorruptDataError(damaged) from error


def _described(folder: Folder, checkpoint: str, batch: int) -> StoredQuery:
    with refusing(f"the description of batch {batch} in {checkpoint}"):
        commit = _lines(folder, f"commits/{batch}")[1:]
        offsets = _lines(folder, f"offsets/{batch}")
        planned = instance(dict, json.loads(offsets[1])) if len(offsets) > 1 else {}
        committed = instance(dict, json.loads(commit[0])) if commit else {}
        described = instance(dict, json.loads("".join(_lines(folder, "metadata")) or "{}"))
        return StoredQuery(
            None if described.get("id") is None else instance(str, described["id"]),
            batch,
            _number(planned.get("batchTimestampMs")),
            _number(committed.get("nextBatchWatermarkMs")),
            instance(dict, planned.get("conf", {})),
            [json.loads(line) if line.startswith(("{", "[")) else line for line in offsets[2:]],
        )


def last_batch(checkpoint: str) -> int | None:
    """Return the number of the last committed batch of a checkpoint; None if there is none, or if it cannot be read."""
    try:
        return _last_batch(Folder(checkpoint))
    except StateError:
        return None


def _number(value: Any) -> int | None:
    return None if value is None else int64(value)


def _last_batch(folder: Folder) -> int:
    names = [Path(name).name for name, *_ in folder.list("commits")]
    done = [int(name) for name in names if name.isdecimal()]
    if not done:
        raise NoBatchError(
            f"the state in {folder.shown} cannot be read: no batch was committed. Give the checkpoint folder of a query that "
            "has run"
        )
    return max(done)


def _lines(folder: Folder, name: str) -> list[str]:
    return (folder.read(name) or b"").decode().splitlines()
