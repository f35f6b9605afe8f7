"""Draws the pictures of README.md and of pages: `python -m docs.pictures` writes them into docs/images."""

from docs.pictures import answers, inside, protocol, system, windows

PICTURES = {
    **windows.PICTURES,
    **inside.PICTURES,
    **protocol.PICTURES,
    **answers.PICTURES,
    **system.PICTURES,
}
"""Functions that draw, by the names of the files."""
