"""The journal of a bucket in Spark's state."""

from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from state_backends.errors import CHECKPOINT_CHANGED, StateError
from state_backends.journal import Blob, blob_bytes

_PART_BYTES = 4 << 20
_KEY = StructType().add("name", StringType()).add("part", IntegerType())
_VALUE = StructType().add("parts", IntegerType()).add("blob", BinaryType())
"""The columns of the map. As text, each would be sent to Java to be parsed, twice in each task."""


class SparkJournal:
    """A journal in a MapState of the bucket, committed by Spark with the micro-batch. Blobs are cut into parts."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._map = handle.getMapState("journal", _KEY, _VALUE)
        self._parts: dict[str, int] = {}
        """Number of parts of the blobs that were read or written. A blob that is replaced was read before."""

    def get(self, name: str) -> bytes | None:
        """Return the blob, or None."""
        first = self._map.getValue((name, 0))
        if first is None:
            return None
        self._parts[name] = first[0]
        rest = [self._map.getValue((name, part)) for part in range(1, first[0])]
        if None in rest:
            raise StateError(f"the blob {name!r} in Spark's state is incomplete: {CHECKPOINT_CHANGED}")
        return b"".join([bytes(first[1]), *(bytes(part[1]) for part in rest if part is not None)])

    def put(self, name: str, blob: Blob) -> None:
        """Write the blob, over an earlier one of that name."""
        data = blob_bytes(blob)
        pieces = [data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES)] or [b""]
        before = self._parts.get(name, 1)
        for part, piece in enumerate(pieces):
            self._map.updateValue((name, part), (len(pieces), piece))
        for part in range(len(pieces), before):
            self._map.removeKey((name, part))
        self._parts[name] = len(pieces)

    def remove(self, name: str) -> None:
        """Remove the blob if it is there. Its bytes are not read for that."""
        part = 0
        while part == 0 or self._map.containsKey((name, part)):
            self._map.removeKey((name, part))
            part += 1
        self._parts.pop(name, None)

    def commit(self) -> None:
        """Leave it to Spark, which commits with the micro-batch."""

    def rollback(self) -> None:
        """Leave it to Spark, which drops what a failed attempt wrote."""
