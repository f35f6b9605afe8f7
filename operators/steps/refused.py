"""Records that aggregates leave out, because their functions cannot take them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints
from operators.columns.records import Records

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refused:
    """Records that aggregates leave out: a record once for each operation that cannot take it.

    Attributes:
        row: shape (n,), int64: their positions in the batch.
        reasons: n texts: which function raised what.
    """

    row: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    reasons: pa.Array = field(default_factory=lambda: pa.nulls(0, pa.string()))

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def by(cls, operations: Sequence[Operation], records: Records) -> "Refused":
        """Return the records of a batch that operations leave out, in order of arrival, and warn of them."""
        found = [each for op in operations for each in op.base_operation.refused(records).items()]
        if not found:
            return cls()
        found.sort(key=lambda each: each[0])
        _LOG.warning("%d records cannot be added and were skipped; the first: %s", len(found), found[0][1])
        rows, reasons = zip(*found, strict=True)
        return cls(np.array(rows, np.int64), pa.array(reasons, pa.string()))
