"""A year of departures through Kafka: windows in a compacted topic, exactly once, and questions answered while the stream runs.

    python -m examples.kafka                the whole year, some minutes
    python -m examples.kafka --days 14      its first days

A broker is started for it, and stopped at the end. At the end all is compared with one bounded run over the same flights.
"""

import argparse
import logging
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from examples.flights_data import departed, load_flights
from examples.flights_stream import quiet_session
from examples.kafka.broker import Broker, running_broker
from examples.kafka.checks import Asked, checks, hours_of, worst_hours
from examples.kafka.jars import CONNECTOR, INSTALL, MissingError
from examples.kafka.messages import Departures, days
from examples.kafka.names import DEPARTURES, HOURS_TOPIC, PARTITIONS, TABLE
from examples.kafka.queries import CARRIERS, GRACE_DAYS, Queries
from operators.sinks import FeatureReader, SinkError, SQLitePages
from operators.spark.base.java import JavaNotFoundError, ensure_java

SHOWN = "UA"
QUESTIONS = 12
LEAST_FLIGHTS = 20
MOST_SECONDS = 300.0


def main(given: Sequence[str] | None = None) -> int:
    """Run the demo; return 0 if all checks hold, 1 if one does not, and 2 if Java, Maven or the jars are missing."""
    options = _arguments(given)
    try:
        ensure_java()
        return _run(options)
    except JavaNotFoundError:
        print(f"The demo starts a broker of Kafka, which needs Java 17 or newer and Maven: {INSTALL}")
    except MissingError as error:
        print(f"The demo starts a broker of Kafka, and something that it needs is missing: {error}")
    return 2


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.kafka", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--days", type=int, default=365, help="days of flights (default: the year)")
    parser.add_argument(
        "--broker-kills",
        type=int,
        default=0,
        help="how often the broker is killed and started again meanwhile",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("build/kafka"), help="folder of the run, emptied before it"
    )
    return parser.parse_args(given)


def _run(options: argparse.Namespace) -> int:
    out, began = options.out, time.monotonic()
    carriers, produced = _flights(options.days)
    jars = ",".join(map(str, CONNECTOR.jars()))
    shutil.rmtree(out, ignore_errors=True)
    (out / "broker").mkdir(parents=True)
    logging.basicConfig(filename=out / "clients.log", force=True)
    print("Starting a broker of Kafka: one process, with its data in", out / "broker", flush=True)
    with running_broker(out / "broker") as broker:
        print(f"It serves {broker.servers}. Starting Spark, whose own messages go to {out / 'spark.log'}.")
        conf = {"spark.jars": jars, "spark.sql.streaming.numRecentProgressUpdates": "100000"}
        with quiet_session("flights-kafka", out / "spark.log", out / "state", conf) as spark:
            topic = Departures(broker.servers, DEPARTURES, PARTITIONS)
            pages = SQLitePages(str(out / "features.db"), TABLE)
            queries = Queries.start(spark, broker.servers, pages, out / "checkpoints")
            with CARRIERS.reader(pages) as reader:
                service, kills = _Service(reader, carriers, queries), options.broker_kills
                asked = _produce(produced, topic, queries, service, broker, kills)
            queries.finish()
            flights = pa.concat_tables(produced)
            print(f"\nAll {flights.num_rows:,} departures are worked off. Beside one bounded run over them:")
            held = []
            for check in checks(spark, broker.servers, flights, queries, asked):
                held.append(check.holds)
                print(f"  {'ok   ' if check.holds else 'WRONG'} {check.words}", flush=True)
            _tell_worst(broker.servers)
    print(f"\n{sum(held)} of {len(held)} checks hold, after {time.monotonic() - began:.0f} seconds.")
    return 0 if all(held) else 1


def _flights(count: int) -> tuple[list[str], list[pa.Table]]:
    """All carriers, and the flights of the first days in scheduled order."""
    flights = departed(load_flights("tailnum", "carrier"))
    return sorted(set(flights.column("carrier").to_pylist())), [*islice(days(flights), count)]


class _Service:
    """Who asks about carriers while the stream runs, as a service does that knows only the table."""

    def __init__(self, reader: FeatureReader, carriers: Sequence[str], queries: Queries) -> None:
        self._reader = reader
        self._queries = queries
        self._keys = [{"carrier": carrier} for carrier in carriers]
        self._batch = -1

    def wait_for_batch(self) -> datetime:
        """Wait until the table has a batch that it had not at the last question, and return its stream time."""
        end = time.monotonic() + MOST_SECONDS
        while time.monotonic() < end:
            self._queries.check()
            with suppress(SinkError):  # nothing was published yet
                freshness = self._reader.get({"carrier": SHOWN}).freshness
                if freshness.batch > self._batch and freshness.stream_time is not None:
                    self._batch = freshness.batch
                    return freshness.stream_time
            time.sleep(0.05)
        raise TimeoutError(f"the table had no new batch for {MOST_SECONDS} seconds: see spark.log")

    def now(self, time_: datetime) -> dict[str, Any]:
        """Return what one carrier did until the stream's own time."""
        return {"at": time_, **self._reader.get({"carrier": SHOWN}, time_)}

    def final(self, time_: datetime) -> Asked | None:
        """Return what all carriers did until the close time, which no record can change any more.

        None if a batch came in between and moved the close time: that moment is refused then.
        """
        at = time_ - timedelta(days=GRACE_DAYS)
        try:
            rows = self._reader.get_many(self._keys, at).table.to_pylist()
        except SinkError:
            return None
        return Asked(at, [{**row, "at": at} for row in rows])


def _produce(
    produced: Sequence[pa.Table],
    topic: Departures,
    queries: Queries,
    service: _Service,
    broker: Broker,
    kills: int,
) -> list[Asked]:
    """Produce day after day, ask in between, and tell how far all is; return the questions with their answers."""
    print(
        f"\nproduced until   departures   batches: {HOURS_TOPIC}, {TABLE}   {SHOWN} in the day until the stream's time"
    )
    asked, sent, every = [], 0, max(1, len(produced) // QUESTIONS)
    for number, day in enumerate(produced, 1):
        topic.send(day)
        sent += day.num_rows
        if number % every == 0:
            if len(produced) // every - number // every < kills:
                print("The broker is killed, and starts again.", flush=True)
                broker.kill()
                broker.start()
            time_ = service.wait_for_batch()
            answer, final = service.now(time_), service.final(time_)
            asked += [final] if final else []
            _tell(day.column("scheduled")[-1].as_py(), sent, queries, answer)
    return asked


def _tell(until: datetime, sent: int, queries: Queries, answer: dict[str, Any]) -> None:
    batches = [
        query.lastProgress["batchId"] + 1 if query.lastProgress else 0
        for query in (queries.hours, queries.carriers)
    ]
    delay = answer["mean_delay_day"]
    flights = f"{answer['flights_day']} flights" + ("" if delay is None else f", {delay:.1f} min late")
    print(
        f"{until:%d %b %Y}   {sent:13,}   {batches[0]:22} {batches[1]:9}   {answer['at']:%d %b %H:%M}: {flights}",
        flush=True,
    )


def _tell_worst(servers: str) -> None:
    print(f"\nThe worst hour of each airport, of those with {LEAST_FLIGHTS} flights, from {HOURS_TOPIC}:")
    for row in worst_hours(hours_of(servers), LEAST_FLIGHTS):
        print(
            f"  {row['origin']}  until {row['window_end']:%d %b %H:%M}  {row['flights']} flights, "
            f"{row['mean_delay']:.0f} min late on average, {row['worst']} at most"
        )


if __name__ == "__main__":
    sys.exit(main())
