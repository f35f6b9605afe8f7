"""Lengths of time and numbers as people read them."""

_UNITS = (
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
)


def length(microseconds: int) -> str:
    """Return a length of time such as "1 h 30 min"; exact, and "0 s" for none."""
    parts = []
    for unit, size in _UNITS:
        count, microseconds = divmod(microseconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def plural(number: int, noun: str) -> str:
    """Return a number of things, such as "1,000 pages"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def spread(least: int, most: int) -> str:
    """Return the numbers from `least` to `most`, or the one that there is."""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
