"""The section of a page about one operator."""

from collections.abc import Iterator

from operators.columns.duration_text import length
from operators.command.report.columns import Value, columns
from operators.command.report.heat_map import MOST_COLUMNS, MOST_ROWS, heat_map
from operators.command.report.keeping import keeping
from operators.command.report.markup import Html, details, element, join, pairs, table, tiles
from operators.command.text.formats import NEVER, byte_text, counted, instant, moment, number
from operators.command.text.words import facts, states_of, title
from state_backends.checkpoints.survey import StateSurvey
from state_backends.durability.progress import FAR_PAST

_MOST_SEGMENTS = 100


def section(found: StateSurvey) -> Html:
    """Return the section of an operator."""
    operator = found.checkpoint.operator
    return element(
        "section",
        element("h2", f"Operator {operator}: {title(found.identity)}"),
        _figures(found),
        pairs(_facts(found)),
        *_part("Buckets by segments of time", _map(found)),
        *_part("Size of the buckets", _sizes(found)),
        *_part("Close times of the buckets", _close_times(found)),
        *_part("Largest keys", _keys(found)),
        *_part("Changelog and snapshots", keeping(found)),
        id=f"operator-{operator}",
    )


def _part(heading: str, content: str) -> tuple[Html, str]:
    return element("h3", heading), content


def _figures(found: StateSurvey) -> Html:
    segments, buckets = found.segments, found.buckets
    length_ = length(found.schema.segment * found.schema.tick_us)
    times = [time for size in segments for time in (size.oldest, size.newest)]
    known = [time for time in times if instant(time, found.schema) != NEVER]  # Panes of a lifetime have none.
    per_bucket = f"in {counted(len(buckets), 'bucket')}"
    return tiles(
        (
            ("Keys", number(sum(bucket.keys for bucket in buckets)), per_bucket),
            ("Panes", number(sum(bucket.panes for bucket in buckets)), "in all keys and segments"),
            ("Size", byte_text(sum(bucket.size for bucket in buckets)), "before compression"),
            ("Segments", number(len(segments)), f"of {length_}"),
            ("Oldest time", instant(min(known, default=None), found.schema), "UTC"),
            ("Newest time", instant(max(known, default=None), found.schema), "UTC"),
        )
    )


def _facts(found: StateSurvey) -> Iterator[tuple[str, str]]:
    schema = found.schema
    yield from facts(found.identity)
    yield from states_of(schema)
    yield "also stored", ", ".join(name for name, _ in schema.head)
    yield "grace", length(schema.grace * schema.tick_us)
    yield "tick", length(schema.tick_us)


def _map(found: StateSurvey) -> Html:
    note = (
        "A row is a bucket, a column a segment of time that holds something. "
        "Point at a cell for its bytes, panes and keys."
    )
    if len(found.buckets) > MOST_ROWS or len(found.segments) > MOST_COLUMNS:
        note += " Neighbours are gathered, so that the picture stays readable."
    return join([element("p", note), element("figure", heat_map(found)), _segments(found)])


def _segments(found: StateSurvey) -> Html:
    every, step = found.segments, found.schema.segment
    shown = sorted(sorted(every, key=lambda s: s.size)[-_MOST_SEGMENTS:], key=lambda s: s.segment)
    rows = [
        [
            instant(size.segment * step, found.schema),
            *(number(count) for count in (size.keys, size.panes)),
            byte_text(size.size),
            instant(size.oldest, found.schema),
            instant(size.newest, found.schema),
        ]
        for size in shown
    ]
    caption = "Segments of all buckets together"
    if len(shown) < len(every):
        caption = f"The {len(shown)} largest of {number(len(every))} segments of all buckets together"
    names = ("from", "keys", "panes", "bytes", "oldest", "newest")
    return details("The same as a table", table(caption, names, rows, ("keys", "panes", "bytes")))


def _sizes(found: StateSurvey) -> Html:
    sizes = [bucket.size for bucket in found.buckets]
    values = [
        Value(bucket.number, bucket.size, f"{byte_text(bucket.size)}, {counted(bucket.panes, 'pane')}")
        for bucket in found.buckets
    ]
    mean = sum(sizes) / len(sizes)
    skew = f", {max(sizes) / mean:.1f} times their mean" if mean else ""
    note = f"The largest bucket holds {byte_text(max(sizes))}{skew}."
    return join([element("p", note), element("figure", columns("Bytes of each bucket", values, byte_text))])


def _close_times(found: StateSurvey) -> Html:
    """How far each bucket is behind the furthest one."""
    schema = found.schema
    reached = {bucket.number: bucket.close_time for bucket in found.buckets if bucket.close_time > FAR_PAST}
    if not reached:
        return element("p", "No bucket has reached a close time: nothing was closed.")
    furthest, least = max(reached.values()), min(reached.values())
    if furthest == least and len(reached) == len(found.buckets):
        what = "The only bucket has" if len(reached) == 1 else f"All {len(reached)} buckets have"
        return element("p", f"{what} reached {_at(furthest, found)}.")
    values = [
        Value(number_, us, f"{_at(time, found)}, {_behind(us)} behind")
        for number_, time in reached.items()
        for us in [(furthest - time) * schema.tick_us]
    ]
    note = (
        f"The furthest bucket has reached {_at(furthest, found)}, the last one {_at(least, found)}. "
        "The columns show how far each bucket is behind the furthest one."
    )
    fresh = len(found.buckets) - len(reached)
    if fresh:
        note += f" {counted(fresh, 'bucket has', 'buckets have')} reached no close time yet."
    picture = columns("How far the close time of each bucket is behind", values, _behind)
    return join([element("p", note), element("figure", picture)])


def _at(ticks: int, found: StateSurvey) -> str:
    text = moment(ticks * found.schema.tick_us)
    return "the end of time" if text is None else f"{text} UTC"


def _behind(microseconds: float) -> str:
    """A length of time in its two largest units."""
    return " ".join(length(int(microseconds)).split(" ")[:4])


def _keys(found: StateSurvey) -> Html:
    names = [field.name for field in found.schema.keys]
    if not names:
        return element("p", "All records are one group: there are no keys.")
    largest = found.largest
    if not largest:
        return element("p", "No key holds anything.")
    rows = [[*one.key, str(one.bucket), number(one.panes), byte_text(one.size)] for one in largest]
    every = sum(bucket.keys for bucket in found.buckets)
    caption = f"The {counted(len(rows), 'key')} that {'hold' if len(rows) > 1 else 'holds'} the most bytes, of {number(every)}"
    counts = ("bucket", "panes", "bytes")
    return table(caption, [*names, *counts], rows, counts)
