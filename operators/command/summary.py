"""`windows summary`: what a checkpoint's operators are, and how much they store."""

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from operators.aggregates.state_words import in_words
from operators.columns.duration_text import length
from operators.command.inputs import checkpoint_of, operators_of, query_of, reading
from operators.command.progress import watched
from operators.command.text.formats import (
    NEVER,
    byte_text,
    counted,
    instant,
    json_text,
    moment,
    number,
    printable,
)
from operators.command.text.output import say
from operators.command.text.tables import text_table
from operators.command.text.words import facts, identity_values, states_of, title
from state_backends.checkpoints.query import StoredQuery
from state_backends.checkpoints.sizes import SegmentSize
from state_backends.checkpoints.survey import StateSurvey, SurveyedBucket, survey

_COLUMNS = ("bucket", "segment", "from", "keys", "panes", "bytes", "oldest", "newest", "close time")
_RIGHT = (True, True, False, True, True, True, False, False, False)


def run(args: Namespace) -> None:
    """Print a summary of each operator of this library in the checkpoint."""
    query = query_of(args)
    with reading(args) as spark:
        there = operators_of(args, spark)
        surveys = []
        for operator in there:
            if operator.is_ours and args.operator_number in (None, operator.number):
                with watched(spark, f"operator {operator.number}", always=args.progress):
                    surveys.append(survey(checkpoint_of(args, operator.number), spark))
    others = [f"operator {one.number}: {one.name}, of Spark" for one in there if not one.is_ours]
    if args.json:
        say(json_text(summary_values(query, surveys, args.keys)))
        return
    sections = [_head(query), *(summary_text(found, args.limit, args.keys) for found in surveys), *others]
    say("\n\n".join(sections))


def _head(query: StoredQuery) -> str:
    watermark = None if query.watermark_ms is None else moment(query.watermark_ms * 1_000)
    return f"query {printable(query.id or NEVER)}, after batch {query.batch}, watermark {watermark or NEVER} (times are in UTC)"


def summary_text(found: StateSurvey, limit: int, keys: int) -> str:
    """Return what is printed of an operator.

    Args:
        found: what it stores.
        limit: rows of a table at most.
        keys: so many of the largest keys of each bucket are shown.
    """
    rows = [row for bucket in found.buckets for row in _rows(found, bucket)]
    lines = [f"operator {found.checkpoint.operator}: {title(found.identity)}"]
    described = [(name, printable(text)) for name, text in (*facts(found.identity), *_sizes(found))]
    width = max(len(name) for name, _ in described)
    lines += [f"  {name.ljust(width)}  {text}" for name, text in described]
    lines += ["", text_table(_COLUMNS, rows[:limit], _RIGHT)]
    if len(rows) > limit:
        lines.append(f"the first {number(limit)} of {number(len(rows))} rows: --limit N shows more")
    if keys and found.schema.keys.names:
        lines += ["", *_largest_lines(found, limit, keys)]
    return "\n".join(lines)


def _largest_lines(found: StateSurvey, limit: int, keys: int) -> list[str]:
    """The largest keys, which show what makes a bucket larger than the others."""
    names = found.schema.keys.names
    rows = [
        [str(bucket.number), *(_format(value) for value in one.key), number(one.panes), number(one.size)]
        for bucket in found.buckets
        for one in bucket.largest[:keys]
    ]
    columns = ("bucket", *map(printable, names), "panes", "bytes")
    right = (True, *(False for _ in names), True, True)
    lines = ["the largest keys of each bucket", text_table(columns, rows[:limit], right)]
    if len(rows) > limit:
        lines.append(f"the first {number(limit)} of {number(len(rows))} rows: --limit N shows more")
    return lines


def _format(value: str | None) -> str:
    return NEVER if value is None else printable(value)


def _sizes(found: StateSurvey) -> Iterator[tuple[str, str]]:
    schema, buckets = found.schema, found.buckets
    yield from states_of(schema)
    yield "grace", length(schema.grace * schema.tick_us)
    keys, panes = sum(one.keys for one in buckets), sum(one.panes for one in buckets)
    size = byte_text(sum(one.size for one in buckets))
    yield "holds", f"{counted(keys, 'key')}, {counted(panes, 'pane')}, {size} before compression"
    segment = length(schema.segment * schema.tick_us)
    yield (
        "in",
        f"{counted(len(buckets), 'bucket')} and {counted(len(found.segments), 'segment')} of {segment}",
    )
    log = sum(one.log_bytes for one in buckets)
    yield (
        "changelog",
        f"{counted(sum(one.log_entries for one in buckets), 'entry', 'entries')}, {byte_text(log)}",
    )


def _rows(found: StateSurvey, bucket: SurveyedBucket) -> Iterator[list[str]]:
    schema, close_time = found.schema, instant(bucket.close_time, found.schema)
    if not bucket.segments:
        yield [str(bucket.number), NEVER, NEVER, "0", "0", "0", NEVER, NEVER, close_time]
    for size in bucket.segments:
        yield [
            str(bucket.number),
            str(size.segment),
            instant(size.segment * schema.segment, schema),
            *(number(count) for count in (size.keys, size.panes, size.size)),
            instant(size.oldest, schema),
            instant(size.newest, schema),
            close_time,
        ]


def summary_values(query: StoredQuery, surveys: list[StateSurvey], keys: int) -> dict[str, Any]:
    """Return what is printed of a query as JSON, with so many of the largest keys of each bucket."""
    return {
        "query": query.id,
        "batch": query.batch,
        "watermark_ms": query.watermark_ms,
        "operators": [_plain_operator(found, keys) for found in surveys],
    }


def _plain_operator(found: StateSurvey, keys: int) -> dict[str, Any]:
    return {
        "number": found.checkpoint.operator,
        "title": title(found.identity),
        "identity": identity_values(found.identity),
        "results": {
            name: [in_words(found.schema.states[number].name) for number in numbers]
            for name, numbers in found.schema.results
        },
        "buckets": [_plain_bucket(found, bucket, keys) for bucket in found.buckets],
    }


def _plain_bucket(found: StateSurvey, bucket: SurveyedBucket, keys: int) -> dict[str, Any]:
    return {
        "bucket": bucket.number,
        "close_time": _or_none(instant(bucket.close_time, found.schema)),
        "keys": bucket.keys,
        "panes": bucket.panes,
        "bytes": bucket.size,
        "changelog_entries": bucket.log_entries,
        "changelog_bytes": bucket.log_bytes,
        "largest_keys": [
            {
                "key": dict(zip(found.schema.keys.names, one.key, strict=True)),
                "panes": one.panes,
                "bytes": one.size,
            }
            for one in bucket.largest[:keys]
        ],
        "segments": [_plain_segment(found, size) for size in bucket.segments],
    }


def _plain_segment(found: StateSurvey, size: SegmentSize) -> dict[str, Any]:
    return {
        "segment": size.segment,
        "from": _or_none(instant(size.segment * found.schema.segment, found.schema)),
        "keys": size.keys,
        "panes": size.panes,
        "bytes": size.size,
        "oldest": _or_none(instant(size.oldest, found.schema)),
        "newest": _or_none(instant(size.newest, found.schema)),
    }


def _or_none(text: str) -> str | None:
    return None if text == NEVER else text
