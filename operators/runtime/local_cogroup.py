"""The local runner of several frames in one window."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType

import pyarrow as pa

from operators.aggregates.sides import (
    EVENT_TIME,
    Side,
    check_by_name,
    check_side_columns,
    check_types,
    event_times,
)
from operators.columns.arrow import plain_type
from operators.columns.checks import check_event_time
from operators.runtime.keys_to_forget import Keys
from operators.runtime.local import LocalRunner
from operators.steps.step import Counters


class CoGroupedRunner:
    """The local runner of several frames. Use it as a context manager.

    Args:
        sides: the frames with their aggregates.
        shared: the columns that every frame has: the keys, and each record's gap if there is one.
        event_time: name of the event-time column, of all frames or by frame.
        runner: the runner of the frames as one.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        shared: Sequence[str],
        event_time: str | Mapping[str, str],
        runner: LocalRunner,
    ) -> None:
        self._sides = sides
        self._shared = shared
        self._event_time = event_time
        self._schemas: dict[str, pa.Schema] = {}
        self.runner = runner
        """The runner of the frames as one: its counters, its store, `restart`, `close`."""

    def __enter__(self) -> "CoGroupedRunner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runner.close()

    @property
    def counters(self) -> Counters:
        """Rows, late and bad rows, and windows since the runner was made."""
        return self.runner.counters

    def process(self, tables: Mapping[str, pa.Table], stream_time: int | datetime | None = None) -> pa.Table:
        """Process one batch of tables by frame and return the rows to emit; a frame that had a table before may be left out.

        Raises:
            DefinitionError: a frame or a column is missing, or types differ.
        """
        check_by_name(self._sides, tables)
        self._schemas.update({name: table.schema for name, table in tables.items()})
        times = event_times(self._sides, self._schemas, self._event_time)
        batch = {name: tables.get(name, schema.empty_table()) for name, schema in self._schemas.items()}
        return self.runner.process(self._unite(batch, times), stream_time)

    def forget(self, keys: Keys) -> pa.Table:
        """Delete what is stored of keys, of all frames, and return rows that retract open windows: see `LocalRunner.forget`.

        Args:
            keys: rows of the key columns, which all frames have: a table, or a dictionary for each row.

        Raises:
            DefinitionError: the keys are not the operator's; says why.
            StateError: no batch was processed yet.
        """
        return self.runner.forget(keys)

    def _unite(self, tables: Mapping[str, pa.Table], times: Mapping[str, str]) -> pa.Table:
        parts = [self._part(side, tables, times[side.name]) for side in self._sides]
        types = [dict(zip(part.schema.names, part.schema.types, strict=True)) for part in parts]
        check_types([side.name for side in self._sides], types, times)
        return pa.concat_tables(parts)

    def _part(self, of: Side, tables: Mapping[str, pa.Table], time: str) -> pa.Table:
        """One frame's rows, with the columns of all frames."""
        table = tables[of.name]
        check_side_columns(of, table.schema.names, [*self._shared, time])
        check_event_time(plain_type(table.schema.field(time).type), time, of.name)
        columns = {name: table.column(name) for name in self._shared}
        columns[EVENT_TIME] = table.column(time)
        for side in self._sides:
            check_side_columns(side, tables[side.name].schema.names, side.columns)
            for name in side.columns:
                type_ = tables[side.name].schema.field(name).type
                rows = table.column(name) if side is of else pa.nulls(table.num_rows, type_)
                columns[side.joint(name)] = rows
            columns[side.marker] = pa.array([True if side is of else None] * table.num_rows, pa.bool_())
        return pa.table(columns)
