"""What writes the batches: each fills a table with rows, and returns the function of `foreachBatch`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

DAYS = 30
"""Days that a table has windows of."""
FIRST = 1_767_225_600
"""2026-01-01, in seconds since the epoch."""
Write = Callable[[Any, int], None]


class Writer:
    """Writes to one table at a time.

    Args:
        spark: the session.
        folder: where tables are.
    """

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self._folder = folder

    def table(self, rows: int) -> Write:
        """A table of this many rows, as a function that writes a batch."""
        raise NotImplementedError

    def drop(self) -> None:
        """Remove the table."""


class Lake(Writer):
    """merge_to on tables of Delta or Iceberg.

    Args:
        spark, folder: as for `Writer`.
        format_: the format.
    """

    def __init__(self, spark: Any, folder: Path, format_: str) -> None:
        super().__init__(spark, folder)
        self._format = format_

    def table(self, rows: int) -> Write:
        from operators.sinks import merge_to

        merge = merge_to(self._new(rows).name, keys=["user"], query="q")
        merge(windows(self.spark, 1, 0, 1).limit(0), 0)
        day = ", to_date(window.start) AS window_day" if self._format == "delta" else ""
        self._fill(rows, day)
        return merge

    def _new(self, rows: int) -> Any:
        from tests.lake.conftest import place_of

        self.place = place_of(self._folder, self._format, f"{type(self).__name__.lower()}_{rows}")
        return self.place

    def _fill(self, rows: int, more: str = "") -> None:
        windows(self.spark, rows, 0, DAYS).createOrReplaceTempView("filled")
        columns = f"user, window.start AS window_start, window.end AS window_end, n, total{more}"
        insert = f"INSERT INTO {self.place.name} BY NAME SELECT {columns} FROM filled"  # noqa: S608
        self.spark.sql(insert).collect()

    def drop(self) -> None:
        rmtree(self.place.path)


class WithoutDays(Lake):
    """The same without the days of the windows in the MERGE's condition."""

    def table(self, rows: int) -> Write:
        from operators.sinks import lake

        merge = super().table(rows)

        def write(frame: Any, batch: int) -> None:
            bounds = lake._bounds  # noqa: SLF001 - what it adds is measured
            lake._bounds = lambda *_, **__: []  # noqa: SLF001
            try:
                merge(frame, batch)
            finally:
                lake._bounds = bounds  # noqa: SLF001

        return write


class Driver(Lake):
    """DeltaSink, on a table without partitions, as it makes them."""

    def table(self, rows: int) -> Write:
        from operators.sinks import DeltaSink, upsert_to

        write = upsert_to(DeltaSink(str(self._new(rows).path)), keys=["user"], query="q")
        write(windows(self.spark, 1, 0, 1).where("n < 0"), 0)
        self._fill(rows)
        return write


class Postgres(Writer):
    """A server on this machine.

    Args:
        spark, folder: as for `Writer`.
        conninfo: how to connect to it.
    """

    def __init__(self, spark: Any, folder: Path, conninfo: str) -> None:
        super().__init__(spark, folder)
        self._conninfo = conninfo

    def table(self, rows: int) -> Write:
        import psycopg

        from operators.sinks import PostgresSink, upsert_to

        write = upsert_to(PostgresSink(self._conninfo, "visits"), keys=["user"], query="q")
        write(windows(self.spark, 1, 0, 1), 0)
        hours = DAYS * 24
        start = f"to_timestamp({FIRST} + (id % {hours}) * 3600)"
        with psycopg.connect(self._conninfo) as connection:
            connection.execute("TRUNCATE visits")
            connection.execute(
                f'INSERT INTO visits ("user", window_start, window_end, n, total) SELECT (id / {hours})::text, {start}, '  # noqa: S608
                f"{start} + interval '1 hour', id, id / 8.0 FROM generate_series(0, {rows - 1}) id"
            )
        return write

    def drop(self) -> None:
        import psycopg

        with psycopg.connect(self._conninfo) as connection:
            connection.execute("DROP TABLE visits, windows_batches")


@contextmanager
def _lake(kind: type[Lake], format_: str, spark: Any, folder: Path) -> Iterator[Writer]:
    yield kind(spark, folder, format_)


@contextmanager
def _postgres(spark: Any, folder: Path) -> Iterator[Writer]:
    from tests.operators.sinks.postgres_server import postgres_server

    with postgres_server() as conninfo:
        yield Postgres(spark, folder, conninfo)


WRITERS: dict[str, Any] = {
    "merge_to, Delta": partial(_lake, Lake, "delta"),
    "merge_to, Iceberg": partial(_lake, Lake, "iceberg"),
    "merge_to, Delta, without days": partial(_lake, WithoutDays, "delta"),
    "merge_to, Iceberg, without days": partial(_lake, WithoutDays, "iceberg"),
    "DeltaSink": partial(_lake, Driver, "delta"),
    "PostgresSink": _postgres,
}


def windows(spark: Any, rows: int, first_day: int, days: int) -> Any:
    """Rows with a window each: as many keys as are needed, an hour's windows over some days from the first of 2026."""
    hours = days * 24
    return (
        spark.range(rows)
        .selectExpr(
            f"cast(id div {hours} as string) AS user",
            f"timestamp_seconds({FIRST} + {first_day} * 86400 + (id % {hours}) * 3600) AS start",
            "id AS n",
            "cast(id as double) / 8 AS total",
        )
        .selectExpr(
            "user", "named_struct('start', start, 'end', start + INTERVAL 1 HOUR) AS window", "n", "total"
        )
    )
