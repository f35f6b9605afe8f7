"""The page of a report: what it says, that names and keys are only text, and that it stays small."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from operators import HoppingWindows, RollingWindows, SlidingWindows
from operators import aggregates as agg
from operators.command.report.columns import Value, columns
from operators.command.report.groups import group_evenly
from operators.command.report.markup import Html, Unread, element
from operators.command.report.page import page
from state_backends.checkpoints.labels import partition_labels
from state_backends.checkpoints.survey import SurveyedBucket
from tests.operators.command.states import content, records, survey_of

HOSTILE = (
    "<script>document.title='changed'</script>",
    "<img src=x onerror=\"document.title='changed'\">",
    '"><svg onload="document.title=1">',
    "&amp;<b>",
    "</style></title><script>",
)
KNOWN = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "header",
        "section",
        "nav",
        "ul",
        "li",
        "a",
        "h1",
        "h2",
        "h3",
    ),
    *(
        "p",
        "dl",
        "div",
        "dt",
        "dd",
        "span",
        "strong",
        "small",
        "figure",
        "svg",
        "rect",
        "text",
        "path",
        "details",
        "summary",
    ),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "em"),
}


class Tags(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        assert [] == self.open

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag == self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)


def test_keys_and_names_are_text() -> None:
    """Markup in keys, columns, paths, errors and settings stays what it is: text."""
    name = HOSTILE[0]
    table = records([*HOSTILE, None], hours=2).rename_columns([name, "at"])
    op = SlidingWindows("1 hour", grace="1 day").group_by(name).aggregate(**{HOSTILE[1]: agg.count()})
    found = Tags(page(content(survey_of(table, op), Unread(1, HOSTILE[2]), path=HOSTILE[4])))
    assert found.names <= KNOWN
    assert not any(attribute.startswith("on") for attribute in found.attributes)
    assert set() == found.attributes & {"src", "srcset", "style", "action", "formaction", "data"}
    for text in HOSTILE:
        assert any(text in part for part in found.texts), text


def test_a_page_forbids_scripts_and_loads() -> None:
    """By its content security policy, whose hash is that of its only style."""
    html = page(content(survey_of(records(["a"], 1))))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
    assert "unsafe" not in policy
    assert [] == re.findall(r"(?:src|href)=\"(?!#)|url\(|@import", html)
    assert 1 == html.count("<style>")


def test_what_a_page_says() -> None:
    """What the operator is, its figures, times, largest keys, changelog, and the operators that are others'."""
    html = page(
        content(
            survey_of(records(["big", "small", None], hours=3), buckets=2), Unread(1, "a blob is damaged")
        )
    )
    text = " ".join(Tags(html).texts)
    for said in (
        "Operator 0: hopping windows of 1 h every 10 min",
        "k: string",
        "each window once, when it is closed",
        "n from count()",
        "1970-01-01 02:50:00",
        "2023-11-14 22:13:19.999 UTC",
        "All 2 buckets have reached",
        "6 entries, 1.0 KB compressed",
        "Its state cannot be read: a blob is damaged",
        "dedupe",
        '{"logOffset": 2}',
        "Made 2024-01-02 03:04:05 from /data/checkpoint",
    ):
        assert said in text, said
    _, _, keys = text.partition("Largest keys")
    assert keys.index("big") < keys.index("small") < keys.index("null")


def test_an_empty_state_has_a_page() -> None:
    """Without pictures of nothing."""
    empty = survey_of(records(["a"], 1).slice(0, 0))
    text = " ".join(Tags(page(content(empty))).texts)
    assert "The state is empty." in text
    assert "No key holds anything." in text


def test_operators_without_keys_or_with_states_outside_of_time() -> None:
    """The parts that need keys or times say that there are none."""
    op = SlidingWindows("1 hour", grace="1 day").group_by().aggregate(n=agg.count())
    text = " ".join(Tags(page(content(survey_of(records(["a"], 2), op)))).texts)
    assert "All records are one group: there are no keys." in text
    far = pa.table({"k": ["a"], "at": pa.array([2**57], pa.int64())})
    op = SlidingWindows(1_000, grace=5).group_by("k").aggregate(n=agg.count())
    assert "without a time" in " ".join(Tags(page(content(survey_of(far, op)))).texts)


