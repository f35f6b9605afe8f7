"""Where the command prints: names and keys of somebody else's checkpoint do nothing to a terminal."""

import sys
from collections.abc import Iterable
from typing import TextIO

from operators.command.text.formats import printable


def say(text: str) -> None:
    """Print lines to stdout."""
    _write(sys.stdout, text.split("\n"))


def say_each(lines: Iterable[str]) -> None:
    """Print lines to stdout, one after another."""
    _write(sys.stdout, lines)


def complain(text: str) -> None:
    """Print one line to stderr."""
    _write(sys.stderr, [text])


def _write(stream: TextIO, lines: Iterable[str]) -> None:
    stream.writelines(f"{printable(line)}\n" for line in lines)
