"""The first stage of a bounded frame in Spark's generated code, for operations that it computes exactly.

Spark's sum of doubles depends on the order of the rows, so doubles are cut into whole numbers before they are added: values of
the same 32 binades share a scale on which each is a whole number of three limbs. Values that no scale can hold (NaN,
infinities, the very large and the very small) are grouped by their value, and counted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import DataType, TimestampType

from operators.aggregates import exact
from operators.aggregates.operation import Operation, join_states
from operators.aggregates.operations import CountRows, CountValid, Extreme, Max, SumFloat, SumInt, SumLong
from operators.aggregates.state_words import listed
from operators.columns.ranges import State
from operators.columns.records import most_ticks, number_keys
from operators.runtime.binding import Binding
from operators.steps.partials import Partials
from serializers.keys import NO_COLUMNS, encode_keys
from state_backends import Entries

PANE = "pane"
_ROWS = "rows"
_BINADES = 32
_LIMB_BITS = 28
_SCALES = {0: -32, 1: 0, 2: 32, 3: -64}
"""The exponent at which the binades of a scale begin, by its number; the most common ones come first."""
_SPECIAL = 9
_Source = tuple[str, str | None]
"""A column, and the boolean column of its `where`, if it has one."""


@dataclass(frozen=True)
class EngineStage:
    """The first stage of a binding over panes of hopping windows.

    Attributes:
        binding: whose windows are `Hopping` ones over panes.
    """

    binding: Binding
    _floats: tuple[_Source, ...] = field(init=False)

    def __post_init__(self) -> None:
        sums = [op for op in self.binding.plan.operations if type(op) is SumFloat]
        distinct = dict.fromkeys((op.column or "", op.where) for op in sums if not self._whole(op))
        object.__setattr__(self, "_floats", tuple(distinct))

    @classmethod
    def of(cls, binding: Binding, df: DataFrame) -> "EngineStage | None":
        """Return the stage if Spark can do it for a frame of these columns, which have the binding's aliases as names."""
        schema = df.schema
        types = {name: schema[alias].dataType for name, alias in binding.inputs.aliases.items()}
        return cls(binding) if obstacle(binding, types) is None else None

    @property
    def keys(self) -> list[str]:
        """The key columns."""
        return [self.binding.inputs.aliases[name] for name in self.binding.inputs.group_by]

    def group(self, df: DataFrame) -> DataFrame:
        """Return a row for each key, pane, scale and special value."""
        df = df.select("*", self._pane().alias(PANE)).where(F.col(PANE).isNotNull())
        for number, source in enumerate(self._floats):
            df = _add_scaled(df, number, self._values(source))
        cuts = [f"{part}{n}" for n in range(len(self._floats)) for part in ("scale", "special")]
        aggregates = [F.count(F.lit(1)).alias(_ROWS)]
        for number in range(len(self._floats)):
            aggregates += [F.sum(f"limb{number}_{limb}").alias(f"limb{number}_{limb}") for limb in range(3)]
            aggregates.append(F.count(f"value{number}").alias(f"count{number}"))
        for number, operation in enumerate(self.binding.plan.operations):
            aggregates += self._aggregates(number, operation)
        return df.groupBy(*self.keys, PANE, *cuts).agg(*aggregates)

    def _pane(self) -> Column:
        """The start of each row's pane in microseconds; null where the event time cannot be used."""
        plan, tick_us = self.binding.plan, self.binding.tick_us
        assert plan.grid is not None  # noqa: S101 - `of` makes it for no other
        length, offset = plan.grid
        time = F.unix_micros(F.col(self.binding.inputs.aliases[self.binding.inputs.event_time]))
        most = most_ticks(pa.timestamp("us"), tick_us, plan.max_bound_offset)
        start = time - F.pmod(time - F.lit(offset * tick_us), F.lit(length * tick_us))
        return F.when((time < most * tick_us) & (time >= (1 - most) * tick_us), start)

    def _values(self, source: _Source) -> Column:
        column, where = source
        values = F.col(self.binding.inputs.aliases[column])
        return values if where is None else F.when(F.col(self.binding.inputs.aliases[where]), values)

    def _whole(self, operation: Operation) -> bool:
        return pat.is_integer(dict(self.binding.inputs.values)[operation.column or ""])

    def _aggregates(self, number: int, operation: Operation) -> list[Column]:
        """The columns of one operation, but for sums of doubles, whose columns are shared."""
        name = f"state{number}"
        if type(operation) is CountRows:
            counted = F.lit(1) if operation.where is None else F.when(self._where(operation), 1)
            return [F.count(counted).alias(name)]
        values = self._values((operation.column or "", operation.where))
        if type(operation) is CountValid:
            return [F.count(values).alias(name)]
        if isinstance(operation, Extreme):
            wide = values.cast("double" if operation.code == "f8" else "bigint")
            return [(F.max if type(operation) is Max else F.min)(wide).alias(name)]
        if type(operation) is SumFloat and not self._whole(operation):
            return []
        wide = values.cast("bigint")
        high, low = F.shiftright(wide, 32), wide.bitwiseAND(F.lit(0xFFFFFFFF))
        return [F.sum(high).alias(f"{name}_high"), F.sum(low).alias(f"{name}_low")]

    def _where(self, operation: Operation) -> Column:
        return F.col(self.binding.inputs.aliases[operation.where or ""])

    def read(self, table: pa.Table) -> Partials:
        """Return rows of `group` as panes, one for each key and start."""
        number, distinct = number_keys([table.column(name) for name in self.keys], table.num_rows)
        keys = encode_keys(distinct) if distinct else [NO_COLUMNS]
        time = table.column(PANE).to_numpy() // self.binding.tick_us
        states = [self._state(table, n, op) for n, op in enumerate(self.binding.plan.operations)]
        plan = self.binding.plan.two_stages
        assert plan is not None  # noqa: S101 - `of` makes it for no other
        entries = Entries(number, (time, *join_states(states)))
        return plan.reduce(Partials(keys, entries, table.column(_ROWS).to_numpy()))

    def _state(self, table: pa.Table, number: int, operation: Operation) -> State:
        name = f"state{number}"
        if type(operation) is SumFloat and not self._whole(operation):
            return self._float_sum(table, self._floats.index((operation.column or "", operation.where)))
        if isinstance(operation, SumInt | SumLong | SumFloat):
            high, low = _fill(table, f"{name}_high", 0), _fill(table, f"{name}_low", 0)
            return operation.of_halves(high, low)
        if isinstance(operation, Extreme):
            return (_fill(table, name, operation.nothing),)
        return (_fill(table, name, 0),)

    def _float_sum(self, table: pa.Table, number: int) -> State:
        with np.errstate(all="ignore"):
            scale = _fill(table, f"scale{number}", 0)
            exponent = np.zeros(len(scale), np.int64)
            for which, begins in _SCALES.items():
                exponent[scale == which] = begins
            total: exact.Pair = np.zeros(len(scale)), np.zeros(len(scale))
            for limb in range(3):
                high, low = exact.of_ints(_fill(table, f"limb{number}_{limb}", 0))
                shift = (2 - limb) * _LIMB_BITS + exponent - 52
                total = exact.add(total, (np.ldexp(high, shift), np.ldexp(low, shift)))
            special = np.flatnonzero(scale == _SPECIAL)
            if len(special):
                values = _fill(table, f"special{number}", 0.0)[special]
                counts = _fill(table, f"count{number}", 0)[special].astype(np.float64)
                for part, several in zip(total, exact.multiples(values, counts), strict=True):
                    part[special] = several
            return total


