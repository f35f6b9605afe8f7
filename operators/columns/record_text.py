"""Which record or window an error is about, as text: key, event times, and the values that a function got."""

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


def window_text(
    key: Mapping[str, Any], start_us: int | None = None, end_us: int | None = None, lookback: str = ""
) -> str:
    """Return what the end of an error says of a window, in a text of limited length.

    Args:
        key: the key columns by name.
        start_us, end_us: the window's bounds in microseconds; None if they are not known. A pane of windows has a start only.
        lookback: the name of a lookback, or an empty text.
    """
    named = [f"{name}={short(value)}" for name, value in key.items()]
    if start_us is not None and end_us is not None:
        named.append(f"from {time_text(start_us)} to {time_text(end_us)}")
    elif end_us is not None:
        named.append(f"event time {time_text(end_us)}")
    elif start_us is not None:
        named.append(f"records from {time_text(start_us)} on")
    named += [f"lookback {lookback}"] if lookback else []
    return f". The window: {', '.join(named)}" if named else ""


def time_text(time_us: int) -> str:
    """Return a time in microseconds since the epoch as text."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat()
    except OverflowError:
        return f"{time_us} us since 1970"
