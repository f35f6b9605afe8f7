"""The window for which a user's function failed: found by halves, and only after the function has failed for all at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from operators.aggregates.user_functions import AggregateError, first_raising
from operators.columns.python_values import python_values
from operators.columns.record_text import window_text
from serializers import decode_keys

_MOST_TRIED = 100_000
"""So many windows are tried one by one."""
_FAR = 2**59
"""Times that are further from the epoch, in ticks, are none of windows: panes of a lifetime have such a one."""


@dataclass(frozen=True, slots=True)
class FailedWindow:
    """A window, or a pane of windows.

    Attributes:
        key: its key, encoded; or the number of the key among those of a step; or the key columns by name.
        start, end: bounds in ticks; None if they are not known. A pane has no end.
        lookback: the name of a lookback, or an empty text.
    """

    key: bytes | int | Mapping[str, Any]
    start: int | None = None
    end: int | None = None
    lookback: str = ""


def note_window(
    error: AggregateError,
    run: Callable[[int, int], Any],
    windows: int,
    window: Callable[[int], FailedWindow | None],
) -> None:
    """Have an error name the first window for which a function raises, unless it names a record with its key.

    Args:
        error: what was raised for all windows at once.
        run: does the same for the windows [first, last).
        windows: how many there are.
        window: returns a window by its number.

    Cost: O(log windows) calls, half as many windows in each. Functions are also called with states of neighbours that no window
    has together: if a half raises for these only, each window is tried by itself.
    """
    if error.window is None and not error.named and windows:
        number = first_raising(run, windows)
        if number is None:
            each = range(min(windows, _MOST_TRIED))
            number = next((n for n in each if first_raising(partial(_alone, run, n), 1) == 0), None)
        error.window = None if number is None else window(number)


def _alone(run: Callable[[int, int], Any], number: int, first: int, last: int) -> Any:
    """What is done with one window."""
    return run(number + first, number + last)


@contextmanager
def with_keys(keys: Sequence[bytes]) -> Iterator[None]:
    """Have errors name a window's key, where the code inside only knows its number."""
    try:
        yield
    except AggregateError as error:
        if keys and isinstance(error.window, FailedWindow) and isinstance(error.window.key, int):
            error.window = replace(error.window, key=keys[error.window.key])
        raise


@contextmanager
def windows_named(keys: Sequence[tuple[str, pa.DataType]], tick_us: int) -> Iterator[None]:
    """Have the text of errors end with the window that they are about.

    Args:
        keys: names and Arrow types of the key columns.
        tick_us: length of a tick in microseconds.
    """
    try:
        yield
    except AggregateError as error:
        window = error.window
        if not isinstance(window, FailedWindow):
            raise
        bounds = [
            None if ticks is None or abs(ticks) >= _FAR else ticks * tick_us
            for ticks in (window.start, window.end)
        ]
        text = window_text(_key_values(window.key, keys), bounds[0], bounds[1], window.lookback)
        raise AggregateError(f"{error}{text}") from error.__cause__


def _key_values(
    key: bytes | int | Mapping[str, Any], keys: Sequence[tuple[str, pa.DataType]]
) -> Mapping[str, Any]:
    if isinstance(key, int):
        return {}
    if isinstance(key, bytes):
        columns = decode_keys([key], [type_ for _, type_ in keys])
        return {name: python_values(column)[0] for (name, _), column in zip(keys, columns, strict=True)}
    return key
