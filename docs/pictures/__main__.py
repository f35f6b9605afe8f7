"""Writes all pictures."""

from pathlib import Path

from docs.pictures import PICTURES

for name, draw in PICTURES.items():
    (Path(__file__).parents[1] / "images" / f"{name}.svg").write_text(draw())
