"""Which record an error is about, as text: its key, its event time and the values that a function got."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from serializers.shapes import short

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MOST_COLUMNS = 12


def record_text(
    key: Mapping[str, Any], time_us: int | None = None, values: Mapping[str, Any] | None = None
) -> str:
    """Return what the end of an error says of a record, in a text of limited length.

    Args:
        key: the key columns by name.
        time_us: its event time in microseconds; None if the error says it elsewhere, or is not about a record.
        values: other columns by name; None if the error is not about a record.
    """
    named = [f"{name}={short(value)}" for name, value in key.items()]
    if time_us is not None:
        named.append(f"event time {time_text(time_us)}")
    rest = [] if values is None else [(name, value) for name, value in values.items() if name not in key]
    named += [f"{name}={short(value)}" for name, value in rest[:_MOST_COLUMNS]]
    more = [f"and {len(rest) - _MOST_COLUMNS} more columns"] if len(rest) > _MOST_COLUMNS else []
    what = "key" if time_us is None and values is None else "record"
    return f". The {what}: {', '.join([*named, *more])}" if named else ""


def time_text(time_us: int) -> str:
    """Return a time in microseconds since the epoch as text."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat()
    except OverflowError:
        return f"{time_us} us since 1970"
