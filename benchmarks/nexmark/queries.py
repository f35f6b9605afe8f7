"""What is computed of the bids, with this library and with Spark's own operators."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from benchmarks.nexmark.bids import EVENT_US, SLOW_EVENT_US
from operators import HoppingWindows, RollingWindows, SessionWindows, TumblingWindows
from operators import aggregates as agg


@dataclass(frozen=True, slots=True)
class Query:
    """One of Nexmark's, or what its bidders are asked for beside.

    Attributes:
        what: for the table.
        operator: ours.
        spark: the same with Spark's own operators, if there are any.
        event_us: from one event to the next.
        hot: whether there are hot auctions and bidders.
    """

    what: str
    operator: Any
    spark: Callable[[DataFrame], DataFrame] | None = None
    event_us: int = EVENT_US
    hot: bool = True


def _spark(
    key: str, window: Callable[[], Column], result: Callable[[], Column]
) -> Callable[[DataFrame], DataFrame]:
    def query(bids: DataFrame) -> DataFrame:
        return bids.withWatermark("at", "0 seconds").groupBy(key, window()).agg(result())

    return query


_ROLLING = (
    RollingWindows({"hour": "1 hour", "day": "1 day"})
    .group_by("bidder")
    .aggregate(n=agg.count(), total=agg.sum("price"))
)
QUERIES = {
    "q5": Query(
        "hopping 10 s by 2 s: bids for each auction",
        HoppingWindows("10 seconds", "2 seconds").group_by("auction").aggregate(n=agg.count()),
        _spark("auction", lambda: F.window("at", "10 seconds", "2 seconds"), lambda: F.count("*").alias("n")),
    ),
    "q7": Query(
        "tumbling 10 s: the highest price of each auction",
        TumblingWindows("10 seconds").group_by("auction").aggregate(high=agg.max("price")),
        _spark("auction", lambda: F.window("at", "10 seconds"), lambda: F.max("price").alias("high")),
    ),
    "q11": Query(
        "sessions of a bidder, gap 10 s: bids",
        SessionWindows("10 seconds").group_by("bidder").aggregate(n=agg.count()),
        _spark(
            "bidder",
            lambda: F.session_window("at", "10 seconds").alias("window"),
            lambda: F.count("*").alias("n"),
        ),
    ),
    "q12": Query(
        "tumbling 10 s: bids of each bidder",
        TumblingWindows("10 seconds").group_by("bidder").aggregate(n=agg.count()),
        _spark("bidder", lambda: F.window("at", "10 seconds"), lambda: F.count("*").alias("n")),
    ),
    "rolling": Query(
        "beside each bid, its bidder's last hour and day", _ROLLING, event_us=SLOW_EVENT_US, hot=False
    ),
    "rolling, hot": Query("the same with hot bidders", _ROLLING, event_us=SLOW_EVENT_US),
}
