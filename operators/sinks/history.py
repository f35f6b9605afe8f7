"""What has been written so far, as a bounded frame, and what comes after it, as a stream."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class HistoryAndStream:
    """A table or topics, cut at a version.

    Attributes:
        history: a bounded frame: what was there at the version.
        stream: a stream of what was appended after it.
        version: Delta's version, the id of Iceberg's snapshot, or the offsets of the topics' partitions, as JSON.
    """

    history: "DataFrame"
    stream: "DataFrame"
    version: int | str
