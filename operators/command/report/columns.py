"""A picture of one number for each bucket: columns side by side."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from operators.command.report.groups import group_evenly
from operators.command.report.markup import Html, element

MOST_COLUMNS = 80
_WIDTH, _LEFT, _TOP, _HEIGHT, _BOTTOM = 960, 88, 14, 130, 26
_WIDEST = 72
_LABEL_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Value:
    """A number of a bucket.

    Attributes:
        bucket: its number.
        value: the number, 0 or more.
        text: what is said of it.
    """

    bucket: int
    value: float
    text: str


def columns(title: str, values: Sequence[Value], text: Callable[[float], str]) -> Html:
    """Return a picture of a number for each bucket. Of neighbours that share a column, the largest is shown.

    Args:
        title: what it shows.
        values: one value for each bucket, in their order.
        text: the text of a value, for the scale.
    """
    groups = group_evenly(values, MOST_COLUMNS)
    top = max((value.value for value in values), default=0) or 1
    width = (_WIDTH - _LEFT) / max(1, len(groups))
    return element(
        "svg",
        element("title", title),
        *_scale(top, text),
        *(_column(group, at, width, top) for at, group in enumerate(groups)),
        *_labels(groups, width),
        viewBox=f"0 0 {_WIDTH} {_TOP + _HEIGHT + _BOTTOM}",
        role="img",
        aria_label=title,
    )


def _scale(top: float, text: Callable[[float], str]) -> Iterator[Html]:
    for share in (0, 0.5, 1):
        y = _TOP + _HEIGHT * (1 - share)
        yield element("path", d=f"M{_LEFT} {y:.1f}H{_WIDTH}", class_="grid")
        yield element("text", text(top * share), x=_LEFT - 8, y=f"{y + 4:.1f}", class_="end")


def _column(group: Sequence[Value], at: int, width: float, top: float) -> Html:
    largest = max(group, key=lambda value: value.value)
    height, bar = _HEIGHT * largest.value / top, min(_WIDEST, width * 0.8)
    return element(
        "rect",
        element("title", f"bucket {largest.bucket}: {largest.text}"),
        x=f"{_LEFT + (at + 0.5) * width - bar / 2:.1f}",
        y=f"{_TOP + _HEIGHT - height:.1f}",
        width=f"{bar:.1f}",
        height=f"{height:.1f}",
        class_="column",
    )


def _labels(groups: Sequence[Sequence[Value]], width: float) -> Iterator[Html]:
    every = max(1, -(-_LABEL_WIDTH // int(width)))
    for at in range(0, len(groups), every):
        x = _LEFT + (at + 0.5) * width
        yield element("text", str(groups[at][0].bucket), x=f"{x:.1f}", y=_TOP + _HEIGHT + 18, class_="middle")
    yield element("text", "bucket", x=_LEFT - 8, y=_TOP + _HEIGHT + 18, class_="end")
