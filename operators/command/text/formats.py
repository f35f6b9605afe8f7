"""Numbers, sizes and times as people read them."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

from state_backends.store.schema import StoredSchema

_UNITS = ("KB", "MB", "GB", "TB", "PB")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RANGE_US = -62_135_596_800_000_000, 253_402_300_799_999_999
NEVER = "-"
"""Stands for what there is not."""


def number(value: int) -> str:
    """Return a whole number with separators of thousands."""
    return f"{value:,}"


def counted(value: int, noun: str, several: str | None = None) -> str:
    """Return a number with its noun, such as "1,000 panes"."""
    return f"{value:,} {noun if value == 1 else several or noun + 's'}"


def byte_text(size: float) -> str:
    """Return a number of bytes in the largest unit that it reaches, such as "1.4 KB": 1,000 bytes are a KB."""
    if size < 1_000:
        return f"{size:,.0f} B"
    power = next((at for at in range(1, len(_UNITS)) if size < 999.95 * 1_000**at), len(_UNITS))
    return f"{size / 1_000**power:,.1f} {_UNITS[power - 1]}"


def moment(microseconds: int) -> str | None:
    """Return a time since the epoch in UTC, such as "2023-11-14 22:13:20.5"; None for what no calendar has."""
    if not _RANGE_US[0] <= microseconds <= _RANGE_US[1]:
        return None
    time = _EPOCH + timedelta(microseconds=microseconds)
    fraction = f"{time.microsecond:06}".rstrip("0")
    return f"{time.year:04}-{time:%m-%d %H:%M:%S}{f'.{fraction}' if fraction else ''}"


def instant(ticks: int | None, schema: StoredSchema) -> str:
    """Return a stored time as text; "-" for none, and for times before or after all others."""
    return NEVER if ticks is None else moment(ticks * schema.tick_us) or NEVER


def plain(value: Any) -> Any:
    """Return a value as JSON has it: times in ISO 8601, bytes in hex, what else there is as text."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def json_text(value: Any) -> str:
    """Return a value as JSON on one line, which does nothing to a terminal: what is not printed is escaped."""
    text = json.dumps(plain(value), ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_json_character, text))


def _json_character(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def printable(text: str) -> str:
    """Return a text that does nothing to a terminal: characters that are not printed become their escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
