"""Numbers as text."""


def plural(number: int, noun: str) -> str:
    """Return a number and a noun, such as "1,000 pages"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number_range(least: int, most: int) -> str:
    """Return a range of numbers, such as "18 to 30"; a single number if both are equal."""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
