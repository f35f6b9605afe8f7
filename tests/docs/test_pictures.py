"""The pictures of the pages: words stand beside each other, and on the paper."""

from itertools import combinations
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from docs.pictures import PICTURES

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZE = 13.0
SIZES = {"dim": 12.0, "mono": 12.0, "tiny": 10.0, "note": 10.0}


class Words(NamedTuple):
    """A text of a picture, in pixels."""

    left: float
    right: float
    base: float
    size: float
    text: str


def drawn(picture: ET.Element) -> list[Words]:
    """The texts of a picture, as wide as in DejaVu, which is wider than most fonts."""
    found = []
    for element in picture.iter("{http://www.w3.org/2000/svg}text"):
        kinds, text = (element.get("class") or "").split(), element.text or ""
        size = min([SIZES[kind] for kind in kinds if kind in SIZES], default=SIZE)
        family = "DejaVu Sans Mono" if {"mono", "tiny"} & {*kinds} else "DejaVu Sans"
        font = FontProperties(family=family, weight=600 if "bold" in kinds else 400)
        width = TextPath((0, 0), text.replace("$", "S"), size=size, prop=font).get_extents().width
        share = 0.5 if "mid" in kinds else 1.0 if "end" in kinds else 0.0
        left = float(element.get("x", 0)) - share * width
        found.append(Words(left, left + width, float(element.get("y", 0)), size, text))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_words_do_not_overlap(name: str) -> None:
    """No text runs into another one, or over the edge."""
    root = ET.parse(IMAGES / f"{name}.svg").getroot()  # noqa: S314 - our own file
    words = drawn(root)
    _, _, wide, high = map(float, root.get("viewBox", "").split())
    assert [] == [one.text for one in words if one.left < 0 or one.right > wide or one.base > high]
    assert [] == [
        (one.text, other.text)
        for one, other in combinations(words, 2)
        if abs(one.base - other.base) < 0.7 * min(one.size, other.size)
        and one.left < other.right
        and other.left < one.right
    ]
