"""Input columns whose type became another since a state was stored."""

import re
from collections.abc import Mapping
from typing import Any

from operators.runtime.binding import Binding
from operators.runtime.identity import COLUMNS

_WIDTHS = ["int8", "int16", "int32", "int64"], ["float", "double"]


def retyped_columns(binding: Binding, stored_identity: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the input columns whose type became another, with the type before and now."""
    before, now = stored_identity.get(COLUMNS) or [], binding.columns
    changed = {}
    for name, type_ in binding.inputs.values:
        for line in {*before} - {*now}:
            # The rest is a type, and not more of a longer name.
            if line.startswith(f"{name}: ") and re.match(r"\w+($|[(<\[])", line[len(name) + 2 :]):
                changed[name] = line[len(name) + 2 :], str(type_)
    return changed


def widened_columns(binding: Binding, stored_identity: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of whole numbers that became wider."""
    types = retyped_columns(binding, stored_identity).items()
    return tuple(name for name, (before, now) in types if before in _WIDTHS[0] and is_wider(before, now))


def is_wider(before: str, now: str) -> bool:
    """Return whether one numeric type became a wider one of the same sort."""
    for widths in _WIDTHS:
        if before in widths and now in widths:
            return widths.index(before) < widths.index(now)
    parsed = [_decimal(text) for text in (before, now)]
    if None in parsed:
        return False
    (old_digits, old_scale), (digits, scale) = (pair or (0, 0) for pair in parsed)
    return old_digits < digits and old_scale == scale


def _decimal(text: str) -> tuple[int, int] | None:
    """Digits and scale of a decimal type."""
    name, _, rest = text.partition("(")
    if name not in ("decimal128", "decimal"):
        return None
    digits, _, scale = rest.rstrip(")").partition(",")
    return int(digits), int(scale)
