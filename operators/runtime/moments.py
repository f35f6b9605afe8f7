"""Moments that users give, as ticks, and back."""

from datetime import datetime, timedelta, timezone
from operator import index

from operators.errors import DefinitionError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def ticks_of(moment: int | datetime, tick_us: int, name: str) -> int:
    """Return a moment in ticks since the epoch.

    Args:
        moment: a datetime, in UTC if it has no zone, or ticks.
        tick_us: length of a tick in microseconds.
        name: the argument's name, for errors.

    Raises:
        DefinitionError: it is neither.
    """
    if isinstance(moment, datetime):
        since = moment.replace(tzinfo=moment.tzinfo or timezone.utc) - _EPOCH
        return (since // timedelta(microseconds=1)) // tick_us
    try:
        return index(moment)
    except TypeError:
        raise DefinitionError(f"{name} must be a datetime or whole ticks, not {moment!r}") from None


def moment_of(ticks: int, tick_us: int) -> datetime:
    """Return ticks as a datetime in UTC.

    Raises:
        OverflowError: it is outside of the years 1 to 9999.
    """
    return _EPOCH + timedelta(microseconds=ticks * tick_us)
