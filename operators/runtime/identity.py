"""What stored state depends on, and how it differs from an operator's, in the terms of the operator's definition."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from zlib import crc32

from operators.aggregates.state_words import listed
from operators.columns.durations import as_text
from operators.kinds.calendars import CLOCK_CHANGES, ZONE
from operators.kinds.rolling import LASTING

KIND, STATE, COLUMNS, SEGMENT, CLOCK = "windows", "state", "columns", "segment in ticks", "event time"
_TICK, _STEP, _SIZE = "tick in us", "step in ticks", "size in ticks"
_IN_TICKS = " in ticks"
_NAMES = {
    _STEP: "advance",
    "max length in ticks": "max_length",
    "grouped by": "keys",
    CLOCK: "event time",
    STATE: "aggregates",
    COLUMNS: "columns",
    "windows": "windows",
    "stored": "stored columns",
    "inputs": "kept inputs",
    LASTING: "aggregates over the lifetime",
}
_KINDS = KIND, "operator"
_SEVERAL = CLOCK_CHANGES, "grouped by", STATE, COLUMNS, "windows", "stored", "inputs", LASTING
_FOLLOWING = SEGMENT, COLUMNS, LASTING
"""What follows from something else: the default of a segment from the size, columns and what lasts from the aggregates."""


def differing(stored: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Return the names of what differs."""
    return sorted(name for name in {*own, *stored} if own.get(name) != stored.get(name))


def differences(stored: Mapping[str, Any], own: Mapping[str, Any], names: Collection[str]) -> str:
    """Return what differs as text, such as "size was 1 minute, is 2 minutes"; lengths of time in units, not in ticks.

    Args:
        stored: what the stored state depends on.
        own: what the operator's depends on.
        names: the names that differ.
    """
    shown = [name for name in names if name not in _FOLLOWING] or list(names)
    kinds = [name for name in shown if name in _KINDS]
    if kinds:  # Other windows have other lengths.
        shown = kinds + [name for name in shown if name in stored and name in own and name not in kinds]
    elif _is_tumbling(stored) and _is_tumbling(own):
        shown = [name for name in shown if name not in (_STEP, "step")]
    return "; ".join(line for name in shown for line in _lines(name, stored, own))


def _is_tumbling(identity: Mapping[str, Any]) -> bool:
    steps = (identity.get(_STEP), identity.get("step"))
    return steps != (None, None) and steps == (identity.get(_SIZE), identity.get("size"))


def _lines(name: str, stored: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[str]:
    if name == "settings" and all(isinstance(each.get(name), Mapping) for each in (stored, own)):
        before, now = stored[name], own[name]
        for setting in differing(before, now):
            yield f"setting {setting!r} was {before.get(setting)!r}, is {now.get(setting)!r}"
        return
    values = [_text(name, identity) for identity in (stored, own)]
    if values[0] != values[1]:  # A length in other ticks may be the same length.
        verbs = ("were", "are") if name in _SEVERAL else ("was", "is")
        said = _NAMES.get(name) or name.removesuffix(_IN_TICKS).removesuffix(" in us")
        yield f"{said} {verbs[0]} {values[0]}, {verbs[1]} {values[1]}"


def _text(name: str, identity: Mapping[str, Any]) -> str:
    value = identity.get(name)
    if value is None or value == []:
        return "none"
    if name == CLOCK_CHANGES:
        value = [f"the clock of {identity.get(ZONE)} ({crc32(str(value).encode()):08x})"]
    if isinstance(value, int) and name == _TICK:
        return as_text(value)
    if isinstance(value, int) and name.endswith(_IN_TICKS):
        return as_text(value * int(identity[_TICK]))
    if name == "windows" and _is_tumbling(identity):
        return str(value).replace("hopping", "tumbling")
    if isinstance(value, list):
        return listed(value) if name in (STATE, LASTING) else ", ".join(map(str, value))
    return str(value) if name in _NAMES or name.endswith(_IN_TICKS) else repr(value)
