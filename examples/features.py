"""Features for a model of delays: each departure with what its airport and its carrier had in the last hour, day and week.

    python -m examples.features

Rolling windows over rolling windows: the rows of the first operator, which have all columns of the flights, go into the second
one. The windows end just before the departure itself, so that nothing of what the model has to predict is among its features.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.operators.flights import flights
from operators import RollingWindows
from operators import aggregates as agg

WINDOWS = RollingWindows(
    {"hour": "1 hour", "day": "1 day", "week": "7 days"}, grace="24 hours", closed="left"
)
AIRPORT = WINDOWS.group_by("origin").aggregate(
    airport_flights=agg.count(),
    airport_delay=agg.avg("dep_delay"),
    airport_worst=agg.max("dep_delay").over("hour", "day"),
)
CARRIER = WINDOWS.group_by("carrier").aggregate(
    carrier_flights=agg.count(), carrier_delay=agg.avg("dep_delay")
)


def features(departures: DataFrame) -> DataFrame:
    """Return each departure with its features, in a batch or in a stream."""
    with_airport = AIRPORT.apply(departures, event_time="departure", name="airport")
    return CARRIER.apply(with_airport, event_time="departure", name="carrier")


def by_recent_delay(rows: DataFrame) -> DataFrame:
    """Return how late flights left, by the mean delay of the airport's last hour."""
    recent = F.col("airport_delay_hour")
    group = F.when(recent < 0, "0  early").when(recent < 15, "1  below 15 minutes")
    group = group.when(recent < 60, "2  15 minutes to an hour").when(recent >= 60, "3  above an hour")
    counted = rows.groupBy(F.coalesce(group, F.lit("4  no departure")).alias("group"))
    return counted.agg(F.count("*").alias("flights"), F.avg("dep_delay").alias("delay")).orderBy("group")


def main() -> None:
    """Print the delays of the year by those of the hour before."""
    with flights() as frame:
        print("Departures by the mean delay of their airport's last hour")
        for row in by_recent_delay(features(frame)).collect():
            print(f"{row.flights:8,} {row.group[3:]:<26} left {row.delay:5.1f} minutes late on average")


if __name__ == "__main__":
    main()