@pytest.mark.parametrize("gap_us", [1, 1_000, 999_999, 60_000_000, 3_600_000_000])
@pytest.mark.parametrize("lifetime", [False, True])
def test_times_below_the_map_do_not_overlap(gap_us: int, lifetime: bool) -> None:
    """Whatever fractions of seconds they have, in a font that is wider than most; the first time is always there."""
    at = pa.array([1_700_000_000_123_456 + n * gap_us for n in range(40)], pa.timestamp("us", "UTC"))
    table = pa.table({"k": ["a"] * 40, "at": at})
    lookbacks = {"short": "1 hour", **({"ever": "lifetime"} if lifetime else {})}
    op = RollingWindows(lookbacks, grace="30 days", tick="1 us").group_by("k").aggregate(n=agg.count())
    html = page(content(survey_of(table, op, segment=f"{gap_us} us")))
    (picture,) = (svg for svg in re.findall("<svg.*?</svg>", html, re.DOTALL) if "heat map" in svg)
    found = re.findall('<text x="([^"]*)" y="([^"]*)"(?: class="(end)")?>([^<]*)</text>', picture)
    below = max(float(y) for _, y, _, text in found if text.startswith("20"))
    places = []
    for x, y, end, text in found:
        if float(y) == below:
            width = (
                TextPath((0, 0), text, size=12, prop=FontProperties(family="DejaVu Sans")).get_extents().width
            )
            places.append((float(x) - width * bool(end), float(x) + width * (not end)))
    assert places
    assert places[-1][1] <= 960
    assert all(one[1] < other[0] for one, other in pairwise(sorted(places)))


def test_states_of_a_lifetime() -> None:
    """The newest time is that of the newest pane that has one; in the map they are in a column that says so."""
    op = RollingWindows({"1h": "1 hour", "ever": "lifetime"}).group_by("k").aggregate(n=agg.count())
    texts = Tags(page(content(survey_of(records(["a", "b"], 6), op.emit("on_arrival"))))).texts
    assert "1970-01-01 05:54:00" == texts[texts.index("Newest time") + 1]
    assert "without a time" in texts
    assert "time" == texts[texts.index("also stored") + 1]


@pytest.mark.parametrize("buckets", [1, 2, 5, 8])
def test_pictures_are_as_wide_as_the_page(buckets: int) -> None:
    """However few buckets and segments there are."""
    html = page(content(survey_of(records(["a"], 2), buckets=buckets)))
    shown = [dict(re.findall(r'(x|width|class)="([^"]+)"', tag)) for tag in re.findall(r"<rect [^>]*>", html)]
    ends = {one["class"]: float(one["x"]) + float(one["width"]) for one in shown}
    assert ends["empty"] == 960
    bars = [float(one["x"]) for one in shown if one["class"] == "column"]
    assert buckets == len(bars)
    assert min(bars) - 88 == pytest.approx(960 - ends["column"], abs=0.2)


def test_buckets_are_numbered_as_in_errors() -> None:
    """Spark's state store has other labels for them, such as 0, 1 and 11 for three."""
    assert [0, 1, 11] == partition_labels(3)
    bucket = survey_of(records(["a"], 2)).buckets[0]
    pointer = bucket.pointer
    of_three = replace(pointer, progress=replace(pointer.progress, buckets=3))
    for known, numbers in ((pointer, [0, 1, 11]), (of_three, [0, 1, 2])):
        rows = [
            {"bucket": label, "pointer": known.encode(), "keys": 0, "segments": [], "largest": []}
            for label in partition_labels(3)
        ]
        assert numbers == [SurveyedBucket.of(row, 0, 0, 0).number for row in rows]


@pytest.mark.slow
def test_a_large_state_has_a_small_page() -> None:
    """Buckets and segments are gathered to 60 by 80 cells, and tables are cut."""
    op = HoppingWindows("1 hour", "10 minutes", grace="20 days").group_by("k").aggregate(n=agg.count())
    state = survey_of(records([f"key-{n}" for n in range(30)], hours=300), op, buckets=200, segment="1 hour")
    html = page(content(state))
    assert 300 == len(state.segments)
    cells = re.findall(r'<rect [^>]*class="h\d"><title>', html)
    assert 60 * 80 == len(cells)
    assert len(html) < 2_000_000
    assert "buckets 0 to 2, " in html
    assert "The 100 largest of" in html
    assert "The 50 buckets with the largest changelogs, of 200" in html


@pytest.mark.parametrize("count", [0, 1, 79, 80, 81, 1_000])
def test_gathered_things_are_all_there_once(count: int) -> None:
    """In order, in groups that differ by one at most."""
    groups = group_evenly(range(count), 80)
    assert [*range(count)] == [thing for group in groups for thing in group]
    assert len(groups) == min(80, count)
    assert not count or max(map(len, groups)) - min(map(len, groups)) <= 1


def test_columns_show_the_largest_of_a_group() -> None:
    """A bucket that is larger than its neighbours is seen among a thousand."""
    sizes = np.ones(1_000)
    sizes[537] = 50
    picture = columns("Sizes", [Value(n, size, f"{size:.0f}") for n, size in enumerate(sizes)], str)
    (high,) = re.findall(r'height="130\.0" class="column"><title>([^<]*)', picture)
    assert "bucket 537: 50" == high
    assert 80 == picture.count('class="column"')


def test_elements_escape_all_but_html() -> None:
    """Children and attributes."""
    inner = element("em", "<&>", title="\"'<")
    assert '<em title="&quot;&#x27;&lt;">&lt;&amp;&gt;</em>' == inner
    assert f"<p>{inner}</p>" == element("p", inner, class_=None)
    assert isinstance(inner, Html)
