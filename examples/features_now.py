"""A service that answers what a card did in the last hour, day and ever, while a stream of payments keeps a table up to date.

    python -m examples.features_now publish payments features.db    # a folder of Parquet files: card, at, amount
    python -m examples.features_now serve features.db 8000          # GET /cards/gold

The service needs neither Spark nor Java: it reads pages of the stream's state and combines them for the moment of the question.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from operators import RollingWindows
from operators import aggregates as agg
from operators.sinks import PageTable, SinkError, SQLitePages, StaleError

FEATURES = (
    RollingWindows({"1h": "1 hour", "1d": "1 day", "ever": "lifetime"}, grace="1 minute")
    .group_by("card")
    .aggregate(n=agg.count(), spent=agg.sum("amount"))
)


def service(pages: PageTable) -> Starlette:
    """Return a service that answers questions about cards, over one connection to the table."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with FEATURES.reader(pages) as reader:
            app.state.reader = reader
            yield

    async def card(request: Request) -> JSONResponse:
        """Answer as of now, or as of `?at=2026-01-06T17:20:00+00:00`; 503 if the table is too old."""
        given = request.query_params
        at = datetime.fromisoformat(given["at"]) if "at" in given else None
        try:
            found = await request.app.state.reader.aget(
                {"card": request.path_params["card"]}, at, max_age=given.get("max_age")
            )
        except StaleError as error:
            return JSONResponse({"error": str(error)}, 503)
        except SinkError as error:
            return JSONResponse({"error": str(error)}, 409)
        return JSONResponse({**found, "batch": found.freshness.batch})

    return Starlette(routes=[Route("/cards/{card}", card)], lifespan=lifespan)


def publish(payments: str, pages: PageTable, checkpoint: str) -> None:
    """Publish the features of a folder of payments, file by file, until the program is stopped."""
    from operators import spark_session

    spark = spark_session("features-now", master="local[2]", buckets=2)
    stream = spark.readStream.schema("card string, at timestamp, amount double").option(
        "maxFilesPerTrigger", 1
    )
    writer = FEATURES.publish(stream.parquet(payments), event_time="at", to=pages)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def main(command: str, *arguments: str) -> None:
    """Publish or serve."""
    if command == "publish":
        payments, path = arguments
        publish(payments, SQLitePages(path, "cards"), f"{path}-checkpoint")
    else:
        path, port = arguments
        uvicorn.run(
            service(SQLitePages(path, "cards")), host="127.0.0.1", port=int(port), log_level="warning"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
