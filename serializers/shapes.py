"""Checks that decoded values have the form that was written: a checksum finds damage, and not what somebody made up."""

from collections.abc import Iterator
from contextlib import contextmanager
from reprlib import Repr
from typing import Any

from serializers.errors import CorruptDataError, SerializationError

_SHORT = Repr()
_SHORT.maxother = _SHORT.maxstring = _SHORT.maxlong = 60
_MOST_SHOWN = 200
_EDGE = 2**63


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Raise what goes wrong while values are taken apart as a `CorruptDataError`.

    Args:
        what: names the values in errors.
    """
    try:
        yield
    except SerializationError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"[:_MOST_SHOWN]
        raise CorruptDataError(f"{what} has a form that this library does not write: {why}") from error


def short(value: Any) -> str:
    """Return a value as text for messages, whatever it is: not longer than a line."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # an integer of more digits than Python shows
        return f"<{type(value).__name__}>"


def int64(value: Any) -> int:
    """Return the value if it is an integer of 64 bits.

    Raises:
        TypeError: it is something else.
    """
    if type(value) is not int or not -_EDGE <= value < _EDGE:
        raise TypeError(f"{short(value)} is not an integer of 64 bits")
    return value


def count(value: Any) -> int:
    """Return the value if it is an integer of 64 bits, and not negative.

    Raises:
        TypeError: it is something else.
    """
    if int64(value) < 0:
        raise TypeError(f"{value} is negative")
    return int(value)


def list_of(kind: type, value: Any) -> list[Any]:
    """Return the value if it is a list of that type alone.

    Raises:
        TypeError: it is something else.
    """
    if type(value) is not list or not {*map(type, value)} <= {kind}:
        raise TypeError(f"{short(value)} is not a list of {kind.__name__} alone")
    return value


def instance(kind: type, value: Any) -> Any:
    """Return the value if it is of that type.

    Raises:
        TypeError: it is something else.
    """
    if type(value) is not kind:
        raise TypeError(f"{short(value)} is not of type {kind.__name__}")
    return value
