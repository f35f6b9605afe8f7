"""Lengths of time and numbers as text."""

_UNITS = (
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
)


def length(microseconds: int) -> str:
    """Return an exact length of time, such as "1 h 30 min"; "0 s" for zero."""
    parts = []
    for unit, size in _UNITS:
        count, microseconds = divmod(microseconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def plural(number: int, noun: str) -> str:
    """Return a number and a noun, such as "1,000 pages"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number_range(least: int, most: int) -> str:
    """Return a range of numbers, such as "18 to 30"; a single number if both are equal."""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
