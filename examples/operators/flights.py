"""The flights as DataFrames for the examples of this folder: the whole year at once, or as a stream of half months."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame

from examples.flights_data import SOURCE_DDL, departed, half_months, load_flights, write_source
from examples.flights_stream import Folders, flights_session

DDL = f"{SOURCE_DDL}, tailnum string, carrier string"
_FOLDERS = Folders(Path("build/examples"))


@contextmanager
def flights(*, streaming: bool = False) -> Iterator[DataFrame]:
    """Yield the flights that left, with their aircraft and carrier, in a new Spark session.

    Args:
        streaming: a stream, of which each batch is half a month in scheduled order, so that flights are out of order by up
            to 22 hours of departure.
    """
    if not _FOLDERS.source.exists():
        _FOLDERS.out.mkdir(parents=True, exist_ok=True)
        table = load_flights("tailnum", "carrier")
        write_source(table, half_months(departed(table)), _FOLDERS.source)
    print(f"Starting Spark, whose own messages go to {_FOLDERS.messages}.\n", flush=True)
    with flights_session(_FOLDERS) as spark:
        reader = spark.readStream.option("maxFilesPerTrigger", 1) if streaming else spark.read
        yield reader.schema(DDL).parquet(str(_FOLDERS.source))
