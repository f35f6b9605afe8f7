"""Draws the pictures of README.md, concepts.md and how-it-works.md: `python -m docs.pictures` writes them into docs/images."""

from docs.pictures import inside, protocol, windows

PICTURES = {**windows.PICTURES, **inside.PICTURES, **protocol.PICTURES}
"""Functions that draw, by the names of the files."""
