"""README's folder of departures, which its stream reads."""

from typing import Any

from pyspark.sql import SparkSession


def names(spark: SparkSession) -> dict[str, Any]:
    """Write the files; README itself has all names that it uses."""
    departures = spark.sql("SELECT 'EWR' AS origin, timestamp'2026-01-05 09:00' AS departed, 4 AS delay")
    departures.coalesce(1).write.parquet("departures")
    return {}
