"""A JSON object on a line for each batch."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from operators.monitoring.batch import OperatorBatch
from operators.monitoring.output import BatchOutput


class JsonLinesOutput(BatchOutput):
    """Writes a JSON object for each operator and batch, one to a line.

    Args:
        target: path of a file, to which lines are appended, or a function that receives each line without its end. The
            file is opened for each line, so that it can be moved away at any time.
    """

    def __init__(self, target: str | Path | Callable[[str], object]) -> None:
        self._target = target

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({self._target!r})"

    def report(self, batch: OperatorBatch) -> None:
        """Write the line of the batch."""
        line = json.dumps(_plain(batch), allow_nan=False)
        if callable(self._target):
            self._target(line)
            return
        with Path(self._target).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def _plain(batch: OperatorBatch) -> dict[str, Any]:
    return {
        "started": batch.started.isoformat(timespec="milliseconds"),
        "query": batch.query.name,
        "query_id": batch.query.query_id,
        "run_id": batch.query.run_id,
        "operator": batch.operator,
        "batch": batch.number,
        "seconds": batch.seconds,
        "in": dict(batch.counts_in),
        "out": dict(batch.counts_out),
        "whole_state": batch.whole_state,
        "late_share": batch.late_share,
        "bytes_per_key": batch.bytes_per_key,
        "row_skew": batch.row_skew,
        "time_skew": batch.time_skew,
        "watermark": None if batch.watermark is None else batch.watermark.isoformat(timespec="milliseconds"),
        "watermark_lag_seconds": batch.watermark_lag,
        "lag": {f"{topic}-{partition}": value for (topic, partition), value in batch.lag.items()},
    }
