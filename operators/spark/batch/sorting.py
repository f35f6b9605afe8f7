"""Rows of a bounded frame in order of key and time, by one whole number, which Spark sorts by radix.

The upper bits of the number are those of the key's hash: keys with the same bits form a group. The lower bits are the time in
units of 1,024 microseconds, cut to about 140 years from the epoch.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

from operators.columns.records import FAR_PAST

ORDER = "order"
GROUP_BITS = 20
"""The number of bits of the key's hash; keys for which these are equal form a group."""
_TIME_BITS = 43
_UNIT_BITS = 10
_LEAST = -(2 ** (_TIME_BITS - 1))


def in_order(df: DataFrame, keys: Sequence[str], micros: Column, group_bits: int = GROUP_BITS) -> DataFrame:
    """Return the frame with all rows of a key in one partition, which is sorted by the last column, `ORDER`.

    Args:
        df: the rows.
        keys: the columns of the key.
        micros: times in microseconds since the epoch, bigint; null counts as the epoch.
        group_bits: the number of bits of the key's hash that are compared, from 1 to `GROUP_BITS`.
    """
    units = F.shiftright(F.coalesce(micros, F.lit(0).cast("bigint")), _UNIT_BITS)
    place = F.least(F.greatest(units, F.lit(_LEAST)), F.lit(-_LEAST - 1)) - F.lit(_LEAST)
    group = F.shiftrightunsigned(F.xxhash64(*keys), 64 - group_bits) if keys else F.lit(0).cast("bigint")
    parts = df.repartition(*keys) if keys else df.repartition(1)
    return parts.select(
        "*", F.shiftleft(group, _TIME_BITS).bitwiseOR(place).alias(ORDER)
    ).sortWithinPartitions(ORDER)


def first_group(table: pa.Table) -> int:
    """Return where the rows of the first group of keys end."""
    group = _groups(table)
    return int(np.searchsorted(group, group[0], "right"))


def last_group(table: pa.Table) -> int:
    """Return where the rows of the last group of keys begin."""
    group = _groups(table)
    return int(np.searchsorted(group, group[-1], "left"))


def last_moment(table: pa.Table) -> int:
    """Return where the rows begin that the order cannot tell apart from the last one."""
    order = table.column(ORDER).to_numpy()
    return int(np.searchsorted(order, order[-1], "left"))


def _groups(table: pa.Table) -> npt.NDArray[np.int64]:
    return table.column(ORDER).to_numpy() >> _TIME_BITS


def time_reached(table: pa.Table, tick_us: int) -> int:
    """Return a time in ticks: no later row of the same keys is before it."""
    units = (int(table.column(ORDER)[-1].as_py()) & (2**_TIME_BITS - 1)) + _LEAST
    return FAR_PAST if units == _LEAST else (units << _UNIT_BITS) // tick_us