def obstacle(binding: Binding, types: Mapping[str, DataType]) -> str | None:
    """Return why Spark cannot do the first stage of a binding, as a part of a sentence; None if it can.

    Args:
        binding: bound to a bounded frame.
        types: the types of the frame's event time, by its name.
    """
    plan, columns = binding.plan, dict(binding.inputs.values)
    if plan.grid is None:
        return "Spark groups by panes of one length only: tumbling and hopping windows without a zone"
    if not isinstance(types[binding.inputs.event_time], TimestampType):
        return f"event time {binding.inputs.event_time!r} has no time zone"
    beyond = listed(op.describe() for op in plan.operations if not _done_by_spark(op, columns))
    return f"Spark cannot compute {beyond} exactly" if beyond else None


def _done_by_spark(operation: Operation, types: dict[str, pa.DataType]) -> bool:
    if type(operation) is CountRows or type(operation) is CountValid:
        return True
    type_ = types.get(operation.column or "")
    number = type_ is not None and (pat.is_integer(type_) or pat.is_float32(type_) or pat.is_float64(type_))
    return number and isinstance(operation, SumInt | SumLong | SumFloat | Extreme)


def _add_scaled(df: DataFrame, number: int, values: Column) -> DataFrame:
    """Add the columns for one column of doubles: its scale, its limbs on that scale, and the values that no scale holds."""
    value, scale = F.col(f"value{number}"), F.col(f"scale{number}")
    df = df.select("*", values.cast("double").alias(f"value{number}"))
    df = df.select("*", _scale(value).alias(f"scale{number}"))
    factor = F.when(scale == 0, 2.0 ** (52 - _SCALES[0]))
    for which, begins in list(_SCALES.items())[1:]:
        factor = factor.when(scale == which, 2.0 ** (52 - begins))
    special = F.when(scale == _SPECIAL, value).alias(f"special{number}")
    df = df.select("*", (value * factor).alias(f"whole{number}"), special)
    rest = F.col(f"whole{number}")
    limbs = list(_limbs(rest))
    return df.select("*", *(limb.alias(f"limb{number}_{n}") for n, limb in enumerate(limbs)))


def _scale(value: Column) -> Column:
    size = F.abs(value)

    def holds(begins: int) -> Column:
        return (size >= 2.0**begins) & (size < 2.0 ** (begins + _BINADES))

    found = F.when(value.isNull() | (size == 0.0), 0)
    for which, begins in _SCALES.items():
        found = found.when(holds(begins), which)
    return found.otherwise(_SPECIAL).cast("tinyint")


def _limbs(whole: Column) -> Iterator[Column]:
    """Three limbs of the same sign, the highest first; each step is exact."""
    for limb in (2, 1):
        unit = 2.0 ** (limb * _LIMB_BITS)
        part = (whole / unit).cast("bigint")
        yield part
        whole = whole - part.cast("double") * unit
    yield whole.cast("bigint")


def _fill(table: pa.Table, name: str, default: float) -> "np.ndarray":
    column = table.column(name)
    return (column.fill_null(default) if column.null_count else column).to_numpy()
