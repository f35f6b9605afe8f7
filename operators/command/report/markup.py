"""What a page is about, and how its HTML is put together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from state_backends.checkpoints.metadata import StoredOperator
from state_backends.checkpoints.query import StoredQuery
from state_backends.checkpoints.survey import StateSurvey

_VOID = ("meta",)


@dataclass(frozen=True, slots=True)
class Unread:
    """An operator whose state cannot be read.

    Attributes:
        number: the number of the operator.
        why: the error.
    """

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Content:
    """What a page is about.

    Attributes:
        path: the path of the checkpoint.
        made: when it was looked at.
        query: as the checkpoint describes it.
        operators: those of this library.
        others: Spark's own operators with state.
    """

    path: str
    made: datetime
    query: StoredQuery
    operators: tuple[StateSurvey | Unread, ...]
    others: tuple[StoredOperator, ...]


class Html(str):
    """Text that is HTML already. All other text is escaped."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: object) -> Html:
    """Return an element. Children that are not `Html`, and the values of attributes, are escaped.

    Args:
        name: the name of the element.
        children: what is in it.
        attributes: values by name; "_" at the end of a name is left out, other ones become "-". None leaves an attribute out.
    """
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{text}>")
    return Html(f"<{name}{text}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Html:
    """Return texts and HTML as HTML."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children))


def table(
    caption: str,
    names: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    numbers: Sequence[str] = (),
) -> Html:
    """Return a table.

    Args:
        caption: what it shows.
        names: the names of the columns.
        rows: a text for each column, or None for null.
        numbers: names of the columns that are aligned to the right.
    """
    right = [name in numbers for name in names]
    head = element(
        "tr",
        *(element("th", name, scope="col", class_=_class(at)) for name, at in zip(names, right, strict=True)),
    )
    body = [
        element("tr", *(element("td", _cell(v), class_=_class(at)) for v, at in zip(row, right, strict=True)))
        for row in rows
    ]
    whole = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    return element("div", whole, class_="wide", tabindex=0, role="region", aria_label=caption)


def _class(right: bool) -> str | None:
    return "number" if right else None


def _cell(value: str | None) -> str:
    return element("em", "null") if value is None else value


def pairs(rows: Iterable[tuple[str, str]]) -> Html:
    """Return names and what they are, as a list of descriptions."""
    lines = (element("div", element("dt", name), element("dd", text)) for name, text in rows)
    return element("dl", *lines)


def tiles(rows: Iterable[tuple[str, str, str]]) -> Html:
    """Return large figures: a name, a figure and a remark of each."""
    return element(
        "ul",
        *(
            element("li", element("span", name), element("strong", figure), element("small", remark))
            for name, figure, remark in rows
        ),
        class_="tiles",
    )


def details(summary: str, content: str) -> Html:
    """Return a part that opens when it is clicked on."""
    return element("details", element("summary", summary), content)
