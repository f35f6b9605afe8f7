"""Equality of the values of two rows: by value and by instant, not by type."""

from collections.abc import Hashable, Mapping
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import numpy as np

from operators.testing.times import DEFAULT_TICK_US

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def plain(value: Any) -> Any:
    """Return a NumPy value as a Python value, mutable bytes as bytes, pandas' NaT as None, and other values unchanged."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        # Python has no nanoseconds; Arrow and Spark columns are in microseconds.
        kind = "M8[us]" if isinstance(value, np.datetime64) else "m8[us]"
        return value.astype(kind).item()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bytearray):
        return bytes(value)
    return None if isinstance(value, datetime) and value != value else value


def instant(moment: datetime, tick_us: int) -> Fraction:
    """Return a moment in ticks, exactly; a naive datetime is in UTC."""
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return Fraction((zoned - _EPOCH) // _MICROSECOND, tick_us)


def identity(value: Any, tick_us: int = DEFAULT_TICK_US) -> Hashable:
    """Return a hashable value that is equal for two values of the same key.

    Numbers are equal across types, NaN equals NaN, and a datetime equals the number of ticks of its instant. A boolean is not a
    number.
    """
    value = plain(value)
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, datetime):
        return instant(value, tick_us)
    if isinstance(value, Mapping):
        return frozenset((name, identity(each, tick_us)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(identity(each, tick_us) for each in value)
    if value != value:  # NaN, of any type
        return ("not a number",)
    return value if isinstance(value, Hashable) else (type(value).__name__, repr(value))
