"""What a reader of metrics.md has: a session."""

from typing import Any

from pyspark.sql import SparkSession


def names(spark: SparkSession) -> dict[str, Any]:
    """The names of the page."""
    return {"spark": spark}
