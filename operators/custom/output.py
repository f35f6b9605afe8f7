"""The rows of a custom operator, in the declared types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.definitions import Bound
from operators.columns.arrow import arrow_column, to_unit
from operators.columns.python_values import arrow_values
from operators.columns.records import event_ticks
from operators.custom.contract import OutputRows
from operators.errors import OperatorError
from operators.steps.emission import key_columns


@dataclass(frozen=True)
class CustomOutput:
    """The rows of a custom operator: key columns, then the declared results.

    Attributes:
        keys: names and Arrow types of the key columns.
        results: names and Arrow types of the results.
        tick_us: length of a tick in microseconds.
        operator: name of the operator, for error messages.
        event_time: the result that is the rows' event time, or None.
    """

    keys: tuple[tuple[str, pa.DataType], ...]
    results: tuple[tuple[str, pa.DataType], ...]
    tick_us: int
    operator: str
    event_time: str | None = None
    aggregates: ClassVar[tuple[tuple[str, Bound], ...]] = ()
    result_names: ClassVar[Sequence[Sequence[str]]] = ()
    bounds_type: ClassVar[pa.DataType | None] = None
    may_change: ClassVar[bool | None] = None
    emission: ClassVar[str | None] = None

    def counting_since(self, since: Mapping[str, int]) -> "CustomOutput":
        """Return the output itself: no part of its state is added later."""
        del since
        return self

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of a result."""
        return pa.schema([*self.keys, *self.results])

    def table(self, emitted: Sequence[OutputRows], sequence: int = 0) -> pa.Table:
        """Return emitted rows as a table.

        Raises:
            OperatorError: a result does not have the declared type.
        """
        tables = [self._table(rows) for rows in emitted if len(rows.key)]
        return pa.concat_tables(tables) if tables else self.arrow.empty_table()

    def _table(self, rows: OutputRows) -> pa.Table:
        columns = key_columns(rows.keys, rows.key, [type_ for _, type_ in self.keys])
        for (name, type_), values in zip(self.results, rows.columns, strict=True):
            columns.append(self._typed(name, values, type_))
            if name == self.event_time:
                self._check_times(columns[-1], rows.since)
        return pa.Table.from_arrays(columns, schema=self.arrow)

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Refuse rows whose results do not have the declared types.

        Args:
            rows: mappings of result names to values.

        Raises:
            OperatorError: names the result.
        """
        for name, type_ in self.results:
            self._typed(name, [row.get(name) for row in rows], type_)

    def _typed(self, name: str, values: Any, type_: pa.DataType) -> pa.Array:
        try:
            return self._column(values, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise OperatorError(
                f"{self.operator}: result {name!r} does not have the declared type {type_}: {error}"
            ) from error

    def _check_times(self, times: pa.Array, since: int) -> None:
        """Refuse rows that would be late for the operators that follow."""
        found, _ = event_ticks(times.drop_null(), self.tick_us)
        if len(found) and int(found.min()) < since:
            raise OperatorError(
                f"{self.operator}: event time {self.event_time!r} is {found.min()} ticks, {since - found.min()} ticks too "
                "early for the operators that follow: declare a longer delay, or another event_time"
            )

    def _column(self, values: Any, type_: pa.DataType) -> pa.Array:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, pa.Array):
            return values.cast(type_)
        if not isinstance(values, np.ndarray):
            ticks = pat.is_timestamp(type_)
            return arrow_values([self._word(value, type_) for value in values] if ticks else values, type_)
        missing = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        plain = np.ma.getdata(values)
        if pat.is_timestamp(type_) and plain.dtype.kind in "iu":
            plain = to_unit(plain.astype(np.int64, copy=False), self.tick_us, type_.unit)
        return arrow_column(plain, type_, missing)

    def _word(self, value: Any, type_: pa.DataType) -> Any:
        """A tick in the unit of the type, as Arrow takes whole numbers; other values unchanged."""
        if not isinstance(value, int | np.integer):
            return value
        tick: Any = int(value)  # which cannot overflow unseen
        return to_unit(tick, self.tick_us, type_.unit)
