"""Common parts of custom aggregates and operators: the types of results, and fingerprints of functions."""

import hashlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from operators.errors import DefinitionError

FAIL, SKIP = "fail", "skip"
"""What an exception in a function does, as users say it: `on_error`."""
MEETS_STATE = (
    ". Each record can be added to the initial state, but not to the one that it met: on_error='skip' skips only records that "
    "cannot be added to the initial state, so that what is skipped does not depend on other records"
)
"""What is said of an error that no record is to blame for."""
_LONGEST = 1_000
"""Limit on the text of an error, in characters: it may quote a record."""
_ROOT = Path(__file__).parents[1]
_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def result_type(type_: str | pa.DataType) -> pa.DataType:
    """Return the Arrow type of a result.

    Args:
        type_: Spark's name of a simple type, "array<...>" of one, or an Arrow type.

    Raises:
        DefinitionError: the name is unknown; the message lists the known names.
    """
    if isinstance(type_, pa.DataType):
        return type_
    if not isinstance(type_, str):
        raise DefinitionError(
            f"result type must be Spark's name of a type, such as 'bigint', or an Arrow type, got {type_!r}"
        )
    name = type_.strip().lower()
    if name.startswith("array<") and name.endswith(">"):
        return pa.list_(result_type(name[6:-1]))
    if name not in _TYPES:
        raise DefinitionError(
            f"unknown result type {type_!r}; known are {', '.join(_TYPES)}, array<...> of these, and Arrow types"
        )
    return _TYPES[name]


def check_on_error(of: str, on_error: object) -> None:
    """Refuse an unknown `on_error`.

    Raises:
        DefinitionError: names what has it.
    """
    if on_error not in (FAIL, SKIP):
        raise DefinitionError(f"on_error of {of} is {on_error!r}: expected {FAIL!r} or {SKIP!r}")


class AggregateError(RuntimeError):
    """Raised if a function of a fold or an `AggregateOperation` fails, or returns an invalid value; names both.

    Attributes:
        values: what the function got of the record for which it raised, if that is known.
        named: whether the text has the key of what it is about.
        window: what is known of the window, or None; see `operators.steps.failed_windows`.
    """

    values: tuple[Any, ...] | None = None
    named: bool = False
    window: object = None


def first_raising(run: Callable[[int, int], Any], records: int) -> int | None:
    """Return the first record for which a function raises, of those that make it raise; None if it raises for none alone.

    Args:
        run: calls the function with the records [first, last).
        records: how many there are.
    """
    first, last = 0, records
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if _raises(run, first, middle) else (middle, last)
    return first if _raises(run, first, last) else None


def _raises(run: Callable[[int, int], Any], first: int, last: int) -> bool:
    try:
        run(first, last)
    except AggregateError:
        return True
    return False


def error_text(error: BaseException) -> str:
    """Return an error's type and text."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - of a user's class
        text = "its text cannot be made"
    return f"{type(error).__name__}: {text}"


def reason_with_place(text: str, error: BaseException) -> str:
    """Return a text of limited length, with the file and line of the user's code that raised, if there is any."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(_ROOT)
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return text[:_LONGEST] + place


def fingerprint(*values: Any) -> str:
    """Return a text that differs for functions with different code, and for objects that have such, within a session.

    A function that Spark sends to a worker twice becomes two objects. Their fingerprints, made on the driver, are equal.
    """
    from pyspark import cloudpickle

    pickled: bytes = cloudpickle.dumps(values)  # type: ignore[no-untyped-call]
    return hashlib.sha256(pickled).hexdigest()[:16]


def shape_text(result: Any) -> str:
    """Return a short description of a returned value, for messages."""
    if isinstance(result, np.ndarray):
        return f"an array of {result.dtype} and shape {result.shape}"
    if isinstance(result, tuple):
        return f"({', '.join(map(shape_text, result))})"
    return f"a value of type {type(result).__name__}"


def read_only(argument: Any) -> Any:
    """Return views of a state, or of a column, that cannot be written: other windows are combined from the same arrays."""
    if isinstance(argument, tuple):
        return tuple(map(read_only, argument))
    view = argument.view()
    view.flags.writeable = False
    return view


def writes(error: BaseException) -> bool:
    """Return whether an error is that of a function which writes into its arguments."""
    return isinstance(error, ValueError) and "read-only" in str(error)
