"""The whole page: one file, without scripts, that loads nothing."""

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files

from operators.command.report.markup import Content, Html, Unread, details, element, join, pairs, table
from operators.command.report.section import section
from operators.command.text.formats import NEVER, json_text, moment
from operators.command.text.words import title
from state_backends.checkpoints.survey import StateSurvey

_LONGEST_OFFSET = 600
_FIRST = "<!doctype html>\n"


def page(content: Content) -> str:
    """Return the page as HTML. A browser that follows its content security policy runs no script and loads nothing for it."""
    style = files("operators.command.report").joinpath("style.css").read_text("utf-8")
    whole = element("html", _head(content, style), element("body", _body(content)), lang="en")
    return f"{_FIRST}{whole}\n"


def _head(content: Content, style: str) -> Html:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("title", f"State of {content.path}"),
        Html(f"<style>{style}</style>"),
    )


def _body(content: Content) -> Html:
    origin = f"Made {content.made:%Y-%m-%d %H:%M:%S} from {content.path}. All times are in UTC."
    return element(
        "main",
        element("header", element("h1", "State of a stopped query"), element("p", origin, class_="remark")),
        element("section", element("h2", "Query"), *_query(content)),
        *_contents(content),
        *(_unread(one) if isinstance(one, Unread) else section(one) for one in content.operators),
        *_others(content),
    )


def _query(content: Content) -> Iterator[Html]:
    query = content.query
    yield pairs(
        [
            ("checkpoint", content.path),
            ("query", query.id or NEVER),
            ("last batch", f"{query.batch}, planned {_time(query.planned_ms)}"),
            ("watermark", _time(query.watermark_ms)),
            *((f"source {at}", _shorten(json_text(source))) for at, source in enumerate(query.sources)),
        ]
    )
    if query.conf:
        rows = [[name, str(value)] for name, value in sorted(query.conf.items())]
        yield details(
            "Settings of Spark that the checkpoint fixes", table("Settings of Spark", ("name", "value"), rows)
        )


def _time(ms: int | None) -> str:
    text = None if ms is None else moment(ms * 1_000)
    return NEVER if text is None else f"{text} UTC"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_OFFSET else f"{text[:_LONGEST_OFFSET]} \N{HORIZONTAL ELLIPSIS}"


def _contents(content: Content) -> Iterator[Html]:
    """Links to the operators, if there are several."""
    if len(content.operators) > 1:
        links = (
            element("li", element("a", f"Operator {number}: {text}", href=f"#operator-{number}"))
            for number, text in map(_entry, content.operators)
        )
        yield element("nav", element("ul", *links), aria_label="Operators")


def _entry(one: StateSurvey | Unread) -> tuple[int, str]:
    if isinstance(one, Unread):
        return one.number, "its state cannot be read"
    return one.checkpoint.operator, title(one.identity)


def _unread(one: Unread) -> Html:
    return element(
        "section",
        element("h2", f"Operator {one.number}"),
        element("p", f"Its state cannot be read: {one.why}", class_="problem"),
        id=f"operator-{one.number}",
    )


def _others(content: Content) -> Iterator[Html]:
    if content.others:
        rows = [[str(one.number), one.name] for one in content.others]
        listed = table("Operators with state that are Spark's own", ("number", "name"), rows, ("number",))
        yield element("section", element("h2", "Other operators"), join([listed]))
