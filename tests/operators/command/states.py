"""Surveys of real states that a local runner has written, for pages and texts that need no Spark."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from operators import HoppingWindows
from operators import aggregates as agg
from operators.command.report.markup import Content, Unread
from state_backends.checkpoints.metadata import StoredOperator
from state_backends.checkpoints.open_bucket import open_bucket
from state_backends.checkpoints.query import StoredQuery
from state_backends.checkpoints.reading import Checkpoint
from state_backends.checkpoints.survey import StateSurvey, SurveyBucket, SurveyedBucket

OPERATOR = HoppingWindows("1 hour", "10 minutes", grace="2 days").group_by("k").aggregate(n=agg.count())
MADE = datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
HOUR_MS = 3_600_000


def records(keys: Sequence[str | None], hours: int) -> pa.Table:
    """A record of each key in each hour; of the first key ten of them."""
    rows = [
        (key, hour * HOUR_MS + minute * 60_000)
        for hour in range(hours)
        for at, key in enumerate(keys)
        for minute in range(0, 60, 6 if at == 0 else 60)
    ]
    names, times = zip(*rows, strict=True)
    return pa.table({"k": pa.array(names, pa.string()), "at": pa.array(times, pa.timestamp("ms", "UTC"))})


def survey_of(
    table: pa.Table, operator: Any = OPERATOR, buckets: int = 1, segment: str | None = None
) -> StateSurvey:
    """The survey of an operator's state after the records of a table.

    Args:
        table: the records.
        operator: the operator.
        buckets: number of buckets, which all are that of the runner.
        segment: length of its segments.
    """
    options = {} if segment is None else {"state.segment": segment}
    with operator.local_runner("at", options=options) as runner:
        runner.process(table)
        with open_bucket(runner._journal, None, None) as bucket:
            (row,) = next(SurveyBucket(Checkpoint("/c"), bucket.schema)(0, bucket)).to_pylist()
            found = SurveyedBucket.of(row, 3, 500, 2_000)
            numbered = tuple(replace(found, number=number) for number in range(buckets))
            return StateSurvey(Checkpoint("/c"), bucket.schema, bucket.identity, numbered)


def content(*operators: StateSurvey | Unread, path: str = "/data/checkpoint") -> Content:
    """What a page is about."""
    query = StoredQuery(
        "an id", 7, 1_700_000_000_000, 1_699_999_999_999, {"name": "value"}, [{"logOffset": 2}]
    )
    return Content(path, MADE, query, operators, (StoredOperator(3, "dedupe", False, 7),))
