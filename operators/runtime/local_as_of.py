"""The local runner of an as-of join."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType

import pyarrow as pa

from operators.aggregates.sides import Side
from operators.errors import DefinitionError
from operators.runtime.keys_to_forget import Keys
from operators.runtime.local import NO_BATCH, LocalRunner
from operators.runtime.local_cogroup import CoGroupedRunner
from state_backends import StateError


class AsOfRunner:
    """The local runner of rolling windows as of labels. Use it as a context manager.

    Stream time is the lower one of the labels' and the records' highest times, as on Spark.

    Args:
        made: returns labels and records as frames, and the runner of both as one, for these columns of the labels.
        keys: the key columns, which both have.
        times: the columns of times, by frame.
    """

    def __init__(
        self,
        create: Callable[[Sequence[str]], tuple[Sequence[Side], LocalRunner]],
        keys: Sequence[str],
        times: Mapping[str, str],
    ) -> None:
        self._create = create
        self._keys = keys
        self._times = times
        self.frames: CoGroupedRunner | None = None
        """The runner of labels and records as two frames; None before the first batch."""

    def __enter__(self) -> "AsOfRunner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.frames is not None:
            self.frames.runner.close()

    def process(
        self,
        labels: pa.Table | None = None,
        records: pa.Table | None = None,
        stream_time: int | datetime | None = None,
    ) -> pa.Table:
        """Process one batch of labels and records, either of which may be left out after the first batch.

        Args:
            labels, records: tables.
            stream_time: stream time after this batch, as for `LocalRunner.process`.

        Returns:
            the labels whose time is closed, each with its aggregates.

        Raises:
            DefinitionError: a table or a column is missing, or types differ.
        """
        if self.frames is None:
            if labels is None:
                raise DefinitionError(
                    "the first batch needs labels, if only a table without rows: its columns come out"
                )
            sides, runner = self._create(labels.schema.names)
            self.frames = CoGroupedRunner(sides, self._keys, self._times, runner)
        tables = {"labels": labels, "records": records}
        return self.frames.process(
            {name: table for name, table in tables.items() if table is not None}, stream_time
        )

    def forget(self, keys: Keys) -> pa.Table:
        """Delete what is stored of keys: their records, and their labels that wait, whose rows then never come out.

        Args:
            keys: rows of the key columns: a table, or a dictionary for each row.

        Returns:
            labels of other keys whose time is closed, of which there are none: batches have returned them.

        Raises:
            DefinitionError: the keys are not the operator's; says why.
            StateError: no batch was processed yet.
        """
        if self.frames is None:
            raise StateError(NO_BATCH)
        return self.frames.forget(keys)
