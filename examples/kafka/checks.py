"""At the end of the demo: what came out of the stream equals one bounded run over the same flights."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql import DataFrame, SparkSession

from examples.kafka.messages import committed
from examples.kafka.names import DEPARTURES, HOURS_TOPIC
from examples.kafka.queries import CARRIERS, HOURS, Queries
from operators.sinks import read_table

_SCHEMA = pa.schema(
    [
        ("origin", pa.string()),
        ("window_start", pa.string()),
        ("window_end", pa.string()),
        ("flights", pa.int64()),
        ("mean_delay", pa.float64()),
        ("worst", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was asked while the stream ran.

    Attributes:
        at: the close time of that moment: what the windows that end there hold is final.
        answers: the row of each carrier.
    """

    at: datetime
    answers: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, in words, and whether it holds."""

    words: str
    holds: bool


def checks(
    spark: SparkSession, servers: str, flights: pa.Table, queries: Queries, asked: Sequence[Asked]
) -> Iterator[Check]:
    """Yield each check once it is done.

    Args:
        spark: a session.
        servers: where the broker is.
        flights: all that were produced.
        queries: both, at their end.
        asked: the questions, with their answers.
    """
    sent = len(committed(servers, DEPARTURES))
    yield Check(
        f"{sent:,} departures in the topic {DEPARTURES}, of {flights.num_rows:,} flights",
        sent == flights.num_rows,
    )
    late, bad = queries.counted("late"), queries.counted("bad")
    yield Check(f"{late} late and {bad} bad records in both queries", late == bad == 0)
    written = [(one.key(), dict(one.headers() or [])["batch"]) for one in committed(servers, HOURS_TOPIC)]
    twice = len(written) - len({*written})
    yield Check(f"{len(written):,} messages in {HOURS_TOPIC}: {twice} of them twice", not twice)
    bounded = spark.createDataFrame(flights.select(["origin", "carrier", "departure", "dep_delay"])).cache()
    streamed, wanted = hours_of(servers), _in_order(HOURS.apply(bounded, event_time="departure"))
    yield Check(
        f"{streamed.num_rows:,} windows in its table: those of the bounded run, all values equal",
        streamed.equals(wanted),
    )
    given = [answer for one in asked for answer in one.answers]
    yield Check(
        f"{len(given)} answers about carriers, {len(asked)} times while the stream ran: what the bounded run says of then",
        _in_bounded_run(spark, bounded, asked) == sorted(given, key=_place),
    )


def hours_of(servers: str) -> pa.Table:
    """Return the table that the topic of hours stands for, in order, as its readers see it."""
    values = b"\n".join(read_table(servers, HOURS_TOPIC).values())
    options = pyarrow.json.ParseOptions(explicit_schema=_SCHEMA, unexpected_field_behavior="ignore")
    table = pyarrow.json.read_json(pa.BufferReader(values), parse_options=options)
    columns = [
        table.column(name).cast(pa.timestamp("us", "UTC")) if "window" in name else table.column(name)
        for name in _SCHEMA.names
    ]
    return _sorted(pa.table(columns, _SCHEMA.names))


def worst_hours(hours: pa.Table, least_flights: int) -> list[dict[str, Any]]:
    """Return the hour of each airport with the largest mean delay, of those with some flights."""
    busy = hours.filter(pc.greater_equal(hours.column("flights"), least_flights))
    rows = busy.sort_by([("mean_delay", "descending"), ("window_start", "ascending")]).to_pylist()
    return [*{row["origin"]: row for row in reversed(rows)}.values()]


def _in_order(windows: DataFrame) -> pa.Table:
    rows = windows.selectExpr("origin", "window.start", "window.end", "flights", "mean_delay", "worst")
    table = rows.toArrow()
    times = [column.cast(pa.timestamp("us", "UTC")) for column in table.columns[1:3]]
    return _sorted(pa.table([table.column(0), *times, *table.columns[3:]], _SCHEMA.names))


def _sorted(hours: pa.Table) -> pa.Table:
    return hours.sort_by([(name, "ascending") for name in _SCHEMA.names[:3]]).combine_chunks()


def _in_bounded_run(spark: SparkSession, bounded: DataFrame, asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """The answers to all questions by `apply_as_of`, in order."""
    labels = [(answer["carrier"], one.at) for one in asked for answer in one.answers]
    frame = spark.createDataFrame(labels, "carrier string, at timestamp")
    rows = CARRIERS.apply_as_of(frame, bounded, label_time="at", event_time="departure").toArrow()
    return sorted(rows.to_pylist(), key=_place)


def _place(answer: dict[str, Any]) -> tuple[datetime, str]:
    return answer["at"], answer["carrier"]
